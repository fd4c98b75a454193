"""Markdown blocks as styled lines, through rich. Imported late: rich.markdown and pygments are heavy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import ClassVar

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme as RichTheme

from cowork.frontends.styled import Line, Theme

_LONGEST_COLOURED = 4_000  # characters: colours in longer lines help nobody and cost seconds


def render(tokens: Sequence[Token], columns: int, theme: Theme) -> list[Line]:
    """The blocks as lines of at most `columns`; lines of code keep their length, so that they can be copied whole."""
    out: list[Line] = []
    group: list[Token] = []
    for token in tokens:
        group.append(token)
        if token.level > 0 or token.nesting > 0:  # in the middle of a block
            continue
        if out:
            out.append([])
        if group[0].type in ("fence", "code_block"):
            language = (group[0].info.split() or [""])[0]
            out.extend(code_lines(group[0].content, language, theme))
        else:
            console = _console(max(8, columns), theme)
            drawn = console.render_lines(_Markdown(group, theme), console.options, pad=False)
            lines = [_spans(segments) for segments in drawn]
            filled = [place for place, line in enumerate(lines) if line]
            out.extend(lines[filled[0] : filled[-1] + 1] if filled else [])
        group = []
    return out


def code_lines(code: str, language: str, theme: Theme) -> list[Line]:
    """Source code with its colours, one line a line."""
    code = code.rstrip("\n").expandtabs(4)
    plainly = not language or max(map(len, code.split("\n"))) > _LONGEST_COLOURED
    plain = Text(code, style=theme.styles["code"])
    text = plain if plainly else _syntax(language, theme.code_style).highlight(code)
    console = _console(80, theme)
    return [_spans(piece.render(console)) for piece in text.split("\n", allow_blank=True)][: code.count("\n") + 1]


class _Heading(Heading):
    """Left-aligned and bold: no boxes, no centring."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield self.text


class _CodeBlock(CodeBlock):
    """Code inside a list or a quote: no background, wrapped."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, background_color="default")


class _Table(TableElement):
    """A table with rules under the head only."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = table.pad_edge = False
                table.style = "markdown.table.border"
                for column in table.columns:
                    column.overflow = "fold"  # a word wider than its cell, such as a path, is read whole
            yield table


class _Markdown(Markdown):
    """rich's Markdown over tokens that are already parsed, so that raw HTML is text and nothing is parsed twice."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "table_open": _Table,
    }

    def __init__(self, tokens: Sequence[Token], theme: Theme) -> None:
        super().__init__("", code_theme=theme.code_style, hyperlinks=False)
        self.parsed = list(tokens)


def _spans(segments: Iterable[Segment]) -> Line:
    line: Line = [(segment.style or "", text) for segment in segments if (text := segment.text.rstrip("\n"))]
    while line:  # without the blanks at its end
        style, text = line.pop()
        if text.rstrip():
            return [*line, (style, text.rstrip())]
    return line


@cache
def _syntax(language: str, style: str) -> Syntax:
    return Syntax("", language, theme=style, background_color="default")


@cache
def _console(columns: int, theme: Theme) -> Console:
    styles = {
        "markdown.code": theme.styles["code"],
        "markdown.item.bullet": theme.styles["accent"],
        "markdown.item.number": theme.styles["accent"],
        "markdown.block_quote": theme.styles["dim"],
        "markdown.hr": theme.styles["faint"],
        "markdown.link": theme.styles["link"],
        "markdown.link_url": theme.styles["link"],
        "markdown.table.border": theme.styles["faint"],
        "markdown.table.header": "bold",
        **{f"markdown.h{level}": "bold" for level in range(1, 7)},
    }
    return Console(width=columns, force_terminal=True, color_system="truecolor", theme=RichTheme(styles), record=False)
