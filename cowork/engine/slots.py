"""A bounded number of slots to run in; whoever finds none free waits for one, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque


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
