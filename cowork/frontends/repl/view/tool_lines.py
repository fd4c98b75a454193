"""Tool calls as lines: a glyph, the name, a short argument, the result in a word, and below it diffs and output."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import groupby, pairwise
from typing import Any

from rich.color import ColorSystem
from rich.style import Style

from cowork.core import format
from cowork.core.blocks import Json
from cowork.core.events import ToolStarted
from cowork.core.format import one_line
from cowork.core.hygiene import visible, visible_line
from cowork.frontends.host import FileChange
from cowork.frontends.styled import Line, Theme, beside, clip, clip_line, clip_start, cut_rows, pad, plain, width, wrap
from cowork.frontends.text import call_line

_ON_FILES = ("read", "write")  # families whose calls are told by a path
_GLYPHS = {"success": ("good", "●"), "partial": ("warn", "◐"), "error": ("bad", "✗")}
_DIFF_LINES = 40
_OUTPUT_LINES = 5
_ERROR_LINES, _ERROR_DIFF_LINES = 4, 10
_DIFF_HEADS = ("--- ", "+++ ", "@@ ")
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.M)
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.35  # lines less alike than this are two lines, not one changed
_LONGEST_MARKED = 600  # characters: word marks in longer lines help nobody and cost much
_FILE_ROWS, _WHOLE_ROWS = 60, 12  # lines of a file in a list of changes: edited, or all of it new or gone
_MOST_COLOURED = 20_000  # characters: colours of a longer diff cost more than they help
_Row = tuple[str, int, str]  # (" ", "-" or "+", line number, text)


def summary(record: Mapping[str, Any], display: Mapping[str, Any]) -> str:
    """The result in a few words."""
    if display.get("summary"):
        return one_line(str(display["summary"]))
    if record.get("status") == "error":
        return one_line(str((record.get("error") or {}).get("code") or "error").replace("_", " ").lower())
    return ""


def running_line(call: ToolStarted, mark: str, columns: int, seconds: float) -> Line:
    """A call that still runs, behind a spinner."""
    right: Line = [("dim", f"{seconds:.0f} s")] if seconds >= 2 else []
    line = _fit(call, call_line(call), columns - 12)
    return beside([("accent", f"{mark} "), ("bold", one_line(call.name)), ("", f" {line}")], right, columns)


def finished_lines(
    call: ToolStarted, record: Mapping[str, Any], display: Json, columns: int, theme: Theme | None = None
) -> list[Line]:
    """A finished call as it goes to the scrollback."""
    return [head_line(call, record, display, columns), *_body(record, display, columns, theme)]


def head_line(call: ToolStarted, record: Mapping[str, Any] | None, display: Json, columns: int) -> Line:
    """What was called, and what came of it; without a record it has not ended."""
    style, glyph, result = "accent", "○", "not finished"
    if record is not None:
        style, glyph = _GLYPHS.get(str(record.get("status")), _GLYPHS["success"])
        result = summary(record, display)
    name, line = one_line(call.name), call_line(call)
    room = columns - width(name) - 3 - (width(result) + 3 if result else 0)
    first: Line = [(style, f"{glyph} "), ("bold", name), ("", f" {_fit(call, line, max(8, room))}" if line else "")]
    return clip_line([*first, ("dim", f" · {result}" if result else "")], columns)


def looks_line(names: Sequence[str], columns: int) -> Line:
    """A run of looks in one line: how many, and of which kind; the viewer has each."""
    kinds = ", ".join(f"{one_line(name)} {count}" for name, count in Counter(names).most_common())
    line: Line = [("good", "● "), ("bold", "Looked"), ("", f" at {len(names)} places"), ("dim", f" · {kinds}")]
    return clip_line(line, columns)


def output_lines(text: str, columns: int, limit: int, total: int = 0) -> list[Line]:
    """The last lines of a command's output behind a bar; of a `total` it is said how many came before."""
    rows = visible(text).rstrip("\n").split("\n")[-limit:] if text.strip() else []
    hidden = [f"… {format.plural(total - len(rows), 'line')} before"] if rows and total > len(rows) else []
    return [[("faint", "  │ "), ("dim", clip(row.expandtabs(4), columns - 5))] for row in (*hidden, *rows)]


def _body(record: Mapping[str, Any], display: Json, columns: int, theme: Theme | None) -> list[Line]:
    if record.get("status") == "error" and display.get("kind") != "terminal":
        return _error_lines(record, columns)
    match display.get("kind"):
        case "diff":
            return diff_lines(str(display.get("diff", "")), columns, limit=_DIFF_LINES, theme=theme)
        case "terminal":
            output = str(display.get("output", ""))
            blank = len(output) - len(output.rstrip("\n")) - output.endswith("\n")  # lines at its end do not count
            total = int(display.get("lines") or 0) - blank
            limit = _OUTPUT_LINES + (total == _OUTPUT_LINES + 1)  # a note about one line takes a line itself
            return output_lines(output, columns, limit, total)
    return []


