"""What one request costs, with every try: one that ends without a reply counts with what is known of it.

A service tells the whole usage only at the end. Of a try that was stopped or broke off, what it told until then is
taken as it is; the rest is estimated from the text that came and the size of the request, and marked as an estimate.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from cowork.core.blocks import Block, Image, Message, Text, Thinking, ToolResult, ToolUse, Usage, add_cost
from cowork.core.frozen import frozen
from cowork.core.ports import Delta, Provider, Reply, Request, Retry, Used

CHARS_A_TOKEN = 4
SEARCH_USD = 0.01  # what services ask for a web search of theirs, beside its tokens


@frozen
class Cost:
    """Usage and its price; `estimated` where a part of it is not the service's word."""

    usage: Usage
    cost_usd: float | None
    estimated: bool = False


NOTHING = Cost(Usage(), 0.0)


class RequestMeter:
    """The tries of one request, summed. `before` is what the last request of the same conversation used."""

    def __init__(self, provider: Provider, request: Request, before: Usage) -> None:
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self.estimated = False
        self._provider = provider
        self._request = request
        self._before = before
        self._told = Usage()
        self._heard = 0  # characters of the answer so far
        self._begins = 0.0  # when the try under way was, or will be, sent

    def hear(self, item: Delta | Used) -> None:
        """A piece of the answer, or what the service says it has used for it so far."""
        if isinstance(item, Used):
            self._told = item.usage
        else:
            self._heard += len(item.text)

    def replied(self, reply: Reply) -> Cost:
        """The answer is whole, and so is the count, or the estimate of it."""
        return self._add(reply.usage, estimated=reply.usage.estimated, searches=reply.searches)

    def failed(self, told: Usage) -> Cost:
        """The try ended on the service's side; one that never got an answer cost nothing."""
        if told.total and not told.estimated:  # an estimate of ours knows of the cache
            self._told = told
        return self._cut() if self._heard or self._told.total or told.total else NOTHING

    def again(self, retry: Retry) -> Cost:
        """As `failed`; the next try is sent after a wait."""
        cost = self.failed(retry.usage)
        self._begins = time.monotonic() + retry.delay_s
        return cost

    def stopped(self) -> Cost:
        """We ended the try: the service has read the request at least, if it was sent."""
        return self._cut() if time.monotonic() >= self._begins else NOTHING

    def _cut(self) -> Cost:
        usage, heard = self._told, -(-self._heard // CHARS_A_TOKEN)
        estimated = not usage.prompt_tokens or heard > usage.output_tokens
        if not usage.prompt_tokens:
            usage = usage + self._prompt()
        return self._add(replace(usage, output_tokens=max(usage.output_tokens, heard)), estimated=estimated)

    def _prompt(self) -> Usage:
        """About what the request is; where the last one was cached, so was this one as far as they are the same."""
        size = upper_bound_tokens(self._request) * BYTES_A_TOKEN // CHARS_A_TOKEN
        before = self._before
        cached = min(before.prompt_tokens, size) if before.cache_read_tokens or before.cache_write_tokens else 0
        return Usage(size - cached, 0, cached)

    def _add(self, usage: Usage, *, estimated: bool, searches: int = 0) -> Cost:
        self._told, self._heard = Usage(), 0
        if not usage.total:
            return NOTHING
        cost = add_cost(self._provider.price(usage), searches * SEARCH_USD)
        self.usage = self.usage + usage
        self.cost_usd = add_cost(self.cost_usd, cost)
        self.estimated = self.estimated or estimated
        return Cost(usage, cost, estimated)


# ---------------------------------------------------------------- how large a request is

BYTES_A_TOKEN = 2  # prose has four, code three, dense data two
IMAGE_TOKENS = 2_000
USUAL_BYTES_A_TOKEN = 4
USUAL_IMAGE_TOKENS = 1_500

T = TypeVar("T", Message, ToolUse)


def upper_bound_tokens(request: Request) -> int:
    """More tokens than any model will count for it."""
    tools = sum(_size(t.description) + _size(json.dumps(t.schema)) for t in request.tools)
    messages = sum(_once(message, _message_bytes) for message in request.messages)
    images = sum(_once(message, _message_images) for message in request.messages)
    return (_size(request.system) + tools + messages) // BYTES_A_TOKEN + images * IMAGE_TOKENS


def estimate_messages(messages: Sequence[Message]) -> int:
    """About as many as a model will count for all of them."""
    return sum(_once(message, _message_tokens) for message in messages)


def estimate_tokens(block: Block) -> int:
    """About as many as a model will count for it."""
    return _bytes(block) // USUAL_BYTES_A_TOKEN + _images(block) * USUAL_IMAGE_TOKENS


def _bytes(block: Block) -> int:
    match block:
        case Text(text) | Thinking(text):
            return _size(text)
        case ToolUse():
            return _size(block.name) + _once(block, _arguments)
        case ToolResult(content=content):
            return _size(content) if isinstance(content, str) else sum(map(_bytes, content))
        case Image():
            return 0


def _once(thing: T, weigh: Callable[[T], int]) -> int:
    """Its weight, kept with it: neither messages nor calls change, and all are weighed before every request."""
    kept, name = vars(thing), weigh.__name__
    if name not in kept:
        kept[name] = weigh(thing)
    return int(kept[name])


def _message_bytes(message: Message) -> int:
    return sum(map(_bytes, message.content))


def _message_images(message: Message) -> int:
    return sum(map(_images, message.content))


def _message_tokens(message: Message) -> int:
    return sum(map(estimate_tokens, message.content))


def _arguments(call: ToolUse) -> int:
    return _size(json.dumps(call.input, ensure_ascii=False))


def _images(block: Block) -> int:
    if isinstance(block, ToolResult) and not isinstance(block.content, str):
        return sum(map(_images, block.content))
    return isinstance(block, Image)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
