"""The table of shell commands: what runs unasked, what asks, what never runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cowork.core.ports import Effect
from cowork.core.workspace import Workspace
from cowork.permissions import Permissions
from cowork.permissions.shell.judge import judge
from tests.fakes.calls import TOOLS

TABLE = Path(__file__).with_name("commands.txt")


def rows() -> list[tuple[str, str]]:
    found = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            verdict, _, command = line.partition("\t")
            escaped = command.encode("latin-1", "backslashreplace") if "\\" in command else None
            found.append((verdict, escaped.decode("unicode_escape") if escaped is not None else command))
    return found


ROWS = rows()


@pytest.fixture(autouse=True)
def ordinary_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is about the commands, not about where this machine keeps its programs."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def verdict_of(command: str, workspace: Workspace) -> str:
    judged = judge(command, workspace, workspace.root, trusted=True)
    return "never" if judged.refused else "read" if judged.read_only else "ask"


def test_the_table_is_large_enough() -> None:
    assert len(set(ROWS)) >= 600
    assert {verdict for verdict, _ in ROWS} == {"read", "read?", "ask", "never"}


@pytest.mark.parametrize(("verdict", "command"), ROWS, ids=ascii)
def test_a_command_is_judged_as_the_table_says(verdict: str, command: str, workspace: Workspace) -> None:
    assert verdict_of(command, workspace) == {"read?": "ask"}.get(verdict, verdict)


def test_at_most_one_ordinary_reading_command_in_twenty_asks() -> None:
    asked = sum(verdict == "read?" for verdict, _ in ROWS)
    free = sum(verdict == "read" for verdict, _ in ROWS)
    assert free / (free + asked) >= 0.95


def test_nothing_of_git_runs_unasked_in_a_folder_without_trust(workspace: Workspace) -> None:
    for _, command in ROWS:
        judged = judge(command, workspace, workspace.root, trusted=False)
        assert not (judged.read_only and any(part.argv[:1] == ("git",) for part in judged.parts if len(part.argv) > 2))


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "plan", "bypass"])
def test_what_never_runs_is_denied_in_every_mode_whatever_is_allowed(mode: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode=mode, allow=["Bash"], trusted=True)
    for verdict, command in ROWS:
        if verdict == "never":
            decision = permit.judge("main", TOOLS["Bash"], {"command": command}, [Effect("exec", command)])
            assert decision.verdict == "deny", command
            assert not decision.read_only
