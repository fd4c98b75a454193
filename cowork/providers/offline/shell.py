"""What only a command can tell: whether the tests pass, and which do not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote

from cowork.providers.offline import found, testout, words
from cowork.providers.offline.answer import code, shortened
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.plan import Plan, Steps, bash, glob, grep
from cowork.providers.offline.project import look, package_json
from cowork.providers.offline.rank import is_test

_TEST_TIMEOUT = 600_000


def tests(intent: Intent) -> Plan:
    """Run the tests, or those that are named, and say which failed, and where."""
    command, why, suites = yield from _test_command(intent)
    if not command:
        return f"I found no way to run tests: {why}"
    (result,) = yield [bash(command, "Run the tests", _TEST_TIMEOUT)]
    if "No module named pytest" in result.text:
        command = re.sub(r" -m pytest -q", " -m unittest", command)
        command += "" if re.search(r"unittest .", command) else " discover -v"
        (result,) = yield [bash(command, "Run the tests without pytest", _TEST_TIMEOUT)]
    if result.denied:
        rule = " ".join(command.split()[:1])
        return (
            f"I did not run the tests: {shortened(result.text, 200)}\n\nThe command is {code(command)} ({why}). "
            f"Allow it with `--allow 'Bash({rule}:*)'`, or answer yes in the chat."
        )
    return testout.report(command, testout.relative(result.text, suites), failed=result.failed)


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
    there = {p.rsplit("/", 1)[-1] for p in found.paths(local)}
    told = "".join(files.text(name) for name in ("pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt"))
    uses_pytest = "pytest" in told or any("pytest" in hit.text for hit in found.lines(cases))
    if any(name.endswith(".py") for name in names):
        runner = ".venv/bin/python" if "python" in there else "python3"
        target = (f" {quote(path)}" if path else "") + (f" -k {quote(only)}" if only else "")
        if uses_pytest or "TestCase" not in "".join(h.text for h in found.lines(cases)):
            return f"{runner} -m pytest -q{target}", "test files for pytest are there", names
        return f"{runner} -m unittest{target or ' discover -v'}", "test cases of unittest are there", names
    if "go.mod" in files.texts:
        return f"go test ./...{f' -run {quote(only)}' if only else ''}", "go.mod is there", names
    if "Cargo.toml" in files.texts:
        return f"cargo test{f' {quote(only)}' if only else ''}", "Cargo.toml is there", names
    if (package_json(files).get("scripts") or {}).get("test"):
        given = f" -- {quote(path)}" if path else ""
        return f"npm test --silent{given}", "package.json has a test script", names
    if re.search(r"^test\s*:", files.text("Makefile"), re.MULTILINE):
        return "make test", "the Makefile has a target test", names
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
