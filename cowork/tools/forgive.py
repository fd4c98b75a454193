"""Edits whose text is not in the file letter by letter, yet can mean one place only.

Copied line numbers, quotes a word processor would set, spaces at the ends of lines: models slip there all the time, and
what they meant is certain as long as exactly one place fits. Anything else is refused as before.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from cowork.core.frozen import frozen

MAX_CARRIED = 5_000  # characters of a text that is compared letter by letter
_NUMBERED = re.compile(r" *\d+\t")
_QUOTES = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")


@frozen
class Meant:
    """What an edit meant: the text as the file has it, the new text to go with it, and the slip in words."""

    old: str
    new: str
    slip: str


def meant(text: str, wanted: str, new: str) -> Meant | None:
    """The one thing an edit can mean whose `wanted` text does not occur; None when that is not certain."""
    return _without_numbers(text, wanted, new) or _quotes(text, wanted, new) or _line_ends(text, wanted, new)


def _without_numbers(text: str, wanted: str, new: str) -> Meant | None:
    """Both texts without the numbers Read puts before lines; the new one has them on every line or on none."""
    old, numbered = _stripped(wanted)
    after, renumbered = _stripped(new)
    if numbered != "all" or renumbered == "some" or not old.strip() or text.count(old) != 1:
        return None
    return Meant(old, after, "the line numbers in old_string were left out")


def _stripped(text: str) -> tuple[str, str]:
    """The text without line numbers, and how many of its lines had one."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    found = sum(_NUMBERED.match(line) is not None for line in filled)
    how = "none" if not found else "all" if found == len(filled) else "some"
    return ("\n".join(_NUMBERED.sub("", line, count=1) for line in lines) if how == "all" else text), how


def _quotes(text: str, wanted: str, new: str) -> Meant | None:
    """Quotes of another kind; where the new text repeats the old, the file keeps its own."""
    if len(wanted) > MAX_CARRIED or len(new) > MAX_CARRIED:
        return None
    folded, sought = text.translate(_QUOTES), wanted.translate(_QUOTES)
    at = folded.find(sought)
    if at < 0 or folded.find(sought, at + 1) >= 0:
        return None
    old = text[at : at + len(wanted)]
    codes = SequenceMatcher(None, wanted, new, autojunk=False).get_opcodes()
    kept = "".join(old[i1:i2] if tag == "equal" else new[j1:j2] for tag, i1, i2, j1, j2 in codes)
    return Meant(old, kept, "old_string was matched with the kind of quotes the file has")


def _line_ends(text: str, wanted: str, new: str) -> Meant | None:
    """Spaces and tabs at the ends of lines; lines the new text repeats stay as the file has them."""
    lines = wanted.split("\n")
    if not wanted.strip() or len(wanted) > MAX_CARRIED:
        return None
    last = r"[ \t]*(?=\n|\Z)" if lines[-1].strip() else re.escape(lines[-1])
    body = [re.escape(line.rstrip(" \t")) for line in lines]
    pattern = re.compile(r"[ \t]*\n".join([*body[:-1], (body[-1] if lines[-1].strip() else "") + last]))
    found = pattern.search(text)
    if found is None or pattern.search(text, found.start() + 1):
        return None
    there, after = found[0].split("\n"), new.split("\n")
    codes = SequenceMatcher(None, lines, after, autojunk=False).get_opcodes()
    kept = [part for tag, i1, i2, j1, j2 in codes for part in (there[i1:i2] if tag == "equal" else after[j1:j2])]
    return Meant(found[0], "\n".join(kept), "whitespace at the ends of lines was matched as the file has it")
