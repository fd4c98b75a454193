"""Draws the live region: finished lines go above it once, the rest is redrawn line by line where it changed.

It takes the place of prompt_toolkit's renderer, which assumes that a terminal never reflows, knows no synchronised
output and copies every cell at every key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from prompt_toolkit.output import Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import DummyStyle

from cowork.frontends.styled import SPINNER, Line, Theme, clip_line, line_width, plain, width

_BEGIN = "\x1b[?2026h\x1b[?25l"  # synchronised update, cursor hidden
_END = "\x1b[?2026l"
# From the second row on: a clear from the very first cell makes tmux save the whole screen in its history. The cursor
# comes back to where it was saved: on the last row it could not go down, so a step up would be one too many.
_ERASE_BELOW = "\r\x1b[K\x1b7\x1b[1B\x1b[J\x1b8"
_SURE_WIDTH = frozenset(map(chr, range(32, 127))) | frozenset("│└❯╭─")
_NEWS_S = 1.0  # so late may a terminal tell that it changed: a younger frame may have been drawn after it did


@dataclass(slots=True)
class Frame:
    """What the live region shows: lines, and where the cursor stands (None: hidden)."""

    lines: list[Line]
    cursor: tuple[int, int] | None = None
    full: bool = False  # takes the whole screen, in the alternate buffer


@dataclass(slots=True)
class _Surface:
    """What is on the terminal now, as far as we drew it."""

    lines: list[Line] = field(default_factory=list)
    row: int = 0  # of the cursor, from the top of the region
    column: int = 0
    columns: int = 0  # of the terminal when it was drawn
    theme: Theme = field(default_factory=Theme)  # whose colours it was drawn in
    at: float = 0.0  # when it was drawn


class Painter(Renderer):
    """A renderer: frames come from `compose(columns, rows, above)`, finished lines from `finished(columns)`.

    `above` is how many rows over the live region are known to be finished lines: so many may be pushed out of the
    screen before anything live is. While a frame takes the whole screen, `finished` must hold its lines back.
    """

    def __init__(
        self,
        output: Output,
        compose: Callable[[int, int, int], Frame],
        finished: Callable[[int], Sequence[Line]],
        theme: Callable[[], Theme],
        *,
        reflows: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._compose, self._finished, self._theme = compose, finished, theme
        self._reflows, self._clock = reflows, clock
        self._inline = _Surface()
        self._full: list[str] | None = None  # the rows in the alternate buffer, while that is shown
        self._started = False
        self._above = 0
        super().__init__(DummyStyle(), output)

    def render(self, app: Any, layout: Any, is_done: bool = False) -> None:
        """Bring the terminal to the state of the frame."""
        size = self.output.get_size()
        finished = self._finished(size.columns)  # first: what is finished is no longer live
        self._above = min(size.rows - 1, self._above + count_rows(finished, size.columns))
        frame = self._compose(size.columns, size.rows, self._above)
        while (now := self.output.get_size()) != size:  # a frame for a larger window would scroll a smaller one
            size = now
            frame = self._compose(size.columns, size.rows, min(size.rows - 1, self._above))
        parts: list[str] = []
        begins, self._started = not self._started, True
        if begins:
            parts.append("\x1b[?2004h\r")  # bracketed paste
        if frame.full and not is_done:
            self._draw_full(parts, [clip_line(line, size.columns - 1) for line in frame.lines[: size.rows]])
        else:
            self._leave_full(parts)
            self._draw_inline(parts, finished, frame, size.columns, size.rows, is_done=is_done)
        if begins and not is_done:
            parts.append("\x1b[6n")
        self._write(parts)

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Take the live region off the terminal; the next frame is drawn anew."""
        if self._full is not None and not leave_alternate_screen:
            self._full = []  # a resize: the inline surface is put right when the viewer closes
            self._write(["\x1b[H\x1b[2J"])
            return
        parts: list[str] = []
        self._leave_full(parts)
        self._erase_inline(parts, self.output.get_size().columns)
        self._write([*parts, "\x1b[?25h"])

    def clear(self) -> None:
        """An empty screen; the scrollback stays."""
        self._inline = _Surface()
        self._above = 0
        self._write(["\x1b[H\x1b[2J"])

    def reset(self, _scroll: bool = False, leave_alternate_screen: bool = True) -> None:
        """Forget what is drawn, after something else wrote to the terminal or at the end."""
        self._inline = _Surface()
        self._min_available_height = 0
        if self._started:
            self._started = False
            self._write(["\x1b[?2004l\x1b[?25h"])

    def request_absolute_cursor_position(self) -> None:
        """Asked once, with the first frame: every move is relative to the region's own top."""

    def report_absolute_cursor_row(self, row: int) -> None:
        """The terminal says where the cursor stands: what is above the region was there before us."""
        self._above = max(self._above, row - 1 - self._inline.row)

    def _draw_inline(
        self, parts: list[str], finished: Sequence[Line], frame: Frame, columns: int, rows: int, *, is_done: bool
    ) -> None:
        if finished or is_done or self._inline.columns not in (0, columns):
            self._erase_inline(parts, columns)
        theme = self._theme()
        parts.extend(f"{theme.encode(line)}\r\n" for line in finished)
        lines = [] if is_done else [clip_line(line, columns - 1) for line in frame.lines]
        row, column = frame.cursor if frame.cursor and lines else (0, 0)
        old, new = self._inline, _Surface(lines, row, column, columns, theme)
        if not parts and (lines, row, column, theme) == (old.lines, old.row, old.column, old.theme):
            return
        _draw_changes(parts, old, new)
        self._above = min(self._above, max(0, rows - len(lines)))  # drawing further down scrolled the rest up
        # A hidden cursor rests at the top: lines below it never have to be found again after a resize.
        parts.append(_move(row) + (f"\x1b[{column}C" if column else ""))
        parts.append("\x1b[?25h" if is_done or (frame.cursor and lines) else "")
        new.at = self._clock()
        self._inline = new

    def _erase_inline(self, parts: list[str], columns: int) -> None:
        up, old = self._inline.row, self._inline
        if columns < old.columns:
            if self._reflows and self._clock() - old.at > _NEWS_S:
                up = count_rows(old.lines[:up], columns) + old.column // columns
            self._above = max(0, self._above - count_rows(old.lines, columns) + len(old.lines))
        if old.lines:
            parts.append(_move(-up) + (_ERASE_BELOW if len(old.lines) > 1 else "\r\x1b[J"))
        self._inline = _Surface(columns=columns)

    def _draw_full(self, parts: list[str], lines: Sequence[Line]) -> None:
        if self._full is None:
            parts.append("\x1b[?1049h\x1b[H\x1b[2J")
        drawn, old = list(map(self._theme().encode, lines)), self._full or []
        for row, text in enumerate(drawn):
            if old[row : row + 1] != [text]:
                parts.append(f"\x1b[{row + 1};1H{text}\x1b[K")
        self._full = drawn

    def _leave_full(self, parts: list[str]) -> None:
        if self._full is not None:
            self._full = None
            parts.append("\x1b[?1049l")

    def _write(self, parts: list[str]) -> None:
        if data := "".join(parts):
            self.output.write_raw(_BEGIN + data + _END)
            self.output.flush()


