"""A watch over a stream: a wait in which nothing that counts as data came for too long is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

_MERCY = 1.0  # seconds at most in which what already came can still be read


class Silence(Exception):
    """The limit passed without data."""


class IdleWatch:
    """One timer for a whole stream, so that a read costs next to nothing.

    `touch()` says that data came. Only a wait can be ended: while the consumer is busy with what it got, no time
    counts against the service. Nor does time in which we could not run, a suspended laptop or ^Z: whatever came
    meanwhile is taken in before the wait is given up.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + limit
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._overdue = False
        self._fired = False

    def touch(self, limit: float | None = None) -> None:
        """Data came; `limit` is how long to wait for more, if not as long as ever."""
        self._deadline = self._loop.time() + (self._limit if limit is None else min(limit, self._limit))
        self._overdue = False
        if limit is not None and self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._check)

    async def wait(self, what: Awaitable[T]) -> T:
        """The result of `what`, or Silence when the limit passes first."""
        task = self._waiting = asyncio.current_task()
        try:
            return await what
        except asyncio.CancelledError:
            # As asyncio.timeout does: only our own cancellation becomes Silence, never one from outside.
            if self._fired and task is not None and task.uncancel() <= self._cancelling:
                raise Silence from None
            raise
        finally:
            self._waiting = None

    def __enter__(self) -> Self:
        self._timer = self._loop.call_at(self._deadline, self._check)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        now = self._loop.time()
        again = self._deadline
        if now >= self._deadline:
            if self._waiting is None:
                self.touch()
                again = self._deadline
            elif not self._overdue:
                self._overdue = True
                again = now + min(self._limit / 10, _MERCY)
            else:
                self._fired = True
                self._cancelling = self._waiting.cancelling()
                self._waiting.cancel()
                return
        self._timer = self._loop.call_at(again, self._check)
