"""How large a request is: at most, for reserving room before it is sent; about, for making room in the window."""

from __future__ import annotations

import json

from cowork.core.blocks import Block, Image, Text, Thinking, ToolResult, ToolUse
from cowork.core.ports import Request

BYTES_A_TOKEN = 2  # prose has four, code three, dense data two
IMAGE_TOKENS = 2_000
USUAL_BYTES_A_TOKEN = 4
USUAL_IMAGE_TOKENS = 1_500
_WEIGHT = "_weight"


def most_tokens(request: Request) -> int:
    """More tokens than any model will count for it."""
    tools = sum(_size(t.description) + _size(json.dumps(t.schema)) for t in request.tools)
    blocks = [block for message in request.messages for block in message.content]
    images = sum(_images(block) for block in blocks)
    return (_size(request.system) + tools + sum(map(_bytes, blocks))) // BYTES_A_TOKEN + images * IMAGE_TOKENS


def usual_tokens(block: Block) -> int:
    """About as many as a model will count for it."""
    return _bytes(block) // USUAL_BYTES_A_TOKEN + _images(block) * USUAL_IMAGE_TOKENS


def _bytes(block: Block) -> int:
    match block:
        case Text(text) | Thinking(text):
            return _size(text)
        case ToolUse():
            return _size(block.name) + _arguments(block)
        case ToolResult(content=content):
            return _size(content) if isinstance(content, str) else sum(map(_bytes, content))
        case Image():
            return 0


def _arguments(call: ToolUse) -> int:
    """Kept with the call, which never changes: it is weighed before every request from then on."""
    kept = vars(call)
    if _WEIGHT not in kept:
        kept[_WEIGHT] = _size(json.dumps(call.input, ensure_ascii=False))
    return int(kept[_WEIGHT])


def _images(block: Block) -> int:
    if isinstance(block, ToolResult) and not isinstance(block.content, str):
        return sum(map(_images, block.content))
    return isinstance(block, Image)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
