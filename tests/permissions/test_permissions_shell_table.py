"""The table of shell commands: what the words hint at, what never runs, and that no hint is needed to be safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from cowork.core.ports import Effect
from cowork.core.workspace import Workspace
from cowork.permissions import Permissions
from cowork.permissions.shell.follow import follow
from cowork.permissions.shell.programs import hint
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
READING = [command for verdict, command in ROWS if verdict.startswith("read")]


def test_the_table_is_large_enough() -> None:
    assert len(ROWS) == 1464
    assert {verdict for verdict, _ in ROWS} == {"read", "read?", "ask", "never"}


def test_at_most_one_reading_command_in_a_hundred_asks() -> None:
    asked = [command for command in READING if hint(follow(command).commands).place != "read"]
    assert len(READING) == 440
    assert len(asked) <= len(READING) // 100, asked


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto", "plan", "bypass"])
def test_what_never_runs_is_denied_in_every_mode_whatever_is_allowed(mode: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode=mode, allow=["Bash", "Network", "Outside"], trusted=True)
    ran = []
    for verdict, command in ROWS:
        if verdict == "never":
            decision = permit.judge("main", TOOLS["Bash"], {"command": command}, [Effect("exec", command)])
            ran += [command] if decision.verdict != "deny" or decision.read_only else []
    assert ran == []


def test_without_a_box_nothing_of_the_table_runs_unasked_but_what_reads(workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, trusted=True)
    ran = [
        command
        for verdict, command in ROWS
        if verdict in ("ask", "never")
        and permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "allow"
    ]
    assert ran == ["cd src | ls", "ls;;", "cd src &>/dev/null && cat ../README.md"]  # which only read, each in its way


def test_nothing_of_git_runs_unasked_in_a_folder_without_trust(workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace)
    for _, command in ROWS:
        decision = permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)])
        assert not (decision.verdict == "allow" and command.startswith("git"))
