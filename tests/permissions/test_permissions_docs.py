"""The numbers docs/security-tests.md gives are the numbers of cases there are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e import test_secrets_nowhere, test_terminal_hygiene, test_wheel_users
from tests.permissions import (
    test_permissions_boxes,
    test_permissions_deny,
    test_permissions_hostile,
    test_permissions_hygiene,
    test_permissions_paths,
    test_permissions_policy,
    test_permissions_reading,
    test_permissions_sandbox,
    test_permissions_shell_table,
    test_permissions_trust,
    test_permissions_two_steps,
    test_permissions_watch,
)

PAGE = Path(__file__).parents[2] / "docs/security-tests.md"


def counts() -> dict[str, int]:
    paths = test_permissions_paths
    watch = test_permissions_watch
    tools = len(paths.READING) + len(paths.WRITING)
    return {
        "strings run in both boxes": len(test_permissions_shell_table.ROWS),
        "fuzzed commands": test_permissions_boxes.SOAK_FUZZED,
        "commands that only read": len(test_permissions_boxes.SAME),
        "reading commands": len(test_permissions_shell_table.READING),
        "deny rules": test_permissions_deny.MATRIX,
        "other spellings": len(test_permissions_deny.SLIPS),
        "the policy": len(test_permissions_policy.table()),
        "paths ×": len(paths.CASES) * (tools + 1 + len(paths.WRITING)),
        "swaps of a link": 2 * paths.SOAK_SWAPS,
        "protected names": 3 * len(paths.PROTECTED.split()),
        "escape payloads": len(set(test_permissions_hygiene.PAYLOADS)),
        "those payloads": len(set(test_terminal_hygiene.PAYLOADS)),
        "which commands rules give": len(test_permissions_sandbox.NETWORK),
        "secrets planted": len(test_secrets_nowhere.SECRETS),
        "changes that end trust": len(test_permissions_trust.CHANGES),
        "ways to break out": len(test_permissions_sandbox.GUARDED) + len(test_permissions_sandbox.SECRETS),
        "ways to make": len(watch.MAKING) + len(watch.GIT) + len(watch.NO_GIT),
        "first commands": len(test_permissions_two_steps.HIDING) + len(test_permissions_two_steps.STEERING),
        "changes tried by a command": len(test_permissions_reading.CHANGES),
        "protected paths tried": len(test_wheel_users.PROTECTED) + len(test_wheel_users.NEW),
        "hostile repositories": len(test_permissions_hostile.REPOSITORIES),
    }


def test_the_numbers_of_security_tests_are_true() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) \| (\w+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    said = {promise: int(number.replace(",", "")) for promise, number, _ in rows}
    wanted = counts()
    assert len(said) == len(wanted)
    for start, number in wanted.items():
        assert [value for promise, value in said.items() if promise.startswith(start)] == [number], start


def test_every_test_the_page_of_security_tests_names_is_there() -> None:
    for name in re.findall(r"\| (test_\w+) \|", PAGE.read_text(encoding="utf-8")):
        assert list(PAGE.parents[1].glob(f"tests/*/{name}.py"))


def test_the_security_page_fits_two_screens() -> None:
    lines = PAGE.with_name("security.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110
    assert max(map(len, lines)) <= 120
