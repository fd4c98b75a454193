"""The conversation as a foldable tree: prompts, answers, calls and, inside their Task, the children's own."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from cowork.core.blocks import Text, Thinking
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    Event,
    Notice,
    PromptAdded,
    ReplyAdded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.frontends.calls import FEW, LOOKS, call_line
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.markup.diffs import diff_lines
from cowork.frontends.repl.view.scene import markdown_lines
from cowork.frontends.repl.view.styled import Line, wrap
from cowork.frontends.repl.view.theme import Theme
from cowork.frontends.repl.view.tool_lines import looks_line, summary

Body = Callable[[int, Theme], list[Line]]


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


def tree(events: Iterable[Event], agent: str = "main", cwd: str = "") -> list[AgentNode]:
    """The nodes of one agent, its children inside their calls."""
    by_agent: dict[str, list[Event]] = defaultdict(list)
    children: dict[tuple[str, str], list[AgentStarted]] = defaultdict(list)
    ends: dict[str, AgentEnded] = {}
    for event in events:
        if isinstance(event, AgentStarted):
            children[event.parent, event.tool_use_id].append(event)
        elif isinstance(event, AgentEnded):
            ends[event.agent] = event
        else:
            by_agent[event.agent].append(event)
    return _Grower(by_agent, children, ends, cwd).nodes(agent)


@dataclass(slots=True)
class _Grower:
    by_agent: dict[str, list[Event]]
    children: dict[tuple[str, str], list[AgentStarted]]
    ends: dict[str, AgentEnded]
    cwd: str

    def nodes(self, agent: str) -> list[AgentNode]:
        out: list[AgentNode] = []
        calls: dict[str, tuple[ToolStarted, AgentNode]] = {}
        for event in self.by_agent.get(agent, ()):
            match event:
                case ToolStarted():
                    node = self._call(agent, event)
                    calls[event.tool_use_id] = event, node
                    out.append(node)
                case ToolEnded():
                    if event.tool_use_id in calls:
                        started, node = calls[event.tool_use_id]
                        _finish_call(node, started, event)
                case _:
                    out.extend(_plain_nodes(event))
        return [node for _, run in groupby(out, key=lambda n: bool(n.look)) for node in _folded(list(run))]

    def _call(self, agent: str, event: ToolStarted) -> AgentNode:
        key = f"{agent}:{event.tool_use_id}"
        line = call_line(event)
        node = AgentNode(
            key, [("accent", "○ "), ("bold", one_line(event.name)), ("", f" {line}"), ("dim", " · not finished")]
        )
        node.text = _call_text(event, "")
        node.body = _plain_body(node.text)
        for child in self.children.get((agent, event.tool_use_id), ()):
            node.children.append(self._child(child))
        return node

    def _child(self, event: AgentStarted) -> AgentNode:
        end = self.ends.get(event.agent)
        status = end.status if end else "at work"
        head: Line = [("accent.bold", one_line(event.subagent_type)), ("", f" · {one_line(event.description)}"),
                      ("dim", f" · {one_line(event.model)} · {one_line(status)}")]  # fmt: skip
        return AgentNode(f"agent:{event.agent}", head, event.prompt, children=self.nodes(event.agent))


def _folded(run: list[AgentNode]) -> list[AgentNode]:
    """A run of looks as one node that holds them; anything else as it is."""
    if len(run) <= FEW or not run[0].look:
        return run
    return [AgentNode(f"{run[0].key}:looks", looks_line([node.look for node in run], 10_000), children=run)]


def _plain_nodes(event: Event) -> list[AgentNode]:
    key = f"{event.agent}:{event.type}:{event.id}"
    match event:
        case PromptAdded():
            rows = visible(event.label or event.text).strip().split("\n")
            head: Line = [("user.bar", "❯ "), ("user", rows[0])]
            body = _plain_body(event.text) if len(rows) > 1 or event.label else None
            begins = not event.label
            return [AgentNode(key, head, event.text, body, open=len(rows) <= 20 and begins, begins=begins)]
        case ReplyAdded():
            return _reply_nodes(key, event)
        case Notice() | ContextCompacted() | TurnEnded():
            lines = _note(event)
            return [AgentNode(key, lines[0], "".join(t for _, t in lines[0]))] if lines else []
    return []


def _reply_nodes(key: str, event: ReplyAdded) -> list[AgentNode]:
    out: list[AgentNode] = []
    thought = "\n".join(b.text for b in event.content if isinstance(b, Thinking)).strip()
    if thought:
        first = one_line(thought)
        out.append(
            AgentNode(f"{key}:thinking", [("dim", "✻ thinking · "), ("dim", first)], thought, _plain_body(thought))
        )
    text = "".join(b.text for b in event.content if isinstance(b, Text)).strip()
    if text:
        head: Line = [("accent", "● "), ("", one_line(text.split("\n")[0]))]
        out.append(
            AgentNode(
                key, head, text, lambda columns, theme: markdown_lines(text, columns, theme), open=True, begins=True
            )
        )
    return out


def _finish_call(node: AgentNode, started: ToolStarted, event: ToolEnded) -> None:
    status = str(event.record.get("status"))
    style, glyph = {"error": ("bad", "✗ "), "partial": ("warn", "◐ ")}.get(status, ("good", "● "))
    node.head = [(style, glyph), ("bold", one_line(event.name)), ("", f" {call_line(started)}")]
    result = summary(event.record, event.display)
    if result:
        node.head.append(("dim", f" · {result}"))
    node.look = event.name if started.family in LOOKS and status == "success" else ""
    node.text = _call_text(started, str(event.record.get("text", "")))
    diff = str(event.display.get("diff") or "")
    text = node.text
    if diff:
        node.body = lambda columns, theme: diff_lines(diff, columns, theme=theme)
    elif started.family == "delegate":
        node.body = _plain_body(str(event.record.get("text", "")))
    else:
        node.body = _plain_body(text)


def _call_text(event: ToolStarted, result: str) -> str:
    given = json.dumps(event.input, indent=1, ensure_ascii=False) if event.input else ""
    return f"{given}\n{result}".strip()


def _plain_body(text: str) -> Body:
    safe = visible(text)
    return lambda columns, theme: [[("", "  "), ("", row)] for row in wrap(safe, columns - 3)]


def _note(event: Notice | ContextCompacted | TurnEnded) -> Sequence[Line]:
    match event:
        case Notice():
            return notes.notice_lines(event, 10_000)
        case ContextCompacted():
            return notes.compacted_lines(event, 10_000)
        case TurnEnded():
            return notes.turn_end_lines(event, 10_000)
