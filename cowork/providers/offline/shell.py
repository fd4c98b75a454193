"""What only a command can tell: what changed, and whether the tests pass."""

from __future__ import annotations

import re

from cowork.providers.offline import found, testout
from cowork.providers.offline.answer import code, shortened
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.plan import Plan, Steps, bash, glob, grep
from cowork.providers.offline.project import look, package_json

_TEST_TIMEOUT = 600_000
_MOST_CHANGED = 30


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
