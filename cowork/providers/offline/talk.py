"""A request as a conversation: what is asked now, what was asked before, and what may be used."""

from __future__ import annotations

import json
import re

from cowork.core.blocks import Json, Message, Text
from cowork.core.frozen import frozen
from cowork.core.ports import Request
from cowork.providers.offline.plan import Memory

TASK_MARK = "\n\n# Task\n"  # stands in the system prompt of every child
_TYPED = "Your last message must be a single JSON value and nothing else, valid under this JSON Schema:\n"
_REQUEST = re.compile(r"<(?:latest_)?request>\n(.*?)\n</(?:latest_)?request>", re.DOTALL)
_COMPACTED = "[The conversation so far, compacted.]"
_NUDGE = "Your last reply was empty."


@frozen
class Talk:
    """What a request comes down to."""

    questions: tuple[str, ...]  # open ones, oldest first; more than one when the user spoke up meanwhile
    earlier: tuple[str, ...]  # questions already answered, oldest first
    answers: tuple[str, ...]  # texts the model gave so far
    memory: Memory
    is_child: bool
    schema: Json | None = None
    to_compact: str = ""  # a conversation to be summarised, instead of a question


def read_request(request: Request) -> Talk:
    """The conversation behind a request."""
    messages = request.messages
    may_call = request.tool_choice != "none" and bool(request.tools)
    is_child = TASK_MARK in request.system
    tools = [spec.name for spec in request.tools]
    if not request.tools and messages and messages[-1].text.startswith("<conversation>"):
        empty = Memory.of((), (), may_call=False)
        return Talk((), (), (), empty, is_child, to_compact=messages[-1].text)
    asked = _prompts(messages)
    if not may_call and request.tools and len(asked) > 1:
        asked = asked[:-1]  # a demand for the report, a summary or a repair: the question is the one before
    start = asked[-1][0] if asked else 0
    open_ = [text for at, text in asked if at >= start]
    while may_call and start > 0 and messages[start].results and _unanswered(messages, start):
        before = [(at, text) for at, text in asked if at < start]
        if not before:
            break
        start = before[-1][0]
        open_.insert(0, before[-1][1])
    return Talk(
        questions=tuple(open_),
        earlier=tuple(text for at, text in asked if at < start),
        answers=tuple(m.text for m in messages if m.role == "assistant" and m.text.strip()),
        memory=Memory.of(messages[start:], tools, may_call=may_call),
        is_child=is_child,
        schema=_schema(messages),
    )


def _prompts(messages: tuple[Message, ...]) -> list[tuple[int, str]]:
    """(index, text) of what people said; the last text of a message is the prompt, what stands before is context."""
    out: list[tuple[int, str]] = []
    for index, message in enumerate(messages):
        if message.role != "user":
            continue
        texts = [b.text for b in message.content if isinstance(b, Text)]
        texts = [t for t in texts if not t.startswith(_NUDGE)]
        if not texts:
            continue
        text = texts[-1].split(_TYPED)[0].strip()
        if text.startswith(_COMPACTED):
            pinned = _REQUEST.findall(text)
            text = pinned[-1] if pinned else ""
        if text:
            out.append((index, text))
    return out


def _unanswered(messages: tuple[Message, ...], index: int) -> bool:
    """Whether the prompt at `index` came while calls of an earlier one were at work."""
    before = messages[index - 1]
    return bool(before.calls) and not any(call.id.startswith("user_") for call in before.calls)


def _schema(messages: tuple[Message, ...]) -> Json | None:
    for message in reversed(messages):
        if message.role == "user" and _TYPED in message.text:
            try:
                schema = json.loads(message.text.rpartition(_TYPED)[2])
            except ValueError:
                return None
            return schema if isinstance(schema, dict) else None
    return None