def _error_lines(record: Mapping[str, Any], columns: int) -> list[Line]:
    """What went wrong; of an edit that found no match, the nearest lines matter most."""
    error = record.get("error") or {}
    text = visible(str(error.get("message") or record.get("text") or ""))
    is_diff = "\n@@ " in text
    limit = _ERROR_DIFF_LINES if is_diff else _ERROR_LINES
    styles = {"-": "bad", "+": "good"} if is_diff else {}
    lines = [line for line in text.split("\n") if not (is_diff and line.startswith(_DIFF_HEADS))]
    rows = [(styles.get(line[:1], ""), row) for line in lines for row in wrap(line, columns - 5)]
    out: list[Line] = [[("faint", "  │ "), row] for row in rows[:limit]]
    if len(rows) > limit:
        out.append([("faint", "  │ "), ("dim", f"… {format.plural(len(rows) - limit, 'more line')}")])
    return out


def _fit(call: ToolStarted, line: str, columns: int) -> str:
    """A path keeps its end, everything else its start."""
    return clip_start(line, columns) if call.family in _ON_FILES else clip(line, columns)


def diff_lines(diff: str, columns: int, *, limit: int | None = None, theme: Theme | None = None) -> list[Line]:
    """The diff drawn in `columns`; past `limit` lines it says how many more there are. A theme colours the code."""
    rows = list(_rows(visible(diff)))
    gutter = max((len(str(number)) for _, number, _ in rows), default=1)
    shown = rows if limit is None or len(rows) <= limit + 1 else rows[:limit]
    marked = _mark_words(shown)
    if theme is not None and theme.depth not in (None, ColorSystem.STANDARD):  # code on a coloured ground needs many
        marked = _colour(shown, marked, diff, theme)
    drawn = zip(shown, marked, strict=True)
    out = [line for (sign, number, _), spans in drawn for line in _draw(sign, number, spans, gutter, columns)]
    if len(shown) < len(rows):
        more = f"{' ' * (2 + gutter)} … {len(rows) - len(shown):,} more lines of diff"
        out.append([("dim", clip(more, columns))])
    return out


def _colour(rows: Sequence[_Row], marked: list[Line], diff: str, theme: Theme) -> list[Line]:
    """The texts of the rows with the colours of the language of the file, under the marks of what changed."""
    named = _FILE.search(diff)
    language = _language(named[1].strip().rpartition("/")[2] if named else "")
    if not language or sum(len(text) for _, _, text in rows) > _MOST_COLOURED:
        return marked
    lines: dict[int, Line] = {}
    for side in "-+":  # each is a text of its own; what both have takes its colours from the new one
        places = [place for place, (sign, _, _) in enumerate(rows) if sign in (" ", side)]
        code = _code("\n".join(rows[place][2] for place in places), language, theme)
        lines |= dict(zip(places, code, strict=False))
    return [_overlay(spans, lines.get(place, []), theme) for place, spans in enumerate(marked)]


def _overlay(marks: Line, code: Line, theme: Theme) -> Line:
    """The text with the backgrounds of the marks and the colours of the code."""
    under = [theme.styles.get(str(name), "") for name, text in marks for _ in text]
    over = [style if isinstance(style, Style) else Style() for style, text in code for _ in text]
    styled = zip(plain(marks), map(_mix, under, [*over, *[Style()] * len(under)]), strict=False)
    return [(style, "".join(char for char, _ in run)) for style, run in groupby(styled, key=lambda pair: pair[1])]


@lru_cache(maxsize=1024)
def _mix(mark: str, code: Style) -> Style:
    return Style.parse(mark) + Style(color=code.color, italic=code.italic)


@lru_cache(maxsize=32)
def _code(source: str, language: str, theme: Theme) -> list[Line]:
    from cowork.frontends.repl.view.markdown import code_lines  # pygments is only loaded for the first diff

    return code_lines(source, language, theme)


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
        elif seen and text.startswith(("-", "+", " ")):
            sign = text[0]
            yield sign, old if sign == "-" else new, text[1:]
            old, new = old + (sign != "+"), new + (sign != "-")


def _mark_words(rows: Sequence[_Row]) -> list[Line]:
    """The texts of the rows as spans; each removed line is compared with the added one in its place."""
    marks: dict[tuple[str, int], Line] = {}
    for minus, plus in pairwise([list(run) for _, run in groupby(rows, key=lambda row: row[0])]):
        for (sign, number, old), (other, place, new) in zip(minus, plus, strict=False):
            if sign + other == "-+":
                marks[sign, number], marks[other, place] = _word_marks(old, new)
    styles = {"-": "diff.del", "+": "diff.add"}
    return [marks.get((sign, number)) or [(styles.get(sign, ""), text)] for sign, number, text in rows]


def _word_marks(old: str, new: str) -> tuple[Line, Line]:
    """Both lines with the words that differ marked; empty when they have too little in common."""
    if max(len(old), len(new)) > _LONGEST_MARKED:
        return [], []
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return [], []
    marks = [("" if kind == "equal" else ".word", a[a1:a2], b[b1:b2]) for kind, a1, a2, b1, b2 in matcher.get_opcodes()]
    return (
        [(f"diff.del{mark}", "".join(words)) for mark, words, _ in marks if words],
        [(f"diff.add{mark}", "".join(words)) for mark, _, words in marks if words],
    )


def _draw(sign: str, number: int, spans: Line, gutter: int, columns: int) -> Iterator[Line]:
    if sign == "⋮":
        yield [("faint", f"  {'⋮':>{gutter}}")]
        return
    style = {"-": "diff.del", "+": "diff.add"}.get(sign, "")
    for place, piece in enumerate(cut_rows(spans, max(8, columns - gutter - 5))):
        yield [("faint", f"  {'' if place else number:>{gutter}} │"), (style, " " if place else sign), *piece]


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
