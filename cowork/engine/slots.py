"""A bounded number of slots to run in; whoever finds none free waits for one, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SlotPool:
    """At most `size` holders at once."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        return sum(not f.done() for f in self._waiting)

    def try_take(self) -> bool:
        """Take a slot if one is free."""
        if self.taken >= self.size:
            return False
        self.taken += 1
        return True

    async def take(self) -> None:
        """Take a slot, waiting for one if need be."""
        if self.try_take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot was handed over just as we were cancelled
            raise

    def release(self) -> None:
        """Hand the slot to the next one waiting, or free it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1


class Slot:
    """What one agent holds of a pool: a slot, or none yet."""

    def __init__(self, pool: SlotPool) -> None:
        self.held = False
        self._pool = pool
        self._loans = 0
        self._owed = False  # it lent its slot and has not got it back

    def try_take(self) -> bool:
        self.held = self._pool.try_take()
        return self.held

    async def take(self) -> None:
        if not self.held:
            await self._pool.take()
            self.held = True

    def release(self) -> None:
        if self.held:
            self.held = False
            self._pool.release()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Let others have the slot while its holder waits for them, then take it again.

        A holder that is stopped meanwhile does not get it back: it need not wait for a slot to end.
        """
        self._loans += 1
        self._owed = self._owed or self.held
        self.release()
        try:
            yield
        finally:
            self._loans -= 1
        if self._owed and not self._loans:
            await self.take()
            self._owed = False
