"""Markdown as it streams: blocks that can no longer change are finished and printed once, the tail is drawn live.

markdown-it's top-level tokens decide what is finished. The work stays linear in the length of the answer: a long
list or code block is finished piece by piece, a block of any kind that grows out of all proportion is cut, and a long
tail is parsed again only after it grew by an eighth. What arrives whole is looked at piece by piece too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from cowork.core.hygiene import Visible, visible
from cowork.frontends.styled import Line, Theme, wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_LONG_LIST = 1_200  # characters: a longer list is finished item by item
_LONG_CODE = 48  # lines: a longer code block is finished in pieces
_LONG_TAIL = 2_400  # characters: of a longer tail only the end is drawn
_HUGE = 8_000  # characters: a longer block is cut, wherever that is
_DEEPEST = 18  # levels of lists and quotes: the parser leaves out what is inside more, so it stays as it was written
# What makes the rest of a block what it is: the head of a table, the first line of a code block.
_OPENING = re.compile(r"\s*[^\n]*\|[^\n]*\n[ |:-]+\n| {0,3}(?:```|~~~)[^\n]*\n")
_HEAD = 1_000  # characters: a longer one is not looked for
_ENDS_AT_BLANK = ("paragraph_open", "heading_open", "fence", "hr")


class MarkdownStream:
    """One answer of the model, fed in pieces. `mark` stands before its first row, the others are set in as far."""

    def __init__(self, mark: str = "") -> None:
        self.text = ""  # everything fed, for comparison with the whole reply
        self.started = False  # a block was taken
        self._mark = mark
        self._visible = Visible()
        self._pieces: list[str] = []
        self._ahead = ""  # arrived, but not looked at yet
        self._tail = ""
        self._parsed = 0  # length of the tail at the last parse
        self._glued = False  # the next piece goes on with the block before: no blank line between
        self._drawn: tuple[tuple[int, int, int, str] | None, list[Line]] = None, []

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
            while (taken := self._take_piece())[0]:
                out.extend(self._lines(taken[0], columns, theme))
                self._glued = taken[1]
        return out

    def end(self, columns: int, theme: Theme) -> list[Line]:
        """Everything left; the answer is complete."""
        self._gather()
        self._ahead += self._visible.end()
        out = self.take(columns, theme)
        tail, self._tail = self._tail, ""
        return [*out, *self._lines(tail, columns, theme)]

    def tail(self, columns: int, rows: int, theme: Theme) -> list[Line]:
        """The last rows of what is not finished yet."""
        key = (len(self.text), len(self._tail), columns, theme.kind)
        if key != self._drawn[0]:
            source, started = self._tail, self.started
            if len(source) > _LONG_TAIL:  # as much as can be seen; a table keeps its head
                source = _opening(source) + source[source.find("\n", -_LONG_TAIL) + 1 :][-_LONG_TAIL:]
            self._drawn = key, self._lines(source, columns, theme)
            self.started = started
        return self._drawn[1][-rows:]

    def _take_piece(self) -> tuple[str, bool]:
        """Take source off the tail that can no longer change; True when the tail goes on with the same block."""
        tail = self._tail
        if "\n" in tail and len(tail) >= self._parsed * 9 // 8:
            piece, self._tail, glued = split(tail)
            self._parsed = len(tail) if not piece and len(tail) > 2_000 else 0
            if piece:
                return piece, glued
        opening = _opening(tail)
        if len(tail) <= _HUGE or opening.lstrip().startswith(("```", "~~~")):  # code is not broken within a line
            return "", False
        at = max(tail.rfind("\n", len(opening), _HUGE), tail.rfind(" ", len(opening), _HUGE)) + 1 or _HUGE
        self._tail, self._parsed = opening + tail[at:], 0
        return tail[:at], True

    def _gather(self) -> None:
        new = "".join(self._pieces)
        self._pieces.clear()
        self.text += new
        self._ahead += self._visible.feed(new) if new else ""

    def _lines(self, source: str, columns: int, theme: Theme) -> list[Line]:
        """The source drawn, set apart from the block before."""
        lines = _render(source, columns - len(self._mark), theme) if source.strip() else []
        if self._mark:
            lines = [[("", " " * len(self._mark)), *line] if line else [] for line in lines]
        if self._mark and lines and not self.started:
            lines[0][0] = ("accent", self._mark)
        apart = lines and self.started and not self._glued
        self.started = self.started or bool(lines)
        return [[], *lines] if apart else lines


def markdown_lines(text: str, columns: int, theme: Theme) -> list[Line]:
    """A whole Markdown text as lines, set in by two."""
    stream = MarkdownStream("  ")
    stream.feed(text)
    return stream.end(columns, theme)


def warm_up() -> None:
    """Load what rendering needs; a tenth of a second that is best spent in a thread while nothing is to be drawn."""
    _render("*a*\n\n```python\nx = 1\n```\n\n| a |\n|---|\n| b |\n", 40, Theme())


def split(tail: str) -> tuple[str, str, bool]:
    """(finished source, the rest, whether the rest goes on with the last block of the finished part)."""
    complete = tail[: tail.rfind("\n") + 1]
    lines = complete.splitlines(keepends=True)
    tokens = _parser().parse(complete)
    blocks = [t for t in tokens if t.level == 0 and t.map and t.nesting >= 0]
    if not blocks:
        return "", tail, False
    last = blocks[-1]
    start, end = last.map or [0, 0]
    if last.type in _ENDS_AT_BLANK and end < len(lines) and not lines[end].strip():
        return _cut(tail, lines, end, glued=False)
    if len(blocks) > 1:
        return _cut(tail, lines, start, glued=False)
    if last.type in ("bullet_list_open", "ordered_list_open") and len(complete) > _LONG_LIST:
        items = [t.map[0] for t in tokens if t.type == "list_item_open" and t.level == 1 and t.map]
        if len(items) > 1:
            return _cut(tail, lines, items[-1], glued=True)
    if last.type == "fence" and len(lines) - start > _LONG_CODE:
        # Cut where that does not spoil the colours: before the last line that starts a statement.
        last_lines = range(len(lines) - 1, start + _LONG_CODE // 2, -1)
        calm = (at for at in last_lines if not lines[at - 1].strip() and re.match(r"\S", lines[at]))
        piece, rest, _ = _cut(tail, lines, next(calm, len(lines)), glued=True)
        return piece, lines[start] + rest, True
    return "", tail, False


def _cut(tail: str, lines: Sequence[str], at: int, *, glued: bool) -> tuple[str, str, bool]:
    head = "".join(lines[:at])
    return (head, tail[len(head) :], glued) if head.strip() else ("", tail, False)


def _opening(tail: str) -> str:
    found = _OPENING.match(tail, 0, _HEAD)
    return found[0] if found else ""


def _render(source: str, columns: int, theme: Theme) -> list[Line]:
    from cowork.frontends.repl.view import markdown

    tokens = _parser().parse(source)
    deepest = min(_DEEPEST, (columns - 8) * 2 // 3)  # a list costs two levels and three columns
    if any(token.level > deepest for token in tokens):
        return [[("", row)] for row in wrap(source.rstrip("\n"), columns)]
    for token in tokens:
        for part in (token, *(token.children or ())):  # entities and addresses are spelled out: `&#8238;`, `<http://…>`
            part.content = visible(part.content)
    return markdown.render(tokens, columns, theme)


@cache
def _parser() -> MarkdownIt:
    """CommonMark with tables and strike-through; raw HTML is text."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
