"""What commands tell: git what changed, when and by whom; a test run which tests failed and where."""

from __future__ import annotations

import re
from shlex import quote

from cowork.core.format import code, one_line
from cowork.providers.offline import words
from cowork.providers.offline.locate import resolve
from cowork.providers.offline.plans import Plan, bullets, call, fence, grep, plural
from cowork.providers.offline.project import Files, commands, look
from cowork.providers.offline.questions import Intent

_LOG = "log --date=short --format='%h %ad %s (%an)'"
_STATUS = ("status --short --untracked-files=all", "diff --stat HEAD")
_ASKED = {  # how a question is put, and the commands that answer it
    r"\buncommit|\bnot? (?:yet |been )*commit|\b(?:un-?)?staged?\b|\buntracked\b|\bworking (?:tree|copy)|^status$"
    r"|\bgit (?:status|diff)\b|\blocal(?:ly)? (?:chang|modif|edit)"
    r"|\b(?:did|have) (?:i|we) (?:chang|modif|edit|touch)": _STATUS,
    r"\btags?\b|\breleases?\b": ("tag --list --sort=-creatordate",),
    r"\bbranch(?:es)?\b": ("branch --all --format='%(HEAD) %(refname:short) %(subject)'",),
    r"\bcontribut|\bauthors?\b|\bmost commits\b|\bwho works\b": ("shortlog -sn HEAD",),
}
_COMMITS = {  # which commits are meant, and the options of git log for them
    r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b": "-n 1 --name-status --first-parent {}",
    r"\b(?:first|oldest|initial|earliest)\b": "--max-parents=0",
    r"\b(?:last|latest|newest|most recent) (?:commit|change)\b|\bhead\b": "-n 1 --name-status --first-parent",
    r"\bsince ([\w -]+)": "-n 50 --name-status --since={}",
    r"\b(\d+)\b.*\bcommits?\b": "-n {} --name-status",
    r"\bcommit|\blog\b|\bhistory\b|\brecent|\b(?:add|added|introduced|created)\b": "-n 10 --name-status",
}
_MOST = 60  # lines of what one command said


def history(intent: Intent) -> Plan:
    """Run the commands for what is asked, and show what they say."""
    said, path = intent.subject.lower(), ""
    if files := words.files(intent.subject):
        path = yield from resolve(files[0])
    commands = _git_commands(said, path, words.quotations(intent.subject) + words.names(intent.subject))
    git = [{"command": f"git {command}", "description": f"Run git {command.split()[0]}"} for command in commands]
    results = yield [call("Bash", **options) for options in git]
    if denied := next((result for result in results if result.denied), None):
        advice = "Trust the folder (`--trust`) or allow `Bash(git:*)` to let me."
        return f"I may not run git here ({one_line(denied.text, 160)}), so I cannot see what changed. {advice}"
    everything = "\n".join(result.text for result in results)
    if re.search(r"not a git repository", everything, re.IGNORECASE):
        return "This folder is not a git repository, so there is no history and nothing to compare with."
    if re.search(r"not have any commits yet|unknown revision .*HEAD", everything):
        return "This repository has no commits yet."
    parts = []
    for command, result in zip(commands, results, strict=True):
        rows = result.text.splitlines()
        more = [f"… {len(rows) - _MOST} more lines"] if len(rows) > _MOST else []
        parts.append(f"`git {command}`:\n\n" + fence("\n".join([*rows[:_MOST], *more]), "git.txt"))
    return "\n\n".join(parts)


def _git_commands(said: str, path: str, names: list[str]) -> tuple[str, ...]:
    """What to ask git: about what is not committed, a file, a name in code, or commits."""
    for pattern, answer in _ASKED.items():
        if re.search(pattern, said):
            return answer
    if path:
        return (f"{_LOG} --follow --name-status -- {quote(path)}",)
    if named := [name.removesuffix("()") for name in names if not words.is_acronym(name)]:
        return (f"{_LOG} -n 50 --name-status -S {quote(named[0])}",)
    for pattern, options in _COMMITS.items():
        if hit := re.search(pattern, said):
            return (f"{_LOG} {options.format(quote(hit[hit.lastindex or 0]))}",)
    return (*_STATUS, f"{_LOG} -n 10")


# ---------------------------------------------------------------- tests

_TIMEOUT = 600_000


def run_tests(intent: Intent) -> Plan:
    """Run the tests, or those that are named."""
    command = yield from _test_command(intent)
    if not command:
        return "No tests ran; I found no way to run tests: no test files that I know, and no command in a manifest."
    (result,) = yield [call("Bash", command=command, description="Run the tests", timeout=_TIMEOUT)]
    if result.denied:
        head = f"I did not run the tests: {one_line(result.text, 200)}\n\nThe command is {code(command)}."
        return f"{head} Allow it with `--allow 'Bash({command.split()[0]}:*)'`, or answer yes in the chat."
    return report(command, result.text, failed=result.failed)


def _test_command(intent: Intent) -> Plan:
    """The command for the tests of this project, or of the file that is meant."""
    files = yield from look()
    suites, cases = yield [
        call("Glob", pattern="**/{test_*.py,*_test.py}"),
        grep(r"^import pytest|^from pytest|unittest\.TestCase", glob="*.py", head_limit=40),
    ]
    if not suites.paths:
        return next((command for command, _ in commands(files, "test")), "")
    target = f" {quote((yield from resolve(intent.path)))}" if intent.path else ""
    runner = yield from _python(files)
    told = "".join(line.text for line in (*files.lines("pyproject|setup|tox|requirements"), *cases.hits))
    if "pytest" in told or "TestCase" not in told:
        return f"{runner} -m pytest -q{target}"
    return f"{runner} -m unittest{target or ' discover -v'}"


