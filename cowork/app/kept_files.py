"""The files as they were before each prompt, kept from the first change on: most answers change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cowork.core.events import Event, PromptAdded
from cowork.tools.base import FileWatch

if TYPE_CHECKING:
    from cowork.sessions.checkpoints.recorder import Checkpoints


class KeptFiles:
    """Makes the checkpoints of a session when something is about to change; then it is a sink of events for them."""

    def __init__(self, store: Path, root: Path, extra: Sequence[Path], report: Callable[[str], None]) -> None:
        self._store, self._root, self._extra, self._report = store, root, extra, report
        self._made: Checkpoints | None = None
        self._prompt: PromptAdded | None = None
        if store.exists():  # of a session that goes on: a turn may have been cut off
            self.checkpoints()

    def __call__(self, event: Event) -> None:
        match event:
            case _ if self._made:
                self._made(event)
            case PromptAdded(agent="main", source="user" | "queue" | "steer"):
                self._prompt = event

    def checkpoints(self) -> Checkpoints:
        if self._made is None:
            from cowork.sessions.checkpoints.recorder import Checkpoints

            self._made = Checkpoints(self._store, self._root, self._extra, report=self._report)
            if self._prompt:
                self._made(self._prompt)
        return self._made

    def before_write(self, path: Path) -> None:
        self.checkpoints().before_write(path)

    async def before_command(self, tell: Callable[[str], None]) -> None:
        await self.checkpoints().before_command(tell)

    async def watch(self) -> FileWatch:
        return await self.checkpoints().watch()

    async def aclose(self) -> None:
        if self._made:
            await self._made.aclose()
