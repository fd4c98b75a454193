"""Markdown as it streams: blocks that can no longer change are finished and printed once, the tail is drawn live.

markdown-it's top-level tokens decide what is finished. The work stays linear in the length of the answer: a long
list or code block is finished piece by piece, a paragraph row by row, a block of any kind that grows out of all
proportion is cut and at last shown as its source, and a long tail is parsed again only after it grew by an eighth.
What arrives whole is looked at piece by piece too, so that no block costs more for coming at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from cowork.core.hygiene import Visible, visible
from cowork.frontends.repl.view.styled import Line, plain, wrap
from cowork.frontends.repl.view.theme import Theme

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LONG_LIST = 1_200  # characters: a longer list is finished item by item
_LONG_CODE = 48  # lines: a longer code block is finished in pieces
_LONG_TAIL = 2_400  # characters: of a longer tail only the end is drawn
_HUGE = 8_000  # characters: a longer block is cut, wherever that is
_SOURCE = 40_000  # characters: what is longer still goes on as it was written
_HEAD = 1_000  # characters: a longer head of a table is not looked for
_DEEPEST = 18  # levels of lists and quotes: the parser leaves out what is inside more, so it stays as it was written
_TABLE_HEAD = re.compile(r"\s*[^\n]*\|[^\n]*\n[ |:-]+\n")
_OTHER_BLOCK = re.compile(r"\s*(?:#|>|[-+*]\s|\d{1,9}[.)]\s|```|~~~|\|)")  # not worth a parse
_FENCE = re.compile(r" {0,3}(?:```|~~~)[^\n]*\n")
# A mark that stands in the text may yet become emphasis, code, a link or a table; inside a word `_` cannot.
_OPEN = re.compile(r"[*`\[\]<|~\\&]|(?<!\w)_|_(?!\w)")
_ENDS_AT_BLANK = ("paragraph_open", "heading_open", "fence", "hr")


class MarkdownStream:
    """One answer of the model, fed in pieces."""

    def __init__(self) -> None:
        self.text = ""  # everything fed, for comparison with the whole reply
        self.started = False  # a block was taken
        self._visible = Visible()
        self._pieces: list[str] = []
        self._ahead = ""  # arrived, but not looked at yet
        self._tail = ""
        self._parsed = 0  # length of the tail at the last parse
        self._glued = False  # the next piece goes on with the block before: no blank line between
        self._cut = 0  # characters that were cut off the block at the start of the tail
        self._tried = 0  # length of the tail when a paragraph in it had no row that is finished
        self._printed = 0  # of the paragraph at the start of the tail, in characters
        self._drawn: tuple[int, int, int, str] = (-1, 0, 0, "")
        self._drawn_lines: list[Line] = []

    def feed(self, text: str) -> None:
        """Add what arrived; cheap."""
        self._pieces.append(text)

    def missing(self, whole: str) -> str:
        """What of the whole text has not been fed yet; nothing when it does not go on from what was."""
        self._gather()
        return whole[len(self.text) :] if whole.startswith(self.text) else ""

    def take(self, columns: int, theme: Theme) -> list[Line]:
        """The lines finished since the last call."""
        self._gather()
        out: list[Line] = []
        while self._ahead:
            self._tail, self._ahead = self._tail + self._ahead[:_HUGE], self._ahead[_HUGE:]
            out.extend(self._take_finished(columns, theme))
        return out

    def end(self, columns: int, theme: Theme) -> list[Line]:
        """Everything left; the answer is complete."""
        self._gather()
        self._ahead += self._visible.end()
        out = self.take(columns, theme)
        tail, self._tail = self._tail, ""
        return [*out, *self._lines(tail, columns, theme)] if tail.strip() else out

    def tail(self, columns: int, rows: int, theme: Theme) -> list[Line]:
        """The last rows of what is not finished yet."""
        key = (len(self.text), len(self._tail), columns, theme.kind)
        if key != self._drawn:
            source = self._tail if self._printed else _end_of(self._tail)
            self._drawn_lines = self._following(_render(source, columns, theme)) if source.strip() else []
            self._drawn = key
        return self._drawn_lines[-rows:]

    def _take_finished(self, columns: int, theme: Theme) -> list[Line]:
        """What of the tail can no longer change."""
        out = self._source(columns)
        while "\n" in self._tail and len(self._tail) >= self._parsed * 9 // 8:
            piece, rest, glued = split(self._tail)
            if not piece:
                self._parsed = len(self._tail) if len(self._tail) > 2_000 else 0
                break
            self._parsed = self._tried = self._cut = 0
            out.extend(self._lines(piece, columns, theme))
            self._tail, self._glued = rest, glued
        while len(self._tail) > _HUGE and not self._endless:
            piece, self._tail = _cut_anywhere(self._tail)
            if not piece:
                break
            out.extend(self._lines(piece, columns, theme))
            self._cut += len(piece)
            self._glued, self._parsed, self._tried = True, 0, 0
        return [*out, *(self._source(columns) if self._endless else self._rows(columns, theme))]

    @property
    def _endless(self) -> bool:
        return self._cut > _SOURCE and not self._printed

    def _source(self, columns: int) -> list[Line]:
        """The lines of a block without end, as they were written, up to the blank line that ends it after all."""
        out: list[Line] = []
        while self._endless and (at := _whole_lines(self._tail)):
            piece, self._tail = self._tail[:at], self._tail[at:]
            out.extend(_as_written(piece, columns))
            if piece.endswith("\n\n"):
                self._cut, self._glued = 0, False
        return out

    def _rows(self, columns: int, theme: Theme) -> list[Line]:
        """The rows of a growing paragraph that are finished."""
        if len(self._tail) <= max(columns, self._tried * 9 // 8) or _OTHER_BLOCK.match(self._tail):
            return []
        tokens = _tokens(self._tail)
        if [t.type for t in tokens if t.level == 0] != ["paragraph_open", "paragraph_close"]:
            return []
        rows = _steady(_after(_draw(tokens, columns, theme), self._printed))
        self._tried = 0 if rows else len(self._tail)
        lines = rows if self._printed else self._following(rows)
        self._printed += _letters(rows)
        self.started = self.started or bool(lines)
        if len(self._tail) > _LONG_TAIL:
            self._drop_printed()
        return lines

    def _drop_printed(self) -> None:
        """Forget the source of rows that are printed, where it is plainly the same text."""
        rest = _rest_of(self._tail, self._printed)
        if rest and not _OTHER_BLOCK.match(rest):
            self._tail, self._printed, self._glued = rest, 0, True

    def _following(self, lines: list[Line]) -> list[Line]:
        """The lines without what was printed of them, set apart from the block before."""
        if self._printed:
            return _after(lines, self._printed)
        return [[], *lines] if lines and self.started and not self._glued else lines

    def _gather(self) -> None:
        if not self._pieces:
            return
        new = "".join(self._pieces)
        self._pieces.clear()
        self.text += new
        self._ahead += self._visible.feed(new)

    def _lines(self, source: str, columns: int, theme: Theme) -> list[Line]:
        whole = _render(source, columns, theme)
        lines = self._following(whole)
        self._printed = max(0, self._printed - _letters(whole)) if self._printed else 0
        self.started = self.started or bool(lines)
        return lines


def split(tail: str) -> tuple[str, str, bool]:
    """(finished source, the rest, whether the rest goes on with the last block of the finished part)."""
    complete = tail[: tail.rfind("\n") + 1]
    lines = complete.splitlines(keepends=True)
    blocks = [t for t in _parser().parse(complete) if t.level == 0 and t.map and t.nesting >= 0]
    if not blocks:
        return "", tail, False
    last = blocks[-1]
    start, end = last.map or [0, 0]
    if last.type in _ENDS_AT_BLANK and end < len(lines) and not lines[end].strip():
        return _cut(tail, lines, end, glued=False)
    if len(blocks) > 1:
        return _cut(tail, lines, start, glued=False)
    return _split_long_block(tail, complete, lines, last)


def warm_up() -> None:
    """Load what rendering needs; a tenth of a second that is best spent in a thread while nothing is to be drawn."""
    _render("*a*\n\n```python\nx = 1\n```\n\n| a |\n|---|\n| b |\n", 40, Theme())


def _split_long_block(tail: str, complete: str, lines: list[str], block: Token) -> tuple[str, str, bool]:
    if block.type in ("bullet_list_open", "ordered_list_open") and len(complete) > _LONG_LIST:
        tokens = _parser().parse(complete)
        items = [t.map[0] for t in tokens if t.type == "list_item_open" and t.level == 1 and t.map]
        if len(items) > 1:
            return _cut(tail, lines, items[-1], glued=True)
    start = (block.map or [0])[0]
    if block.type == "fence" and len(lines) - start > _LONG_CODE:
        cut = _calm_line(lines, start)
        piece, rest, _ = _cut(tail, lines, cut, glued=True)
        return piece, lines[start] + rest, True
    return "", tail, False


def _calm_line(lines: Sequence[str], start: int) -> int:
    """A line of a code block where it can be cut without spoiling the colours: the last that starts a statement."""
    for index in range(len(lines) - 1, start + _LONG_CODE // 2, -1):
        if not lines[index - 1].strip() and re.match(r"\S", lines[index]):
            return index
    return len(lines)


def _end_of(tail: str) -> str:
    """As much of a long tail as can be seen; a table keeps its head."""
    if len(tail) <= _LONG_TAIL:
        return tail
    end = tail[tail.find("\n", -_LONG_TAIL) + 1 :][-_LONG_TAIL:]
    return _opening(tail) + end


def _cut_anywhere(tail: str) -> tuple[str, str]:
    """A piece of a block that has no end, and the rest of it. Code is never broken within a line, so it waits."""
    if _FENCE.match(tail):
        return "", tail
    at = max(tail.rfind("\n", 0, _HUGE), tail.rfind(" ", 0, _HUGE)) + 1 or _HUGE
    return tail[:at], _opening(tail) + tail[at:]


def _whole_lines(tail: str) -> int:
    """How much of the source can be shown: up to a blank line, else whole lines, and no more than a piece at a time."""
    blank = tail.find("\n\n", 0, _HUGE)
    if blank >= 0:
        return blank + 2
    at = tail.rfind("\n", 0, _HUGE) + 1
    return at or ((tail.rfind(" ", 0, _HUGE) + 1 or _HUGE) if len(tail) > _HUGE else 0)


def _opening(tail: str) -> str:
    """What makes the rest of a block what it is: the head of a table, the first line of a code block."""
    found = _TABLE_HEAD.match(tail, 0, _HEAD) or _FENCE.match(tail, 0, _HEAD)
    return found[0] if found else ""


def _cut(tail: str, lines: Sequence[str], at: int, *, glued: bool) -> tuple[str, str, bool]:
    head = "".join(lines[:at])
    return (head, tail[len(head) :], glued) if head.strip() else ("", tail, False)


def _render(source: str, columns: int, theme: Theme) -> list[Line]:
    tokens = _tokens(source)
    deepest = min(_DEEPEST, (columns - 8) * 2 // 3)  # a list costs two levels and three columns
    if any(token.level > deepest for token in tokens):
        return _as_written(source, columns)
    return _draw(tokens, columns, theme)


def _tokens(source: str) -> list[Token]:
    """The blocks to draw. Entities and addresses are spelled out by the parser: `&#8238;`, `<http://x/%1b[2J>`."""
    tokens = _parser().parse(source)
    for token in tokens:
        for part in (token, *(token.children or ())):
            part.content = visible(part.content)
    return tokens


def _as_written(source: str, columns: int) -> list[Line]:
    return [[("", row)] for row in wrap(source.rstrip("\n"), columns)]


def _draw(tokens: Sequence[Token], columns: int, theme: Theme) -> list[Line]:
    from cowork.frontends.repl.view.markup import markdown

    return markdown.render(tokens, columns, theme)


# What was printed of a paragraph is remembered as its characters without the blanks, so that a change of width in
# between does no harm.


def _letters(lines: Sequence[Line]) -> int:
    """How many characters there are, blanks not counted."""
    return sum(len("".join(plain(line).split())) for line in lines)


def _after(lines: Sequence[Line], count: int) -> list[Line]:
    """The lines without their first `count` characters, blanks not counted."""
    for index, line in enumerate(lines):
        if count == 0:
            return list(lines[index:])
        inside = _letters([line])
        if inside > count:
            return [_without(line, count), *lines[index + 1 :]]
        count -= inside
    return []


def _steady(lines: Sequence[Line]) -> list[Line]:
    """The rows that stay as they are however the paragraph goes on: not the last, nor any from an open mark on."""
    out: list[Line] = []
    for line in lines[:-1]:
        if _OPEN.search(plain(line)):
            break
        out.append(line)
    return out


def _rest_of(source: str, count: int) -> str:
    """The source behind its first `count` characters; nothing where marks make it differ from what was drawn."""
    at, _ = _skip(source, count)
    return "" if _OPEN.search(source, 0, at) else source[at:].lstrip()


def _skip(text: str, count: int) -> tuple[int, int]:
    """Where the text goes on behind `count` characters, blanks not counted, and how many it was short of."""
    at = 0
    while count and at < len(text):
        count -= not text[at].isspace()
        at += 1
    return at, count


def _without(line: Line, count: int) -> Line:
    out: Line = []
    for style, text in line:
        at, count = _skip(text, count)
        rest = text[at:] if out else text[at:].lstrip()
        if not count and rest:
            out.append((style, rest))
    return out


@cache
def _parser() -> MarkdownIt:
    """CommonMark with tables and strike-through; raw HTML is text."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
