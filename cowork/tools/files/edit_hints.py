"""For an edit whose text is not in the file: the lines it most likely meant, and in words what is different."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter

MAX_WANTED = 60  # lines of the wanted text that are looked at
MAX_COMPARED = 2_000  # lines whose spelling is compared
MAX_LIKENESS = 200  # characters of them
ALIKE = 0.6  # share of characters that makes two lines alike
COMMON = 300  # a line or word found more often than this says nothing about the place


def nearest_lines(text: str, wanted: str) -> tuple[str, int]:
    """(a diff of what was wanted against the nearest lines, with the difference named; their first line or 0)."""
    lines, sought = text.split("\n"), wanted.strip("\n").split("\n")[:MAX_WANTED]
    start = _by_words(lines, sought)
    if start is None and (start := _by_likeness(lines, sought)) is None:
        return "", 0
    there = lines[start : start + len(sought)]
    said = _named(sought, there, start + 1)
    diff = difflib.unified_diff(
        sought, there, "old_string", f"lines {start + 1}-{start + len(there)}", lineterm="", n=1
    )
    shown = "\n".join(line if len(line) <= 300 else line[:300] + "…" for line in diff)
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


def _named(sought: list[str], there: list[str], first: int) -> str:
    """What the difference is when it is of one kind; else where the nearest lines are."""
    place = f"line {first}" if len(there) == 1 else f"lines {first}-{first + len(there) - 1}"
    if sought == there:
        return f"The nearest is {place}; only newlines at the start or end of old_string are different."
    for same, name in _KINDS:
        if len(sought) == len(there) and all(same(a) == same(b) for a, b in zip(sought, there, strict=True)):
            detail = next(
                _detail(a, b, first + i) for i, (a, b) in enumerate(zip(sought, there, strict=True)) if a != b
            )
            return f"The nearest is {place}; only {name} differs: {detail}."
    return f"The nearest is {place}:"


def _bare(line: str) -> str:
    return "".join(line.split())


def _key(line: str) -> str:
    return (_bare(line) if line.isascii() else _ascii(line)).casefold()


_LOOKALIKE = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "…": "...", "\u200b": ""}
)


def _ascii(line: str) -> str:
    return _bare(unicodedata.normalize("NFKC", line).translate(_LOOKALIKE))


_KINDS = (
    (str.rstrip, "whitespace at the end of a line"),
    (str.lstrip, "indentation"),
    (_bare, "whitespace"),
    (str.casefold, "upper and lower case"),
    (_ascii, "look-alike characters (quotes, dashes, spaces)"),
)


def _detail(sent: str, there: str, number: int) -> str:
    """One line's difference, spelled out so that it can be copied."""
    if sent.lstrip() == there.lstrip():
        starts = [_spelled(line[: len(line) - len(line.lstrip())]) for line in (there, sent)]
        return f"line {number} begins with {starts[0]}, old_string with {starts[1]}"
    if sent.rstrip() == there.rstrip():
        ends = [_spelled(line[len(line.rstrip()) :]) for line in (there, sent)]
        return f"line {number} ends with {ends[0]}, old_string with {ends[1]}"
    at = next((i for i, (a, b) in enumerate(zip(sent, there, strict=False)) if a != b), min(len(sent), len(there)))
    return f"line {number}, column {at + 1} has {_one(there[at : at + 1])}, old_string {_one(sent[at : at + 1])}"


def _spelled(space: str) -> str:
    """Whitespace in words: `2 tabs, 4 spaces`."""
    if not space:
        return "no whitespace"
    runs = re.findall(r"((.)\2*)", space, re.S)
    names = {" ": "space", "\t": "tab", "\r": "carriage return"}
    return ", ".join(
        f"{len(run)} {names.get(char, f'U+{ord(char):04X}')}{'s' if len(run) > 1 else ''}" for run, char in runs
    )


def _one(char: str) -> str:
    if not char:
        return "nothing"
    return _spelled(char) if char.isspace() else f"{char!r} (U+{ord(char):04X})"
