"""Attacks in two commands: the first changes what the second one's box is put together from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cowork.core.errors import ToolError
from cowork.core.workspace import Workspace
from cowork.permissions.sandbox.box import Sandbox
from tests.permissions.conftest import acting_as
from tests.permissions.test_permissions_boxes import SECRETS, Yard, yard  # noqa: F401 (a fixture)

HIDING = [
    "chmod 000 nested/deep",
    "chmod 644 nested/deep",
    "chmod 111 nested",
    "mv nested/deep __pycache__",
    "mv nested node_modules",
    "mkdir -p .tox && mv nested/deep .tox/x",
    "touch -r nested nested/deep; mv nested/deep nested/site-packages; touch -d @0 nested",
]
OPENING = "chmod -R u+rwX . 2>/dev/null; grep -rs PLANTED .; find . -name .env -exec cat {} +"
STEERING = [
    "chmod 000 .git",
    "chmod 644 .git",
    "chmod 000 .git/hooks; chmod 000 .git/info",
    "mv .git/hooks .git/hooks2",
    "mkdir -p .config/git && chmod 000 .config",
]


@pytest.fixture
def one(yard: Yard) -> Iterator[Yard]:  # noqa: F811
    yield yard
    open_up(yard)


def open_up(yard: Yard) -> None:  # noqa: F811
    """Modes that a command took away keep an ordinary user out of the folder, tests too."""
    subprocess.run(["chmod", "-R", "u+rwX", str(yard.base)], check=True)


def run(yard: Yard, sandbox: Sandbox, script: str) -> str:  # noqa: F811
    with acting_as(yard.user):
        words = list(sandbox.wrap(["/bin/bash", "-c", script], yard.root, "masked"))
    if yard.user != os.geteuid():
        words = ["setpriv", "--reuid", str(yard.user), "--regid", str(yard.user), "--clear-groups", *words]
    done = subprocess.run(words, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def box_of(yard: Yard) -> Sandbox:  # noqa: F811
    return Sandbox(workspace=Workspace(yard.root), environ={"HOME": str(yard.base), "PATH": os.environ["PATH"]})


@pytest.mark.parametrize("first", HIDING)
def test_no_secret_is_shown_for_what_an_earlier_command_did(one: Yard, first: str) -> None:
    sandbox = box_of(one)
    said = run(one, sandbox, first) + run(one, sandbox, OPENING) + run(one, sandbox, OPENING)
    assert [name for name, secret in SECRETS.items() if secret in said] == []
    assert "bwrap" not in said


@pytest.mark.parametrize("first", STEERING)
def test_what_is_protected_stays_so(one: Yard, first: str) -> None:
    sandbox, config = box_of(one), one.root / ".git/config"
    before = config.read_bytes()
    said = run(one, sandbox, first)
    said += run(
        one, sandbox, "chmod -R u+rwX . 2>/dev/null; echo evil >> .git/config; echo evil > .git/hooks/pre-commit"
    )
    open_up(one)
    assert config.read_bytes() == before, said
    assert not (one.root / ".git/hooks/pre-commit").exists()


def test_a_workspace_that_cannot_be_looked_into_runs_nothing(one: Yard) -> None:
    sandbox = box_of(one)
    run(one, sandbox, "chmod 000 .")
    if one.user == 0:  # modes keep nothing from root, so it still can be looked into
        assert SECRETS["workspace"] not in run(one, sandbox, "chmod 755 .; cat .env")
        return
    with pytest.raises(ToolError, match="chmod"):
        run(one, sandbox, "chmod 755 .; cat .env")
    Path(one.root).chmod(0o755)
    assert SECRETS["workspace"] not in run(one, sandbox, "cat .env")
