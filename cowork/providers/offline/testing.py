"""Run the tests and report the result: which failed and where, or that none ran and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote

from cowork.core.frozen import frozen
from cowork.providers.offline import found, words
from cowork.providers.offline.answer import code, fence, plural, shortened
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.plan import Plan, Steps, bash, glob, grep
from cowork.providers.offline.project import look, package_json
from cowork.providers.offline.rank import is_test

_TEST_TIMEOUT = 600_000
_MOST_FAILED = 20
_MISSING = re.compile(
    r"No module named '?(?:pytest|unittest)\b.*|^.*(?:command not found|: not found|Missing script).*",
    re.MULTILINE,
)


def tests(intent: Intent) -> Plan:
    """Run the tests, or those that are named."""
    command, why, suites = yield from _test_command(intent)
    if not command:
        return f"No tests ran; I found no way to run tests: {why}"
    (result,) = yield [bash(command, "Run the tests", _TEST_TIMEOUT)]
    if result.denied:
        rule = f"--allow 'Bash({command.split()[0]}:*)'"
        head = f"I did not run the tests: {shortened(result.text, 200)}"
        return f"{head}\n\nThe command is {code(command)} ({why}). Allow it with `{rule}`, or answer yes in the chat."
    note = ""
    if "No module named pytest" in result.text:
        note = f"\n\npytest is not installed for `{command.split()[0]}`, so I tried unittest, which finds only its own."
        command = command.replace(" -m pytest -q", " -m unittest")
        command += "" if re.search(r"unittest .", command) else " discover -v"
        (result,) = yield [bash(command, "Run the tests without pytest", _TEST_TIMEOUT)]
    return report(command, relative(result.text, suites), failed=result.failed) + note


def _test_command(intent: Intent) -> Steps[tuple[str, str, list[str]]]:
    """(command, why, test files) for the tests of this project."""
    files = yield from look()
    local, suites, cases = yield [
        glob("{pytest,python}", ".venv/bin"),
        glob("**/{test_*.py,*_test.py,*_test.go,*.test.ts,*.test.js,*.spec.ts,*.spec.js}"),
        grep(r"^import pytest|^from pytest|^import unittest|unittest\.TestCase", glob="*.py", head_limit=40),
    ]
    names = found.paths(suites)
    path, only = yield from _target(intent, names)
    if any(name.endswith(".py") for name in names):
        there = {p.rsplit("/", 1)[-1] for p in found.paths(local)}
        runner = ".venv/bin/python" if "python" in there else "python3"
        target = (f" {quote(path)}" if path else "") + (f" -k {quote(only)}" if only else "")
        told = "".join(files.text(name) for name in ("pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt"))
        told += "".join(hit.text for hit in found.lines(cases))
        if "pytest" in told or "TestCase" not in told:
            return f"{runner} -m pytest -q{target}", "test files for pytest are there", names
        return f"{runner} -m unittest{target or ' discover -v'}", "test cases of unittest are there", names
    node_test = (package_json(files).get("scripts") or {}).get("test")
    make_test = re.search(r"^test\s*:", files.text("Makefile"), re.MULTILINE)
    for there_, command, why in (
        ("go.mod" in files.texts, f"go test ./...{f' -run {quote(only)}' if only else ''}", "go.mod is there"),
        ("Cargo.toml" in files.texts, f"cargo test{f' {quote(only)}' if only else ''}", "Cargo.toml is there"),
        (node_test, f"npm test --silent{f' -- {quote(path)}' if path else ''}", "package.json has a test script"),
        (make_test, "make test", "the Makefile has a target test"),
    ):
        if there_:
            return command, why, names
    return "", "there are no test files I know, and no manifest names a command.", names


def _target(intent: Intent, suites: Sequence[str]) -> Steps[tuple[str, str]]:
    """(file, name) of the tests that are meant; empty for all."""
    path, _, only = intent.path.partition("::")
    only = (intent.subject or only.rpartition("::")[2]).rpartition(".")[2]
    if path and "/" not in path:
        path = next((suite for suite in suites if suite.rsplit("/", 1)[-1] == path), path)
    if path or not only:
        return path, only
    if words.looks_like_name(only):
        (made,) = yield [grep(rf"\b(?:def|class|func|fn)\s+{re.escape(only)}\b", head_limit=20)]
        hits = [hit.path for hit in found.lines(made) if is_test(hit.path)]
        return (hits[0] if hits else ""), only
    fitting = [suite for suite in suites if only.lower() in suite.rsplit("/", 1)[-1].lower()]
    return (fitting[0], "") if len(fitting) == 1 else ("", only)


@frozen
class Failure:
    """A test that failed, where, and the line that says why."""

    name: str
    at: str = ""
    why: str = ""


def report(command: str, output: str, *, failed: bool) -> str:
    """The result first, then each failure with its place. Only tests that ran can pass."""
    failures = read_failures(output)
    summary = _summary(output)
    tail = fence("\n".join(output.strip().splitlines()[-15:]), "log.txt")
    exit_code = re.search(r"^Exit code (\d+)\.", output, re.MULTILINE)
    if failures:
        rows = [_row(f) for f in failures[:_MOST_FAILED]]
        more = f"\n- and {len(failures) - _MOST_FAILED} more" if len(failures) > _MOST_FAILED else ""
        head = f"{plural(len(failures), 'test')} failed" + (f" ({summary})" if summary else "")
        return f"{head}, run with `{command}`:\n\n" + "\n".join(rows) + more
    missing = _MISSING.search(output)
    number = _ran(output)
    if number == 0 or (missing and not number):
        because = f"the test runner is missing ({missing[0].strip()})" if missing else summary or "it found none"
        return f"No tests ran: {because}. `{command}` said last:\n\n{tail}"
    if exit_code or failed:
        how = f"exit code {exit_code[1]}" if exit_code else "an error"
        head = f"The test run ended with {how}, and I could not read which test failed."
        return f"{head} `{command}` said last:\n\n{tail}"
    if number is None:
        return f"`{command}` ended without an error, but I could not read how many tests ran. It said last:\n\n{tail}"
    return f"All tests pass{f': {summary}' if summary else ''} (`{command}`)."


_SUMMARIES = (
    r"^=*\s*((?:\d+ (?:failed|passed|skipped|errors?|warnings?|xfailed|xpassed|deselected)(?:, )?)+) in [\d.:]+",
    r"^(Ran \d+ tests? in [\d.]+s)",
    r"^(test result: .+?);",
    r"^\s*(Tests:\s+.+)$",
    r"^# (pass \d+)",
)
_COUNTED = r"\b(\d+) (?:passed|failed|errors?|xfailed|xpassed)\b|^Ran (\d+) tests?\b|^# (?:pass|fail) (\d+)"
_NONE = r"no tests ran|NO TESTS RAN|[Nn]o tests? (?:were )?found|collected 0 items|no test files|no tests to run"
_GO_PASSED = r"^ok\s+\S+\s+[\d.(](?!.*no tests to run)"


def _ran(output: str) -> int | None:
    """How many tests ran; None where the output does not tell."""
    counts = [int(next(filter(None, hit))) for hit in re.findall(_COUNTED, output, re.MULTILINE)]
    if counts or re.search(r"^=*\s*\d+ (?:skipped|deselected)\b", output, re.MULTILINE):
        return sum(counts)
    passed = re.findall(_GO_PASSED, output, re.MULTILINE)
    return len(passed) or (0 if re.search(_NONE, output) else None)


def _summary(output: str) -> str:
    hits = (re.findall(pattern, output, re.MULTILINE) for pattern in _SUMMARIES)
    return next((str(found_[-1]).strip() for found_ in hits if found_), "")


@frozen
class Runner:
    """How a test runner prints a failure: the line that names it, and in its block the places and the reasons."""

    title: str
    place: str
    why: str
    frame: int = 0  # which of the places counts
    reason: int = 0


_PYTHON_FRAME = r'^  File "(.+?)", line (\d+)'
PYTEST = Runner(
    r"^_{3,} (?:ERROR (?:at (?:setup|teardown) of|collecting) )?(.+?) _{3,}$",
    rf"^([^\s:]+\.py):(\d+):|{_PYTHON_FRAME}",
    r"^E\s+(.+)$",
    frame=-1,
)
RUNNERS = (
    Runner(r"^(?:FAIL|ERROR): (\S+(?: \(.+?\))?)", _PYTHON_FRAME, r"^(\w[\w.]*(?:Error|Exception|Failure|Exit)\b.*)$",
           frame=-1, reason=-1),  # unittest
    Runner(r"^\s*--- FAIL: (\S+)", r"^\s*(\S+\.go):(\d+): ", r"\.go:\d+: ?(.*)$"),
    Runner(r"^---- (\S+) stdout ----$", r"panicked at (?:'.*?', )?(\S+?):(\d+)", r"panicked at .*\n(.*)"),  # cargo
    Runner(r"^\s*(?:●|✕|✖|×|not ok \d+ -)\s+(.+?)$", r"\(?((?:[\w.@-]+/)*[\w.-]+\.[cm]?[jt]sx?):(\d+)",
           r"((?:\w*Error|expect\().*)"),  # node
)  # fmt: skip


def read_failures(output: str) -> list[Failure]:
    """The failures of pytest, unittest, go, cargo and the runners of node."""
    if summed := re.findall(r"^(?:FAILED|ERROR) ([^\s:]+\.py(?:::.+?)?)(?: - (.*))?$", output, re.MULTILINE):
        blocks = {f.name if f.name.endswith(".py") else f.name.split(".")[-1]: f for f in _blocks(PYTEST, output)}
        return [_of_pytest(name, said, blocks) for name, said in summed]
    return next((failures for runner in RUNNERS if (failures := _blocks(runner, output))), [])


def _of_pytest(name: str, said: str, blocks: dict[str, Failure]) -> Failure:
    """A line of the summary with the block that tells of it."""
    path, _, test = name.partition("::")
    block = blocks.get(test.split("::")[-1] or path, Failure(name))
    return Failure(name, block.at or f"{path}:1", block.why or said)


def _blocks(runner: Runner, output: str) -> list[Failure]:
    pieces = re.split(runner.title, output, flags=re.MULTILINE)
    failures: dict[str, Failure] = {}
    for title, text in zip(pieces[1::2], pieces[2::2], strict=True):
        frames = [tuple(filter(None, hit)) for hit in re.findall(runner.place, text, re.MULTILINE)]
        whys = re.findall(runner.why, text, re.MULTILINE)
        name = _dotted(title)
        if name not in failures or frames:
            failures[name] = Failure(name, _own(frames, runner.frame), whys[runner.reason].strip() if whys else "")
    return list(failures.values())


def _dotted(title: str) -> str:
    """`test_x (mod.Case.test_x)` and `test_x (mod.Case)` as `mod.Case.test_x`."""
    hit = re.fullmatch(r"(\S+) \((.+)\)", title)
    return title if hit is None else hit[2] if hit[1] in hit[2] else f"{hit[2]}.{hit[1]}"


def relative(output: str, suites: Sequence[str]) -> str:
    """The output with paths of this project as they are below its folder, by the test files that are known."""
    for path in dict.fromkeys(re.findall(r"(/[^\s\":]+\.\w+)\b", output)):
        for suite in suites:
            if path.endswith(f"/{suite}"):
                return output.replace(path.removesuffix(suite), "")
    return output


def _own(frames: Sequence[tuple[str, ...]], which: int) -> str:
    """The first or last frame that is not of a library or of the interpreter."""
    places = [":".join(frame) for frame in frames if not frame[0].startswith("<")]
    foreign = re.compile(r"^/|site-packages/|/lib/python|node_modules/")
    return ([place for place in places if not foreign.search(place)] or places or [""])[which]


def _row(failure: Failure) -> str:
    place = f" at `{failure.at}`" if failure.at else ""
    why = f": {code(shortened(failure.why, 140))}" if failure.why else ""
    return f"- {code(failure.name)}{place}{why}"
