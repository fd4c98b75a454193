"""A tool call in one line, as its `tool.started` tells it."""

from __future__ import annotations

from cowork.core.events import ToolStarted
from cowork.core.format import one_line

LOOKS = ("read", "search")  # families of tools; a run of such calls is folded
FEW = 2  # looks that are told one by one


def call_line(call: ToolStarted) -> str:
    """What the call is about; in logs of earlier versions, which do not say it, the first text it was given."""
    if call.family:
        return one_line(call.line)
    return one_line(next((value for value in call.input.values() if isinstance(value, str)), ""))


def call_text(call: ToolStarted, *, width: int = 72) -> str:
    """A call in a few words: `Read shop/a.py`, `Grep "guest"`, `Bash $ git push`."""
    return f"{one_line(call.name, 40)} {one_line(call_line(call), width)}".rstrip()
