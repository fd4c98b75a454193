"""Run the tests and report the result: which failed and where, or that none ran and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote

from cowork.core.frozen import frozen
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.markdown import bullets, code, fence, plural, shortened
from cowork.providers.offline.plans import Plan, Steps, bash, glob, grep
from cowork.providers.offline.project import look

_TIMEOUT = 600_000
_MISSING = re.compile(
    r"No module named '?(?:pytest|unittest)\b.*|^.*(?:command not found|: not found|Missing script).*", re.MULTILINE
)


def run_tests(intent: Intent) -> Plan:
    """Run the tests, or those that are named."""
    command, suites = yield from _test_command(intent)
    if not command:
        why = "there are no test files I know, and no manifest names a command."
        return f"No tests ran; I found no way to run tests: {why}"
    (result,) = yield [bash(command, "Run the tests", _TIMEOUT)]
    if result.denied:
        head = f"I did not run the tests: {shortened(result.text, 200)}\n\nThe command is {code(command)}."
        return f"{head} Allow it with `--allow 'Bash({command.split()[0]}:*)'`, or answer yes in the chat."
    note = ""
    if "No module named pytest" in result.text:
        note = f"\n\npytest is not installed for `{command.split()[0]}`, so I tried unittest, which finds only its own."
        command = command.replace(" -m pytest -q", " -m unittest")
        command += "" if re.search(r"unittest .", command) else " discover -v"
        (result,) = yield [bash(command, "Run the tests without pytest", _TIMEOUT)]
    return report(command, relative(result.text, suites), failed=result.failed) + note


def _test_command(intent: Intent) -> Steps[tuple[str, list[str]]]:
    """(command, test files) for the tests of this project, or for the file or name that is meant."""
    files = yield from look()
    local, suites, cases = yield [
        glob("{pytest,python}", ".venv/bin"),
        glob("**/{test_*.py,*_test.py,*_test.go,*.test.ts,*.test.js,*.spec.ts,*.spec.js}"),
        grep(r"^import pytest|^from pytest|^import unittest|unittest\.TestCase", glob="*.py", head_limit=40),
    ]
    names = suites.paths
    path, _, node = intent.path.partition("::")
    path = next((name for name in names if path and name.endswith(f"/{path}")), path)
    only = (intent.subject or node.rpartition("::")[2]).rpartition(".")[2]
    target = (f" {quote(path)}" if path else "") + (f" -k {quote(only)}" if only else "")
    if any(name.endswith(".py") for name in names):
        runner = ".venv/bin/python" if any(p.endswith("python") for p in local.paths) else "python3"
        told = "".join(
            "".join(files.texts.get(name, {}).values())
            for name in ("pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt")
        )
        told += "".join(hit.text for hit in cases.hits)
        if "pytest" in told or "TestCase" not in told:
            return f"{runner} -m pytest -q{target}", names
        return f"{runner} -m unittest{target or ' discover -v'}", names
    declared = {(item.file, item.path) for item in files.items} | {(name, "") for name in files.texts}
    for key, command in (
        (("go.mod", ""), f"go test ./...{f' -run {quote(only)}' if only else ''}"),
        (("Cargo.toml", ""), f"cargo test {quote(only) if only else ''}".strip()),
        (("package.json", "scripts.test"), f"npm test --silent{f' -- {quote(path)}' if path else ''}"),
        (("Makefile", "targets.test"), "make test"),
    ):
        if key in declared:
            return command, names
    return "", names


def report(command: str, output: str, *, failed: bool) -> str:
    """The result first, then each failure with its place. Only tests that ran can pass."""
    failures, number = read_failures(output), _ran(output)
    summaries = re.findall(_SUMMARY, output, re.MULTILINE)
    summary = next(filter(None, summaries[-1])).strip() if summaries else ""
    last = f"`{command}` said last:\n\n" + fence("\n".join(output.strip().splitlines()[-15:]), "log.txt")
    exit_code = re.search(r"^Exit code (\d+)\.", output, re.MULTILINE)
    missing = _MISSING.search(output)
    if failures:
        head = f"{plural(len(failures), 'test')} failed" + (f" ({summary})" if summary else "")
        return f"{head}, run with `{command}`:\n\n{bullets([failure.row for failure in failures], 20)}"
    if number == 0 or (missing and not number):
        because = f"the test runner is missing ({missing[0].strip()})" if missing else summary or "it found none"
        return f"No tests ran: {because}. {last}"
    if exit_code or failed:
        how = f"exit code {exit_code[1]}" if exit_code else "an error"
        return f"The test run ended with {how}, and I could not read which test failed. {last}"
    if number is None:
        return f"The test run ended without an error, but I could not read how many tests ran. {last}"
    return f"All tests pass{f': {summary}' if summary else ''} (`{command}`)."


_SUMMARY = (
    r"^=*\s*((?:\d+ (?:failed|passed|skipped|errors?|warnings?|xfailed|xpassed|deselected)(?:, )?)+) in [\d.:]+"
    r"|^(Ran \d+ tests? in [\d.]+s|test result: .+?(?=;)|\s*Tests:\s+.+)"
)
_COUNTED = r"\b(\d+) (?:passed|failed|errors?|xfailed|xpassed)\b|^Ran (\d+) tests?\b|^# (?:pass|fail) (\d+)"
_NONE = r"no tests ran|NO TESTS RAN|[Nn]o tests? (?:were )?found|collected 0 items|no test files|no tests to run"


def _ran(output: str) -> int | None:
    """How many tests ran; None where the output does not tell."""
    counts = [int(next(filter(None, hit))) for hit in re.findall(_COUNTED, output, re.MULTILINE)]
    if counts or re.search(r"^=*\s*\d+ (?:skipped|deselected)\b", output, re.MULTILINE):
        return sum(counts)
    packages = re.findall(r"^ok\s+\S+\s+[\d.(](?!.*no tests to run)", output, re.MULTILINE)  # go
    return len(packages) or (0 if re.search(_NONE, output) else None)


@frozen
class Failure:
    """A test that failed, where, and the line that says why."""

    name: str
    at: str = ""
    why: str = ""

    @property
    def row(self) -> str:
        place = f" at `{self.at}`" if self.at else ""
        return f"{code(self.name)}{place}" + (f": {code(shortened(self.why, 140))}" if self.why else "")


# The line that begins the block of a failure, and in the block its places and its reasons, for all runners:
# pytest, unittest, go, cargo and those of node.
_TITLE = re.compile(
    r"^_{3,} (?:ERROR (?:at (?:setup|teardown) of|collecting) )?(?P<pytest>.+?) _{3,}$"
    r"|^(?:FAIL|ERROR): (?P<unittest>\S+(?: \(.+?\))?)|^\s*--- FAIL: (?P<go>\S+)|^---- (?P<cargo>\S+) stdout ----$"
    r"|^\s*(?:●|✕|✖|×|not ok \d+ -)\s+(?P<node>.+?)$",
    re.MULTILINE,
)
_PLACE = re.compile(
    r"^\s*([^\s:]+\.(?:py|go)):(\d+): ?|^  File \"(.+?)\", line (\d+)|panicked at (?:'.*?', )?(\S+?):(\d+)"
    r"|((?:[\w.@-]+/)*[\w.-]+\.[cm]?[jt]sx?):(\d+)",
    re.MULTILINE,
)
_REASON = re.compile(
    r"^E\s+(.+)$|^\s*\S+\.go:\d+: ?(.*)$|panicked at .*\n(.*)"
    r"|^\s*((?:\w[\w.]*(?:Error|Exception|Failure|Exit)\b|expect\().*)$",
    re.MULTILINE,
)
_FOREIGN = re.compile(r"^/|site-packages/|/lib/python|node_modules/")


def read_failures(output: str) -> list[Failure]:
    """The failures of a run, by the blocks that tell of them."""
    heads = list(_TITLE.finditer(output))
    ends = [*(head.start() for head in heads[1:]), len(output)]
    blocks = [_failure(head, output[head.end() : end]) for head, end in zip(heads, ends, strict=False)]
    by_name = {block.name if block.name.endswith(".py") else block.name.rpartition(".")[2]: block for block in blocks}
    named = []
    for path, test, said in re.findall(
        r"^(?:FAILED|ERROR) ([^\s:]+\.py)(?:::(.+?))?(?: - (.*))?$", output, re.MULTILINE
    ):
        block = by_name.get(test.rpartition("::")[2] or path, Failure(path, f"{path}:1", said))
        named.append(Failure(f"{path}::{test}" if test else path, block.at, block.why))
    return named or list({block.name: block for block in blocks}.values())  # pytest names each once more in full


def _failure(head: re.Match[str], text: str) -> Failure:
    frames = [":".join(filter(None, hit)) for hit in _PLACE.findall(text) if not "".join(hit).startswith("<")]
    own = [frame for frame in frames if not _FOREIGN.search(frame)] or frames or [""]
    reasons = [next(filter(None, hit), "").strip() for hit in _REASON.findall(text)] or [""]
    name = next(filter(None, head.groups()))
    if hit := re.fullmatch(r"(\S+) \((.+)\)", name) if head["unittest"] else None:
        name = hit[2] if hit[1] in hit[2] else f"{hit[2]}.{hit[1]}"
    python = head["pytest"] or head["unittest"]  # the frame of the fault comes last
    return Failure(name, own[-1 if python else 0], reasons[-1 if hit else 0])


def relative(output: str, suites: Sequence[str]) -> str:
    """The output with paths of this project as they are below its folder, by the test files that are known."""
    paths = re.findall(r"(/[^\s\":]+\.\w+)\b", output)
    tops = (path.removesuffix(suite) for path in paths for suite in suites if path.endswith(f"/{suite}"))
    return output.replace(next(tops, "\0"), "")
