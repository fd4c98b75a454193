"""Children at work: what is known of each, its row or panel on the screen, and one line with receipts at its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from cowork.core import events, format
from cowork.core.blocks import Usage
from cowork.core.events import AgentEnded, AgentStarted, Event, ToolEnded, ToolStarted
from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.core.ports import Question
from cowork.frontends.repl.view.tool_lines import summary
from cowork.frontends.styled import (
    BAR_MARGIN,
    BOX_MARGIN,
    Line,
    Span,
    Theme,
    bar,
    box,
    clip,
    clip_call,
    clip_line,
    clip_middle,
    clip_start,
    line_width,
    pad,
    spinner,
    width,
    window,
    wrap,
)
from cowork.frontends.text import call_line, receipts

ACTIONS_KEPT = 10
_WORDS = 160  # characters kept of what a child writes
FEW = 2  # so many are open panels by default, more of them rows
OPEN_ACTIONS = 3  # actions an open panel shows when it was not asked for more
_LOW = 10  # rows: with less room than this nothing opens by itself
_WIDE, _ROOMY = 96, 72  # columns from which facts have dots between them, and names more room
_TASK, _ACTION = 24, 16  # columns that a task and what is being done should have; facts give way to them
_BOTH = 32  # columns below which the task has them alone
_FACTS = {"model": 4, "time": 4, "tokens": 5, "cost": 6}  # and the columns each has at least
_MARKS = {"success": ("good", "✓"), "partial": ("warn", "◐"), "error": ("bad", "✗")}
_ENDED_TITLE = 36  # columns of a finished child's name and task
_ENDS = {"completed": ("good", "✓", ""), "incomplete": ("warn", "◐", "incomplete"), "aborted": ("bad", "⊘", "stopped")}
_WAITS = "waits for you"
_ROOM_TO_ASK = 26  # columns to say for what as well


@dataclass(slots=True)
class CallState:
    """A tool call, and what is known of it so far."""

    call: ToolStarted
    started: float
    output: str = ""  # the end of what it printed; of a child's call the last row of that, then the result
    status: str = ""  # empty while it runs, else the record's

    def is_asked_about(self, question: Question) -> bool:
        """Whether a question is the call's own, or asks to allow it."""
        return (question.tool_use_id, question.agent) == (self.call.tool_use_id, self.call.agent)


@dataclass(slots=True)
class ChildState:
    """One child: who it is, what it does, what it has used, and whether its panel is open."""

    start: AgentStarted
    path: str
    description: str
    model: str
    started: float  # on the chat's clock
    status: str
    row: str | None = None  # as a program of the person's wants it; empty: not at all
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    doing: str = ""
    words: str = ""  # the last it wrote or thought
    stopping: bool = False
    open: bool | None = None  # the person's choice; None: as the screen allows
    shown_open: bool = False  # as it was drawn last
    in_roster: bool = False  # it was a row among many, and stays one when the others have ended: nothing jumps
    asking: list[Question] = field(default_factory=list)  # what waits for the person's answer
    actions: deque[CallState] = field(default_factory=lambda: deque(maxlen=ACTIONS_KEPT))

    @property
    def name(self) -> str:
        """`explore-2`: its agent and number."""
        return one_line(self.path.rpartition("/")[2])

    @property
    def depth(self) -> int:
        """0 for a child of main, 1 for a child of a child."""
        return max(0, self.path.count("/") - 1)

    def apply(self, event: Event, now: float) -> None:
        """Follow the child's own events."""
        match event:
            case events.AgentUpdated():
                if self.status == "waiting" and event.status == "active":
                    self.started = now
                self.status = event.status
                self.turns, self.usage, self.cost_usd = event.turns, event.usage, event.cost_usd
                if not self.actions:  # afterwards the calls themselves tell what it does
                    self.doing = one_line(event.action)
            case ToolStarted():
                self.actions.append(CallState(event, now))
            case events.ToolOutput():
                rows = [row.strip() for row in visible(event.text).split("\n") if row.strip()]
                for action in self._of_call(event.tool_use_id) if rows else ():
                    action.output = rows[-1]
            case ToolEnded():
                for action in self._of_call(event.tool_use_id):
                    action.status = str(event.record.get("status") or "success")
                    action.output = summary(event.record, event.display)
                self.doing, self.words = "thinking", ""
            case events.ThinkingDelta():
                self._speak("thinking", event.text)
            case events.TextDelta():
                self._speak("writing", event.text)
            case events.RetryScheduled():
                what = one_line(event.kind).replace("_", " ")
                self.doing = f"{what}, trying again ({event.attempt} of {event.max_attempts})"

    def _speak(self, how: str, text: str) -> None:
        self.words = (self.words + text)[-_WORDS:] if self.doing == how else text[-_WORDS:]
        self.doing = how

    def _of_call(self, tool_use_id: str) -> list[CallState]:
        return [action for action in self.actions if action.call.tool_use_id == tool_use_id]


