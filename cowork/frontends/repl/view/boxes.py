"""The frame around panels, dialogs and lists: a rule with a title, a bar at the left, a foot; open at the right.

Without a right edge most rows are short. A terminal that wraps old rows when it gets narrower then has little to wrap,
so nothing live is pushed into the scrollback; and no edge is ragged where terminals disagree on a character's width.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cowork.frontends.repl.view.styled import Line, Span, beside, clip, clip_line

MARGIN = 2  # columns of the bar
_DIVIDER = 14


def box(head: Sequence[Span], facts: str, rows: Iterable[Line], foot: str, columns: int, style: str) -> list[Line]:
    """A frame in at most `columns`; the facts stand at the right end of the title, while there is room."""
    right: Line = [("dim", f" {facts}")] if facts else []
    out = [beside([(style, "╭ "), *head, ("", " ")], right, columns, fill="─", style=style)]
    out.extend([(style, "│ "), *clip_line(row, columns - MARGIN)] if row else [(style, "│")] for row in rows)
    out.append([(style, "╰ "), ("dim", clip(foot, columns - MARGIN))] if foot else [(style, "╰")])
    return out


def divider(style: str) -> Line:
    """A row that parts the rows above from those below."""
    return [(style, "├"), ("faint", "╌" * _DIVIDER)]
