"""Unified diffs as coloured lines with line numbers and marks on the words that changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import groupby, pairwise

from rich.style import Style

from cowork.core.hygiene import visible, visible_line
from cowork.frontends.host import FileChange
from cowork.frontends.repl.view.styled import Line, Span, clip, clip_line, clip_start, cut_rows, pad, plain, width, wrap
from cowork.frontends.repl.view.theme import Kind, Theme

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.M)
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.35  # lines less alike than this are two lines, not one changed
_LONGEST_MARKED = 600  # characters: word marks in longer lines help nobody and cost much
_FILE_ROWS, _WHOLE_ROWS = 60, 12  # lines of a file in a list of changes: edited, or all of it new or gone
_MOST_COLOURED = 20_000  # characters: colours of a longer diff cost more than they help

_Row = tuple[str, int, str]  # (" ", "-" or "+", line number, text)
_Marked = tuple[str, int, list[Span]]  # the same with the text in spans


def diff_lines(diff: str, columns: int, *, limit: int | None = None, theme: Theme | None = None) -> list[Line]:
    """The diff drawn in `columns`; past `limit` lines it says how many more there are. A theme colours the code."""
    rows = list(_rows(visible(diff)))
    gutter = max((len(str(number)) for _, number, _ in rows), default=1)
    shown = rows if limit is None or len(rows) <= limit + 1 else rows[:limit]
    marked = _mark_words(shown)
    if theme is not None and theme.many_colours:
        marked = _colour(marked, diff, theme)
    out = [line for row in marked for line in _draw(*row, gutter, columns)]
    if len(shown) < len(rows):
        more = f"{' ' * (2 + gutter)} … {len(rows) - len(shown):,} more lines of diff"
        out.append([("dim", clip(more, columns))])
    return out


def _colour(rows: list[_Marked], diff: str, theme: Theme) -> list[_Marked]:
    """The rows with the colours of the language of the file, under the marks of what changed."""
    named = _FILE.search(diff)
    language = _language(named[1].strip().rpartition("/")[2] if named else "")
    texts = [(sign, plain(spans)) for sign, _, spans in rows]
    if not language or sum(len(text) for _, text in texts) > _MOST_COLOURED:
        return rows
    sides = {
        side: iter(_code("\n".join(text for sign, text in texts if sign in (" ", side)), language, theme.kind))
        for side in "-+"
    }
    out: list[_Marked] = []
    for sign, number, spans in rows:
        lines = {side: next(sides[side], []) for side in "-+" if sign in (" ", side)}
        out.append((sign, number, _overlay(spans, lines["-" if sign == "-" else "+"], theme) if lines else spans))
    return out


def _overlay(marks: Sequence[Span], code: Line, theme: Theme) -> list[Span]:
    """The text with the backgrounds of the marks and the colours of the code."""
    under = [theme.definition(name) if isinstance(name, str) else name for name, text in marks for _ in text]
    over = [style if isinstance(style, Style) else Style() for style, text in code for _ in text]
    styled = zip(plain(marks), map(_mix, under, [*over, *[Style()] * len(under)]), strict=False)
    return [(style, "".join(char for char, _ in run)) for style, run in groupby(styled, key=lambda pair: pair[1])]


@lru_cache(maxsize=1024)
def _mix(mark: str | Style, code: Style) -> Style:
    under = mark if isinstance(mark, Style) else Style.parse(mark)
    return Style(color=code.color or under.color, bgcolor=under.bgcolor, bold=under.bold, italic=code.italic)


@lru_cache(maxsize=32)
def _code(source: str, language: str, kind: Kind) -> list[Line]:
    from cowork.frontends.repl.view.markdown import code_lines  # pygments is only loaded for the first diff

    return code_lines(source, language, Theme(kind))


@cache
def _language(name: str) -> str:
    from rich.syntax import Syntax

    found = Syntax.guess_lexer(name) if name else "default"
    return "" if found in ("default", "text") else found


def changes_lines(files: Sequence[FileChange], columns: int, theme: Theme | None = None) -> list[Line]:
    """Files and what became of them, each with its diff."""
    out: list[Line] = []
    for change in files:
        head: Line = [("accent", "● "), ("bold", clip_start(visible_line(change.path), max(8, columns - 16)))]
        out.append(clip_line([*head, ("dim", f" · {visible_line(change.remark)}" if change.remark else "")], columns))
        out.extend(diff_lines(change.diff, columns, limit=_FILE_ROWS if change.edited else _WHOLE_ROWS, theme=theme))
    return out


def _rows(diff: str) -> Iterator[_Row]:
    old = new = 0
    seen = False
    for text in diff.expandtabs(4).split("\n"):
        hunk = _HUNK.match(text)
        if hunk:
            if seen:
                yield "⋮", 0, ""
            seen = True
            old, new = int(hunk[1]), int(hunk[2])
        elif not seen or text.startswith("\\"):
            continue
        elif text.startswith("-"):
            yield "-", old, text[1:]
            old += 1
        elif text.startswith("+"):
            yield "+", new, text[1:]
            new += 1
        elif text.startswith(" "):
            yield " ", new, text[1:]
            old, new = old + 1, new + 1


def _mark_words(rows: Sequence[_Row]) -> list[_Marked]:
    """The rows with their text as spans; each removed line is compared with the added one in its place."""
    marks: dict[tuple[str, int], list[Span]] = {}
    for minus, plus in pairwise([list(run) for _, run in groupby(rows, key=lambda row: row[0])]):
        for (sign, number, old), (other, place, new) in zip(minus, plus, strict=False):
            if sign + other == "-+":
                marks[sign, number], marks[other, place] = _word_marks(old, new)
    styles = {"-": "diff.del", "+": "diff.add"}
    return [(sign, number, marks.get((sign, number)) or [(styles.get(sign, ""), text)]) for sign, number, text in rows]


def _word_marks(old: str, new: str) -> tuple[list[Span], list[Span]]:
    """Both lines with the words that differ marked; empty when they have too little in common."""
    if max(len(old), len(new)) > _LONGEST_MARKED:
        return [], []
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return [], []
    left: list[Span] = []
    right: list[Span] = []
    for kind, a1, a2, b1, b2 in matcher.get_opcodes():
        mark = "" if kind == "equal" else ".word"
        left.append((f"diff.del{mark}", "".join(a[a1:a2])))
        right.append((f"diff.add{mark}", "".join(b[b1:b2])))
    return [s for s in left if s[1]], [s for s in right if s[1]]


def _draw(sign: str, number: int, spans: list[Span], gutter: int, columns: int) -> Iterator[Line]:
    if sign == "⋮":
        yield [("diff.number", f"  {'⋮':>{gutter}}")]
        return
    style = {"-": "diff.del", "+": "diff.add"}.get(sign, "")
    for place, piece in enumerate(cut_rows(spans, max(8, columns - gutter - 5))):
        yield [("diff.number", f"  {'' if place else number:>{gutter}} │"), (style, " " if place else sign), *piece]


def command_lines(parts: Sequence[dict[str, object]], columns: int) -> list[Line]:
    """A parsed command line: each simple command, its verdict and why, beside it or where that is too wide under it."""
    rows: list[tuple[str, ...]] = []
    for part in parts:
        first, *more = visible(str(part.get("text", ""))).split("\n")
        text = f"{first} ⏎ {len(more)} more lines" if len(more) > 1 else "⏎".join([first, *more])
        rows.append((text, *(visible_line(str(part.get(key, ""))) for key in ("verdict", "why"))))
    longest, verdict_room, why_room = (max((width(row[at]) for row in rows), default=0) for at in range(3))
    beside = columns - verdict_room - why_room - 9
    is_wide = beside >= min(longest, 16)
    room = min(longest, beside) if is_wide else columns - 4
    out: list[Line] = []
    for number, (text, verdict, why) in enumerate(rows, 1):
        first, *rest = wrap(text, room)
        style = {"allow": "good", "allowed": "good", "deny": "bad", "denied": "bad"}.get(verdict, "warn")
        told: Line = [(style, pad(verdict, verdict_room) if is_wide else verdict), ("dim", f"  {why}")]
        head: Line = [("dim", f"{number:>3} "), ("code", first)]
        out.append([*head, ("", " " * (room - width(first)) + "  "), *told] if is_wide else head)
        out.extend([("", "    "), ("code", piece)] for piece in rest)
        out.extend([] if is_wide else [clip_line([("", "    "), *told], columns)])
    return out