def new_child(event: AgentStarted, now: float) -> ChildState:
    """The state of a child that was sent out."""
    described, model = one_line(event.description), one_line(event.model or event.model_id)
    return ChildState(event, event.agent, described, model, now, event.status)


def _call_text(name: str, line: str) -> str:
    """A call with its tool's name, which a command line does without: `Read shop/a.py`, `$ pytest -q`."""
    return line if line.startswith("$ ") else f"{one_line(name)} {line}".rstrip()


def in_tree_order(children: Iterable[ChildState]) -> list[ChildState]:
    """Each child right after its parent; siblings in the order in which they were sent out."""
    children = list(children)
    order = {child.path: place for place, child in enumerate(children)}

    def place(child: ChildState) -> list[int]:
        return [order[path] for path in accumulate(child.path.split("/"), "{}/{}".format) if path in order]

    return sorted(children, key=place)


def panels_lines(
    children: Sequence[ChildState], columns: int, rows: int, now: float, theme: Theme, *, expanded: bool = False,
    selected: str = "", framed: bool = True,
) -> list[Line]:  # fmt: skip
    """All children in at most `rows` lines: a row each, then panels for those that are open, as far as they fit."""
    children = in_tree_order(child for child in children if child.row != "" or child.asking)
    at = next((i for i, child in enumerate(children) if child.path == selected), 0)
    shown = children if len(children) <= rows else children[window(at, len(children), max(1, rows - 1))]
    hidden = [child for child in children if child not in shown]
    heights = _heights(shown, rows - bool(hidden), selected, expanded=expanded)
    roster = _Roster(shown, columns, now, theme, selected, framed=framed)
    out: list[Line] = []
    for child, height in zip(shown, heights, strict=True):
        child.shown_open = height > 1
        out.extend(roster.panel(child, height - 2) if height > 1 else [roster.row(child)])
    if hidden:
        in_line = sum(child.status == "waiting" for child in hidden)
        more = [f"{len(hidden) - in_line} more at work"] if len(hidden) > in_line else []
        more += [f"{in_line} more in line"] if in_line else []
        out.append([("dim", clip(f"  + {' · '.join(more)}", columns))])
    return out[-rows:]


