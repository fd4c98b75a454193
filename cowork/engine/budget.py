"""What a tree of agents spends and may spend: what each request costs, the limits, and how many run at once.

Every request is reserved for before it is sent. Far from a limit, agents spend in parallel; near one, a request
waits until those in flight are settled, so all of them together overshoot by one request at most.

A request costs what all its tries do. A service tells the whole usage only at the end: of a try that was stopped or
broke off, what it told until then is taken as it is; the rest is estimated from the text that came and the size of
the request, and marked as an estimate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import field, replace

from cowork.core.blocks import CHARS_A_TOKEN, Text, Usage, add_cost, cost_since, weigh
from cowork.core.format import money
from cowork.core.frozen import frozen
from cowork.core.ports import Delta, Provider, Reply, Request, Retry, Used

Settle = Callable[["Cost"], None]

NEAR = 0.8  # the part of a limit at which people are told
SEARCH_USD = 0.01  # what services ask for a web search of theirs, beside its tokens
BYTES_A_TOKEN = 2  # prose has four, code three, dense data two
MOST_IMAGE_TOKENS = 2_000


@frozen
class Cost:
    """Usage and its price; `estimated` where a part of it is not the service's word."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    estimated: bool = False

    def __add__(self, other: Cost) -> Cost:
        cost = add_cost(self.cost_usd, other.cost_usd)
        return Cost(self.usage + other.usage, cost, self.estimated or other.estimated)

    def __sub__(self, earlier: Cost) -> Cost:
        """What was spent since an earlier state of the same sum."""
        cost = cost_since(self.cost_usd, earlier.cost_usd)
        return Cost(self.usage - earlier.usage, cost, self.estimated)


NOTHING = Cost()


@frozen
class Limits:
    """What a ledger may spend; 0 is no limit."""

    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    executions: int = 0


class BudgetExceeded(Exception):
    """A limit of tokens, cost, time or executions was hit."""


class Ledger:
    """Spending of one agent and everything below it."""

    def __init__(
        self,
        limits: Limits | None = None,
        parent: Ledger | None = None,
        near: Callable[[str], None] = lambda text: None,  # told once, when most of a limit is spent
    ) -> None:
        self.limits, self.parent, self._near = limits or Limits(), parent, near
        self.spent = NOTHING
        self.executions = 0
        self._seconds = 0.0  # of finished work, for limits on the sum of children's time
        self._clocks: list[tuple[float, Callable[[], None]]] = []  # when work under way began, and whom to tell
        self.reserved: list[tuple[int, float]] = []  # tokens and cost of each request in flight
        self.settled = asyncio.Event()

    def chain(self) -> list[Ledger]:
        """This ledger and all above it."""
        return [self, *(self.parent.chain() if self.parent else [])]

    @property
    def limited(self) -> bool:
        """Whether tokens or cost are limited, here or above."""
        return any(ledger.limits.tokens for ledger in self.chain()) or self.cost_limited

    @property
    def cost_limited(self) -> bool:
        """Whether cost is limited, here or above."""
        return any(ledger.limits.cost_usd for ledger in self.chain())

    @property
    def seconds(self) -> float:
        """What children took, those at work included."""
        now = time.monotonic()
        return self._seconds + sum(now - began for began, _ in self._clocks)

    def time_message(self) -> str:
        """How much time was used of how much, in the nearest ledger that limits it."""
        near = next((ledger for ledger in self.chain() if ledger.limits.seconds), self)
        return f"Time limit reached: {near.seconds:.0f}s/{near.limits.seconds:g}s"

    @property
    def seconds_left(self) -> float | None:
        """How long those at work may go on before a time limit is reached, here or above; None without one."""
        ends = [
            (ledger.limits.seconds - ledger.seconds) / max(1, len(ledger._clocks))
            for ledger in self.chain()
            if ledger.limits.seconds
        ]
        return min(ends, default=None)

    async def reserve(self, tokens: int, cost_usd: float | None) -> Settle:
        """Make room for a request that may use this much; what this gives is called with what it really used.

        Waits near a limit and raises BudgetExceeded at it.
        """
        wanted = (tokens, cost_usd or 0.0)
        while blocker := next((ledger for ledger in self.chain() if not ledger._has_room(*wanted)), None):
            await blocker.settled.wait()
        for ledger in self.chain():
            ledger.reserved.append(wanted)

        def settle(spent: Cost) -> None:
            for ledger in self.chain():
                ledger.book(spent)
                ledger.reserved.remove(wanted)
                ledger.settled.set()  # all who wait look again
                ledger.settled.clear()

        return settle

    def start_execution(self) -> None:
        """Count one more child, here and above."""
        for ledger in self.chain():
            if 0 < (limit := ledger.limits.executions) <= ledger.executions:
                raise BudgetExceeded(f"Execution limit reached: {ledger.executions}/{limit}")
        for ledger in self.chain():
            ledger.executions += 1

    def book(self, cost: Cost) -> None:
        """Add spending to this ledger alone; settling a request walks the chain."""
        self.spent = self.spent + cost
        limits, spent, tokens = self.limits, self.spent.cost_usd, self.spent.usage.total
        if limits.cost_usd and spent is not None and NEAR <= spent / limits.cost_usd < 1:
            share, said = spent / limits.cost_usd, f"{money(spent)} of {money(limits.cost_usd)}"
        elif limits.tokens and NEAR <= tokens / limits.tokens < 1:
            share, said = tokens / limits.tokens, f"{tokens:,} of {limits.tokens:,} tokens"
        else:
            return
        near, self._near = self._near, lambda text: None
        near(f"{share:.0%} of the budget is spent: {said}.")

    def start_clock(self, moved: Callable[[], None] = lambda: None) -> Callable[[], None]:
        """Count time from now on, here and above, until what this gives is called.

        `moved` is called when other work begins or ends and a limit on the sum is used up sooner or later by that.
        """
        clock = (time.monotonic(), moved)
        for ledger in self.chain():
            ledger._clocks.append(clock)
        self._tell_clocks()

        def stop() -> None:
            for ledger in self.chain():
                ledger._clocks.remove(clock)
                ledger._seconds += time.monotonic() - clock[0]
            self._tell_clocks()

        return stop

    def _tell_clocks(self) -> None:
        if self.seconds_left is not None:
            for _, moved in self.chain()[-1]._clocks:
                moved()

    def check(self) -> None:
        """Raise when a limit of this ledger or one above it is already reached."""
        for ledger in self.chain():
            ledger._check_own()

    def _check_own(self) -> None:
        limits, used, cost = self.limits, self.spent.usage.total, self.spent.cost_usd
        if 0 < limits.tokens <= used:
            raise BudgetExceeded(f"Token limit reached: {used}/{limits.tokens}")
        if limits.cost_usd and cost is None:
            raise BudgetExceeded("Cost limit cannot be held: the price of a request is unknown")
        if 0 < limits.cost_usd <= (cost or 0.0):
            raise BudgetExceeded(f"Cost limit reached: ${cost:.4f}/${limits.cost_usd:.4f}")
        if 0 < limits.seconds <= self.seconds:
            raise BudgetExceeded(self.time_message())

    def _has_room(self, tokens: int, cost: float) -> bool:
        """Whether a request fits now; with nothing in flight the last one may go over the limit."""
        self._check_own()
        limits = self.limits
        if not self.reserved or not (limits.tokens or limits.cost_usd):
            return True
        tokens += self.spent.usage.total + sum(reserved for reserved, _ in self.reserved)
        cost += (self.spent.cost_usd or 0.0) + sum(reserved for _, reserved in self.reserved)
        return tokens <= (limits.tokens or tokens) and cost <= (limits.cost_usd or cost)


