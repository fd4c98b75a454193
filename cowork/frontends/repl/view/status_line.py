"""The line under the input: mode, context, cost and what is going on, as much as there is room for."""

from __future__ import annotations

from collections.abc import Iterable

from cowork.core import format
from cowork.core.format import one_line
from cowork.frontends.host import Status
from cowork.frontends.styled import Line, clip_line, line_width, width

_MODES = {"ask": "dim", "accept-edits": "good", "auto": "warn", "plan": "code", "bypass": "bad"}
_OWN_FACTS = ("branch", "model", "context", "cost")  # in the order in which they give way


def status_line(
    status: Status, columns: int, *, queued: int = 0, children: int = 0, asking: int = 0, hint: str = ""
) -> Line:
    """Mode first, then what is used up. Branch, model, context and cost give way to the end of the hint."""
    facts = _facts(status, queued, children, asking)
    room = columns - 1
    line = _join(facts.values())
    stop = hint.rpartition(" · ")[2] if "Esc" in hint else ""  # how to stop is worth more than what it costs
    for name, wanted in zip(_OWN_FACTS, (hint, hint, stop, stop), strict=True):
        if wanted and line_width(line) + width(wanted) + 3 > room:
            facts.pop(name, None)
            line = _join(facts.values())
    while line_width(line) > room and len(facts) > 1:
        least = next((name for name in _OWN_FACTS if children and name in facts), "")
        facts.pop(least) if least else facts.popitem()
        line = _join(facts.values())
    spare = room - line_width(line)
    while hint and spare < width(hint) + 3:  # its last part matters most
        hint = hint.partition(" · ")[2]
    if hint:
        line += [("", " " * (spare - width(hint))), ("faint", hint)]
    return clip_line(line, columns)


def _facts(status: Status, queued: int, children: int, asking: int) -> dict[str, Line]:
    percent = status.context_percent
    known = (
        ("line", "dim", one_line(status.line)),
        ("context", "warn" if (percent or 0) >= 80 else "dim", "" if percent is None else f"context {percent:.0f} %"),
        ("cost", "dim", format.money(status.cost_usd)),
        ("queued", "accent", f"{queued} queued" if queued else ""),
        ("jobs", "accent", format.plural(status.jobs, "job") if status.jobs else ""),
        ("children", "accent", format.plural(children, "child") if children else ""),
        ("model", "dim", one_line(status.model)),
        ("branch", "dim", one_line(status.branch)),
    )
    facts: dict[str, Line] = {"mode": [(_MODES.get(status.mode, "dim"), one_line(status.mode)), ("faint", " ⇧⇥")]}
    facts |= {name: [(style, text)] for name, style, text in known if text}
    for name in _OWN_FACTS if status.line else ():  # the person's line takes their place
        facts.pop(name, None)
    if asking:
        facts["children"].append(("warn", f" · {asking} {'waits' if asking == 1 else 'wait'} for you"))
    return facts


def _join(facts: Iterable[Line]) -> Line:
    return [span for place, fact in enumerate(facts) for span in (("", "   " if place else " "), *fact)]
