"""Finds the text an edit means and puts the new text there, leaving every other byte as it was.

A newline in the wanted text stands for whatever newline the file has at that place, and so does one in the new text.
"""

from __future__ import annotations

from bisect import bisect_left

from cowork.core.frozen import frozen
from cowork.tools.files.encoding import common_ends

MAX_SHOWN = 20


@frozen
class Occurrences:
    """How often the text occurs and on which lines (the first ones)."""

    count: int
    lines: list[int]
    slip: str = ""  # what was overlooked to find it


class Pages:
    """A file's text as \\n-only text for searching, and the way back to its own newlines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = plain(text)
        self._pairs = _pair_places(text)

    def find(self, wanted: str) -> Occurrences:
        """Occurrences of `wanted` (\\n-only); overlapping ones count as two, since either could be meant."""
        places: list[int] = []
        start = self.plain.find(wanted)
        while start >= 0 and len(places) < MAX_SHOWN:
            places.append(start)
            start = self.plain.find(wanted, start + 1)
        count = max(len(places), self.plain.count(wanted)) if places else 0
        return Occurrences(count, self._line_numbers(places))

    def replace(self, wanted: str, new: str) -> tuple[str, Occurrences]:
        """The text with every occurrence replaced, newlines in the file's style, and where that happened."""
        out: list[str] = []
        places: list[int] = []
        at, start = 0, self.plain.find(wanted)
        head, tail = common_ends(wanted, new)
        while start >= 0:
            first, last = self._place(start + head), self._place(start + len(wanted) - tail)
            out += [self.text[at:first], self._styled(new[head : len(new) - tail], first, last)]
            at = last
            places.append(start)
            start = self.plain.find(wanted, start + len(wanted))
        out.append(self.text[at:])
        return "".join(out), Occurrences(len(places), self._line_numbers(places[:MAX_SHOWN]))

    def _line_numbers(self, places: list[int]) -> list[int]:
        numbers, line, at = [], 1, 0
        for place in places:
            line += self.plain.count("\n", at, place)
            at = place
            numbers.append(line)
        return numbers

    def _place(self, plain_place: int) -> int:
        """Where a place of the \\n-only text is in the file's own text."""
        return plain_place + bisect_left(self._pairs, plain_place)

    def _styled(self, new: str, first: int, last: int) -> str:
        """New text with the newlines of what it replaces, one by one; beyond those, of its surroundings."""
        if "\n" not in new or not self._pairs:
            return new
        old_styles = _styles(self.text[first:last])
        beyond = old_styles[-1] if old_styles else self._style_at(first)
        lines = new.split("\n")
        styles = old_styles + [beyond] * len(lines)
        return "".join(line + style for line, style in zip(lines, styles, strict=False))[: -len(styles[len(lines) - 1])]

    def _style_at(self, place: int) -> str:
        """The nearest newline before this place, else after it."""
        end = self.text.rfind("\n", 0, place)
        if end < 0:
            end = self.text.find("\n", place)
        return "\r\n" if self.text[end - 1 : end + 1] == "\r\n" else "\n"


def plain(text: str) -> str:
    """The text with \\n for every \\r\\n."""
    return text.replace("\r\n", "\n")


def _pair_places(text: str) -> list[int]:
    """Where each \\r\\n stands once all before it are one character."""
    places: list[int] = []
    at = text.find("\r\n")
    while at >= 0:
        places.append(at - len(places))
        at = text.find("\r\n", at + 2)
    return places


def _styles(text: str) -> list[str]:
    return ["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[:-1]]
