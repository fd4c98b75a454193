"""Children at work: a panel each while they run, one line with receipts when they are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from cowork.core import format
from cowork.core.blocks import Json, Usage
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    AgentUpdated,
    Event,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolOutput,
    ToolStarted,
)
from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.frontends.calls import call_line
from cowork.frontends.repl.view.boxes import MARGIN, box
from cowork.frontends.repl.view.styled import (
    Line,
    Span,
    beside,
    clip,
    clip_line,
    clip_start,
    line_width,
    pad,
    width,
    wrap,
)
from cowork.frontends.repl.view.theme import Theme
from cowork.frontends.repl.view.tool_lines import SPINNER, summary

COLLAPSED, EXPANDED = 2, 10  # actions shown
MOST = 5  # panels at full height
_WORDS = 160  # characters kept of what a child writes
_MARKS = {"success": ("good", "✓"), "partial": ("warn", "◐"), "error": ("bad", "✗")}
_ENDS = {
    "completed": ("good", "✓"),
    "incomplete": ("warn", "◐"),
    "error": ("bad", "✗"),
    "aborted": ("bad", "⊘"),
}


@dataclass(slots=True)
class Action:
    """Something the child does or did."""

    key: str
    text: str
    result: str = ""
    status: str = ""  # empty while it runs, else the record's


@dataclass(slots=True)
class Panel:
    """What is known of one child."""

    subagent_id: str
    agent: str  # its path
    kind: str
    description: str
    model: str
    color: str
    tool_use_id: str
    started: float  # on the chat's clock
    status: str = "active"
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    doing: str = ""
    words: str = ""  # the last it wrote or thought
    stopping: bool = False
    actions: deque[Action] = field(default_factory=lambda: deque(maxlen=EXPANDED))

    def apply(self, event: Event, now: float, cwd: str = "") -> None:
        """Follow the child's own events."""
        match event:
            case AgentUpdated():
                if self.status == "waiting" and event.status == "active":
                    self.started = now
                self.status = event.status
                self.turns, self.tool_calls = event.turns, event.tool_calls
                self.usage, self.cost_usd = event.usage, event.cost_usd
                if not self.actions:  # afterwards the calls themselves tell what it does
                    self.doing = one_line(event.action)
            case ToolStarted():
                line = call_line(event)
                text = line if line.startswith("$ ") else f"{one_line(event.name)} {line}".rstrip()
                self.actions.append(Action(event.tool_use_id, text))
            case ToolOutput():
                self._note(event.tool_use_id, _last_line(event.text))
            case ToolEnded():
                self._end(event)
            case ThinkingDelta():
                self._speak("thinking", event.text)
            case TextDelta():
                self._speak("writing", event.text)
            case RetryScheduled():
                what = one_line(event.kind).replace("_", " ")
                self.doing = f"{what}, trying again ({event.attempt} of {event.max_attempts})"

    def _speak(self, how: str, text: str) -> None:
        self.words = (self.words + text)[-_WORDS:] if self.doing == how else text[-_WORDS:]
        self.doing = how

    def _note(self, key: str, text: str) -> None:
        for action in self.actions:
            if action.key == key and text:
                action.result = text

    def _end(self, event: ToolEnded) -> None:
        for action in self.actions:
            if action.key == event.tool_use_id:
                action.status = str(event.record.get("status") or "success")
                action.result = summary(event.record, event.display)
        self.doing, self.words = "thinking", ""


def new_panel(event: AgentStarted, now: float) -> Panel:
    """The panel of a child that was sent out."""
    return Panel(
        event.subagent_id,
        event.agent,
        one_line(event.subagent_type),
        one_line(event.description),
        one_line(event.model or event.model_id),
        event.color,
        event.tool_use_id,
        now,
        status=event.status,
    )


def panel_lines(
    panel: Panel, columns: int, now: float, theme: Theme, *, actions: int = COLLAPSED, selected: bool = False,
    waiting: int = 0, spin: int = 0,
) -> list[Line]:  # fmt: skip
    """The panel at full height: a frame, its last actions, and what it has cost so far."""
    mark = "❯ " if selected else ""
    head: Line = [("accent", mark), (theme.agent(panel.color), panel.kind), ("dim", " · "), ("", panel.description)]
    facts = receipts(panel, now) if columns >= 60 else format.clock(now - panel.started)
    foot = [format.plural(panel.turns, "turn")]
    if panel.stopping:
        foot.append("stopping, x again kills")
    if waiting:
        foot.append(f"waiting: {waiting} more in line")
    if selected:
        foot.append("Enter opens · m message" if panel.stopping else "Enter opens · x stops · m message")
    rows = _action_rows(panel, columns - MARGIN, actions, spin)
    return box(head, facts, rows, " · ".join(foot), columns, "accent" if selected else "rule")


def panel_line(panel: Panel, columns: int, now: float, theme: Theme, *, selected: bool = False, spin: int = 0) -> Line:
    """The panel in one line, for screens where five do not fit."""
    last = panel.actions[-1].text if panel.actions and not panel.actions[-1].status else panel.doing
    mark = "❯ " if selected else f"{_glyph(panel, spin)} "
    left: Line = [("accent", mark), (theme.agent(panel.color), panel.kind), ("", f" {panel.description}")]
    if last:
        left.append(("dim", f" · {last}"))
    return beside(left, [("dim", receipts(panel, now))] if columns >= 60 else [], columns)


