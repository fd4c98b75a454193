"""Which files an agent changed, its commands included, so that its receipt can name them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from cowork.tools.base import FileWatch, TreeState


class ChangedFiles:
    """The files that one agent's calls changed, in the order they were noticed, each once."""

    def __init__(self, tree: TreeState, root: Path, agent: str) -> None:
        self._tree, self._root, self._agent = tree, root, agent
        self._paths: dict[str, None] = {}
        self._background: list[tuple[FileWatch, Mapping[str, str]]] = []  # over commands that may still run

    def note(self, paths: Iterable[str]) -> None:
        self._paths.update(dict.fromkeys(paths))

    def so_far(self) -> tuple[str, ...]:
        for files, written in self._background:
            self._note_own(files.find_changed_at_once(), written)
        return tuple(self._paths)

    @asynccontextmanager
    async def around_command(self, *, background: bool) -> AsyncIterator[None]:
        """Note what changes in the workspace while a command runs; one in the background is looked at later."""
        if self._tree.watch_files is None:
            yield
            return
        written = dict(self._tree.written)  # before the first look: others may write while it is taken
        files = await self._tree.watch_files()
        finished = False
        try:
            yield
            finished = True
        finally:
            if background:
                self._background.append((files, written))
            else:
                self._note_own(await files.find_changed() if finished else files.find_changed_at_once(), written)

    def _note_own(self, paths: Iterable[str], before: Mapping[str, str]) -> None:
        """Note these, but for those that file tools of other agents wrote since `before`."""
        written, writers = self._tree.written, self._tree.writers
        for path in paths:
            real = str(self._root / path)
            if written.get(real) == before.get(real) or writers.get(real) == self._agent:
                self.note([path])
