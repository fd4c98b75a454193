"""A list to choose from, in the live region: type to narrow it, arrows, Enter, Esc; the chosen row has a preview."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.frontends.host import Choose, Row
from cowork.frontends.repl.input.completion import in_order
from cowork.frontends.repl.view.stream import markdown_lines
from cowork.frontends.styled import (
    BAR_MARGIN,
    DOT,
    Line,
    Theme,
    bar,
    clip,
    clip_facts,
    clip_line,
    clip_start,
    limit_rows,
    option,
    pad,
    width,
    window,
)

_LIST_ROWS = 10
_PREVIEW_ROWS = 9
_BOTH = 8  # rows that are enough for the list and a preview
_LABEL = 16  # columns a label has at least; the detail gives way
_PAUSE_S = 0.04  # a preview is found when the cursor rests, not for every row it passes


@dataclass(slots=True, eq=False)
class Picking:
    """One list on the screen, and what keys do to it."""

    choose: Choose
    future: asyncio.Future[Row | None]
    index: int = 0
    query: str = ""
    previews: dict[Row, str] = field(default_factory=dict)
    tallest: int = 0  # rows a preview has taken so far: it grows and stays

    @property
    def matches(self) -> list[Row]:
        """The rows that match what was typed, the best first."""
        return [] if self.choose.secret else match_rows(self.choose.rows, self.query)

    @property
    def chosen(self) -> Row | None:
        shown = self.matches
        return shown[min(self.index, len(shown) - 1)] if shown else None

    def move(self, step: int, *, page: bool = False) -> None:
        """Up and down; at the ends it goes round, by pages it stops."""
        if count := len(self.matches):
            at = min(self.index, count - 1)
            self.index = max(0, min(at + step * _LIST_ROWS, count - 1)) if page else (at + step) % count

    def narrow(self, query: str) -> None:
        kept, self.query = self.chosen, query
        shown = self.matches
        self.index = shown.index(kept) if not query and kept in shown else 0

    def enter(self) -> None:
        written = self.query.strip()
        if self.chosen is not None:
            self.settle(self.chosen)
        elif self.choose.write and written:
            self.settle(Row(written, written))

    def escape(self) -> None:
        """Take back what was typed, then leave."""
        if self.query:
            self.narrow("")
        else:
            self.settle(None)

    def settle(self, row: Row | None) -> None:
        self.future.set_result(row)


class Picker:
    """Lets the person choose; keys come through `act`. A second list waits for the first."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._open: Picking | None = None
        self._on_change = on_change
        self._free = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None

    @property
    def current(self) -> Picking | None:
        """The list that takes the keys: once a choice is made, the next key belongs to the input."""
        return self._open if self._open is not None and not self._open.future.done() else None

    async def choose(self, choose: Choose) -> Row | None:
        """Wait for a choice; None when the person leaves without one."""
        async with self._free:
            start = max(0, min(choose.start, len(choose.rows) - 1))
            self._open = picking = Picking(choose, asyncio.get_running_loop().create_future(), start)
            self._look(pause=0)
            try:
                return await picking.future
            finally:
                self._open = None
                if self._looking is not None:
                    self._looking.cancel()
                self._on_change()

    def act(self, act: Callable[[Picking], None]) -> None:
        """Let a key act on the list that is open."""
        if self.current is not None:
            act(self.current)
            self._look()

    def leave(self) -> bool:
        """Close the list without a choice; False when there was none."""
        was_open = self.current is not None
        self.act(lambda picking: picking.settle(None))
        return was_open

    def _look(self, pause: float = _PAUSE_S) -> None:
        """Find the preview of the chosen row."""
        if self._looking is not None:
            self._looking.cancel()
        picking = self.current
        row = picking.chosen if picking else None
        if picking and row and row not in picking.previews and not isinstance(row.preview, str):
            self._looking = asyncio.ensure_future(self._find(picking, row, row.preview, pause))
        self._on_change()

    async def _find(self, picking: Picking, row: Row, find: Callable[[], Awaitable[str]], pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            picking.previews[row] = await find()
        except Exception as error:  # a preview is a courtesy: the choice works without it
            picking.previews[row] = f"No preview: {error}"
        self._on_change()


def match_rows(rows: Sequence[Row], query: str) -> list[Row]:
    """The rows that hold every word of the query, or its letters in order; the best matches first."""
    ranked = [(rank, place) for place, row in enumerate(rows) if (rank := _rank(row, query.lower())) is not None]
    return [rows[place] for _, place in sorted(ranked)]


def _rank(row: Row, query: str) -> int | None:
    """How far from a good match; None for no match."""
    label, rest = row.label.lower(), f"{row.detail} {row.value}".lower()
    total = 0
    for word in query.split():
        if word not in label and word not in rest and not in_order(word, label):
            return None
        total += 0 if label.startswith(word) else 1 if word in label else 2 if word in rest else 4
    return total


def picker_lines(picking: Picking, columns: int, rows: int, theme: Theme) -> list[Line]:
    """The list in at most `rows` lines: title, what was typed, the list, the preview of the chosen row."""
    inner, shown, total = columns - BAR_MARGIN, picking.matches, len(picking.choose.rows)
    room = max(1, rows - 3)  # without title, foot and the line of what was typed
    height = min(_LIST_ROWS, max(1, total), room if room < _BOTH else room * 3 // 5)
    most = min(_PREVIEW_ROWS, room - height - 1)
    body = limit_rows(_preview(picking, inner, theme), most, inner)
    picking.tallest = max(picking.tallest, len(body))
    spare = min(picking.tallest, most)
    count = "" if not total else f"{len(shown)} of {total}" if picking.query else str(total)
    listed = _list(picking, shown, inner, height)
    inside = [_query_line(picking, inner), *listed, *[[]] * (height - len(listed))]
    divider: Line = [("faint", "╌" * 14)]
    below = [divider, *[*body, *[[]] * spare][:spare]] if spare > 0 else []
    title: Line = [("bold", one_line(picking.choose.title))]
    return bar(title, count, [*inside, *below], "↑↓ Enter · Esc leaves", columns)[:rows]


def _query_line(picking: Picking, inner: int) -> Line:
    choose, query = picking.choose, picking.query
    mark = "❯ " if choose.write and not choose.rows else "/ "
    if query:
        shown = "•" * len(query) if choose.secret else re.sub(r"\s", " ", visible(query))
        return [("accent", mark), ("", clip_start(shown, inner - 4)), ("reverse", " ")]
    hint = " type to search" if choose.rows else f" {one_line(choose.write)}"
    return [("accent", mark), ("reverse", " "), ("faint", clip(hint, inner - 4))]


def _list(picking: Picking, shown: Sequence[Row], inner: int, height: int) -> list[Line]:
    if not shown:
        empty = f"  Enter: {one_line(picking.choose.write)}" if picking.choose.write else "  nothing matches"
        return [[("dim", clip(empty, inner))]]
    part = shown[window(min(picking.index, len(shown) - 1), len(shown), height)]
    labels, details = [one_line(row.label) for row in part], [one_line(row.detail) for row in part]
    # The label has what the details leave, or the first fact of each, or all of it.
    facts = [detail.partition(DOT)[0] for detail in details]
    rooms = [inner - 4 - max(map(width, wanted)) for wanted in (details, facts)]
    room = min(max(map(width, labels)), next((room for room in rooms if room >= _LABEL), inner - 2))
    return [
        [*option(pad(label, room), chosen=row is picking.chosen), ("dim", f"  {clip_facts(detail, inner - 4 - room)}")]
        for row, label, detail in zip(part, labels, details, strict=True)
    ]


def _preview(picking: Picking, inner: int, theme: Theme) -> list[Line]:
    row = picking.chosen
    text = "" if row is None else row.preview if isinstance(row.preview, str) else picking.previews.get(row, "…")
    lines = [clip_line(line[1:], inner) for line in markdown_lines(text, inner + 2, theme)]
    while lines and not lines[-1]:
        lines.pop()
    return lines
