"""Which files changed between two looks at a workspace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from cowork.sessions.checkpoints.entries import same
from cowork.sessions.checkpoints.tables import Snapshot


class WorkspaceWatch:
    """Names the files that differ from a first look."""

    def __init__(
        self,
        before: Snapshot | None,
        look: Callable[[], Awaitable[Snapshot | None]],
        look_at_once: Callable[[], Snapshot | None],
    ) -> None:
        self._before = before
        self._look = look
        self._look_at_once = look_at_once

    async def changed(self) -> Sequence[str]:
        return self._compare(await self._look())

    def changed_at_once(self) -> Sequence[str]:
        return self._compare(self._look_at_once())

    def _compare(self, after: Snapshot | None) -> Sequence[str]:
        if self._before is None or after is None:
            return ()
        pairs = [(path, a, b) for path, a, b in self._before.differences(after) if not same(a, b)]
        return sorted(path for path, a, b in pairs if "d" not in (a and a.kind, b and b.kind))
