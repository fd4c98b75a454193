"""Draws a box with rich.panel. Imported late: rich's console is heavy, and most turns draw no box."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from cowork.frontends.repl.view.styled import Line, Span


class _Rows:
    """Lines that are clipped already, as something rich can draw."""

    def __init__(self, rows: Sequence[Line]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for row in self._rows:
            for style, text in row:
                yield Segment(text, _carried(style))
            yield Segment.line()


def panel(title: Sequence[Span], rows: Sequence[Line], foot: Sequence[Span], columns: int, style: str) -> list[Line]:
    """The rows inside a rounded frame of exactly `columns`, under a title and over a foot."""
    console = _console()
    drawn = Panel(
        _Rows(rows), ROUNDED, title=_text(title), title_align="left", subtitle=_text(foot), subtitle_align="left",
        width=columns, border_style=_carried(style), padding=(0, 1),
    )  # fmt: skip
    options = console.options.update(width=columns)
    return [_line(segments) for segments in console.render_lines(drawn, options, pad=False)]


def _text(spans: Sequence[Span]) -> Text | None:
    text = Text(no_wrap=True, end="")
    for style, piece in spans:
        text.append(piece, _carried(style))
    return text if text.plain else None


def _line(segments: Iterable[Segment]) -> Line:
    line: Line = []
    for text, carried, _ in segments:
        style = (carried.link or carried) if carried else ""
        if line and line[-1][0] == style:
            line[-1] = style, line[-1][1] + text
        else:
            line.append((style, text))
    return line


@cache
def _carried(style: str | Style) -> Style:
    """A name of the theme as a rich style: rich carries a link along untouched, so the theme decides at the end."""
    return style if isinstance(style, Style) else Style(link=style or None)


@cache
def _console() -> Console:
    return Console(width=80, force_terminal=True, color_system=None, legacy_windows=False)
