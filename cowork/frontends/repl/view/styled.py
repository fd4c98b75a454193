"""Styled lines: how everything drawn is held until it is encoded for the terminal or put into a golden file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.style import Style

Span = tuple[str | Style, str]  # (a name of the theme or a rich style, text without newline)
Line = list[Span]

_JOINERS = re.compile("[\u200c\u200d]")

DOT = " · "
SPIN_S = 0.1  # how long a spinner's picture lasts
BAR_MARGIN = 2
WIDEST = 120  # columns of panels, dialogs and lists: longer rows are hard to read


def width(text: str) -> int:
    """Columns the text takes."""
    if text.isascii():
        return len(text)
    # Not every terminal draws joined characters as one, so they count one by one.
    return max(cell_len(text), sum(map(cell_len, text))) if _JOINERS.search(text) else cell_len(text)


def spinner(now: float) -> str:
    """The picture of a spinner at this moment."""
    return "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(now / SPIN_S) % 10]


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
    left = columns - 1
    for style, text in line:
        taken = clip_cells(text, left)
        if taken:
            out.append((style, taken))
        left -= width(taken)
        if taken != text:
            out.append((style, "…" if columns > 0 else ""))
            break
    return out


def limit_rows(lines: Sequence[Line], rows: int, columns: int, where: str) -> list[Line]:
    """The lines in at most `rows`; where some are missing the last row says how many, and where they are."""
    if len(lines) <= rows:
        return list(lines)
    kept = max(0, rows - 1)
    more: Line = [("dim", f"  … {len(lines) - kept:,} more lines · {where}")]
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
    return [("accent", "❯ " if chosen else "  "), ("selected" if chosen else "", label)]


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
    head: Sequence[Span], facts: str, rows: Iterable[Line], foot: str, columns: int, style: str | Style = "accent"
) -> list[Line]:
    """A title with facts behind it, the rows and a foot, behind a bar; no row is longer than what it holds.

    So a window that gets narrower wraps few of them, wherever on the screen they stand.
    """
    title = [*head, ("dim", f"   {facts}")] if facts else head
    inner = columns - BAR_MARGIN
    lines = [clip_line(row, inner) for row in (title, *rows, [("dim", clip_facts(foot, inner))] if foot else [])]
    return [[(style, "┃"), *([("", " "), *line] if line else [])] for line in lines]
