"""Which files changed between two looks at a workspace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from concurrent.futures import Future, wait

from cowork.sessions.checkpoints.entries import same
from cowork.sessions.checkpoints.scan import Control, Scanner
from cowork.sessions.checkpoints.tables import Snapshot
from cowork.sessions.checkpoints.walk import TooManyFiles
from cowork.sessions.checkpoints.worker import ScanWorker

WAIT_S = 2.0  # a look that takes longer is given up
MOMENT_S = 0.1  # without the event loop


class WorkspaceWatch:
    """Names the files that differ from a first look; none where looking takes too long or fails."""

    def __init__(self, scanner: Scanner, worker: ScanWorker) -> None:
        self._scanner = scanner
        self._worker = worker
        self._before: Snapshot | None = None

    async def start(self) -> WorkspaceWatch:
        """Take the first look, without copying contents."""
        self._before = await self._look()
        return self

    async def changed(self) -> Sequence[str]:
        return self._compare(await self._look())

    def changed_at_once(self) -> Sequence[str]:
        """The same without the event loop, where it takes a moment."""
        taken, control, job = self._submit()
        wait([job], timeout=MOMENT_S)
        control.stop = True
        return self._compare(taken[0] if taken else None)

    async def _look(self) -> Snapshot | None:
        taken, control, job = self._submit()
        await asyncio.wait([asyncio.wrap_future(job)], timeout=WAIT_S)
        control.stop = True
        return taken[0] if taken else None

    def _submit(self) -> tuple[list[Snapshot], Control, Future[None]]:
        taken: list[Snapshot] = []
        control = Control()

        def work(control: Control) -> None:
            with contextlib.suppress(OSError, TooManyFiles):
                taken.append(self._scanner.take(control, keep=False))

        return taken, control, self._worker.submit(work, control)

    def _compare(self, after: Snapshot | None) -> Sequence[str]:
        if self._before is None or after is None:
            return ()
        pairs = [(path, a, b) for path, a, b in self._before.differences(after) if not same(a, b)]
        return sorted(path for path, a, b in pairs if "d" not in (a and a.kind, b and b.kind))
