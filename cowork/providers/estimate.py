"""Tokens by length, for services that do not count them and for the scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from cowork.core.blocks import Block, Image, Text, Thinking, ToolResult, ToolUse, Usage
from cowork.core.ports import Request

_CHARS_A_TOKEN = 4
_IMAGE_CHARS = 4_000


def fill_usage(usage: Usage, request: Request, content: Iterable[Block] = ()) -> Usage:
    """The usage with what the service did not tell estimated, and marked as such."""
    if not usage.prompt_tokens:
        usage = replace(usage, input_tokens=request_tokens(request), estimated=True)
    if not usage.output_tokens and (said := reply_tokens(content)):
        usage = replace(usage, output_tokens=said, estimated=True)
    return usage


def request_tokens(request: Request) -> int:
    """About what a request counts, roughly as the wire would carry it."""
    tools = sum(len(t.name) + len(t.description) + len(json.dumps(t.schema)) for t in request.tools)
    messages = sum(_chars(block) for message in request.messages for block in message.content)
    return _tokens(len(request.system) + tools + messages)


def reply_tokens(content: Iterable[Block]) -> int:
    """About what an answer counts."""
    return _tokens(sum(map(_chars, content)))


def _chars(block: Block) -> int:
    match block:
        case Text(text) | Thinking(text):
            return len(text)
        case ToolUse(_, name, input):
            return len(name) + len(json.dumps(input))
        case ToolResult(_, content):
            return len(content) if isinstance(content, str) else sum(map(_chars, content))
        case Image():
            return _IMAGE_CHARS


def _tokens(characters: int) -> int:
    return -(-characters // _CHARS_A_TOKEN)
