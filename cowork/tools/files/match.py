"""Finds the text an edit means and puts the new text there, leaving every other byte as it was.

A newline in the wanted text stands for whatever newline the file has at that place, and so does one in the new text.
Copied line numbers, quotes a word processor would set, spaces at the ends of lines: models slip there all the time, and
what they meant is certain as long as exactly one place fits. Anything else is refused.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from difflib import SequenceMatcher

from cowork.core.frozen import frozen
from cowork.tools.files.diff import common_ends

MAX_SHOWN = 20
MAX_CARRIED = 5_000  # characters of a text that is compared letter by letter
MAX_WANTED = 60  # lines of the wanted text that are looked at
MAX_COMPARED = 2_000  # lines whose spelling is compared
MAX_LIKENESS = 200  # characters of them
MAX_HINT = 300  # characters of a line that are shown
ALIKE = 0.6  # share of characters that makes two lines alike
COMMON = 300  # a line or word found more often than this says nothing about the place
_NUMBERED = re.compile(r" *(\d+)\t")
_QUOTES = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")


def find(text: str, wanted: str) -> tuple[int, list[int]]:
    """How often a text occurs and on which lines, the first ones; overlapping occurrences count as two, since either
    could be meant."""
    places: list[int] = []
    at = text.find(wanted)
    while at >= 0 and len(places) < MAX_SHOWN:
        places.append(at)
        at = text.find(wanted, at + 1)
    return max(len(places), text.count(wanted)), [text.count("\n", 0, place) + 1 for place in places]


def replace(text: str, there: str, wanted: str, new: str) -> tuple[str, int]:
    """The text with every occurrence replaced, newlines in the file's style, and how many there were; `there` is the
    text as `wanted` was found in it: plain, or as it stands."""
    pieces = there.split(wanted)
    after = new.join(pieces)
    if there != text:
        ends = [*_new_ends(re.findall("\r?\n", text), pieces, wanted, new), ""]
        after = "".join(line + end for line, end in zip(after.split("\n"), ends, strict=True))
    return after, len(pieces) - 1


def plain(text: str) -> str:
    """The text with \\n for every \\r\\n."""
    return text.replace("\r\n", "\n")


def _new_ends(ends: list[str], pieces: list[str], wanted: str, new: str) -> list[str]:
    """The newlines of a text once `new` stands between its pieces. It has those of what it replaces, one by one; beyond
    them, the nearest before."""
    start, end = common_ends(wanted, new)
    head, tail = wanted.count("\n", 0, start), wanted.count("\n", len(wanted) - end)
    old, added = wanted.count("\n"), new.count("\n") - head - tail
    out: list[str] = []
    done = here = 0
    for piece in pieces[:-1]:
        here += piece.count("\n")
        last = here + old - tail
        replaced = ends[here + head : last][:added]
        beyond = [ends[max(0, last - 1)]] * (added - len(replaced))
        out += ends[done : here + head] + replaced + beyond
        done, here = last, here + old
    return out + ends[done:]


# ---------------------------------------------------------------- slips


@frozen
class Guess:
    """What an edit meant: the text as the file has it, the new text to go with it, and the slip in words."""

    old: str
    new: str
    slip: str


def guess(text: str, wanted: str, new: str) -> Guess | None:
    """What an edit means: what it says, or where that does not occur the one thing it can mean; None without one."""
    if wanted in text:
        return Guess(wanted, new, "")
    found = _without_numbers(text, wanted, new) or _quotes(text, wanted, new) or _line_ends(text, wanted, new)
    return found if found and _once(text, found.old) else None


def _without_numbers(text: str, wanted: str, new: str) -> Guess | None:
    """Both texts without the numbers Read puts before lines; the new one has them on every line or on none."""
    old, after = _strip_numbers(wanted), _strip_numbers(new)
    if old is None or not old.strip() or (after is None and any(map(_NUMBERED.match, new.split("\n")))):
        return None
    # A number stands at the start of a line: elsewhere it is a column of the file, and another one than was named.
    if not f"\n{text}".count(f"\n{old}"):
        return None
    return Guess(old, new if after is None else after, "the line numbers in old_string were left out")


def _strip_numbers(text: str) -> str | None:
    """The text without the numbers of its lines; None unless every line that is not blank has one."""
    lines = text.split("\n")
    numbers = [_NUMBERED.match(line) for line in lines]
    if not any(numbers) or any(line.strip() and not number for line, number in zip(lines, numbers, strict=True)):
        return None
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in lines)


def _quotes(text: str, wanted: str, new: str) -> Guess | None:
    """Quotes of another kind; where the new text repeats the old, the file keeps its own, and the rest follows suit."""
    if len(wanted) > MAX_CARRIED or len(new) > MAX_CARRIED:
        return None
    folded, sought = text.translate(_QUOTES), wanted.translate(_QUOTES)
    if not _once(folded, sought):
        return None
    at = folded.find(sought)
    old = text[at : at + len(wanted)]
    kinds: dict[str, set[str]] = {}  # for each quote of the wanted text, what the file has in its place
    for given, there in zip(wanted, old, strict=True):
        if given.translate(_QUOTES) in "'\"":
            kinds.setdefault(given, set()).add(there)
    kept: list[str] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, wanted, new, autojunk=False).get_opcodes():
        added = "" if tag == "equal" else new[j1:j2]
        if any(len(kinds.get(char, "")) > 1 for char in added):
            return None  # opening or closing: nobody can tell
        kept.append(old[i1:i2] if tag == "equal" else "".join(min(kinds.get(char, char)) for char in added))
    return Guess(old, "".join(kept), "old_string was matched with the kind of quotes the file has")


def _line_ends(text: str, wanted: str, new: str) -> Guess | None:
    """Spaces and tabs at the ends of lines; lines the new text repeats stay as the file has them."""
    lines = wanted.split("\n")
    if not wanted.strip() or len(wanted) > MAX_CARRIED:
        return None
    ends = [re.escape(line.rstrip(" \t")) + r"[ \t]*" for line in lines]
    if not lines[0].strip(" \t"):  # a blank line, or the newline before a line: never the end of a line with words
        ends[0] = r"^[ \t]*" if lines[0] else ""
    ends[-1] = ends[-1] + r"(?=\n|\Z)" if lines[-1].strip(" \t") else re.escape(lines[-1])
    pattern = re.compile(r"\n".join(ends), re.MULTILINE)
    found = pattern.search(text)
    if found is None or pattern.search(text, found.start() + 1):
        return None
    there, after = found[0].split("\n"), new.split("\n")
    codes = SequenceMatcher(None, lines, after, autojunk=False).get_opcodes()
    kept = [part for tag, i1, i2, j1, j2 in codes for part in (there[i1:i2] if tag == "equal" else after[j1:j2])]
    return Guess(found[0], "\n".join(kept), "whitespace at the ends of lines was matched as the file has it")


def _once(text: str, wanted: str) -> bool:
    """Whether it occurs, and nowhere else, not even overlapping: then replacing all of it is replacing it."""
    at = text.find(wanted)
    return at >= 0 and text.find(wanted, at + 1) < 0


# ---------------------------------------------------------------- hints where nothing fits


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
    shown = "\n".join(line if len(line) <= MAX_HINT else line[:MAX_HINT] + "…" for line in diff)
    return f"{said}\n{shown}".strip(), start + 1


def slips(text: str, wanted: str) -> str:
    """A slip of another kind than wrong lines, in words; empty when there is none."""
    unescaped = wanted.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
    for meant, said in (
        (
            re.sub(r"^\d+\t", "", wanted, flags=re.M),
            "old_string holds the line numbers that Read puts before each line: leave them and the tab out.",
        ),
        (unescaped, "old_string is escaped once too often: the file has it with one level of backslashes less."),
        (wanted.strip(), "The file has this text without the whitespace at the start or end of old_string."),
    ):
        if meant and meant != wanted and meant in text:
            return said
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
    start = min(votes, key=lambda place: (-votes[place], place))
    return max(0, min(start, len(lines) - 1))


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
        f"{ascii(is_there)[:MAX_HINT]}, old_string has {ascii(sent)[:MAX_HINT]}."
    )


_LOOKALIKE = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "…": "...", "\u200b": ""}
)


def _key(line: str) -> str:
    """What a line says: without whitespace, case and the difference between characters that look alike."""
    if not line.isascii():
        line = unicodedata.normalize("NFKC", line).translate(_LOOKALIKE)
    return "".join(line.split()).casefold()