def _python(files: Files) -> Plan:
    """The interpreter of the project's own environment, where there is one; as a rule git ignores its folder."""
    for folder in re.findall(r"(?:^|^Ignored: |, )(\.?venv)/", files.tree.text, re.MULTILINE):
        (programs,) = yield [call("LS", path=f"{folder}/bin")]
        if re.search(r"^python\b(?!3)", programs.text, re.MULTILINE):
            return f"{folder}/bin/python"
    return "python3"


# How runners sum up, count what ran, and name tests that failed, why and where: pytest, unittest, go, cargo, node.
_SUMMARY = (
    r"^=*\s*((?:\d+ (?:failed|passed|skipped|errors?|warnings?|xfailed|xpassed|deselected)(?:, )?)+) in [\d.:]+"
    r"|^(Ran \d+ tests? in [\d.]+s|test result: .+?(?=;)|\s*Tests:\s+.+)"
)
_COUNTED = r"\b(\d+) (?:passed|failed|errors?|xfailed|xpassed)\b|^Ran (\d+) tests?\b|^# (?:pass|fail) (\d+)"
_NONE = r"no tests ran|NO TESTS RAN|[Nn]o tests? (?:were )?found|collected 0 items|no test files|no tests to run"
_MISSING = r"(No module named '?(?:pytest|unittest)\b.*)|^(.*(?:command not found|: not found|Missing script).*)"
_FAILED = (
    r"^(?:FAILED|ERROR) ([^\s:]+\.py\S*)|^(?:FAIL|ERROR): (\S+(?: \(.+?\))?)|^\s*--- FAIL: (\S+)"
    r"|^test (\S+) \.\.\. FAILED$|^\s*(?:●|✕|✖|×|not ok \d+ -)\s+(.+?)$"
)
_REASON = r"^E\s+(.+)$|panicked at .*\n(.*)|^\s*(\w[\w.]*(?:Error|Exception|Failure)\b.*|expect\(.*)$"
_PLACE = (
    r"^\s*([^\s:]+\.(?:py|go)):(\d+): ?|^  File \"([^<\"]+)\", line (\d+)|panicked at (?:'.*?', )?(\S+?):(\d+)"
    r"|((?:[\w.@-]+/)*[\w.-]+\.[cm]?[jt]sx?):(\d+)"
)
_FOREIGN = re.compile(r"site-packages/|/lib/python|node_modules/")


def report(command: str, output: str, *, failed: bool) -> str:
    """The result first, then each failure with its place. Only tests that ran can pass."""
    failures, number = failed_tests(output), _ran(output)
    summary = (_captures(_SUMMARY, output) or [""])[-1].strip()
    last = f"`{command}` said last:\n\n" + fence("\n".join(output.strip().splitlines()[-15:]), "log.txt")
    exit_code = re.search(r"^Exit code (\d+)\.", output, re.MULTILINE)
    missing = _captures(_MISSING, output)
    if failures:
        head = f"{plural(len(failures), 'test')} failed" + (f" ({summary})" if summary else "")
        reasons = dict.fromkeys(one_line(reason, 140) for reason in _captures(_REASON, output))
        rows = {"Failed": failures, "At": failure_places(output), "Because": list(reasons)}
        told = [f"{title}:\n{bullets(list(map(code, each)), 20)}" for title, each in rows.items() if each]
        return f"{head}, run with `{command}`.\n\n" + "\n\n".join(told)
    if number == 0 or (missing and not number):
        because = f"the test runner is missing ({missing[0].strip()})" if missing else summary or "it found none"
        return f"No tests ran: {because}. {last}"
    if exit_code or failed:
        how = f"exit code {exit_code[1]}" if exit_code else "an error"
        return f"The test run ended with {how}, and I could not read which test failed. {last}"
    if number is None:
        return f"The test run ended without an error, but I could not read how many tests ran. {last}"
    return f"All tests pass{f': {summary}' if summary else ''} (`{command}`)."


def _captures(pattern: str, output: str) -> list[str]:
    """What a pattern of alternatives captures, in order; the parts of a place with a colon between them."""
    return [":".join(filter(None, hit)) for hit in re.findall(pattern, output, re.MULTILINE) if any(hit)]


def _ran(output: str) -> int | None:
    """How many tests ran; None where the output does not tell."""
    counts = [int(number) for number in _captures(_COUNTED, output)]
    if counts or re.search(r"^=*\s*\d+ (?:skipped|deselected)\b", output, re.MULTILINE):
        return sum(counts)
    packages = re.findall(r"^ok\s+\S+\s+[\d.(](?!.*no tests to run)", output, re.MULTILINE)  # go
    return len(packages) or (0 if re.search(_NONE, output) else None)


def failed_tests(output: str) -> list[str]:
    """The names of the tests that failed."""
    return list(dict.fromkeys(_captures(_FAILED, output)))


def failure_places(output: str) -> list[str]:
    """The lines of the program that the output points at."""
    return [place for place in dict.fromkeys(_captures(_PLACE, output)) if not _FOREIGN.search(place)]