def panels_lines(
    panels: Sequence[Panel], columns: int, rows: int, now: float, theme: Theme, *, expanded: bool = False,
    selected: str = "", spin: int = 0,
) -> list[Line]:  # fmt: skip
    """All panels in at most `rows` lines: as many actions as fit, then one line each, then a count."""
    live = [p for p in panels if p.status != "waiting"]
    waiting = len(panels) - len(live)
    shown = _window(live, selected)
    hidden = len(live) - len(shown)
    spare = rows - (1 if hidden or (waiting and not shown) else 0)
    actions = EXPANDED if expanded else COLLAPSED
    while actions > 1 and sum(_height(p, actions) for p in shown) > spare:
        actions -= 1
    out: list[Line] = []
    if sum(_height(p, actions) for p in shown) <= spare:
        for place, panel in enumerate(shown):
            last = place == len(shown) - 1
            out.extend(panel_lines(panel, columns, now, theme, actions=actions, spin=spin,
                                   selected=panel.subagent_id == selected, waiting=waiting if last else 0))  # fmt: skip
    else:
        shown = shown[: max(1, spare)]
        hidden = len(live) - len(shown)
        out = [panel_line(p, columns, now, theme, selected=p.subagent_id == selected, spin=spin) for p in shown]
    if hidden or (waiting and not shown):
        rest = [f"{hidden} more at work"] if hidden else []
        rest += [f"{waiting} waiting in line"] if waiting else []
        out.append([("dim", clip("  + " + " · ".join(rest), columns))])
    return out[-rows:]


def receipts(panel: Panel, now: float) -> str:
    """`light · 0:14 · 6.1k tok · $0.004`."""
    parts = [panel.model, format.clock(now - panel.started), f"{format.tokens(panel.usage.total)} tok"]
    return " · ".join([p for p in parts if p] + [format.money(panel.cost_usd)])


def ended_line(panel: Panel, event: AgentEnded, columns: int, theme: Theme) -> list[Line]:
    """The child's line in the scrollback."""
    style, glyph = _ENDS.get(event.status, _ENDS["error"])
    record = event.record
    facts = _receipt_facts(panel, record)
    head: list[Span] = [(style, f"{glyph} "), (theme.agent(panel.color), pad(panel.kind, max(8, width(panel.kind)))),
                        ("", " ")]  # fmt: skip
    trouble = _trouble(event.status, record)
    tail = " · ".join(([trouble] if trouble else []) + facts)
    title_room = min(max(26, width(panel.description)), max(10, columns - line_width(head) - width(tail) - 2))
    line: Line = [*head, ("", pad(panel.description, title_room)), ("dim", "  "), ("dim", tail)]
    if line_width(line) <= columns:
        return [line]
    rest: list[Line] = [[("dim", f"  {row}")] for row in wrap(tail, columns - 2)]
    return [clip_line([*head, ("", panel.description)], columns), *rest]


def _receipt_facts(panel: Panel, record: Json) -> list[str]:
    data = record.get("data") or {}
    meta = data.get("metadata") or {}
    usage = data.get("usage") or {}
    turns = int(meta.get("turns_used") or panel.turns or 0)
    tools = sum(int(t.get("count") or 0) for t in data.get("tool_summary") or ()) or panel.tool_calls
    used = int(usage.get("prompt_tokens") or 0) + int(usage.get("completion_tokens") or 0) or panel.usage.total
    cost = data.get("total_cost_usd", panel.cost_usd)
    facts = [format.plural(turns, "turn"), format.plural(tools, "tool"), f"{format.tokens(used)} tok",
             format.money(cost)]  # fmt: skip
    if data.get("duration_ms") is not None:
        facts.append(format.duration(float(data["duration_ms"]) / 1000))
    changed = data.get("files_changed")
    if changed:
        facts.append(format.plural(len(changed), "file") + " changed")
    return facts


def _trouble(status: str, record: Json) -> str:
    if status == "completed":
        return ""
    data = record.get("data") or {}
    if status == "incomplete":
        return "incomplete"
    if status == "aborted":
        return "stopped"
    message = (record.get("error") or {}).get("message") or data.get("short_result") or "failed"
    return clip(one_line(str(message)), 60)


def _action_rows(panel: Panel, columns: int, limit: int, spin: int) -> list[Line]:
    rows: list[Line] = []
    busy = any(not a.status for a in panel.actions)
    for action in list(panel.actions)[-limit:]:
        style, glyph = _MARKS.get(action.status, ("accent", SPINNER[spin % len(SPINNER)]))
        row: Line = [(style, f"{glyph} "), ("", clip(action.text, max(12, columns - 2)))]
        if action.result:
            row.append(("dim", f" → {action.result}" if action.status else f"  {action.result}"))
        rows.append(row)
    if not busy:
        doing = panel.doing or ("starting" if not panel.actions else "thinking")
        row = [("accent", f"{_glyph(panel, spin)} "), ("dim", doing)]
        words = one_line(panel.words)
        if words and columns > width(doing) + 16:
            row.append(("faint", f" · {clip_start(words, columns - width(doing) - 6)}"))
        rows.append(row)
    return rows[-limit:]


def _glyph(panel: Panel, spin: int) -> str:
    return "…" if panel.status == "waiting" else SPINNER[spin % len(SPINNER)]


def _height(panel: Panel, actions: int) -> int:
    busy = any(not a.status for a in panel.actions)
    return 2 + min(actions, len(panel.actions) + (0 if busy else 1))


def _window(live: Sequence[Panel], selected: str) -> list[Panel]:
    """The five at full height: the oldest, or those around the selected one."""
    at = next((i for i, p in enumerate(live) if p.subagent_id == selected), 0)
    start = max(0, at - MOST + 1)
    return list(live[start : start + MOST])


def _last_line(text: str) -> str:
    rows = [row for row in visible(text).split("\n") if row.strip()]
    return rows[-1].strip() if rows else ""
