"""Unified diffs that stay small and quick: what is equal at both ends is trimmed before anything is compared."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from cowork.core.blocks import Json
from cowork.core.frozen import frozen
from cowork.tools.files.encoding import common_ends, printable

CONTEXT = 3
MAX_LINES = 400
MAX_LINE = 500
MAX_COMPARISONS = 4_000_000  # as difflib is quadratic


@frozen
class Diff:
    """A unified diff, cut to `MAX_LINES`, and its true counts."""

    text: str
    added: int
    removed: int

    @property
    def summary(self) -> str:
        return f"+{self.added} −{self.removed}"


def unified(old: str, new: str, old_name: str, new_name: str, *, max_lines: int = MAX_LINES) -> Diff:
    """What turns `old` into `new`, line by line; a change of newlines alone is a change."""
    start, tail = _same_lines(old, new)
    before = old.count("\n", 0, start)
    a, b = _lines(old[start : len(old) - tail]), _lines(new[start : len(new) - tail])
    lines = [f"--- {old_name}", f"+++ {new_name}"]
    added = removed = 0
    for hunk in _Matcher(None, a, b, autojunk=False).get_grouped_opcodes(CONTEXT):
        first, last = hunk[0], hunk[-1]
        places = _range(before + first[1], before + last[2]), _range(before + first[3], before + last[4])
        lines.append(f"@@ -{places[0]} +{places[1]} @@")
        for tag, i1, i2, j1, j2 in hunk:
            if tag == "equal":
                lines += _marked(" ", a[i1:i2])
                continue
            lines += _marked("-", a[i1:i2]) + _marked("+", b[j1:j2])
            added, removed = added + j2 - j1, removed + i2 - i1
    if len(lines) > max_lines:
        lines = [*lines[:max_lines], f"… {len(lines) - max_lines} more lines of diff"]
    return Diff("\n".join(lines) + "\n" if added or removed else "", added, removed)


def as_display(shown: str, before: str, after: str, *, created: bool = False) -> Json:
    """The change of a file as people are shown it, before and after it is made."""
    diff = unified(before, after, "/dev/null" if created else f"a/{shown}", f"b/{shown}")
    counts = {"added": diff.added, "removed": diff.removed}
    return {"kind": "diff", "path": shown, "diff": printable(diff.text), **counts, "summary": diff.summary}


def _lines(text: str) -> list[str]:
    """Lines with their newlines; only \\n ends one, so that other separators stay inside."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _same_lines(old: str, new: str) -> tuple[int, int]:
    """Characters in whole lines that both begin and end with, but for the lines shown around the change."""
    head, tail = common_ends(old, new)
    start = old.rfind("\n", 0, head) + 1
    for _ in range(CONTEXT):
        start = old.rfind("\n", 0, max(0, start - 1)) + 1
    end = len(old) - tail - 1
    for _ in range(CONTEXT + 1):
        end = old.find("\n", end + 1)
        if end < 0:
            return start, 0
    return start, len(old) - end - 1


class _Matcher(difflib.SequenceMatcher[str]):
    """Compares lines, those at both ends first; beyond `MAX_COMPARISONS` what is between them counts as all new."""

    a: Sequence[str]
    b: Sequence[str]

    def get_matching_blocks(self) -> list[difflib.Match]:
        a, b = self.a, self.b
        head = _common(a, b)
        tail = _common(a[head:][::-1], b[head:][::-1])
        x, y = a[head : len(a) - tail], b[head : len(b) - tail]
        blocks = [(0, 0, head), (len(a) - tail, len(b) - tail, tail), (len(a), len(b), 0)]
        if len(x) * len(y) <= MAX_COMPARISONS:
            middle = difflib.SequenceMatcher(None, x, y, autojunk=len(x) + len(y) > 1000).get_matching_blocks()
            blocks[1:1] = [(i + head, j + head, size) for i, j, size in middle]
        return [difflib.Match(*block) for block in blocks]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _marked(sign: str, lines: Sequence[str]) -> list[str]:
    out: list[str] = []
    for line in lines:
        body = line.removesuffix("\n")
        out.append(sign + (body if len(body) <= MAX_LINE else body[:MAX_LINE] + "…"))
        if not line.endswith("\n"):
            out.append("\\ No newline at end of file")
    return out


def _range(start: int, end: int) -> str:
    count = end - start
    return str(start + 1) if count == 1 else f"{start + (count > 0)},{count}"
