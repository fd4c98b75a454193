"""Which files a command of a child changed, so that its receipt can name them."""

from __future__ import annotations

from collections.abc import Sequence

from cowork.core.workspace import Workspace
from cowork.tools.base import FileWatch, TreeState


class ChangedFiles:
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