def terminal_reflows(environ: Mapping[str, str]) -> bool:
    """Whether the terminal wraps old lines anew when it gets narrower; nearly all do."""
    plain = "XTERM_VERSION" in environ or environ.get("TERM", "").startswith(("linux", "screen"))
    return bool(environ.get("TMUX")) or not plain


def _draw_changes(parts: list[str], old: _Surface, new: _Surface) -> None:
    """Write what differs; the cursor comes from the old frame's row and ends in the first.

    The window may have become lower without our knowing yet: then a way down ends early, and as many rows up again
    would be too far, into what is finished. So the way back is the saved place, and room is made only for a taller
    region: line feeds in a window that is too low would push the live rows into the scrollback.
    """
    parts.append(f"{_move(-old.row)}\r")
    if len(new.lines) > len(old.lines):
        room = len(new.lines) - 1
        parts.append("\n" * room + _move(-room))
    stays = old.lines if old.theme is new.theme else []
    if new.lines == stays:
        return
    parts.append("\x1b[?7l\x1b7")  # what is a column too wide is cut, never wrapped
    for index, (line, before) in enumerate(zip_longest(new.lines, stays[: len(new.lines)])):
        if line != before:
            for column, piece in _changed_pieces(before, line, new.theme):
                parts.append(f"\x1b8{_move(index)}" + (f"\x1b[{column}C" if column else "") + piece)
    if len(new.lines) < len(old.lines):
        parts.append(f"\x1b8{_move(len(new.lines))}\x1b[J")
    parts.append("\x1b8\x1b[?7h")


def _changed_pieces(old: Line | None, new: Line, theme: Theme) -> list[tuple[int, str]]:
    """The columns and the spans that changed, where all else of the line stays in its place, or the whole line.

    Only after characters whose width no terminal disputes: others could put a piece in the wrong column.
    """
    whole = [(0, f"{theme.encode(new)}\x1b[K")]
    if old is None or len(old) != len(new):
        return whole
    changed = [at for at, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
    start, end = changed[0], changed[-1]
    if any(width(old[at][1]) != width(new[at][1]) for at in changed) or not set(plain(new[:start])) <= _SURE_WIDTH:
        return whole
    if not set(plain(new[:end])) <= _SURE_WIDTH | frozenset(SPINNER):
        return [(line_width(new[:start]), theme.encode(new[start : end + 1]))]
    return [(line_width(new[:at]), theme.encode(new[at : at + 1])) for at in changed]


def count_rows(lines: Iterable[Line], columns: int) -> int:
    """Rows that the lines take once they are wrapped."""
    return sum(max(1, -(-line_width(line) // columns)) for line in lines)


def _move(rows: int) -> str:
    return (f"\x1b[{rows}B" if rows > 0 else f"\x1b[{-rows}A") if rows else ""
