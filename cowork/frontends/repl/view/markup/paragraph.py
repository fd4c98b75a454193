"""A paragraph that still grows: which of its rows can no longer change, and what of it was printed already.

What was printed is remembered as its characters without the blanks, so that a change of width in between does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cowork.frontends.repl.view.styled import Line, plain

# A mark that stands in the text may yet become emphasis, code, a link or a table; inside a word `_` cannot.
_OPEN = re.compile(r"[*`\[\]<|~\\&]|(?<!\w)_|_(?!\w)")


def letters(lines: Sequence[Line]) -> int:
    """How many characters there are, blanks not counted."""
    return sum(len("".join(plain(line).split())) for line in lines)


def after(lines: Sequence[Line], count: int) -> list[Line]:
    """The lines without their first `count` characters, blanks not counted."""
    for index, line in enumerate(lines):
        if count == 0:
            return list(lines[index:])
        inside = letters([line])
        if inside > count:
            return [_without(line, count), *lines[index + 1 :]]
        count -= inside
    return []


def steady(lines: Sequence[Line]) -> list[Line]:
    """The rows that stay as they are however the paragraph goes on: not the last, nor any from an open mark on."""
    out: list[Line] = []
    for line in lines[:-1]:
        if _OPEN.search(plain(line)):
            break
        out.append(line)
    return out


def rest_of(source: str, count: int) -> str:
    """The source behind its first `count` characters; nothing where marks make it differ from what was drawn."""
    at = 0
    while count and at < len(source):
        count -= not source[at].isspace()
        at += 1
    return "" if _OPEN.search(source, 0, at) else source[at:].lstrip()


def _without(line: Line, count: int) -> Line:
    out: Line = []
    for style, text in line:
        at = 0
        while count and at < len(text):
            count -= not text[at].isspace()
            at += 1
        rest = text[at:] if out else text[at:].lstrip()
        if not count and rest:
            out.append((style, rest))
    return out