class Slot:
    """What one agent holds of a pool of those that may run at once: a slot, or none yet."""

    def __init__(self, pool: asyncio.Semaphore) -> None:
        self.held = False
        self._pool = pool
        self._loans = 0
        self._owed = False  # it lent its slot and has not got it back

    async def take(self) -> None:
        if not self.held:
            await self._pool.acquire()
            self.held = True

    def release(self) -> None:
        if self.held:
            self.held = False
            self._pool.release()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[None]:
        """Let others have the slot while its holder waits for them, then take it again."""
        self._loans += 1
        self._owed = self._owed or self.held
        self.release()
        try:
            yield
        finally:
            self._loans -= 1
        # A holder that is stopped meanwhile does not get here: it need not wait for a slot to end.
        if self._owed and not self._loans:
            await self.take()
            self._owed = False


class RequestMeter:
    """The tries of one request, summed. `before` is what the last request of the same conversation used."""

    def __init__(self, provider: Provider, request: Request, before: Usage) -> None:
        self.spent = NOTHING
        self._provider, self._request, self._before = provider, request, before
        self._told = Usage()
        self._heard = 0  # characters of the answer so far
        self._begins = 0.0  # when the try under way was, or will be, sent

    def hear(self, item: Delta | Used) -> None:
        """A piece of the answer, or what the service says it has used for it so far."""
        if isinstance(item, Used):
            self._told = item.usage
        else:
            self._heard += len(item.text)

    def count_reply(self, reply: Reply) -> Cost:
        """The answer is whole, and so is the count, or the estimate of it."""
        return self._add(reply.usage, estimated=reply.usage.estimated, searches=reply.searches)

    def count_failure(self, told: Usage) -> Cost:
        """The try ended on the service's side; one that never got an answer cost nothing."""
        if told.total and not told.estimated:  # an estimate of ours knows of the cache
            self._told = told
        return self._count_partial() if self._heard or self._told.total or told.total else NOTHING

    def count_retry(self, retry: Retry) -> Cost:
        """As `count_failure`; the next try is sent after a wait."""
        cost = self.count_failure(retry.usage)
        self._begins = time.monotonic() + retry.delay_s
        return cost

    def count_stop(self) -> Cost:
        """We ended the try: the service has read the request at least, if it was sent."""
        return self._count_partial() if time.monotonic() >= self._begins else NOTHING

    def _count_partial(self) -> Cost:
        usage, heard = self._told, -(-self._heard // CHARS_A_TOKEN)
        estimated = not usage.prompt_tokens or heard > usage.output_tokens
        if not usage.prompt_tokens:
            # About what the request is; where the last one was cached, so was this one as far as they are the same.
            size = upper_bound_tokens(self._request) * BYTES_A_TOKEN // CHARS_A_TOKEN
            before = self._before
            cached = min(before.prompt_tokens, size) if before.cache_read_tokens or before.cache_write_tokens else 0
            usage = usage + Usage(size - cached, 0, cached)
        return self._add(replace(usage, output_tokens=max(usage.output_tokens, heard)), estimated=estimated)

    def _add(self, usage: Usage, *, estimated: bool, searches: int = 0) -> Cost:
        self._told, self._heard = Usage(), 0
        if not usage.total:
            return NOTHING
        cost = Cost(usage, add_cost(self._provider.price(usage), searches * SEARCH_USD), estimated)
        self.spent = self.spent + cost
        return cost


def upper_bound_tokens(request: Request) -> int:
    """More tokens than any model will count for it."""
    weights = [weigh(Text(request.system)), *map(weigh, request.messages)]
    size = sum(size for size, _ in weights) + sum(tool.size for tool in request.tools)
    return size // BYTES_A_TOKEN + sum(images for _, images in weights) * MOST_IMAGE_TOKENS
