"""A line to stand in: so many at once, the others wait their turn in order."""

from __future__ import annotations

import asyncio
from collections import deque


class Line:
    """At most `places` inside."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def full(self) -> bool:
        return self.inside >= self.places

    @property
    def waiting(self) -> int:
        return sum(not f.done() for f in self._waiting)

    def take(self) -> bool:
        """Take a place if one is free."""
        if self.full:
            return False
        self.inside += 1
        return True

    async def enter(self) -> None:
        """Returns with a place taken."""
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # the place was given just as we were told to stop
            raise

    def leave(self) -> None:
        """Give the place to the next in line, if somebody waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.inside -= 1
