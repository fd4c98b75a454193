"""What one request costs, with every try: one that ends without a reply counts with what is known of it.

A service tells the whole usage only at the end. Of a try that was stopped or broke off, what it told until then is
taken as it is; the rest is estimated from the text that came and the size of the request, and marked as an estimate.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace

from cowork.core.blocks import CHARS_A_TOKEN, Text, Usage, add_cost, weigh
from cowork.core.frozen import frozen
from cowork.core.ports import Delta, Provider, Reply, Request, Retry, Used

SEARCH_USD = 0.01  # what services ask for a web search of theirs, beside its tokens


@frozen
class Cost:
    """Usage and its price; `estimated` where a part of it is not the service's word."""

    usage: Usage
    cost_usd: float | None
    estimated: bool = False

    def __add__(self, other: Cost) -> Cost:
        cost = add_cost(self.cost_usd, other.cost_usd)
        return Cost(self.usage + other.usage, cost, self.estimated or other.estimated)


NOTHING = Cost(Usage(), 0.0)


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


BYTES_A_TOKEN = 2  # prose has four, code three, dense data two
MOST_IMAGE_TOKENS = 2_000


def upper_bound_tokens(request: Request) -> int:
    """More tokens than any model will count for it."""
    fixed = request.system, *(part for tool in request.tools for part in (tool.description, json.dumps(tool.schema)))
    weights = [*map(weigh, map(Text, fixed)), *map(weigh, request.messages)]
    images = sum(images for _, images in weights)
    return sum(size for size, _ in weights) // BYTES_A_TOKEN + images * MOST_IMAGE_TOKENS
