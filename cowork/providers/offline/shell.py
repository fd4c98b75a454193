"""What only a command can tell: what changed, and whether the tests pass."""

from __future__ import annotations

import re

from cowork.providers.offline import found, testout
from cowork.providers.offline.answer import code, fence, plural, shortened
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.plan import Plan, Result, Steps, bash, glob, grep, read
from cowork.providers.offline.project import look, package_json

_TEST_TIMEOUT = 600_000
_MOST_CHANGED = 30


def changes(intent: Intent) -> Plan:
    """What changed, by git; by its own files where git may not be run."""
    status, stat, log = yield [
        bash("git status --short --branch", "Show what changed"),
        bash("git diff --stat HEAD", "Show the size of changes"),
        bash("git log --oneline --decorate -n 10", "Show the latest commits"),
    ]
    if status.denied or log.denied:
        return (yield from _without_git(status if status.denied else log))
    if re.search(r"not a git repository", status.text, re.IGNORECASE):
        return "This folder is not a git repository, so there is nothing to compare with."
    rows = [row for row in status.text.splitlines() if row.strip() and not row.startswith("Exit code")]
    branch = next((row[3:] for row in rows if row.startswith("## ")), "")
    changed = [row for row in rows if not row.startswith("## ") and re.match(r"^[ MADRCU?!]{2} ", row)]
    parts = [f"Branch `{branch}`."] if branch else []
    if changed:
        shown = "\n".join(
            f"- `{row[3:]}` {_STATES.get(row[:2].strip()[:1], 'changed')}" for row in changed[:_MOST_CHANGED]
        )
        more = f"\n- and {len(changed) - _MOST_CHANGED} more" if len(changed) > _MOST_CHANGED else ""
        parts.append(f"{plural(len(changed), 'file')} not committed:\n{shown}{more}")
        total = [row.strip() for row in stat.text.splitlines() if re.search(r"files? changed", row)]
        parts += [f"In sum: {total[-1]}."] if total else []
    else:
        parts.append("Nothing is uncommitted.")
    if not log.failed and log.text.strip() and "fatal:" not in log.text:
        parts.append("Latest commits:\n\n" + fence("\n".join(log.text.splitlines()[:10]), "log.txt"))
    return "\n\n".join(parts)


_STATES = {"M": "modified", "A": "added", "D": "deleted", "R": "renamed", "?": "new", "U": "in conflict", "C": "copied"}


def _without_git(denied: Result) -> Plan:
    """The last entries of the reflog say what was committed; the rest is unknown, and said so."""
    head, log = yield [read(".git/HEAD"), read(".git/logs/HEAD")]
    branch = "".join(found.numbered(head).values()).removeprefix("ref: refs/heads/").strip()
    entries = [text.split("\t", 1) for _, text in sorted(found.numbered(log).items())]
    rows = [f"- {code(e[0].split()[1][:9])} {shortened(e[1])}" for e in entries[-8:][::-1] if len(e) == 2]
    why = shortened(denied.text, 160)
    said = f"I may not run git here ({why}), so I cannot see uncommitted changes."
    if not rows:
        return said + " Trust the folder (`--trust`) or allow `Bash(git:*)` to let me."
    return f"{said}\n\nFrom `.git/logs/HEAD`, branch {code(branch)}, latest first:\n" + "\n".join(rows)


def tests(intent: Intent) -> Plan:
    """Run the tests and say which failed, and where."""
    command, why = yield from _test_command(intent.path)
    if not command:
        return f"I found no way to run tests: {why}"
    (result,) = yield [bash(command, "Run the tests", _TEST_TIMEOUT)]
    if result.denied:
        rule = " ".join(command.split()[:1])
        return (
            f"I did not run the tests: {shortened(result.text, 200)}\n\nThe command is {code(command)} ({why}). "
            f"Allow it with `--allow 'Bash({rule}:*)'`, or answer yes in the chat."
        )
    return testout.report(command, result.text, failed=result.failed)


def _test_command(path: str) -> Steps[tuple[str, str]]:
    """(command, why) for the tests of this project."""
    files = yield from look()
    local, suites, cases = yield [
        glob("{pytest,python}", ".venv/bin"),
        glob("**/{test_*.py,*_test.py,*_test.go,*.test.ts,*.test.js,*.spec.ts,*.spec.js}"),
        grep(r"^import pytest|^from pytest|^import unittest|unittest\.TestCase", glob="*.py", head_limit=40),
    ]
    names = found.paths(suites)
    python = any(name.endswith(".py") for name in names)
    there = {p.rsplit("/", 1)[-1] for p in found.paths(local)}
    told = (
        files.text("pyproject.toml") + files.text("setup.cfg") + files.text("tox.ini") + files.text("requirements.txt")
    )
    uses_pytest = "pytest" in told or any("pytest" in hit.text for hit in found.lines(cases))
    target = f" {path}" if path else ""
    if python:
        runner = ".venv/bin/python" if "python" in there else "python3"
        if uses_pytest or (names and "TestCase" not in "".join(h.text for h in found.lines(cases))):
            return f"{runner} -m pytest -q{target}", "test files for pytest are there"
        return f"{runner} -m unittest{target or ' discover -v'}", "test cases of unittest are there"
    if "go.mod" in files.texts:
        return "go test ./...", "go.mod is there"
    if "Cargo.toml" in files.texts:
        return "cargo test", "Cargo.toml is there"
    if (package_json(files).get("scripts") or {}).get("test"):
        return "npm test --silent", "package.json has a test script"
    if re.search(r"^test\s*:", files.text("Makefile"), re.MULTILINE):
        return "make test", "the Makefile has a target test"
    return "", "there are no test files I know, and no manifest names a command."
