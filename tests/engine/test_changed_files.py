"""Whose a change is, when agents work at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cowork.engine.changed_files import ChangedFiles
from cowork.tools.base import TreeState


class Changed:
    """A watch that was begun and has seen these files change since."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    async def find_changed(self) -> Sequence[str]:
        return self.paths

    def find_changed_at_once(self) -> Sequence[str]:
        return self.paths


async def test_what_another_agent_writes_while_the_watch_begins_is_not_the_commands(tmp_path: Path) -> None:
    tree = TreeState(tmp_path)

    async def begin() -> Changed:
        tree.written[str(tmp_path / "theirs.txt")], tree.writers[str(tmp_path / "theirs.txt")] = "hash", "main/other-2"
        return Changed("mine.txt", "theirs.txt")

    tree.watch_files = begin
    files = ChangedFiles(tree, tmp_path, "main/child-1")
    async with files.around_command(background=False):
        pass
    assert files.so_far() == ("mine.txt",)
