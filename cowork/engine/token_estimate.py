"""How large a request is: at most, for reserving room before it is sent; about, for making room in the window."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from cowork.core.blocks import Block, Image, Message, Text, Thinking, ToolResult, ToolUse
from cowork.core.ports import Request

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
