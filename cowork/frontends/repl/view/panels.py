"""Children at work: a row each, any of which opens into a panel; one line with receipts when they are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from rich.style import Style

from cowork.core import format
from cowork.core.events import AgentEnded
from cowork.core.format import one_line
from cowork.frontends.repl.view.child_state import ACTIONS_KEPT, ChildAction, ChildState, action_text, in_tree_order
from cowork.frontends.styled import (  # fmt: skip
    BAR_MARGIN,
    Line,
    Span,
    Theme,
    bar,
    clip,
    clip_call,
    clip_facts,
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

FEW = 2  # so many are open panels by default, more of them rows
OPEN_ACTIONS = 3  # actions an open panel shows when it was not asked for more
_LOW = 10  # rows: with less room than this nothing opens by itself
_WIDE, _ROOMY = 96, 72  # columns from which facts have dots between them, and names more room
_TASK, _ACTION = 24, 16  # columns that a task and what is being done should have; facts give way to them
_BOTH = 32  # columns below which the task has them alone
_FACTS = ("model", "time", "tokens", "cost")
_MARGIN = 4  # columns of the two edges of a frame
_HEAD = 10  # columns a title needs beside its facts
_MARKS = {"success": ("good", "✓"), "partial": ("warn", "◐"), "error": ("bad", "✗")}
_ENDED_TITLE = 36  # columns of a finished child's name and task
_ENDS = {"completed": ("good", "✓", ""), "incomplete": ("warn", "◐", "incomplete"), "aborted": ("bad", "⊘", "stopped")}
_WAITS = "waits for you"
_ROOM_TO_ASK = 26  # columns to say for what as well


def panels_lines(
    children: Sequence[ChildState], columns: int, rows: int, now: float, theme: Theme, *, expanded: bool = False,
    selected: str = "", framed: bool = True,
) -> list[Line]:  # fmt: skip
    """All children in at most `rows` lines: a row each, then panels for those that are open, as far as they fit."""
    children = in_tree_order(child for child in children if child.row != "" or child.asking)
    at = next((i for i, child in enumerate(children) if child.subagent_id == selected), 0)
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
        texts = [_facts(child, now) for child in children]
        self.facts = [max([least, *(width(text[at]) for text in texts)]) for at, least in enumerate((4, 4, 5, 6))]
        longest = max((2 * child.depth + width(child.name) for child in children), default=0)
        self.name = min(longest, 20 if columns >= _WIDE else 14 if columns >= _ROOMY else 12)
        self.turns = max((len(_turns(child)) for child in children), default=0)
        tasks = max((width(child.description) for child in children), default=0)
        for given_up in ("model", "turns", "tokens"):  # what tells least gives way; an open panel has all facts
            if self._words() < min(tasks, _TASK) + 2 + _ACTION:
                self.turns = 0 if given_up == "turns" else self.turns
                self.facts = [0 if name == given_up else room for name, room in zip(_FACTS, self.facts, strict=True)]
        words = self._words()
        self.task = min(tasks, max(_TASK, words // 2), words - 2 - _ACTION)
        self.action = words - self.task - 2
        if words < _BOTH:
            self.task, self.action = max(0, words), 0

    def _words(self) -> int:
        """Columns for the task and what is being done."""
        used = sum(room + len(self.between) for room in self.facts if room) - len(self.between)
        return self.columns - 7 - self.name - used - (self.turns + 2 if self.turns else 0)

    def row(self, child: ChildState) -> Line:
        """A child in one row: name, task, what it does, turn of most, model, time, tokens, cost."""
        branch = "  " * (child.depth - 1) + "└ " if child.depth else ""
        chosen = "❯ " if child.subagent_id == self.selected else "  "
        line: Line = [("accent.bold", chosen), ("faint", branch), self._glyph(child)]
        if child.row and not child.asking:
            return clip_line([*line, ("", child.row)], self.columns)
        room = self.name - len(branch)
        line += [(self.theme.agent(child.color), pad(clip_middle(child.name, max(6, room)), room))]
        waits = child.asking and not self.action
        line.append(("warn" if waits else "", f" {pad(_WAITS if waits else child.description, self.task)}"))
        if self.action:
            doing = _doing(child)
            if child.asking and width(doing) > self.action < _ROOM_TO_ASK:
                doing = _WAITS
            line.append(("warn" if child.asking else "dim", f"  {pad(clip_call(doing, self.action), self.action)}"))
        if self.turns:
            line.append(("dim", f"  {_turns(child):>{self.turns}}"))
        if child.status == "waiting":
            return clip_line([*line, ("dim", f"  {child.model}" if self.facts[0] else "")], self.columns)
        (model, *others), (model_room, *rooms) = _facts(child, self.now), self.facts
        texts = [pad(model, model_room)] if model_room else []
        texts += [f"{text:>{room}}" for text, room in zip(others, rooms, strict=True) if room]
        return clip_line([*line, ("dim", "  " + self.between.join(texts))], self.columns)

    def panel(self, child: ChildState, actions: int) -> list[Line]:
        """An open panel: its last actions, what it has used in the title, its turn in the foot."""
        indent, chosen = 2 * child.depth, child.subagent_id == self.selected
        columns = self.columns - indent
        facts = _facts(child, self.now)
        used = " · ".join(filter(None, facts)) if columns >= 50 else f"{facts[1]} {facts[3]}"
        name = clip_middle(child.name, max(9, columns - _MARGIN - width(used) - 6))
        head: Line = [self._glyph(child), (self.theme.agent(child.color), name), ("", f"  {child.description}")]
        turn = _turns(child).replace("/", " of ")
        foot = [f"turn {turn}"] if turn else []
        foot += ["stopping, x again ends it"] if child.stopping else []
        if chosen:
            foot += ["Enter opens", "m message", *([] if child.stopping else ["x stops"]), "← folds"]
        inner = columns - (_MARGIN if self.framed else BAR_MARGIN)
        rows = [self._action_row(child, action, inner) for action in _rows_of(child)[-actions:]]
        style = Style.parse(self.theme.definition("accent" if chosen else "warn" if child.asking else "faint"))
        parts = (head, used, rows, " · ".join(foot), columns, style)
        drawn = box(*parts, self.theme) if self.framed else bar(*parts)
        return [[("", " " * indent), *line] for line in drawn] if indent else drawn

    def _action_row(self, child: ChildState, action: ChildAction | None, columns: int) -> Line:
        if action is None:
            doing, words = _doing(child), "" if child.asking else one_line(child.words)
            thought: Line = [self._glyph(child), ("warn" if child.asking else "dim", doing)]
            if words and columns > width(doing) + 16:
                thought.append(("faint", f" · {clip_start(words, columns - width(doing) - 6)}"))
            return thought
        asks = child.asks_for(action)
        style, glyph = ("warn", "?") if asks else _MARKS.get(action.status, ("accent", spinner(self.now)))
        result = f"  {_WAITS}" if asks else f" → {action.result}" if action.status else f"  {action.result}"
        room = columns - 2 - (width(result) if asks else 0)
        row: Line = [(style, f"{glyph} "), ("", clip_call(action.text, max(12, room)))]
        if asks or action.result:
            row.append(("warn" if asks else "dim", result))
        return clip_line(row, columns)

    def _glyph(self, child: ChildState) -> Span:
        if child.status == "waiting":
            return ("dim", "· ")
        return ("warn", "? ") if child.asking else ("accent", f"{spinner(self.now)} ")


def box(
    head: Sequence[Span], facts: str, rows: Iterable[Line], foot: str, columns: int, style: Style, theme: Theme
) -> list[Line]:
    """A frame of exactly `columns`, drawn by rich; the facts stand at the right end of the title."""
    from rich.panel import Panel  # with rich's console it is heavy, and most turns draw no box
    from rich.text import Text

    def text(spans: Iterable[Span]) -> Text:
        # What has no style of its own is named, or a title would take on the colour of the frame.
        styled = [(piece, theme.definition(name or "text") if isinstance(name, str) else name) for name, piece in spans]
        return Text.assemble(*styled, no_wrap=True, overflow="ignore", end="")

    room = max(1, columns - _MARGIN - 2)  # the edge, a piece of rule and a space at either end
    facts = facts if room - width(facts) >= _HEAD else ""
    title = clip_line(head, room - width(facts) - 2 if facts else room)
    if facts:
        title += [(style, f" {'─' * (room - line_width(title) - width(facts) - 2)} "), ("dim", facts)]
    drawn = Panel(
        text(span for row in rows for span in (*clip_line(row, columns - _MARGIN), ("", "\n"))),
        title=text(title),
        title_align="left",
        subtitle=text([("dim", clip_facts(foot, room))]) if foot else None,
        subtitle_align="left",
        width=columns,
        border_style=style,
    )
    lines = _console().render_lines(drawn, _console().options.update(width=columns))
    return [[(style or "", piece) for piece, style, _ in segments] for segments in lines]


@cache
def _console() -> Any:
    from rich.console import Console

    return Console(width=80, force_terminal=True, color_system=None, legacy_windows=False)


def ended_line(child: ChildState, event: AgentEnded, columns: int, theme: Theme) -> list[Line]:
    """The child's line in the scrollback."""
    error, data = event.record.get("error") or {}, event.record.get("data") or {}
    failed = clip(one_line(str(error.get("message") or data.get("short_result") or "failed")), 60)
    style, glyph, trouble = _ENDS.get(event.status, ("bad", "✗", failed))
    usage, turns = data.get("usage") or {}, (data.get("metadata") or {}).get("turns_used")
    tools = sum(int(t.get("count") or 0) for t in data.get("tool_summary") or ()) or child.tool_calls
    used = int(usage.get("prompt_tokens") or 0) + int(usage.get("completion_tokens") or 0) or child.usage.total
    duration, changed = data.get("duration_ms"), len(data.get("files_changed") or ())
    facts = (
        trouble, format.plural(int(turns or child.turns), "turn"), format.plural(tools, "tool"),
        f"{format.tokens(used)} tok", format.money(data.get("total_cost_usd", child.cost_usd)),
        "" if duration is None else format.duration(float(duration) / 1000),
        f"{format.plural(changed, 'file')} changed" if changed else "",
    )  # fmt: skip
    tail = " · ".join(filter(None, facts))
    indent = "  " * child.depth
    name = pad(child.name, max(10, width(child.name)))
    head: list[Span] = [("", indent), (style, f"{glyph} "), (theme.agent(child.color), name), ("", " ")]
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
    order = sorted(wanted, key=lambda at: children[at].subagent_id != selected)
    heights = [1] * len(children)
    spare = rows - len(children)
    for at in order:  # first each that is open gets the smallest panel, then they grow in turn
        if spare >= 2:
            heights[at] = 3
            spare -= 2
    while spare > 0 and (growing := [at for at in order if 1 < heights[at] < wanted[at]]):
        for at in growing[:spare]:
            heights[at] += 1
            spare -= 1
    return heights


def _rows_of(child: ChildState) -> list[ChildAction | None]:
    """The rows of an open panel: its actions, and None for what it thinks or writes when no action runs."""
    busy = any(not action.status for action in child.actions)
    return [*child.actions, *([] if busy else [None])]


def _doing(child: ChildState) -> str:
    """What it does now, in a few words."""
    if child.status == "waiting":
        return "waiting in line"
    if child.asking:
        question = child.asking[0]
        asked = action_text(question.tool, one_line(question.line)) if question.tool else one_line(question.title)
        return f"{_WAITS}: {asked}"
    if child.stopping:
        return "stopping"
    running = [action.text for action in child.actions if not action.status]
    return running[-1] if running else child.doing or ("thinking" if child.actions else "starting")


def _facts(child: ChildState, now: float) -> tuple[str, str, str, str]:
    if child.status == "waiting":
        return clip(child.model, 10), "", "", ""
    time = format.clock(now - child.started)
    return clip(child.model, 10), time, format.tokens(child.usage.total), format.money(child.cost_usd)


def _turns(child: ChildState) -> str:
    if child.status == "waiting":
        return ""
    turn = max(1, child.turns)
    return f"{turn}/{child.max_turns}" if child.max_turns else str(turn)
