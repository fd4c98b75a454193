"""Unified diffs that stay small and quick: what is equal at both ends is trimmed before anything is compared."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from cowork.core.blocks import Json
from cowork.core.frozen import frozen
from cowork.tools.files.access import printable

CONTEXT = 3
MAX_LINES = 400
MAX_LINE = 500
MAX_COMPARISONS = 4_000_000  # as difflib is quadratic

_NO_END = "\n\\ No newline at end of file"  # behind a last line of which that is true


@frozen
class Diff:
    """A unified diff, cut to `MAX_LINES`, and its true counts."""

    text: str
    added: int
    removed: int


def unified_diff(old: str, new: str, old_name: str, new_name: str, *, max_lines: int = MAX_LINES) -> Diff:
    """What turns `old` into `new`, line by line; a change of newlines alone is a change."""
    a, b = _lines(old), _lines(new)
    lines = [f"--- {old_name}", f"+++ {new_name}"]
    added = removed = 0
    for hunk in _Matcher(a, b).get_grouped_opcodes(CONTEXT):
        first, last = hunk[0], hunk[-1]
        lines.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@")
        for tag, i1, i2, j1, j2 in hunk:
            if tag == "equal":
                lines += _mark(" ", a[i1:i2])
                continue
            lines += _mark("-", a[i1:i2]) + _mark("+", b[j1:j2])
            added, removed = added + j2 - j1, removed + i2 - i1
    if len(lines) > max_lines:
        lines = [*lines[:max_lines], f"… {len(lines) - max_lines} more lines of diff"]
    return Diff("\n".join(lines) + "\n" if added or removed else "", added, removed)


def as_display(shown: str, before: str, after: str, *, created: bool = False) -> Json:
    """The change of a file as people are shown it, before and after it is made."""
    diff = unified_diff(before, after, "/dev/null" if created else f"a/{shown}", f"b/{shown}")
    counts = {"added": diff.added, "removed": diff.removed, "summary": f"+{diff.added} −{diff.removed}"}
    return {"kind": "diff", "path": shown, "diff": printable(diff.text), **counts}


def _lines(text: str) -> list[str]:
    """Only \\n ends a line, so that other separators stay inside."""
    *lines, last = text.split("\n")
    return [*lines, last + _NO_END] if last else lines


class _Matcher(difflib.SequenceMatcher[str]):
    """Compares lines, those at both ends first; beyond `MAX_COMPARISONS` what is between them counts as all new."""

    def __init__(self, a: Sequence[str], b: Sequence[str]) -> None:
        super().__init__()  # which would index all lines, and most are equal
        self._sides = a, b

    def get_matching_blocks(self) -> list[difflib.Match]:
        a, b = self._sides
        head, tail = common_ends(a, b)
        x, y = a[head : len(a) - tail], b[head : len(b) - tail]
        blocks = [(0, 0, head), (len(a) - tail, len(b) - tail, tail), (len(a), len(b), 0)]
        if len(x) * len(y) <= MAX_COMPARISONS:
            middle = difflib.SequenceMatcher(None, x, y, autojunk=len(x) + len(y) > 1000).get_matching_blocks()
            blocks[1:1] = [(i + head, j + head, size) for i, j, size in middle]
        return [difflib.Match(*block) for block in blocks]


def common_ends(a: Sequence[str], b: Sequence[str]) -> tuple[int, int]:
    """How many lines, or characters, both begin with, and how many of the rest both end with."""
    head = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    most = min(len(a), len(b)) - head
    return head, next((i for i in range(most) if a[-1 - i] != b[-1 - i]), most)


def _mark(sign: str, lines: Sequence[str]) -> list[str]:
    out: list[str] = []
    for line in lines:
        body, _, note = line.partition("\n")
        out.append(sign + (body if len(body) <= MAX_LINE else body[:MAX_LINE] + "…"))
        out += [note] if note else []
    return out


def _range(start: int, end: int) -> str:
    count = end - start
    return str(start + 1) if count == 1 else f"{start + (count > 0)},{count}"
