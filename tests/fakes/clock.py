"""A clock a test can put forward: what is about time takes none and cannot fail for a slow machine."""

from __future__ import annotations

import asyncio


class Clock:
    """The clock of the running loop, from now on."""

    def __init__(self) -> None:
        self._ahead = 0.0
        loop = asyncio.get_running_loop()
        real = loop.time
        loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]

    def forward(self, seconds: float) -> None:
        self._ahead += seconds

    async def passes(self, seconds: float) -> None:
        """So much time goes by, and whatever was set for it has happened."""
        self.forward(seconds)
        for _ in range(5):
            await asyncio.sleep(0)
