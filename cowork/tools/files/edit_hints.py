"""For an edit whose text is not in the file: the lines it most likely meant, and in words what is different."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter

MAX_WANTED = 60  # lines of the wanted text that are looked at
MAX_COMPARED = 2_000  # lines whose spelling is compared
MAX_LIKENESS = 200  # characters of them
MAX_SHOWN = 300
ALIKE = 0.6  # share of characters that makes two lines alike
COMMON = 300  # a line or word found more often than this says nothing about the place


def nearest_lines(text: str, wanted: str) -> tuple[str, int]:
    """(a diff of what was wanted against the nearest lines, with the difference named; their first line or 0)."""
    lines, sought = text.split("\n"), wanted.strip("\n").split("\n")[:MAX_WANTED]
    start = _by_words(lines, sought)
    if start is None and (start := _by_likeness(lines, sought)) is None:
        return "", 0
    there = lines[start : start + len(sought)]
    said = _where(sought, there, start + 1)
    diff = difflib.unified_diff(
        sought, there, "old_string", f"lines {start + 1}-{start + len(there)}", lineterm="", n=1
    )
    shown = "\n".join(line if len(line) <= MAX_SHOWN else line[:MAX_SHOWN] + "…" for line in diff)
    return f"{said}\n{shown}".strip(), start + 1


def slips(text: str, wanted: str) -> str:
    """A slip of another kind than wrong lines, in words; empty when there is none."""
    if re.search(r"^\d+\t", wanted, re.M) and re.sub(r"^\d+\t", "", wanted, flags=re.M) in text:
        return "old_string holds the line numbers that Read puts before each line: leave them and the tab out."
    if "\\" in wanted:
        loose = wanted.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
        if loose != wanted and loose in text:
            return "old_string is escaped once too often: the file has it with one level of backslashes less."
    if wanted.strip() and wanted.strip() in text:
        return "The file has this text without the whitespace at the start or end of old_string."
    return ""


def _by_words(lines: list[str], sought: list[str]) -> int | None:
    """Each wanted line that occurs, spaces, case and look-alikes aside, votes for where the whole would begin, and so
    does each word; long and rare ones weigh most."""
    wanted: dict[str, list[int]] = {}
    for number, line in enumerate(sought):
        for part in _parts(line):
            wanted.setdefault(part, []).append(number)
    found: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        for part in wanted.keys() & _parts(line):
            found.setdefault(part, []).append(number)
    votes: Counter[int] = Counter()
    for part, places in found.items():
        if len(places) <= COMMON:
            for place in places:
                for number in wanted[part]:
                    votes[place - number] += 1000 * len(part) // len(places)
    if not votes:
        return None
    best = max(votes.values())
    return max(0, min(min(place for place, count in votes.items() if count == best), len(lines) - 1))


def _parts(line: str) -> set[str]:
    return {key, *re.findall(r"\w{3,}", line)} if (key := _key(line)) else set()


def _by_likeness(lines: list[str], sought: list[str]) -> int | None:
    """No word occurs: the line that is most like the longest one wanted."""
    number = max(range(len(sought)), key=lambda i: len(_key(sought[i])))
    keys = [_key(line)[:MAX_LIKENESS] for line in lines[:MAX_COMPARED]]
    near = difflib.get_close_matches(_key(sought[number])[:MAX_LIKENESS], keys, 1, ALIKE)
    return max(0, keys.index(near[0]) - number) if near else None


def _where(sought: list[str], there: list[str], first: int) -> str:
    """Where the nearest lines are, and how they differ if that is hard to see."""
    place = f"line {first}" if len(there) == 1 else f"lines {first}-{first + len(there) - 1}"
    if sought == there:
        return f"The nearest is {place}; only newlines at the start or end of old_string are different."
    if list(map(_key, sought)) != list(map(_key, there)):
        return f"The nearest is {place}:"
    number, sent, is_there = next(
        (first + i, *pair) for i, pair in enumerate(zip(sought, there, strict=True)) if pair[0] != pair[1]
    )
    return (
        f"The nearest is {place}; only whitespace, case or look-alike characters differ: line {number} is "
        f"{ascii(is_there)[:MAX_SHOWN]}, old_string has {ascii(sent)[:MAX_SHOWN]}."
    )


_LOOKALIKE = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "…": "...", "\u200b": ""}
)


def _key(line: str) -> str:
    """What a line says: without whitespace, case and the difference between characters that look alike."""
    if not line.isascii():
        line = unicodedata.normalize("NFKC", line).translate(_LOOKALIKE)
    return "".join(line.split()).casefold()