class _Roster:
    """The children as they are drawn at one moment. The columns of the rows are shared out so that all line up."""

    def __init__(
        self, children: Sequence[ChildState], columns: int, now: float, theme: Theme, selected: str, *, framed: bool
    ) -> None:
        self.columns, self.now, self.theme, self.selected, self.framed = columns, now, theme, selected, framed
        self.between = " · " if columns >= _WIDE else " "
        told = [_facts(child, now) for child in children]
        self.facts = {name: max([least, *(width(facts[name]) for facts in told)]) for name, least in _FACTS.items()}
        longest = max((2 * child.depth + width(child.name) for child in children), default=0)
        self.name = min(longest, 20 if columns >= _WIDE else 14 if columns >= _ROOMY else 12)
        self.turns = max((len(_turns(child)) for child in children), default=0)
        tasks = max((width(child.description) for child in children), default=0)
        for given_up in ("model", "turns", "tokens"):  # what tells least gives way; an open panel has all facts
            if self._word_room() < min(tasks, _TASK) + 2 + _ACTION:
                self.turns = 0 if given_up == "turns" else self.turns
                self.facts.pop(given_up, None)
        words = self._word_room()
        self.task = min(tasks, max(_TASK, words // 2), words - 2 - _ACTION)
        self.action = words - self.task - 2
        if words < _BOTH:
            self.task, self.action = max(0, words), 0

    def _word_room(self) -> int:
        """Columns for the task and what is being done."""
        used = sum(room + len(self.between) for room in self.facts.values()) - len(self.between)
        return self.columns - 7 - self.name - used - (self.turns + 2 if self.turns else 0)

    def row(self, child: ChildState) -> Line:
        """A child in one row: name, task, what it does, turn of most, model, time, tokens, cost."""
        branch = "  " * (child.depth - 1) + "└ " if child.depth else ""
        chosen = "❯ " if child.path == self.selected else "  "
        line: Line = [("accent.bold", chosen), ("faint", branch), self._glyph(child)]
        if child.row and not child.asking:
            return clip_line([*line, ("", child.row)], self.columns)
        room = self.name - len(branch)
        line += [(self.theme.agent(child.start.color), pad(clip_middle(child.name, max(6, room)), room))]
        waits = child.asking and not self.action
        line.append(("warn" if waits else "", f" {pad(_WAITS if waits else child.description, self.task)}"))
        if self.action:
            doing = _activity(child)
            if child.asking and width(doing) > self.action < _ROOM_TO_ASK:
                doing = _WAITS
            line.append(("warn" if child.asking else "dim", f"  {pad(clip_call(doing, self.action), self.action)}"))
        if self.turns:
            line.append(("dim", f"  {_turns(child):>{self.turns}}"))
        if child.status == "waiting":
            return clip_line([*line, ("dim", f"  {child.model}" if "model" in self.facts else "")], self.columns)
        facts, rooms = _facts(child, self.now), self.facts.items()
        texts = [pad(facts[name], room) if name == "model" else f"{facts[name]:>{room}}" for name, room in rooms]
        return clip_line([*line, ("dim", "  " + self.between.join(texts))], self.columns)

    def panel(self, child: ChildState, actions: int) -> list[Line]:
        """An open panel: its last actions, what it has used in the title, its turn in the foot."""
        indent, chosen = 2 * child.depth, child.path == self.selected
        columns = self.columns - indent
        facts = _facts(child, self.now)
        used = " · ".join(filter(None, facts.values())) if columns >= 50 else f"{facts['time']} {facts['cost']}"
        name = clip_middle(child.name, max(9, columns - BOX_MARGIN - width(used) - 6))
        head: Line = [self._glyph(child), (self.theme.agent(child.start.color), name), ("", f"  {child.description}")]
        turn = _turns(child).replace("/", " of ")
        foot = [f"turn {turn}"] if turn else []
        foot += ["stopping, x again ends it"] if child.stopping else []
        if chosen:
            foot += ["Enter opens", "m message", *([] if child.stopping else ["x stops"]), "← folds"]
        inner = columns - (BOX_MARGIN if self.framed else BAR_MARGIN)
        rows = [self._action_row(child, action, inner) for action in _rows_of(child)[-actions:]]
        style = "accent" if chosen else "warn" if child.asking else "faint"
        drawn = (box if self.framed else bar)(head, used, rows, " · ".join(foot), columns, style)
        return [[("", " " * indent), *line] for line in drawn] if indent else drawn

    def _action_row(self, child: ChildState, action: CallState | None, columns: int) -> Line:
        if action is None:
            doing, words = _activity(child), "" if child.asking else one_line(child.words)
            thought: Line = [self._glyph(child), ("warn" if child.asking else "dim", doing)]
            if words and columns > width(doing) + 16:
                thought.append(("faint", f" · {clip_start(words, columns - width(doing) - 6)}"))
            return thought
        asks = not action.status and any(map(action.is_asked_about, child.asking))
        style, glyph = ("warn", "?") if asks else _MARKS.get(action.status, ("accent", spinner(self.now)))
        result = f"  {_WAITS}" if asks else f" → {action.output}" if action.status else f"  {action.output}"
        room = columns - 2 - (width(result) if asks else 0)
        called = clip_call(_call_text(action.call.name, call_line(action.call)), max(12, room))
        row: Line = [(style, f"{glyph} "), ("", called)]
        if asks or action.output:
            row.append(("warn" if asks else "dim", result))
        return clip_line(row, columns)

    def _glyph(self, child: ChildState) -> Span:
        if child.status == "waiting":
            return ("dim", "· ")
        return ("warn", "? ") if child.asking else ("accent", f"{spinner(self.now)} ")


def ended_line(child: ChildState, event: AgentEnded, columns: int, theme: Theme) -> list[Line]:
    """The child's line in the scrollback."""
    error, data = event.record.get("error") or {}, event.record.get("data") or {}
    failed = clip(one_line(str(error.get("message") or data.get("short_result") or "failed")), 60)
    style, glyph, trouble = _ENDS.get(event.status, ("bad", "✗", failed))
    turns, *used = receipts(data, (data.get("metadata") or {}).get("turns_used"), "$?")
    tools = sum(int(row.get("count") or 0) for row in data.get("tool_summary") or ())
    changed = len(data.get("files_changed") or ())
    changes = f"{format.plural(changed, 'file')} changed" if changed else ""
    facts = (trouble, turns, format.plural(tools, "tool"), *used, changes)
    tail = " · ".join(filter(None, facts))
    indent = "  " * child.depth
    name = pad(child.name, max(10, width(child.name)))
    head: list[Span] = [("", indent), (style, f"{glyph} "), (theme.agent(child.start.color), name), ("", " ")]
    wanted = max(_ENDED_TITLE - width(name), width(child.description))  # so that the facts of all stand in a column
    title_room = min(wanted, max(10, columns - line_width(head) - width(tail) - 2))
    line: Line = [*head, ("", pad(child.description, title_room)), ("dim", f"  {tail}")]
    if line_width(line) <= columns:
        return [line]
    rest: list[Line] = [[("dim", f"  {indent}{row}")] for row in wrap(tail, columns - 2 - len(indent))]
    return [clip_line([*head, ("", child.description)], columns), *rest]


def _heights(children: Sequence[ChildState], rows: int, selected: str, *, expanded: bool) -> list[int]:
    """Rows of each child: one, or the height of its panel. The selected panel grows first.

    One whose row is the work of a program opens only when the person opens it.
    """
    at_work = [child for child in children if child.status != "waiting"]
    for child in at_work if len(at_work) > FEW else ():
        child.in_roster = True

    def opens(child: ChildState) -> bool:
        return child in at_work and not child.row and (expanded or (not child.in_roster and rows >= _LOW))

    wanted = {
        at: 2 + min(ACTIONS_KEPT if expanded or child.open else OPEN_ACTIONS, len(_rows_of(child)))
        for at, child in enumerate(children)
        if (child.open if child.open is not None else opens(child))
    }
    order = sorted(wanted, key=lambda at: children[at].path != selected)
    heights = [1] * len(children)
    spare = rows - len(children)
    for height in range(3, 3 + ACTIONS_KEPT):  # first each that is open gets the smallest panel, then they grow in turn
        for at in order:
            step = height - heights[at]
            if height <= wanted[at] and step <= spare:
                heights[at], spare = height, spare - step
    return heights


def _rows_of(child: ChildState) -> list[CallState | None]:
    """The rows of an open panel: its actions, and None for what it thinks or writes when no action runs."""
    busy = any(not action.status for action in child.actions)
    return [*child.actions, *([] if busy else [None])]


def _activity(child: ChildState) -> str:
    """What it does now, in a few words."""
    if child.status == "waiting":
        return "waiting in line"
    if child.asking:
        question = child.asking[0]
        asked = _call_text(question.tool, one_line(question.line)) if question.tool else one_line(question.title)
        return f"{_WAITS}: {asked}"
    if child.stopping:
        return "stopping"
    running = [action.call for action in child.actions if not action.status]
    if running:
        return _call_text(running[-1].name, call_line(running[-1]))
    return child.doing or ("thinking" if child.actions else "starting")


def _facts(child: ChildState, now: float) -> dict[str, str]:
    used = (format.clock(now - child.started), format.tokens(child.usage.total), format.money(child.cost_usd))
    told = ("", "", "") if child.status == "waiting" else used
    return dict(zip(_FACTS, (clip(child.model, 10), *told), strict=True))


def _turns(child: ChildState) -> str:
    if child.status == "waiting":
        return ""
    turn = max(1, child.turns)
    return f"{turn}/{child.start.max_turns}" if child.start.max_turns else str(turn)
