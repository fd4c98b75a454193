"""Reading tool results the way a model would: from their text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from cowork.core.frozen import frozen
from cowork.providers.offline.plan import Result

_LINE = re.compile(r"^(.+?):(\d+):(.*)$")
_CONTEXT = re.compile(r"^(.+?)[:-](\d+)[:-](.*)$")
_UNDER = re.compile(r"^(\d+)([:-])(.*)$")  # the path stands above
_TOTAL = re.compile(r"^(?:at least )?([\d,]+) match(?:es)? in ([\d,]+) files?\.$", re.MULTILINE)
_COUNT = re.compile(r"^(.+):(\d+)$")
_FILES = re.compile(r"^(?:more than )?([\d,]+) files?, newest first\.$", re.MULTILINE)


@frozen
class Line:
    """A line of a file that a search found."""

    path: str
    number: int
    text: str

    @property
    def at(self) -> str:
        return f"{self.path}:{self.number}"


def lines(result: Result) -> list[Line]:
    """The hits of a Grep for content."""
    return [line for line, mark in _rows(result) if mark == ":"]


def lines_with_context(result: Result) -> list[Line]:
    """Hits and the lines around them."""
    return [line for line, _ in _rows(result)]


def _rows(result: Result) -> Iterator[tuple[Line, str]]:
    """Each line a Grep shows, with its path or under it, and the mark that tells a hit from what is around it."""
    path = ""
    rows = [] if result.failed else result.text.split("\n")
    for row, after in pairwise([*rows, ""]):
        if not row:
            path = ""
        elif path and (found := _UNDER.match(row)):
            yield Line(path, int(found[1]), found[3]), found[2]
        elif not path and row != "--" and _UNDER.match(after) and not _LINE.match(row):
            path = row
        elif found := _LINE.match(row):
            yield Line(found[1], int(found[2]), found[3]), ":"
        elif found := _CONTEXT.match(row):
            yield Line(found[1], int(found[2]), found[3]), "-"


def totals(result: Result) -> tuple[int, int]:
    """(matches, files) a Grep speaks of."""
    found = _TOTAL.search(result.text)
    return (_number(found[1]), _number(found[2])) if found and not result.failed else (0, 0)


def counts(result: Result) -> list[tuple[str, int]]:
    """(path, matches) of a Grep that counts."""
    if result.failed:
        return []
    found = (_COUNT.match(row) for row in result.text.splitlines())
    return [(m[1], int(m[2])) for m in found if m]


def paths(result: Result) -> list[str]:
    """The files of a Glob, or of a Grep for files, in the order given."""
    if result.failed or result.text.startswith("No "):
        return []
    rows = result.text.split("\n\n")[0].splitlines()
    return [row.removeprefix("./") for row in rows if row.strip()]


def total_files(result: Result) -> int:
    found = _FILES.search(result.text)
    return _number(found[1]) if found and not result.failed else 0


def numbered(result: Result) -> dict[int, str]:
    """The lines of a Read by number."""
    if result.failed:
        return {}
    out: dict[int, str] = {}
    for row in result.text.split("\n"):
        number, tab, text = row.partition("\t")
        if tab and number.isdigit():
            out[int(number)] = text
    return out


def total_lines(result: Result) -> int:
    """How many lines the file of a Read has."""
    if found := re.search(r"\[Lines \d+-\d+ of (?:more than )?(\d+)", result.text):
        return int(found[1])
    return max(numbered(result), default=0)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
