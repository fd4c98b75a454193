"""A request as a conversation: what is asked now, what was asked before, and the form the answer must have."""

from __future__ import annotations

import json
import re
from typing import Any

from cowork.core.blocks import Json, Message, Text
from cowork.core.frozen import frozen
from cowork.core.ports import Request
from cowork.providers.offline.plans import Memory

TASK_MARK = "\n\n# Task\n"  # stands in the system prompt of every child
_TYPED = "Your last message must be a single JSON value and nothing else, valid under this JSON Schema:\n"
_REQUEST = re.compile(r"<(?:latest_)?request>\n(.*?)\n</(?:latest_)?request>", re.DOTALL)
_COMPACTED = "[The conversation so far, compacted.]"
_NUDGE = "Your last reply was empty."
_AT_FILE = re.compile(r"(?:^|(?<=[\s(\[\"'`]))@(?=[\w~+-]*/|[\w.~+-]*\.\w{1,5}\b)")  # `@` before a file's name
_AT = re.compile(r"`([\w./@+-]+):(\d+)(?:-\d+)?`")


@frozen
class Talk:
    """What a request comes down to."""

    questions: tuple[str, ...]  # open ones, oldest first; more than one when the user spoke up meanwhile
    earlier: tuple[str, ...]  # questions already answered, oldest first
    memory: Memory
    is_child: bool
    schema: Json | None = None
    to_compact: str = ""  # a conversation to be summarised, instead of a question


def read_request(request: Request) -> Talk:
    """The conversation behind a request."""
    messages = request.messages
    may_call = request.tool_choice != "none" and bool(request.tools)
    is_child = TASK_MARK in request.system
    if not request.tools and messages and messages[-1].text.startswith("<conversation>"):
        return Talk((), (), Memory(), is_child, to_compact=messages[-1].text)
    asked = _prompts(messages)
    if not may_call and request.tools and len(asked) > 1:
        asked = asked[:-1]  # a demand for the report, a summary or a repair: the question is the one before
    start = 0
    for start, _ in reversed(asked):
        # A prompt beside results came while calls of an earlier one were at work, so that one is open too.
        calls = messages[start - 1].calls if may_call and start and messages[start].results else ()
        if not calls or any(call.id.startswith("user_") for call in calls):
            break
    return Talk(
        questions=tuple(text for at, text in asked if at >= start),
        earlier=tuple(text for at, text in asked if at < start),
        memory=Memory(messages[start:], [spec.name for spec in request.tools], may_call=may_call),
        is_child=is_child,
        schema=_schema(messages),
    )


def _prompts(messages: tuple[Message, ...]) -> list[tuple[int, str]]:
    """(index, text) of what people said; the last text of a message is the prompt, what stands before is context."""
    out: list[tuple[int, str]] = []
    for index, message in enumerate(messages):
        texts = [b.text for b in message.content if isinstance(b, Text) and not b.text.startswith(_NUDGE)]
        if message.role != "user" or not texts:
            continue
        text = texts[-1].split(_TYPED)[0].strip()
        if text.startswith(_COMPACTED):
            text = (_REQUEST.findall(text) or [""])[-1]
        out += [(index, _AT_FILE.sub("", text))] if text else []
    return out


def _schema(messages: tuple[Message, ...]) -> Json | None:
    typed = [message.text for message in messages if message.role == "user" and _TYPED in message.text]
    try:
        schema = json.loads(typed[-1].rpartition(_TYPED)[2]) if typed else None
    except ValueError:
        return None
    return schema if isinstance(schema, dict) else None


def as_json(schema: Json, answer: str) -> str:
    """The answer as a value of the schema: places go to paths and lines, the text to whatever takes text."""
    return json.dumps(_value(schema, answer), ensure_ascii=False)


def _value(schema: Json, answer: str, name: str = "") -> Any:
    place = _AT.search(answer)
    match schema.get("type"):
        case "object":
            return {key: _value(inner, answer, key) for key, inner in (schema.get("properties") or {}).items()}
        case "array":
            each = [row for row in answer.splitlines() if _AT.search(row)] or [answer]
            return [_value(schema.get("items") or {}, row, name) for row in each[:20]]
        case "integer" | "number":
            number = place[2] if place else (re.findall(r"\d[\d,]*", answer) or ["0"])[0]
            return int(number.replace(",", ""))
        case "boolean":
            return not re.search(r"\b(?:nothing|none|not|no)\b", answer[:200])
    path = place[1] if place and re.search(r"file|path", name, re.IGNORECASE) else answer
    return schema["enum"][0] if schema.get("enum") else path


def summary(conversation: str) -> str:
    """The memory of a conversation that is about to be shortened: requests, answers, places."""
    places = list(dict.fromkeys(m[0].strip("`") for m in _AT.finditer(conversation)))
    parts = []
    for title, mark in (("Requests", "USER"), ("Answers", "AGENT"), ("Changes", "CALL (?:Edit|Write)")):
        if said := re.findall(rf"^{mark}:? (.+)$", conversation, re.MULTILINE):
            parts.append(f"{title}:\n" + "\n".join(f"- {text[:300]}" for text in said[-20:]))
    parts += ["Places: " + ", ".join(places[:40])] if places else []
    return "\n\n".join(parts) or "Nothing of note was said."
