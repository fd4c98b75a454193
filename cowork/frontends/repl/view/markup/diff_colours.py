"""The colours of source code in a diff, under the marks of what changed. Imported late: pygments is heavy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from rich.style import Style
from rich.syntax import Syntax

from cowork.frontends.repl.view.markup.markdown import code_lines
from cowork.frontends.repl.view.styled import Line, Span
from cowork.frontends.repl.view.theme import Kind, Theme

_MOST = 20_000  # characters: colours of a longer diff cost more than they help


def colour(rows: Sequence[tuple[str, list[Span]]], path: str, theme: Theme) -> list[list[Span]]:
    """The spans of the rows, given with their signs, with the colours of the language of the file."""
    texts = [(sign, "".join(text for _, text in spans)) for sign, spans in rows]
    language = _language(path.rpartition("/")[2])
    if not language or sum(len(text) for _, text in texts) > _MOST:
        return [spans for _, spans in rows]
    sides = {
        side: iter(_code("\n".join(text for sign, text in texts if sign in (" ", side)), language, theme.kind))
        for side in "-+"
    }
    out: list[list[Span]] = []
    for sign, spans in rows:
        lines = {side: next(sides[side], []) for side in "-+" if sign in (" ", side)}
        out.append(_overlay(spans, lines["-" if sign == "-" else "+"], theme) if lines else spans)
    return out


def _overlay(marks: Sequence[Span], code: Line, theme: Theme) -> list[Span]:
    """The text with the backgrounds of the marks and the colours of the code."""
    colours = [style if isinstance(style, Style) else Style() for style, text in code for _ in text]
    out: list[Span] = []
    at = 0
    for name, text in marks:
        mark = theme.definition(name) if isinstance(name, str) else name
        for char in text:
            style = _mixed(mark, colours[at]) if at < len(colours) else name
            if out and out[-1][0] == style:
                out[-1] = style, out[-1][1] + char
            else:
                out.append((style, char))
            at += 1
    return out


@lru_cache(maxsize=1024)
def _mixed(mark: str | Style, code: Style) -> Style:
    under = mark if isinstance(mark, Style) else Style.parse(mark)
    return Style(color=code.color or under.color, bgcolor=under.bgcolor, bold=under.bold, italic=code.italic)


@lru_cache(maxsize=32)
def _code(source: str, language: str, kind: Kind) -> list[Line]:
    lines = code_lines(source, language, Theme(kind))
    return [*lines, *([] for _ in range(source.count("\n") + 1 - len(lines)))]


@cache
def _language(name: str) -> str:
    found = Syntax.guess_lexer(name) if name else "default"
    return "" if found in ("default", "text") else found
