"""The frame around panels, dialogs and lists: a rich Panel with a title, facts at its right end, and a foot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cowork.frontends.repl.view.styled import Line, Span, clip_facts, clip_line, line_width, width

MARGIN = 4  # columns of the two edges
_EDGES = ("rule", "accent", "warn")  # the styles boxes are drawn in
_LEFT, _RIGHT = "╭│├╰", "╮│┤╯"
_DIVIDER = 14  # columns of a divider that stops short
_HEAD = 10  # columns a title needs beside its facts


def box(head: Sequence[Span], facts: str, rows: Iterable[Line], foot: str, columns: int, style: str) -> list[Line]:
    """A frame of exactly `columns`; the facts stand at the right end of the title and outlive most of it."""
    from cowork.frontends.repl.view.rich_panel import panel  # rich.panel is only loaded for the first box

    room = max(1, columns - MARGIN - 2)  # the edge, a piece of rule and a space at either end
    facts = facts if room - width(facts) >= _HEAD else ""
    title = clip_line(head, room - width(facts) - 2 if facts else room)
    if facts:
        rule = "─" * (room - line_width(title) - width(facts) - 2)
        title += [(style, f" {rule} "), ("dim", facts)]
    inside = [clip_line(row, columns - MARGIN) for row in rows]
    return panel(title, inside, [("dim", clip_facts(foot, room))] if foot else [], columns, style)


def divider(columns: int, style: str) -> Line:
    """A row that separates the rows above from those below."""
    return [(style, "├"), ("faint", "╌" * max(0, columns - 2)), (style, "┤")]


def barred(line: Line) -> Line:
    """A row of a box with a bar at its left instead of the frame, as short as what it holds; others as they are."""
    style = line[0][0] if line else ""
    if style not in _EDGES or line[0][1][0] not in _LEFT or line[-1][1][-1:] not in _RIGHT:
        return line
    inside: Line = [("", " ")] if line[0][1] != "│" else []
    for kind, text in line[1:-1]:
        rule = kind in _EDGES and text.strip() and not text.strip(" ─")  # between a title and its facts
        inside.append((kind, "   " if rule else text[:_DIVIDER] if text.startswith("╌") else text))
    while inside and not inside[-1][1].rstrip():
        inside.pop()
    return [(style, "┃"), *inside[:-1], *((kind, text.rstrip()) for kind, text in inside[-1:])]
