"""What holds rows together: a bar at the left of dialogs and lists; around panels a frame, drawn by rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from rich.style import Style

from cowork.frontends.repl.view.styled import Line, Span, clip_facts, clip_line, line_width, width

if TYPE_CHECKING:
    from rich.text import Text

MARGIN = 4  # columns of the two edges of a frame
BAR_MARGIN = 2
DIVIDER: Line = [("faint", "╌" * 14)]  # separates the rows above from those below
_EDGES = ("rule", "accent", "warn")  # the styles boxes are drawn in
_LEFT, _RIGHT = "╭│╰", "╮│╯"
_HEAD = 10  # columns a title needs beside its facts


def box(head: Sequence[Span], facts: str, rows: Iterable[Line], foot: str, columns: int, style: str) -> list[Line]:
    """A frame of exactly `columns`; the facts stand at the right end of the title and outlive most of it."""
    room = max(1, columns - MARGIN - 2)  # the edge, a piece of rule and a space at either end
    facts = facts if room - width(facts) >= _HEAD else ""
    title = clip_line(head, room - width(facts) - 2 if facts else room)
    if facts:
        rule = "─" * (room - line_width(title) - width(facts) - 2)
        title += [(style, f" {rule} "), ("dim", facts)]
    inside = [clip_line(row, columns - MARGIN) for row in rows]
    return _panel(title, inside, [("dim", clip_facts(foot, room))] if foot else [], columns, style)


def bar(head: Sequence[Span], facts: str, rows: Iterable[Line], foot: str, columns: int) -> list[Line]:
    """A title with facts behind it, the rows and a foot, behind a bar; no row is longer than what it holds.

    So a window that gets narrower wraps few of them, wherever on the screen they stand.
    """
    title = [*head, ("dim", f"   {facts}")] if facts else head
    inner = columns - BAR_MARGIN
    lines = [clip_line(row, inner) for row in (title, *rows, [("dim", clip_facts(foot, inner))] if foot else [])]
    return [[("accent", "┃"), *([("", " "), *line] if line else [])] for line in lines]


def _panel(title: Sequence[Span], rows: Sequence[Line], foot: Sequence[Span], columns: int, style: str) -> list[Line]:
    from rich.panel import Panel  # with rich's console it is heavy, and most turns draw no box

    body = [span for row in rows for span in (*row, ("", "\n"))]
    drawn = Panel(
        _text(body), title=_text(title) if title else None, title_align="left",
        subtitle=_text(foot) if foot else None, subtitle_align="left", width=columns, border_style=_carry(style),
    )  # fmt: skip
    console = _console()
    return [_line(segments) for segments in console.render_lines(drawn, console.options.update(width=columns))]


def _text(spans: Sequence[Span]) -> Text:
    from rich.text import Text

    # What has no style of its own is named, or a title would take on the colour of the frame.
    pieces = [(piece, _carry(style or "text")) for style, piece in spans]
    return Text.assemble(*pieces, no_wrap=True, overflow="ignore", end="")


def _line(segments: Iterable[Any]) -> Line:
    line: Line = []
    for text, carried, _ in segments:
        style = (carried.link or carried) if carried else ""
        if line and line[-1][0] == style:
            line[-1] = style, line[-1][1] + text
        else:
            line.append((style, text))
    return line


@cache
def _carry(style: str | Style) -> Style:
    """A name of the theme as a rich style: rich carries a link along untouched, so the theme decides at the end."""
    return style if isinstance(style, Style) else Style(link=style or None)


@cache
def _console() -> Any:
    from rich.console import Console

    return Console(width=80, force_terminal=True, color_system=None, legacy_windows=False)


def as_bar(line: Line) -> Line:
    """A row of a box with a bar at its left instead of the frame, as short as what it holds; others as they are."""
    style = line[0][0] if line else ""
    if style not in _EDGES or line[0][1][0] not in _LEFT or line[-1][1][-1:] not in _RIGHT:
        return line
    lead = line[0][1].lstrip(_LEFT + "─ ")  # what is drawn in the frame's own colour right behind it
    inside: Line = [("", " "), (style, lead)] if line[0][1] != "│" else []
    for kind, text in line[1:-1]:
        rule = kind in _EDGES and text.strip() and not text.strip(" ─")  # between a title and its facts
        inside.append((kind, "   " if rule else text))
    while inside and not inside[-1][1].rstrip():
        inside.pop()
    return [(style, "┃"), *inside[:-1], *((kind, text.rstrip()) for kind, text in inside[-1:])]
