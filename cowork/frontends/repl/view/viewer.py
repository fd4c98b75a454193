"""The whole conversation, or one child's, as a foldable tree on the alternate screen: fold, search, copy."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from cowork.core.blocks import Text, Thinking
from cowork.core.events import AgentEnded, AgentStarted, Event, PromptAdded, ReplyAdded, ToolEnded, ToolStarted
from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.stream import markdown_lines
from cowork.frontends.repl.view.tool_lines import diff_lines, head_line, looks_line
from cowork.frontends.styled import Line, Theme, beside, clip_line, plain, wrap
from cowork.frontends.text import FEW, LOOKS

Body = Callable[[int, Theme], list[Line]]
_UNBOUNDED = 10_000  # columns: the viewer clips
_HELP = "↑↓ move · Enter fold · e all · / search · n next · y copy · q close"


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
    calls: dict[tuple[str, str], ToolStarted] = {}  # the last that had this id: some services count from one again
    results: dict[int, ToolEnded] = {}  # by which event the call started with
    for event in events:
        match event:
            case AgentStarted():
                sent_out[event.parent, event.tool_use_id].append(event)
            case AgentEnded():
                ends[event.agent] = event.status
            case ToolEnded():
                results[id(calls.get((event.agent, event.tool_use_id)))] = event
            case ToolStarted():
                calls[event.agent, event.tool_use_id] = event
        by_agent[event.agent].append(event)

    def call(started: ToolStarted) -> AgentNode:
        node = _call_node(started, results.get(id(started)))
        node.children = [child(event) for event in sent_out.get((started.agent, started.tool_use_id), ())]
        return node

    def child(event: AgentStarted) -> AgentNode:
        facts = f" · {one_line(event.model)} · {one_line(ends.get(event.agent, 'at work'))}"
        head: Line = [("accent.bold", one_line(event.subagent_type)), ("", f" · {one_line(event.description)}"),
                      ("dim", facts)]  # fmt: skip
        return AgentNode(f"agent:{event.agent}", head, event.prompt, children=nodes(event.agent))

    def nodes(agent: str) -> list[AgentNode]:
        out: list[AgentNode] = []
        for event in by_agent.get(agent, ()):
            out += [call(event)] if isinstance(event, ToolStarted) else _plain_nodes(event)
        folded: list[AgentNode] = []
        for is_look, run in groupby(out, key=lambda node: bool(node.look)):
            if len(held := list(run)) > FEW and is_look:
                head = looks_line([node.look for node in held], _UNBOUNDED)
                held = [AgentNode(f"{held[0].key}:looks", head, children=held)]
            folded += held
        return folded

    return nodes(agent)


def _call_node(started: ToolStarted, ended: ToolEnded | None) -> AgentNode:
    record, display = (ended.record, ended.display) if ended else ({}, {})
    said, diff = str(record.get("text", "")), str(display.get("diff") or "")
    given = json.dumps(started.input, indent=1, ensure_ascii=False) if started.input else ""
    text = f"{given}\n{said}".strip()
    head = head_line(started, record if ended else None, display, _UNBOUNDED)
    body = _plain_body(said if ended and started.family == "delegate" else text)
    if diff:
        body = lambda columns, theme: diff_lines(diff, columns, theme=theme)  # noqa: E731
    look = started.name if started.family in LOOKS and record.get("status") == "success" else ""
    return AgentNode(f"{started.agent}:{started.tool_use_id}", head, text, body, look=look)


def _plain_nodes(event: Event) -> list[AgentNode]:
    key = f"{event.agent}:{event.type}:{event.id}"
    if isinstance(event, ReplyAdded):
        return _reply_nodes(key, event)
    if isinstance(event, PromptAdded):
        rows = visible(event.label or event.text).strip().split("\n")
        begins = not event.label
        body = _plain_body(event.text) if len(rows) > 1 or event.label else None
        head: Line = [("accent", "❯ "), ("bold", rows[0])]
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


@dataclass(slots=True)
class Viewer:
    """State of the viewer. `build` gives the tree anew when `size` changed, so that a child at work can be followed."""

    title: str
    build: Callable[[], Sequence[AgentNode]]
    size: Callable[[], int] = lambda: 0  # of what the tree is built from
    copy: Callable[[str], None] = lambda text: None  # to the clipboard
    at_end: bool = True  # opens on the newest
    nodes: Sequence[AgentNode] = ()
    cursor: int = 0
    top: int = 0
    query: str | None = None  # being typed
    found: str = ""
    message: str = ""
    _seen: int = -1  # the size at the last build
    _rows: list[tuple[Line, AgentNode]] = field(default_factory=list)
    _drawn: tuple[int, Theme] | None = None  # the columns and the theme the rows were made for
    _page: int = 20
    _open: dict[str, bool] = field(default_factory=dict)  # what the person folded and unfolded
    _bodies: dict[tuple[str, int, str, int], list[Line]] = field(default_factory=dict)

    def key(self, name: str) -> bool:
        """A key was pressed; False when the viewer should close."""
        self.message = ""
        here, page, far = self._here, self._page, len(self._rows)
        moves = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "c-u": -page, "pagedown": page, " ": page,
                 "home": -far, "g": -far, "end": far, "G": far}  # fmt: skip
        if self.query is not None:
            self._search_key(self.query, name)
        elif name in ("q", "escape", "c-o", "c-c", "c-d"):
            return False
        elif name in moves:
            self.cursor = max(0, min(self.cursor + moves[name], len(self._rows) - 1))
        elif name in ("enter", "tab", "right", "l", "left", "h") and here and here.foldable:
            self._fold([here], {"right": True, "l": True, "left": False, "h": False}.get(name, not self._is_open(here)))
        elif name == "e":
            nodes = [node for node, _ in _walk(self.nodes) if node.foldable]
            self._fold(nodes, not all(map(self._is_open, nodes)))
        elif name == "/":
            self.query = ""
        elif name in ("n", "N"):
            self._next(1 if name == "n" else -1)
        elif name == "y" and here:
            text = here.text or plain(here.head)
            self.message = f"copied {len(text):,} characters"
            self.copy(text)
        return True

    def lines(self, columns: int, rows: int, theme: Theme) -> list[Line]:
        """The screen."""
        if self.size() != self._seen:
            self._seen, self.nodes, self._drawn = self.size(), self.build(), None
        self._page, body, first = max(1, rows - 3), rows - 2, not self._rows
        if self._drawn != (columns, theme):
            self._layout(columns, theme)
        self.cursor = len(self._rows) - 1 if first and self.at_end else min(self.cursor, len(self._rows) - 1)
        self.cursor = max(0, self.cursor)
        self.top = max(self.cursor - body + 1, min(self.top, self.cursor))
        self.top = max(0, min(self.top, len(self._rows) - body))
        where = f"{self.cursor + 1}/{len(self._rows)} " if self._rows else "empty "
        out: list[Line] = [beside([("bold", f" {self.title}")], [("dim", where)], columns - 1)]
        for place, (row, _) in enumerate(self._rows[self.top : self.top + body], self.top):
            line = clip_line(row, columns - 4)
            if self.found and self.found in plain(row).lower():
                line = [("underline", text) for _, text in line]
            out.append([("accent.bold", "❯ " if place == self.cursor else "  "), *line])
        foot: Line = [("accent", " /"), ("", self.query or ""), ("reverse", " ")]
        if self.query is None:
            foot = clip_line([("dim", f" {self.message or _HELP}")], columns - 1)
        return [*out, *([] for _ in range(body + 1 - len(out))), foot]

    @property
    def _here(self) -> AgentNode | None:
        """What the cursor stands on."""
        return self._rows[self.cursor][1] if self._rows else None

    def _is_open(self, node: AgentNode) -> bool:
        return self._open.get(node.key, node.open)

    def _layout(self, columns: int, theme: Theme) -> None:
        self._drawn = columns, theme
        self._rows = list(self._flat(self.nodes, 0, columns, theme))

    def _flat(
        self, nodes: Sequence[AgentNode], depth: int, columns: int, theme: Theme
    ) -> Iterator[tuple[Line, AgentNode]]:
        margin = "  " * depth
        for node in nodes:
            is_open = self._is_open(node)
            mark = ("▾ " if is_open else "▸ ") if node.foldable else "  "
            body = self._body(node, columns - 6 - 2 * depth, theme) if is_open else []
            head = [node.head[0], *body[0][1:]] if node.begins and body else node.head
            yield [("dim", f"{margin}{mark}"), *head], node
            for line in body[1:] if node.begins else body:
                yield [("faint", f"{margin}  "), *line], node
            if is_open:
                yield from self._flat(node.children, depth + 1, columns, theme)

    def _body(self, node: AgentNode, columns: int, theme: Theme) -> list[Line]:
        if node.body is None:
            return []
        key = (node.key, columns, theme.kind, len(node.text))
        if key not in self._bodies:
            self._bodies[key] = node.body(max(10, columns), theme)
        return self._bodies[key]

    def _fold(self, nodes: Iterable[AgentNode], to: bool) -> None:
        """Open or close nodes, and lay out again with the cursor on the same one."""
        stay = self._here
        self._open.update((node.key, to) for node in nodes)
        if self._drawn is not None:
            self._layout(*self._drawn)
        last = max(0, min(self.cursor, len(self._rows) - 1))  # what it stood on may be folded away
        self.cursor = next((i for i, (_, node) in enumerate(self._rows) if node is stay), last)

    def _search_key(self, query: str, name: str) -> None:
        if name == "enter":
            self.found, self.query = query.lower(), None
            self._next(1)
        elif name in ("escape", "c-c"):
            self.query, self.found = None, ""
        elif name == "backspace":
            self.query = query[:-1]
        elif len(name) == 1 and name.isprintable():
            self.query = query + name

    def _next(self, step: int) -> None:
        """The next row that holds the text; folded ones that do are opened on the way."""
        if not self.found:
            return
        before = self.cursor
        holding = [
            place
            for node, parents in _walk(self.nodes)
            if self.found in f"{node.text}\n{plain(node.head)}".lower()
            for place in (*parents, *([node] if node.foldable else []))
        ]
        self._fold(holding, True)
        start = max(before, self.cursor)
        places = [(start + step * offset) % len(self._rows) for offset in range(1, len(self._rows) + 1)]
        hit = next((place for place in places if self.found in plain(self._rows[place][0]).lower()), None)
        self.cursor = before if hit is None else hit
        self.message = f"nothing found for {self.found!r}" if hit is None else ""


def _walk(
    nodes: Sequence[AgentNode], parents: tuple[AgentNode, ...] = ()
) -> Iterator[tuple[AgentNode, tuple[AgentNode, ...]]]:
    """Every node with those it is in."""
    for node in nodes:
        yield node, parents
        yield from _walk(node.children, (*parents, node))
