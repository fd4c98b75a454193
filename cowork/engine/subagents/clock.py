"""The time limits of one child."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cowork.core.errors import ToolErrorCode
from cowork.core.ports import Answer
from cowork.engine.budget import Ledger


class Clock:
    """Limits in all, of silence while the model should speak, and what all children share.

    All of them stand still while a person is asked.
    """

    def __init__(self, total: float, idle: float, ledger: Ledger) -> None:
        self.total, self.idle, self.ledger = total, idle, ledger  # seconds; 0 is no limit
        self._limit: asyncio.Timeout | None = None
        self._stop_counting: Callable[[], None] | None = None
        self._end: float | None = None
        self._quiet: float | None = None  # until when the model should speak
        self._next = "total"  # the limit that will be hit first
        self._questions = 0
        self._asked_at = 0.0

    def start(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._end = _now() + self.total if self.total else None
        self._count()

    def progress(self, waiting: bool) -> None:
        """The model has spoken; `waiting` while it should go on."""
        self._quiet = _now() + self.idle if self.idle and waiting else None
        self._set()

    async def pause_for(self, answer: Awaitable[Answer]) -> Answer:
        """Wait for a person's answer without counting the time."""
        self._questions += 1
        if self._questions == 1:
            self._asked_at = _now()
            self._pause()
        try:
            return await answer
        finally:
            self._questions -= 1
            if not self._questions and self._limit is not None:
                waited = _now() - self._asked_at
                self._end = self._end and self._end + waited
                self._quiet = self._quiet and self._quiet + waited
                self._count()

    def stop(self) -> None:
        """Stop counting; no limit is hit after this."""
        self._limit = None
        self._pause()

    def hit(self) -> tuple[ToolErrorCode, str]:
        """Code and message of the limit that was hit."""
        if self._next == "shared":
            return "QUOTA_EXCEEDED", f"Resource quota exceeded: {self.ledger.time_message()}"
        hit = self.total if self._next == "total" else self.idle
        return "TIMEOUT", f"Subagent task timed out after {round(hit * 1000)}ms"

    def _count(self) -> None:
        self._stop_counting = self.ledger.start_clock(self._set)

    def _pause(self) -> None:
        if self._stop_counting:
            self._stop_counting()
        self._stop_counting = None
        self._set()

    def _set(self) -> None:
        if self._limit is None or self._limit.expired():
            return
        left = self.ledger.seconds_left
        ends = {"total": self._end, "idle": self._quiet, "shared": None if left is None else _now() + left}
        known = [] if self._questions else [(end, name) for name, end in ends.items() if end is not None]
        end, self._next = min(known, default=(None, ""))
        self._limit.reschedule(end)


def _now() -> float:
    return asyncio.get_running_loop().time()
