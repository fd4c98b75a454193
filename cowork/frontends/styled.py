"""Styled lines, the colours they have, and how both become bytes for a terminal.

No information is carried by colour alone, so a screen without any reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style

from cowork.core.hygiene import inert

Span = tuple[str | Style, str]  # (a name of the theme or a rich style, text without newline)
Line = list[Span]

_JOINERS = re.compile("[\u200c\u200d]")

DOT = " · "
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPIN_S = 0.1  # how long a spinner's picture lasts
BAR_MARGIN, BOX_MARGIN = 2, 4  # columns that are not for what a bar or a box holds
_HEAD = 10  # columns a title needs beside its facts
WIDEST = 120  # columns of panels, dialogs and lists: longer rows are hard to read
Kind = Literal["dark", "light"]
_ONE_ROW = str.maketrans("\t\n", "  ")  # a line is one row, each of these was counted as one column
_STYLES = {  # name: dark, light; other names are styles of rich
    "text": ("default", "default"),
    "dim": ("#8a8f98", "#6a6f78"),
    "faint": ("#5f6570", "#9a9fa8"),
    "accent": ("#d7a657", "#8f5a00"),
    "accent.bold": ("bold #d7a657", "bold #8f5a00"),
    "good": ("#87c08a", "#1f7a33"),
    "bad": ("#e06c75", "#b3261e"),
    "warn": ("#e5c07b", "#8a6100"),
    "link": ("#7fb4ca underline", "#0b5e83 underline"),
    "code": ("#9cc4d8", "#0b5e83"),
    "diff.add": ("#a9d7a1 on #1d2f20", "#114d1e on #e3f5e4"),
    "diff.add.word": ("bold #d3f2cc on #2f5a34", "bold #0b3a15 on #b4e3b8"),
    "diff.del": ("#e6a5a5 on #361f21", "#7a1a15 on #fbe6e5"),
    "diff.del.word": ("bold #ffd5d5 on #6b2d31", "bold #5e100c on #f3b9b5"),
    "agent.red": ("bold #e06c75", "bold #b3261e"),
    "agent.green": ("bold #87c08a", "bold #1f7a33"),
    "agent.yellow": ("bold #e5c07b", "bold #8a6100"),
    "agent.blue": ("bold #7fa8d8", "bold #1d4f91"),
    "agent.magenta": ("bold #c792c9", "bold #8a2c8c"),
    "agent.purple": ("bold #b294d6", "bold #5f3a9a"),
    "agent.cyan": ("bold #7fc1c4", "bold #0f6d72"),
    "agent.orange": ("bold #e0955c", "bold #9a4a00"),
    "agent.pink": ("bold #e39ab5", "bold #a2325f"),
}
_OSC11 = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")
OSC11_QUERY = "\x1b]11;?\x1b\\"


def width(text: str) -> int:
    """Columns the text takes."""
    if text.isascii():
        return len(text)
    # Not every terminal draws joined characters as one, so they count one by one.
    return max(cell_len(text), sum(map(cell_len, text))) if _JOINERS.search(text) else cell_len(text)


def spinner(now: float) -> str:
    """The picture of a spinner at this moment."""
    return SPINNER[int(now / SPIN_S) % len(SPINNER)]


def line_width(line: Iterable[Span]) -> int:
    return sum(width(text) for _, text in line)


def plain(line: Iterable[Span]) -> str:
    return "".join(text for _, text in line)


def clip(text: str, columns: int) -> str:
    """The text in at most `columns`; where something is missing it ends in `…`."""
    if width(text) <= columns:
        return text
    return clip_cells(text, columns - 1) + "…"[:columns]


def clip_start(text: str, columns: int) -> str:
    """The end of the text in at most `columns`, with `…` in front where something is missing."""
    if width(text) <= columns:
        return text
    return "…"[:columns] + clip_cells(text[::-1], columns - 1)[::-1]


def clip_middle(text: str, columns: int) -> str:
    """The text in at most `columns` with its end kept: `general-pu…-3`."""
    if width(text) <= columns or columns < 5:
        return clip(text, columns)
    tail = text[-(columns // 3) :] if text.isascii() else text[-1:]
    tail = tail[tail.rfind("-") :] if "-" in tail else tail
    return clip_cells(text, columns - 1 - width(tail)) + "…" + tail


def clip_call(text: str, columns: int) -> str:
    """A call in at most `columns`; a path keeps its end: `Read …/checkout/guest.py`."""
    name, _, rest = text.partition(" ")
    path = rest.partition(" ")[0]
    if width(text) <= columns or "/" not in path or name == "$" or rest.startswith('"') or columns < width(name) + 8:
        return clip(text, columns)
    return f"{name} {clip_start(path, columns - width(name) - 1)}"


def clip_facts(text: str, columns: int) -> str:
    """As many of the facts, which stand between dots, as fit whole; a single one is cut."""
    while width(text) > columns and DOT in text:
        text = text.rpartition(DOT)[0]
    return clip(text, columns) if columns >= 4 else ""


def clip_line(line: Sequence[Span], columns: int) -> Line:
    """The line in at most `columns`."""
    if line_width(line) <= columns:
        return list(line)
    out: Line = []
    for style, text in line:
        taken = clip_cells(text, columns - 1 - line_width(out))
        out.append((style, taken))
        if taken != text:  # a piece of its own: rich would join it to half an emoji
            return [*out, (style, "…"[:columns])]
    return out


def limit_rows(lines: Sequence[Line], rows: int, columns: int, where: str = "") -> list[Line]:
    """The lines in at most `rows`; where some are missing the last row says how many, and where they can be seen."""
    if len(lines) <= rows:
        return list(lines)
    kept = max(0, rows - 1)
    more: Line = [("dim", f"  … {len(lines) - kept:,} more lines{where and f' · {where}'}")]
    return [*lines[:kept], clip_line(more, columns)][: max(0, rows)]


def pad(text: str, columns: int) -> str:
    """The text clipped or filled with spaces to exactly `columns`."""
    text = clip(text, columns)
    return text + " " * (columns - width(text))


def beside(left: Sequence[Span], right: Sequence[Span], columns: int) -> Line:
    """`left` and `right` at the two ends of a line; the left one is clipped first, then the right one dropped."""
    room = columns - line_width(right) - 1
    if right and room < min(line_width(left), 12):
        return clip_line(left, columns)
    left = clip_line(left, room if right else columns)
    return [*left, ("", " " * (columns - line_width(left) - line_width(right))), *right]


def wrap_behind(mark: Span, text: str, columns: int, style: str = "") -> list[Line]:
    """The text wrapped behind a mark, which stands in its first row alone."""
    blank: Span = ("", " " * width(mark[1]))
    rows = wrap(text, columns - width(mark[1]) - 1)
    return [[blank if place else mark, (style, row)] for place, row in enumerate(rows)]


def cut_rows(line: Sequence[Span], columns: int) -> list[Line]:
    """The line in rows of at most `columns`, cut where the column ends, as an editor does."""
    rows: list[Line] = [[]]
    left = columns
    for style, text in line:
        while width(text) > left:
            start = clip_cells(text, left)
            rows[-1] += [(style, start)] if start else []
            rows.append([])
            text, left = text[len(start) :], columns
        if text:
            rows[-1].append((style, text))
            left -= width(text)
    return rows


def window(index: int, count: int, rows: int) -> slice:
    """The part of a list of `count` that is shown in `rows`, with the chosen one in its middle."""
    start = max(0, min(index - rows // 2, count - rows))
    return slice(start, start + rows)


def option(label: str, *, chosen: bool) -> Line:
    """One of several things to choose from."""
    return [("accent", "❯ " if chosen else "  "), ("accent.bold" if chosen else "", label)]


def wrap(text: str, columns: int) -> list[str]:
    """The text broken at spaces into lines of at most `columns`; a longer word is cut. Newlines are kept."""
    columns = max(1, columns)
    out: list[str] = []
    for line in text.split("\n"):
        line = line.expandtabs(4)
        while width(line) > columns:
            head = clip_cells(line, columns) or line[0]
            cut = head.rfind(" ")
            if cut > columns // 3 and not line[len(head) : len(head) + 1].isspace():
                head = head[:cut]
            out.append(head.rstrip())
            line = line[len(head) :].lstrip(" ")
        out.append(line)
    return out


def clip_cells(text: str, columns: int) -> str:
    """The longest start of the text that takes at most `columns`."""
    if columns <= 0:
        return ""
    if text.isascii():
        return text[:columns]
    used = 0
    for index, char in enumerate(text):
        used += width(char)
        if used > columns:
            return text[:index]
    return text


def bar(
    head: Sequence[Span], facts: str, rows: Iterable[Line], foot: str, columns: int, style: str = "accent"
) -> list[Line]:
    """A title with facts behind it, the rows and a foot, behind a bar; no row is longer than what it holds.

    So a window that gets narrower wraps few of them, wherever on the screen they stand.
    """
    title = [*head, ("dim", f"   {facts}")] if facts else head
    inner = columns - BAR_MARGIN
    lines = [clip_line(row, inner) for row in (title, *rows, [("dim", clip_facts(foot, inner))] if foot else [])]
    return [[(style, "┃"), *([("", " "), *line] if line else [])] for line in lines]


def box(
    head: Sequence[Span], facts: str, rows: Iterable[Line], foot: str, columns: int, style: str = "accent"
) -> list[Line]:
    """A frame of exactly `columns`, drawn by rich; the facts stand at the right end of the title."""
    from rich.panel import Panel  # with rich's console it is heavy, and most turns draw no box
    from rich.text import Text

    def text(spans: Iterable[Span]) -> Text:
        # What has no style of its own is named, or a title would take on the colour of the frame.
        styled = ((piece, _named_style(name) if isinstance(name, str) else name) for name, piece in spans)
        return Text.assemble(*styled, no_wrap=True, overflow="ignore", end="")

    room = max(1, columns - BOX_MARGIN - 2)  # a piece of rule and a space at either end
    facts = facts if room - width(facts) >= _HEAD else ""
    title = clip_line(head, room - width(facts) - 2 if facts else room)
    if facts:
        title += [(style, f" {'─' * (room - line_width(title) - width(facts) - 2)} "), ("dim", facts)]
    drawn = Panel(
        text(span for row in rows for span in (*clip_line(row, columns - BOX_MARGIN), ("", "\n"))),
        title=text(title),
        title_align="left",
        subtitle=text([("dim", clip_facts(foot, room))]) if foot else None,
        subtitle_align="left",
        width=columns,
        border_style=_named_style(style),
    )
    lines = _console().render_lines(drawn, _console().options.update(width=columns))
    return [[(made.meta.get("name", made) if made else "", piece) for piece, made, _ in line] for line in lines]


@cache
def _named_style(name: str) -> Style:
    """A style that only carries one of our names through rich; the theme says later what it looks like."""
    return Style(meta={"name": name})


@cache
def _console() -> Any:
    from rich.console import Console

    return Console(width=80, force_terminal=True, color_system=None, legacy_windows=False)


class Theme:
    """One palette at one colour depth; turns styled lines into strings a terminal understands."""

    def __init__(self, kind: Kind = "dark", depth: ColorSystem | None = ColorSystem.TRUECOLOR) -> None:
        self.kind: Kind = kind
        self.depth = depth
        self.styles = {name: light if kind == "light" else dark for name, (dark, light) in _STYLES.items()}
        self.code_style = "github-dark" if kind == "dark" else "friendly"  # of pygments
        self._code = cache(self._parse)

    def encode(self, line: Iterable[Span]) -> str:
        """The line with SGR codes; plain text where the terminal has no colours. No other code gets through here."""
        out: list[str] = []
        for style, text in line:
            if text:
                before, after = self._code(style)
                out.append(f"{before}{inert(text).translate(_ONE_ROW)}{after}")
        return "".join(out)

    def agent(self, color: str) -> str:
        """The style name of an agent's colour; the accent for one that is not known."""
        name = f"agent.{color.lower()}"
        return name if name in self.styles else "accent.bold"

    def _parse(self, style: str | Style) -> tuple[str, str]:
        """What switches a style on, and off again."""
        parsed = style if isinstance(style, Style) else Style.parse(self.styles.get(style, style))
        if self.depth is None:  # no colour: keep weight only
            parsed = Style(bold=parsed.bold, italic=parsed.italic, underline=parsed.underline, reverse=parsed.reverse)
        before, _, after = parsed.render("\0", color_system=self.depth or ColorSystem.STANDARD).partition("\0")
        return before, after


def color_depth(environ: Mapping[str, str]) -> ColorSystem | None:
    """How many colours the terminal has; None with NO_COLOR or a dumb terminal."""
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR") or term in ("dumb", "unknown", ""):
        return None
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return ColorSystem.TRUECOLOR
    return ColorSystem.EIGHT_BIT if "256" in term or "kitty" in term else ColorSystem.STANDARD


def guess_kind(environ: Mapping[str, str]) -> Kind:
    """Dark unless COLORFGBG names a light background."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"


def kind_of_reply(data: str) -> tuple[Kind | None, str]:
    """(background kind, the rest of the input) when the terminal's answer to OSC11_QUERY is in `data`."""
    found = _OSC11.search(data)
    if found is None:
        return None, data
    red, green, blue = (int(value, 16) / (16 ** len(value) - 1) for value in found.groups())
    is_light = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
    return "light" if is_light else "dark", data[: found.start()] + data[found.end() :]
