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
MAX_COMPARISONS = 4_000_000  # beyond it the changed part is shown as one block, as difflib is quadratic


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
    changes = _changes(a, b)
    added = sum(j2 - j1 for _, _, _, j1, j2 in changes)
    removed = sum(i2 - i1 for _, i1, i2, _, _ in changes)
    if not changes:
        return Diff("", 0, 0)
    lines = [f"--- {old_name}", f"+++ {new_name}"]
    for group in _hunks(changes):
        lines += _hunk(a, b, group, before)
    if len(lines) > max_lines:
        lines = [*lines[:max_lines], f"… {len(lines) - max_lines} more lines of diff"]
    return Diff("\n".join(lines) + "\n", added, removed)


def as_display(shown: str, before: str, after: str, *, created: bool = False) -> Json:
    """The change of a file as people are shown it, before and after it is made."""
    diff = unified(before, after, "/dev/null" if created else f"a/{shown}", f"b/{shown}")
    counts = {"added": diff.added, "removed": diff.removed}
    return {"kind": "diff", "path": shown, "diff": printable(diff.text), **counts, "summary": diff.summary}


Change = tuple[str, int, int, int, int]


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


def _changes(a: list[str], b: list[str]) -> list[Change]:
    head = _common(a, b)
    tail = _common(a[head:][::-1], b[head:][::-1])
    x, y = a[head : len(a) - tail], b[head : len(b) - tail]
    if not x and not y:
        return []
    if not x or not y or len(x) * len(y) > MAX_COMPARISONS:
        return [("replace", head, head + len(x), head, head + len(y))]
    codes = difflib.SequenceMatcher(None, x, y, autojunk=len(x) + len(y) > 1000).get_opcodes()
    return [(tag, i1 + head, i2 + head, j1 + head, j2 + head) for tag, i1, i2, j1, j2 in codes if tag != "equal"]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _hunks(changes: list[Change]) -> list[list[Change]]:
    """Changes whose contexts touch belong together."""
    groups = [[changes[0]]]
    for change in changes[1:]:
        if change[1] - groups[-1][-1][2] <= 2 * CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk(a: list[str], b: list[str], group: list[Change], before: int) -> list[str]:
    start, end = max(0, group[0][1] - CONTEXT), min(len(a), group[-1][2] + CONTEXT)
    out: list[str] = []
    at = start
    for _, i1, i2, j1, j2 in group:
        out += _marked(" ", a[at:i1]) + _marked("-", a[i1:i2]) + _marked("+", b[j1:j2])
        at = i2
    out += _marked(" ", a[at:end])
    new_start = max(0, group[0][3] - (group[0][1] - start))
    new_end = group[-1][4] + (end - group[-1][2])
    places = _range(before + start, before + end), _range(before + new_start, before + new_end)
    return [f"@@ -{places[0]} +{places[1]} @@", *out]


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
