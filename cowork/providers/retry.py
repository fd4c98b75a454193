"""Tries again what is worth trying again, and says each time that it will: the one place that decides on retries.

Waits double from one second with full jitter, so that parallel children do not come back together. A `retry-after`
(errors.py reads it) is obeyed up to a cap; a service that asks for more gets its error reported at once, since nobody
should sit through an hour unasked. Nothing is tried again once a reply is whole: tools may have run.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from itertools import count

from cowork.core.errors import ProviderError
from cowork.core.ports import Delta, Provider, Reply, Request, Retry, Used

FIRST_DELAY = 1.0
MAX_BACKOFF = 20.0


class Wrapped:
    """Everything of the inner model but its `stream`, which each wrapper writes itself."""

    def __init__(self, inner: Provider) -> None:
        self.inner = inner
        self.name, self.model = inner.name, inner.model
        self.context_window, self.max_output_tokens = inner.context_window, inner.max_output_tokens
        self.price, self.aclose = inner.price, inner.aclose


class Retrying(Wrapped):
    """The model, tried up to `max_attempts` times with at most `max_delay` seconds between two."""

    def __init__(
        self,
        inner: Provider,
        *,
        max_attempts: int = 5,
        max_delay: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[float], float] = lambda most: random.uniform(0.0, most),
    ) -> None:
        super().__init__(inner)
        self._max_attempts = max_attempts
        self._max_delay = max_delay
        self._sleep = sleep
        self._jitter = jitter

    async def stream(self, request: Request) -> AsyncIterator[Delta | Used | Retry | Reply]:
        """The inner stream; after a fault a `Retry` that voids what came before, then the stream anew."""
        for attempt in count(1):
            whole = False
            try:
                async with aclosing(self.inner.stream(request)) as items:  # type: ignore[type-var]
                    async for item in items:
                        whole = isinstance(item, Reply)
                        yield item
                return
            except ProviderError as error:
                if whole or not error.retryable:
                    raise
                delay = self._delay(error, attempt)
                retry = Retry(attempt + 1, self._max_attempts, delay, error.kind, error.message, error.usage)
            yield retry
            await self._sleep(delay)

    def _delay(self, error: ProviderError, attempt: int) -> float:
        """How long to wait before the next try; raises the same failure with the reason when there is none."""
        asked = error.retry_after
        if asked is not None and asked > self._max_delay:
            wait = f"{asked:.0f} s" if math.isfinite(asked) else "without end"
            why = f" (the service asks to wait {wait}, more than the {self._max_delay:.0f} s cowork waits by itself)"
        elif attempt >= self._max_attempts:
            why = f" (gave up after {attempt} tries)" if attempt > 1 else ""
        elif asked is not None and asked > 0:
            return asked + self._jitter(min(1.0, asked / 10))
        else:
            return self._jitter(min(FIRST_DELAY * 2.0 ** (attempt - 1), MAX_BACKOFF, self._max_delay))
        message = f"{error.message}{why}"
        raise ProviderError(error.kind, message, status=error.status, retry_after=asked, usage=error.usage) from error
