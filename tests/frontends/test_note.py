"""`#note` writes to the end of AGENTS.md and to nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cowork.app.chat.host import append_note
from cowork.core.errors import UserError


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b"# Notes for agents\n- use ruff\n"),
        (b"", b"- use ruff\n"),
        (b"# A\n", b"# A\n- use ruff\n"),
        (b"# A", b"# A\n- use ruff\n"),
        (b"# A\r\n- b\r\n", b"# A\r\n- b\r\n- use ruff\r\n"),
        (b"# A\r\n- b", b"# A\r\n- b\r\n- use ruff\r\n"),
        ("\ufeff# Ä\n".encode(), "\ufeff# Ä\n- use ruff\n".encode()),
    ],
)
def test_a_note_follows_what_is_there(before: bytes | None, after: bytes, tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    if before is not None:
        path.write_bytes(before)
    append_note(path, "use ruff")
    assert path.read_bytes() == after


def test_a_note_of_several_lines_is_one_item(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_bytes(b"# A\r\n")
    append_note(path, "use ruff\nnot black")
    assert path.read_bytes() == b"# A\r\n- use ruff\r\n  not black\r\n"


def test_what_cannot_take_a_note_is_left_alone(tmp_path: Path) -> None:
    latin, folder, astray, pipe = (tmp_path / name for name in ("latin", "folder", "astray", "pipe"))
    latin.write_bytes("# Ä\n".encode("latin-1"))
    folder.mkdir()
    astray.symlink_to(tmp_path / "nowhere")
    os.mkfifo(pipe)
    reasons = {latin: "not UTF-8", folder: "a folder", astray: "a link to nowhere", pipe: "a special file"}
    for path, reason in reasons.items():
        with pytest.raises(UserError, match=reason):
            append_note(path, "use ruff")
    with pytest.raises(UserError, match="cannot be written"):
        append_note(tmp_path / "missing/AGENTS.md", "use ruff")
    assert latin.read_bytes() == "# Ä\n".encode("latin-1")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["astray", "folder", "latin", "pipe"]


def test_no_note_goes_through_a_link_out_of_the_project(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.md"
    project.mkdir()
    outside.write_text("mine\n")
    (project / "AGENTS.md").symlink_to(outside)
    with pytest.raises(UserError, match="out of the project"):
        append_note(project / "AGENTS.md", "use ruff")
    assert outside.read_text() == "mine\n"
    (project / "CLAUDE.md").write_text("# A\n")
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("CLAUDE.md")
    append_note(project / "AGENTS.md", "use ruff")
    assert (project / "CLAUDE.md").read_text() == "# A\n- use ruff\n"
