"""Unified diffs as coloured lines with line numbers and marks on the words that changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from cowork.core.hygiene import visible, visible_line
from cowork.frontends.host import FileChange
from cowork.frontends.repl.view.styled import Line, Span, clip, clip_line, clip_start, width, wrap
from cowork.frontends.repl.view.theme import Theme

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.M)
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.35  # lines less alike than this are two lines, not one changed
_LONGEST_MARKED = 600  # characters: word marks in longer lines help nobody and cost much

_FILE_ROWS, _WHOLE_ROWS = 60, 12  # lines of a file in a list of changes: edited, or all of it new or gone

_Row = tuple[str, int, str]  # (" ", "-" or "+", line number, text)


def diff_lines(
    diff: str, columns: int, *, limit: int | None = None, indent: int = 2, theme: Theme | None = None
) -> list[Line]:
    """The diff drawn in `columns`; past `limit` lines it says how many more there are. A theme colours the code."""
    rows = list(_rows(visible(diff)))
    gutter = max((len(str(number)) for _, number, _ in rows), default=1)
    shown = rows if limit is None or len(rows) <= limit + 1 else rows[:limit]
    out: list[Line] = []
    marked = list(_marked(shown))
    if theme is not None and theme.many_colours:
        marked = _coloured(marked, diff, theme)
    for sign, number, spans in marked:
        out.extend(_draw(sign, number, spans, gutter, columns, indent))
    if len(shown) < len(rows):
        more = f"{' ' * (indent + gutter)} … {len(rows) - len(shown):,} more lines of diff"
        out.append([("dim", clip(more, columns))])
    return out


def _coloured(rows: list[tuple[str, int, list[Span]]], diff: str, theme: Theme) -> list[tuple[str, int, list[Span]]]:
    from cowork.frontends.repl.view.markup import diff_colours  # pygments is only loaded for the first diff

    named = _FILE.search(diff)
    spans = diff_colours.colour([(sign, spans) for sign, _, spans in rows], named[1].strip() if named else "", theme)
    return [(sign, number, new) for (sign, number, _), new in zip(rows, spans, strict=True)]


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


def _marked(rows: Sequence[_Row]) -> Iterator[tuple[str, int, list[Span]]]:
    """The rows with their text as spans; each removed line is compared with the added one in its place."""
    index = 0
    while index < len(rows):
        minus = _run(rows, index, "-")
        plus = _run(rows, index + len(minus), "+")
        if not minus and not plus:
            sign, number, text = rows[index]
            yield sign, number, [("", text)]
            index += 1
            continue
        marks = [_word_marks(a[2], b[2]) for a, b in zip(minus, plus, strict=False)]
        for side, run in enumerate((minus, plus)):
            for place, (sign, number, text) in enumerate(run):
                plain: list[Span] = [("diff.del" if sign == "-" else "diff.add", text)]
                yield sign, number, marks[place][side] or plain if place < len(marks) else plain
        index += len(minus) + len(plus)


def _run(rows: Sequence[_Row], start: int, sign: str) -> list[_Row]:
    end = start
    while end < len(rows) and rows[end][0] == sign:
        end += 1
    return list(rows[start:end])


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


def _draw(sign: str, number: int, spans: list[Span], gutter: int, columns: int, indent: int) -> Iterator[Line]:
    margin = " " * indent
    if sign == "⋮":
        yield [("diff.number", f"{margin}{'⋮':>{gutter}}")]
        return
    style = {"-": "diff.del", "+": "diff.add"}.get(sign, "")
    room = max(8, columns - indent - gutter - 3)
    first = True
    for piece in _wrap_spans(spans, room):
        label = f"{number:>{gutter}}" if first else " " * gutter
        yield [("diff.number", f"{margin}{label} │"), (style, sign if first else " "), *piece]
        first = False


def _wrap_spans(spans: list[Span], columns: int) -> Iterator[list[Span]]:
    """The spans in rows of at most `columns`, cut where the column ends."""
    row: list[Span] = []
    left = columns
    for style, text in spans:
        text = text.expandtabs(4)
        while width(text) > left:
            head = _cells(text, left)
            if head:
                row.append((style, head))
            yield row
            row, left, text = [], columns, text[len(head) :]
        if text:
            row.append((style, text))
            left -= width(text)
    yield row


def _cells(text: str, columns: int) -> str:
    if text.isascii():
        return text[:columns]
    used = 0
    for index, char in enumerate(text):
        used += width(char)
        if used > columns:
            return text[:index]
    return text


def command_lines(parts: Sequence[dict[str, object]], columns: int) -> list[Line]:
    """A parsed command line: each simple command, its verdict and why."""
    texts = [visible(str(part.get("text", ""))).replace("\n", "⏎") for part in parts]
    verdicts = [visible_line(str(part.get("verdict", ""))) for part in parts]
    reasons = [visible_line(str(part.get("why", ""))) for part in parts]
    verdict_room = max((width(v) for v in verdicts), default=0)
    reason_room = max((width(r) for r in reasons), default=0)
    longest = max((width(t) for t in texts), default=0)
    side = verdict_room + reason_room + 9
    if columns - side >= min(longest, 16):
        text_room = min(longest, columns - side)
        out: list[Line] = []
        for index, (text, verdict, why) in enumerate(zip(texts, verdicts, reasons, strict=True), 1):
            pieces = wrap(text, text_room)
            filler = " " * (text_room - width(pieces[0]))
            style = _verdict_style(verdict)
            out.append([("dim", f"{index:>3} "), ("code", pieces[0]), ("", filler + "  "),
                        (style, f"{verdict:<{verdict_room}}"), ("dim", f"  {why}")])  # fmt: skip
            out.extend([("", "    "), ("code", piece)] for piece in pieces[1:])
        return out
    out = []
    for index, (text, verdict, why) in enumerate(zip(texts, verdicts, reasons, strict=True), 1):
        pieces = wrap(text, columns - 4)
        out.append([("dim", f"{index:>3} "), ("code", pieces[0])])
        out.extend([("", "    "), ("code", piece)] for piece in pieces[1:])
        out.append(clip_line([("", "    "), (_verdict_style(verdict), verdict), ("dim", f"  {why}")], columns))
    return out


def _verdict_style(verdict: str) -> str:
    return {"allow": "good", "allowed": "good", "deny": "bad", "denied": "bad"}.get(verdict, "warn")
