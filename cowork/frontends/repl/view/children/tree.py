"""The conversation as a foldable tree: prompts, answers, calls and, inside their Task, the children's own."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby

from cowork.core.blocks import Text, Thinking
from cowork.core.events import AgentEnded, AgentStarted, Event, PromptAdded, ReplyAdded, ToolEnded, ToolStarted
from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.frontends.calls import FEW, LOOKS, call_line
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.markup.diffs import diff_lines
from cowork.frontends.repl.view.markup.stream import markdown_lines
from cowork.frontends.repl.view.styled import Line, plain, wrap
from cowork.frontends.repl.view.theme import Theme
from cowork.frontends.repl.view.tool_lines import GLYPHS, looks_line, summary

Body = Callable[[int, Theme], list[Line]]
_UNBOUNDED = 10_000  # columns: the viewer clips


@dataclass(slots=True)
class AgentNode:
    """One foldable thing. `text` is what search looks at and what copying gives."""

    key: str
    head: Line
    text: str = ""
    body: Body | None = None
    children: list[AgentNode] = field(default_factory=list)
    open: bool = False
    look: str = ""  # the tool, when the call only looked at something and went well
    begins: bool = False  # the head is the beginning of the body, so an open one shows it once

    @property
    def foldable(self) -> bool:
        return self.body is not None or bool(self.children)


def tree(events: Iterable[Event], agent: str = "main") -> list[AgentNode]:
    """The nodes of one agent, its children inside their calls."""
    by_agent: dict[str, list[Event]] = defaultdict(list)
    sent_out: dict[tuple[str, str], list[AgentStarted]] = defaultdict(list)
    ends: dict[str, str] = {}
    for event in events:
        if isinstance(event, AgentStarted):
            sent_out[event.parent, event.tool_use_id].append(event)
        elif isinstance(event, AgentEnded):
            ends[event.agent] = event.status
        else:
            by_agent[event.agent].append(event)

    def call(started: ToolStarted, ended: ToolEnded | None = None) -> AgentNode:
        node = _call_node(started, ended)
        node.children = [child(event) for event in sent_out.get((started.agent, started.tool_use_id), ())]
        return node

    def child(event: AgentStarted) -> AgentNode:
        facts = f" · {one_line(event.model)} · {one_line(ends.get(event.agent, 'at work'))}"
        head: Line = [("accent.bold", one_line(event.subagent_type)), ("", f" · {one_line(event.description)}"),
                      ("dim", facts)]  # fmt: skip
        return AgentNode(f"agent:{event.agent}", head, event.prompt, children=nodes(event.agent))

    def nodes(agent: str) -> list[AgentNode]:
        out: list[AgentNode] = []
        calls: dict[str, tuple[int, ToolStarted]] = {}
        for event in by_agent.get(agent, ()):
            match event:
                case ToolStarted():
                    calls[event.tool_use_id] = len(out), event
                    out.append(call(event))
                case ToolEnded() if event.tool_use_id in calls:
                    at, started = calls[event.tool_use_id]
                    out[at] = call(started, event)
                case _:
                    out.extend(_plain_nodes(event))
        return [node for _, run in groupby(out, key=lambda n: bool(n.look)) for node in _fold_looks(list(run))]

    return nodes(agent)


def _fold_looks(run: list[AgentNode]) -> list[AgentNode]:
    """A run of looks as one node that holds them; anything else as it is."""
    if len(run) <= FEW or not run[0].look:
        return run
    return [AgentNode(f"{run[0].key}:looks", looks_line([node.look for node in run], _UNBOUNDED), children=run)]


def _call_node(started: ToolStarted, ended: ToolEnded | None) -> AgentNode:
    record, display = (ended.record, ended.display) if ended else ({}, {})
    status = str(record.get("status"))
    style, glyph = GLYPHS.get(status, GLYPHS["success"]) if ended else ("accent", "○")
    head: Line = [(style, f"{glyph} "), ("bold", one_line(started.name)), ("", f" {call_line(started)}")]
    result = summary(record, display) if ended else "not finished"
    said, diff = str(record.get("text", "")), str(display.get("diff") or "")
    given = json.dumps(started.input, indent=1, ensure_ascii=False) if started.input else ""
    text = f"{given}\n{said}".strip()
    return AgentNode(
        f"{started.agent}:{started.tool_use_id}",
        [*head, ("dim", f" · {result}")] if result else head,
        text,
        (lambda columns, theme: diff_lines(diff, columns, theme=theme))
        if diff
        else _plain_body(said if ended and started.family == "delegate" else text),
        look=started.name if started.family in LOOKS and status == "success" else "",
    )


def _plain_nodes(event: Event) -> list[AgentNode]:
    key = f"{event.agent}:{event.type}:{event.id}"
    if isinstance(event, ReplyAdded):
        return _reply_nodes(key, event)
    if isinstance(event, PromptAdded):
        rows = visible(event.label or event.text).strip().split("\n")
        begins = not event.label
        body = _plain_body(event.text) if len(rows) > 1 or event.label else None
        head: Line = [("user.bar", "❯ "), ("user", rows[0])]
        return [AgentNode(key, head, event.text, body, open=len(rows) <= 20 and begins, begins=begins)]
    return [AgentNode(key, line, plain(line)) for line in notes.note_lines(event, _UNBOUNDED)[:1]]


def _reply_nodes(key: str, event: ReplyAdded) -> list[AgentNode]:
    out: list[AgentNode] = []
    if thought := "\n".join(b.text for b in event.content if isinstance(b, Thinking)).strip():
        head: Line = [("dim", f"✻ thinking · {one_line(thought)}")]
        out.append(AgentNode(f"{key}:thinking", head, thought, _plain_body(thought)))
    if text := "".join(b.text for b in event.content if isinstance(b, Text)).strip():
        head = [("accent", "● "), ("", one_line(text.split("\n")[0]))]
        body: Body = lambda columns, theme: markdown_lines(text, columns, theme)  # noqa: E731
        out.append(AgentNode(key, head, text, body, open=True, begins=True))
    return out


def _plain_body(text: str) -> Body:
    safe = visible(text)
    return lambda columns, theme: [[("", "  "), ("", row)] for row in wrap(safe, columns - 3)]
