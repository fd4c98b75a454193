"""The events of a session as the page reads them: without what is there twice, and on request without contents."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from cowork.core.blocks import Json
from cowork.core.events import Event, PromptAdded, SessionStarted, to_dict
from cowork.sessions.cost import Charge, Meter
from cowork.sessions.index import title_of
from cowork.sessions.resume_state import surviving

PART = 2_000  # events in one block of the page
_LEFT_OUT = {
    "session.started": ("tools", "agents"),
    "prompt.added": ("context",),
    "tool.started": ("input", "family"),
    "agent.started": ("tools", "max_turns", "color", "status", "background", "subagent_id", "model_id"),
    "context.compacted": ("cleared", "shortened", "kept", "usage", "cost_usd", "model", "keep_from"),
    "retry.scheduled": ("usage", "cost_usd", "model", "estimated"),
    "turn.ended": ("text", "usage", "cost_usd", "cut_off", "num_turns"),
    "question.answered": ("rule", "note"),
    "notice": ("data",),
}
_UNSHOWN = frozenset({"todo.updated", "run.ended"})
_SHOWN_ELSEWHERE = ("output", "lines", "paths", "path", "added", "removed", "total", "files")  # it is in the text too
_CONTENTS = ("text", "label", "line", "prompt", "description", "summary", "cwd", "branch", "message", "files")


def session_facts(events: Sequence[Event], *, redact: bool = False) -> Json:
    """What the head of the page says."""
    started = [e for e in events if isinstance(e, SessionStarted)]
    first = started[0] if started else SessionStarted()
    prompt = next((e for e in events if isinstance(e, PromptAdded) and e.agent == "main"), PromptAdded())
    facts: Json = {
        "id": events[-1].session_id if events else "",
        "title": title_of(prompt.label or prompt.text),
        "cwd": first.cwd,
        "branch": first.branch,
        "model": started[-1].model if started else "",
        "started": events[0].at if events else 0,
        "redacted": redact,
    }
    return facts | dict.fromkeys(("title", "cwd", "branch"), "") if redact else facts


def parts(events: Sequence[Event], *, redact: bool = False) -> Iterator[Json]:
    """All events in blocks. Of what was rewound only times and costs are kept, as rewinding does not give them back."""
    kept = {event.id for event in surviving(events)}
    packer = Packer(redact=redact, hidden=lambda event: event.id not in kept)
    waiting = iter(events)
    while block := list(islice(waiting, PART)):
        yield packer.pack(block)


class Packer:
    """Turns events into what the page is sent, in order; it remembers who is at work, to know whose a cost is."""

    def __init__(self, *, redact: bool = False, hidden: Callable[[Event], bool] = lambda event: False) -> None:
        self._redact, self._hidden = redact, hidden
        self._meter = Meter()

    def pack(self, events: Iterable[Event]) -> Json:
        """The events and what they cost."""
        shown: list[Json] = []
        charged: list[list[Any]] = []
        for event in events:
            if charge := self._meter.apply(event):
                charged.append(_charge_row(charge))
            if event.type in _UNSHOWN:
                continue
            hidden = self._hidden(event)
            raw = slim(event)
            if hidden or self._redact:
                _blank(raw)
            if hidden:
                raw["gone"] = True
            shown.append(raw)
        return {"events": shown, "charges": charged}


def slim(event: Event) -> Json:
    """The event without what the page does not show or finds elsewhere."""
    raw = to_dict(event)
    del raw["session_id"]
    for name in _LEFT_OUT.get(event.type, ()):
        raw.pop(name, None)
    match event.type:
        case "reply.added":
            for block in raw["content"]:
                block.pop("wire", None)
        case "tool.ended":
            _slim_result(raw)
        case "question.asked":
            asked = raw["question"]
            raw["question"] = {name: asked.get(name, "") for name in ("title", "tool", "line")}
        case "agent.ended":
            raw["record"] = {}
    return raw


def to_script(value: object) -> str:
    """JSON that may stand inside a script element: nothing in it can end that element or start a comment."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        text = json.dumps(value, separators=(",", ":"))
    except ValueError:  # a number that JSON does not know
        return to_script(_finite(value))
    return text.replace("<", "\\u003c")


def _slim_result(raw: Json) -> None:
    record, display = raw["record"], dict(raw["display"])
    kind = display.get("kind")
    for name in _SHOWN_ELSEWHERE:
        display.pop(name, None)
    if kind != "markdown":
        display.pop("text", None)
    text = "" if kind in ("markdown", "todos") else record.get("text", "")
    raw["record"], raw["display"] = {"status": record.get("status", ""), "text": text}, display


def _blank(raw: Json) -> None:
    """Leave out what people, models and tools said; how much, when and at what price stays."""
    for name in _CONTENTS:
        if raw.get(name):
            raw[name] = _size_of(raw[name])
    if "images" in raw:
        raw["images"] = []
    if "error" in raw:
        raw["error"] = {}
    for block in raw.get("content", ()):
        for name in ("text", "thinking", "malformed", "data"):
            if block.get(name):
                block[name] = _size_of(block[name])
        if "input" in block:
            block["input"] = {}
    if "record" in raw:
        raw["record"]["text"] = _size_of(raw["record"].get("text") or "")
        raw["display"] = {}
    if "question" in raw:
        raw["question"] = {"title": raw["question"]["tool"], "tool": raw["question"]["tool"], "line": ""}


def _size_of(value: object) -> str:
    return f"[{len(value):,} characters]" if isinstance(value, str) and value else ""


def _charge_row(charge: Charge) -> list[Any]:
    spent = charge.spent
    usage = spent.usage
    tokens = [usage.prompt_tokens, usage.output_tokens, usage.cache_read_tokens]
    return [charge.at, charge.agent, charge.kind, charge.model, spent.requests, *tokens, spent.cost_usd]


def _finite(value: object) -> object:
    """The value with numbers that JSON does not know as text."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
