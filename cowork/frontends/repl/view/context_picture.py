"""What fills a model's context window: one bar for the whole, and a row for each part."""

from __future__ import annotations

from cowork.core import format
from cowork.core.format import one_line
from cowork.frontends.host import ContextUse
from cowork.frontends.repl.view.styled import Line, clip, clip_line, pad, width
from cowork.frontends.repl.view.theme import Theme

_COLOURS = ("blue", "cyan", "green", "yellow", "orange", "magenta", "purple", "pink")
_WIDEST_BAR, _WIDEST_NAME = 72, 28


def context_lines(use: ContextUse, columns: int, theme: Theme) -> list[Line]:
    """The window as a bar of coloured pieces, free room at its end; under it the parts, the largest first."""
    parts = sorted(((name, size) for name, size in use.parts if size > 0), key=lambda part: -part[1])
    room = max(10, min(_WIDEST_BAR, columns - 4))
    total = max(1, use.window, sum(size for _, size in parts))
    styles = [theme.agent(_COLOURS[place % len(_COLOURS)]) for place in range(len(parts))]
    pieces = [max(1, round(room * size / total)) for _, size in parts]
    bar: Line = [("", "  "), *((style, "█" * count) for style, count in zip(styles, pieces, strict=True))]
    bar.append(("faint", "░" * max(0, room - sum(pieces))))
    share = f"{100 * use.used / max(1, use.window):.0f} %"
    head: Line = [("", "  "), ("bold", f"{format.tokens(use.used)} of {format.tokens(use.window)} tokens"),
                  ("dim", f" · {share} at the last request")]  # fmt: skip
    name_room = min(_WIDEST_NAME, max((width(one_line(name)) for name, _ in parts), default=0))
    out = [clip_line(head, columns), clip_line(bar, columns), []]
    for (name, size), style in zip(parts, styles, strict=True):
        told = f"{100 * size / max(1, use.window):>5.1f} %"
        line: Line = [("", "  "), (style, "■ "), ("", pad(clip(one_line(name), name_room), name_room)),
                      ("dim", f"  {format.tokens(size):>6}  {told}")]  # fmt: skip
        out.append(clip_line(line, columns))
    free = max(0, use.window - use.used)
    name = pad("free", name_room)
    out.append(clip_line([("", "  "), ("faint", "□ "), ("dim", f"{name}  {format.tokens(free):>6}")], columns))
    return out
