"""A file of a folder nobody vouches for is read only if it is one, and only its start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cowork.core.front_matter import with_imports
from cowork.core.git import branch_of
from cowork.core.workspace import start_of


def test_the_start_of_a_plain_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello")
    os.truncate(tmp_path / "a", 10 << 30)
    assert start_of(tmp_path / "a", 5) == b"hello"


@pytest.mark.parametrize("goal", ["/proc/self/environ", "/proc/self/maps", "/dev/zero", "/dev/stdin", "pipe"])
def test_pipes_devices_and_the_system_are_not_read(goal: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "AGENTS.md").symlink_to(goal)
    (tmp_path / "middle").symlink_to("AGENTS.md")
    with pytest.raises(OSError):
        start_of(tmp_path / "middle", 100)
    assert with_imports(tmp_path / "AGENTS.md") in [
        ("", {}),
        ("[AGENTS.md was left out: it may not be read unasked]", {}),
    ]
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").symlink_to(f"../{goal}" if goal == "pipe" else goal)
    assert branch_of(tmp_path) == ""


@pytest.mark.parametrize("named", ["a" * 300, "/proc/1/root/x", "\0", "nowhere"])
def test_a_git_file_that_names_no_folder_is_no_repository(named: str, tmp_path: Path) -> None:
    (tmp_path / ".git").write_text(f"gitdir: {named}\n")
    assert branch_of(tmp_path) == ""
