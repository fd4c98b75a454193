"""Which files a command of a child changed, so that its receipt can name them."""

from __future__ import annotations

from collections.abc import Sequence

from cowork.core.workspace import Workspace
from cowork.tools.base import TreeState


class Watch:
    """Looks at the workspace when it is made and when it is asked. What another agent's file tools wrote is theirs."""

    def __init__(self, tree: TreeState, workspace: Workspace, agent: str) -> None:
        self._tree = tree
        self._root = workspace.root
        self._agent = agent
        self._written = dict(tree.written)
        self._changed = tree.watch()

    def changed(self) -> Sequence[str]:
        return [path for path in self._changed() if not self._is_of_another(str(self._root / path))]

    def _is_of_another(self, path: str) -> bool:
        written = self._tree.written.get(path)
        return written != self._written.get(path) and self._tree.writers.get(path) != self._agent
