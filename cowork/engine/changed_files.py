"""Which files an agent changed, its commands included, so that its receipt can name them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from cowork.core.workspace import Workspace
from cowork.tools.base import FileWatch, TreeState


class ChangedFiles:
    """The files that one agent's calls changed, in the order they were noticed, each once."""

    def __init__(self, tree: TreeState, workspace: Workspace, agent: str) -> None:
        self._tree, self._workspace, self._agent = tree, workspace, agent
        self._paths: dict[str, None] = {}
        self._background: list[_Watch] = []  # over commands that may still run

    def note(self, paths: Iterable[str]) -> None:
        self._paths.update(dict.fromkeys(paths))

    def so_far(self) -> tuple[str, ...]:
        for watch in self._background:
            self.note(watch.changed_at_once())
        return tuple(self._paths)

    @asynccontextmanager
    async def around_command(self, *, background: bool) -> AsyncIterator[None]:
        """Note what changes in the workspace while a command runs; one in the background is looked at later."""
        watch = _Watch(self._tree, self._workspace, self._agent, await self._tree.watch_files())
        finished = False
        try:
            yield
            finished = True
        finally:
            if background:
                self._background.append(watch)
            else:
                self.note(await watch.changed() if finished else watch.changed_at_once())


class _Watch:
    """Names the files that changed since it was made, but for those that file tools of other agents wrote."""

    def __init__(self, tree: TreeState, workspace: Workspace, agent: str, files: FileWatch) -> None:
        self._tree = tree
        self._root = workspace.root
        self._agent = agent
        self._written = dict(tree.written)
        self._files = files

    async def changed(self) -> Sequence[str]:
        return self._own(await self._files.changed())

    def changed_at_once(self) -> Sequence[str]:
        """Without waiting: nothing in a workspace so large that looking takes long."""
        return self._own(self._files.changed_at_once())

    def _own(self, paths: Sequence[str]) -> Sequence[str]:
        return [path for path in paths if not self._is_of_another(str(self._root / path))]

    def _is_of_another(self, path: str) -> bool:
        written = self._tree.written.get(path)
        return written != self._written.get(path) and self._tree.writers.get(path) != self._agent
