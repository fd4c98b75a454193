"""The banner at the start and the status line under the input."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from cowork.core import format
from cowork.core.format import one_line
from cowork.frontends.host import Status
from cowork.frontends.repl.view.notes import in_chat
from cowork.frontends.repl.view.styled import Line, clip, clip_line, clip_start, line_width, width, wrap_behind

_MODES = {"ask": "dim", "accept-edits": "good", "auto": "warn", "plan": "code", "bypass": "bad"}


def banner_lines(status: Status, columns: int) -> list[Line]:
    """Who, where and with what, in a few lines."""
    name: Line = [("", " "), ("bold", f"cowork {one_line(status.version)}".rstrip()), ("dim", " · ")]
    state: Line = [("accent", f"  {one_line(status.branch)}")] if status.branch else []
    state.append(("good", " ✓trusted") if status.trusted else ("warn", " not trusted"))
    room = columns - line_width(name) - line_width(state)
    first: Line = [*name, ("", clip_start(short_home(one_line(status.cwd)), max(6, room))), *state]
    light = f" (light: {one_line(status.light_model)})" if status.light_model else ""
    facts = [f"model {one_line(status.model)}{light}", f"mode {one_line(status.mode)}"]
    if status.knowledge:
        facts.append(f"{', '.join(one_line(k) for k in status.knowledge)} read")
    if status.agents:
        facts.append(format.plural(status.agents, "agent"))
    out = [clip_line(first, columns), *_wrapped_facts(facts, columns)]
    for note in status.notes:
        out.extend(wrap_behind(("warn", " ! "), in_chat(one_line(note)), columns))
    return out


def status_line(
    status: Status, columns: int, *, queued: int = 0, children: int = 0, asking: int = 0, hint: str = ""
) -> Line:
    """Mode first, then what is used up. Branch, model, context and cost give way to the end of the hint."""
    facts = _facts(status, queued, children, asking)
    room = columns - 1
    line = _join(facts.values())
    stop = hint.rpartition(" · ")[2] if "Esc" in hint else ""  # how to stop is worth more than what it costs
    for name, wanted in (("branch", hint), ("model", hint), ("context", stop), ("cost", stop)):
        if wanted and line_width(line) + width(wanted) + 3 > room:
            facts.pop(name, None)
            line = _join(facts.values())
    while line_width(line) > room and len(facts) > 1:
        least = next((name for name in ("branch", "model", "context", "cost") if children and name in facts), "")
        facts.pop(least) if least else facts.popitem()
        line = _join(facts.values())
    spare = room - line_width(line)
    while hint and spare < width(hint) + 3:  # its last part matters most
        hint = hint.partition(" · ")[2]
    if hint:
        line += [("", " " * (spare - width(hint))), ("faint", hint)]
    return clip_line(line, columns)


def _facts(status: Status, queued: int, children: int, asking: int) -> dict[str, Line]:
    facts: dict[str, Line] = {"mode": [(_MODES.get(status.mode, "dim"), one_line(status.mode)), ("faint", " ⇧⇥")]}
    if status.line:
        facts["line"] = [("dim", one_line(status.line))]
        status = replace(status, context_percent=None, model="", branch="")
    if status.context_percent is not None:
        style = "warn" if status.context_percent >= 80 else "dim"
        facts["context"] = [(style, f"context {status.context_percent:.0f} %")]
    if not status.line:
        facts["cost"] = [("dim", format.money(status.cost_usd))]
    if queued:
        facts["queued"] = [("accent", f"{queued} queued")]
    if status.jobs:
        facts["jobs"] = [("accent", format.plural(status.jobs, "job"))]
    if children:
        facts["children"] = [("accent", format.plural(children, "child"))]
    if asking:
        facts["children"].append(("warn", f" · {asking} {'waits' if asking == 1 else 'wait'} for you"))
    if status.model:
        facts["model"] = [("dim", one_line(status.model))]
    if status.branch:
        facts["branch"] = [("dim", one_line(status.branch))]
    return facts


def _join(facts: Iterable[Line]) -> Line:
    line: Line = []
    for fact in facts:
        line += [("", "   " if line else " "), *fact]
    return line


def short_home(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


def _wrapped_facts(facts: list[str], columns: int) -> list[Line]:
    rows: list[str] = []
    for fact in facts:
        if rows and width(rows[-1]) + width(fact) + 5 <= columns:
            rows[-1] += f" · {fact}"
        else:
            rows.append(fact)
    return [[("", " "), ("dim", clip(row, columns - 2))] for row in rows]
