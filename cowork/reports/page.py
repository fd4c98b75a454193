"""Sessions as pages in one file: style and scripts inside, nothing fetched, and a policy that lets only those run.

A page carries the events as its scripts read them: without what is there twice, and on request without contents.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json
from cowork.core.events import Event, SessionStarted, to_dict
from cowork.core.hygiene import visible_line
from cowork.sessions.cost import Meter
from cowork.sessions.export import about
from cowork.sessions.resume_state import surviving

_ASSETS = Path(__file__).parent / "assets"
_REPORT = ("base.js", "timeline.js", "report.js")
_SESSION = ("base.js", "markdown.js", "timeline.js", "session.js")
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
_BLOCK_CONTENTS = ("text", "thinking", "malformed", "data")


def session_page(events: Sequence[Event], *, redact: bool = False) -> Iterator[str]:
    """A session as a page, in pieces to be written one after another."""
    models = [event.model for event in events if isinstance(event, SessionStarted)]
    facts = about(events) | {"model": models[-1] if models else "", "started": events[0].at if events else 0}
    del facts["created"]
    facts |= {"redacted": redact} | (dict.fromkeys(("title", "cwd", "branch"), "") if redact else {})
    return page(facts["title"] or f"Session {facts['id']}", _SESSION, [facts, *parts(events, redact=redact)])


def report_page(data: Json, links: Mapping[str, str]) -> Iterator[str]:
    """An overview as a page; `links` are the pages of sessions, by id."""
    return page("cowork report", _REPORT, [data | {"links": dict(links)}])


def live_page(facts: Json) -> str:
    """A page that asks its server for the events and goes on asking."""
    return "".join(page(f"Session {facts['id']}", _SESSION, [facts], connect="'self'"))


def page(title: str, scripts: Sequence[str], data: Iterable[Json], connect: str = "'none'") -> Iterator[str]:
    """A page around blocks of data; its scripts draw them."""
    style, script = _asset("page.css"), "\n".join(_asset(name) for name in scripts)
    policy = (
        f"default-src 'none'; script-src {_hash_of(script)}; style-src {_hash_of(style)}; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(visible_line(title))}</title>\n<style>{style}</style>\n</head>\n"
        "<body>\n<noscript>This page draws its contents with a script of its own, which is switched off.</noscript>\n"
    )
    for block in data:
        yield f'<script type="application/json">{to_script(block)}</script>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
                spent, usage = charge.spent, charge.spent.usage
                tokens = (usage.prompt_tokens, usage.output_tokens, usage.cache_read_tokens)
                who = (charge.at, charge.agent, charge.kind, charge.model)
                charged.append([*who, spent.requests, *tokens, spent.cost_usd])
            if event.type in _UNSHOWN:
                continue
            hidden, raw = self._hidden(event), slim(event)
            if hidden or self._redact:
                _blank(raw)
            shown.append(raw | {"gone": True} if hidden else raw)
        return {"events": shown, "charges": charged}


def slim(event: Event) -> Json:
    """The event without what the page does not show or finds elsewhere."""
    raw = to_dict(event)
    for name in ("session_id", *_LEFT_OUT.get(event.type, ())):
        raw.pop(name, None)
    match event.type:
        case "reply.added":
            for block in raw["content"]:
                block.pop("wire", None)
        case "tool.ended":
            record, display = raw["record"], raw["display"]
            kind = display.get("kind")
            text = "" if kind in ("markdown", "todos") else record.get("text", "")
            left_out = _SHOWN_ELSEWHERE if kind == "markdown" else (*_SHOWN_ELSEWHERE, "text")
            raw["record"] = {"status": record.get("status", ""), "text": text}
            raw["display"] = {name: value for name, value in display.items() if name not in left_out}
        case "question.asked":
            raw["question"] = {name: raw["question"].get(name, "") for name in ("title", "tool", "line")}
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
        return to_script(json.loads(json.dumps(value), parse_constant=lambda name: str(float(name))))
    return text.replace("<", "\\u003c")


def _blank(raw: Json) -> None:
    """Leave out what people, models and tools said; how much, when and at what price stays."""
    for part, names in ((raw, _CONTENTS), *((block, _BLOCK_CONTENTS) for block in raw.get("content", ()))):
        part |= {name: _size_of(part[name]) for name in names if part.get(name)}
        part |= {name: empty for name, empty in (("images", []), ("error", {}), ("input", {})) if name in part}
    if "record" in raw:
        raw["record"]["text"] = _size_of(raw["record"].get("text") or "")
        raw["display"] = {}
    if "question" in raw:
        raw["question"] = {"title": raw["question"]["tool"], "tool": raw["question"]["tool"], "line": ""}


def _size_of(value: object) -> str:
    return f"[{len(value):,} characters]" if isinstance(value, str) and value else ""
