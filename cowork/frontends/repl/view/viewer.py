"""The whole conversation, or one child's, on the alternate screen: fold, search, copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from cowork.frontends.repl.view.children.tree import AgentNode
from cowork.frontends.repl.view.styled import Line, beside, clip_line, plain
from cowork.frontends.repl.view.theme import Theme

_HELP = "↑↓ move · Enter fold · e all · / search · n next · y copy · q close"


@dataclass(slots=True)
class _Row:
    line: Line
    node: AgentNode
    head: bool


@dataclass(slots=True)
class Viewer:
    """State of the viewer. `build` gives the tree anew, so that a child at work can be followed."""

    title: str
    build: Callable[[], Sequence[AgentNode]]
    at_end: bool = True  # opens on the newest
    nodes: Sequence[AgentNode] = ()
    cursor: int = 0
    top: int = 0
    query: str | None = None  # being typed
    found: str = ""
    message: str = ""
    _rows: list[_Row] = field(default_factory=list)
    _key: tuple[int, str] = (0, "")
    _page: int = 20
    _open: dict[str, bool] = field(default_factory=dict)
    _bodies: dict[tuple[str, int, str, int], list[Line]] = field(default_factory=dict)

    def refresh(self) -> None:
        """Read the events again; what is folded stays folded."""
        self.nodes = self.build()
        for node in _walk(self.nodes):
            node.open = self._open.get(node.key, node.open)
        self._key = (0, "")

    def key(self, name: str) -> bool:
        """A key was pressed; False when the viewer should close."""
        self.message = ""
        if self.query is not None:
            self._search_key(name)
            return True
        if name in ("q", "escape", "c-o", "c-c", "c-d"):
            return False
        moves = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -self._page, "c-u": -self._page,
                 "pagedown": self._page, " ": self._page, "home": -1 << 30, "g": -1 << 30, "end": 1 << 30,
                 "G": 1 << 30}  # fmt: skip
        if name in moves:
            self._move(moves[name])
        elif name in ("enter", "tab", "right", "l", "left", "h"):
            self._fold(name)
        elif name == "e":
            self._fold_all()
        elif name == "/":
            self.query = ""
        elif name in ("n", "N"):
            self._next(1 if name == "n" else -1)
        return True

    def copied(self) -> str:
        """The chosen text, for the clipboard."""
        row = self._rows[self.cursor] if self._rows else None
        if row is None:
            return ""
        text = row.node.text or plain(row.node.head)
        self.message = f"copied {len(text):,} characters"
        return text

    def lines(self, columns: int, rows: int, theme: Theme) -> list[Line]:
        """The screen."""
        self._page = max(1, rows - 3)
        self._layout(columns, theme)
        body = rows - 2
        self.cursor = max(0, min(self.cursor, len(self._rows) - 1))
        if self.cursor < self.top:
            self.top = self.cursor
        elif self.cursor >= self.top + body:
            self.top = self.cursor - body + 1
        self.top = max(0, min(self.top, len(self._rows) - body))
        out: list[Line] = [beside([("bold", f" {self.title}")], [("dim", self._where())], columns - 1)]
        for place, row in enumerate(self._rows[self.top : self.top + body], self.top):
            out.append(self._draw(row, columns, chosen=place == self.cursor))
        out.extend([] for _ in range(body + 1 - len(out)))
        out.append(self._foot(columns))
        return out

    def _draw(self, row: _Row, columns: int, *, chosen: bool) -> Line:
        line = clip_line(row.line, columns - 4)
        if self.found and self.found in plain(row.line).lower():
            line = [("underline", text) for _, text in line]
        return [("accent.bold", "❯ " if chosen else "  "), *line]

    def _foot(self, columns: int) -> Line:
        if self.query is not None:
            return [("accent", " /"), ("", self.query), ("reverse", " ")]
        return clip_line([("dim", f" {self.message or _HELP}")], columns - 1)

    def _where(self) -> str:
        return f"{self.cursor + 1}/{len(self._rows)} " if self._rows else "empty "

    def _layout(self, columns: int, theme: Theme) -> None:
        if self._key == (columns, theme.kind):
            return
        self._key = columns, theme.kind
        first = not self._rows
        self._rows = list(self._flat(self.nodes, 0, columns, theme))
        if first and self.at_end:
            self.cursor = self.top = max(0, len(self._rows) - 1)

    def _flat(self, nodes: Sequence[AgentNode], depth: int, columns: int, theme: Theme) -> Iterator[_Row]:
        margin = "  " * depth
        for node in nodes:
            mark = ("▾ " if node.open else "▸ ") if node.foldable else "  "
            body = self._body(node, columns - 6 - 2 * depth, theme) if node.open and node.body is not None else []
            head = [node.head[0], *body[0][1:]] if node.begins and body else node.head
            yield _Row([("dim", f"{margin}{mark}"), *head], node, head=True)
            if not node.open:
                continue
            for line in body[1:] if node.begins else body:
                yield _Row([("faint", f"{margin}  "), *line], node, head=False)
            yield from self._flat(node.children, depth + 1, columns, theme)

    def _body(self, node: AgentNode, columns: int, theme: Theme) -> list[Line]:
        key = (node.key, columns, theme.kind, len(node.text))
        if key not in self._bodies and node.body is not None:
            self._bodies[key] = node.body(max(10, columns), theme)
        return self._bodies[key]

    def _move(self, step: int) -> None:
        self.cursor = max(0, min(self.cursor + step, len(self._rows) - 1))

    def _fold(self, name: str) -> None:
        if not self._rows:
            return
        node = self._rows[self.cursor].node
        if node.foldable:
            self._set(node, {"right": True, "l": True, "left": False, "h": False}.get(name, not node.open))
        self._relayout(node)

    def _fold_all(self) -> None:
        nodes = [n for n in _walk(self.nodes) if n.foldable]
        to = not all(n.open for n in nodes)
        here = self._rows[self.cursor].node if self._rows else None
        for node in nodes:
            self._set(node, to)
        self._relayout(here)

    def _set(self, node: AgentNode, to: bool) -> None:
        node.open = to
        self._open[node.key] = to

    def _relayout(self, stay: AgentNode | None) -> None:
        """Lay out again with the cursor on the same node."""
        columns, kind = self._key
        self._key = (0, "")
        self._layout(columns, Theme("light" if kind == "light" else "dark"))
        if stay is not None:
            self.cursor = next((i for i, r in enumerate(self._rows) if r.node is stay), self.cursor)

    def _search_key(self, name: str) -> None:
        assert self.query is not None
        if name == "enter":
            self.found, self.query = self.query.lower(), None
            self._next(1)
        elif name in ("escape", "c-c"):
            self.query, self.found = None, ""
        elif name == "backspace":
            self.query = self.query[:-1]
        elif len(name) == 1 and name.isprintable():
            self.query += name

    def _next(self, step: int) -> None:
        """The next row that holds the text; folded ones that do are opened on the way."""
        if not self.found:
            return
        here = self._rows[self.cursor].node if self._rows else None
        for node, parents in _walk_with_parents(self.nodes):
            if self.found in f"{node.text}\n{plain(node.head)}".lower():
                for parent in (*parents, *([node] if node.foldable else [])):
                    self._set(parent, True)
        place = self.cursor
        self._relayout(None)
        if here is not None:
            place = max(place, next((i for i, r in enumerate(self._rows) if r.node is here), place))
        order = range(1, len(self._rows) + 1)
        for offset in order:
            index = (place + step * offset) % len(self._rows)
            if self.found in plain(self._rows[index].line).lower():
                self.cursor = index
                return
        self.message = f"nothing found for {self.found!r}"


def _walk(nodes: Sequence[AgentNode]) -> Iterator[AgentNode]:
    for node in nodes:
        yield node
        yield from _walk(node.children)


def _walk_with_parents(
    nodes: Sequence[AgentNode], parents: tuple[AgentNode, ...] = ()
) -> Iterator[tuple[AgentNode, tuple[AgentNode, ...]]]:
    for node in nodes:
        yield node, parents
        yield from _walk_with_parents(node.children, (*parents, node))
