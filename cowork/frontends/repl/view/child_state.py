"""What the chat knows of one child at work, built from the child's own events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from cowork.core import events
from cowork.core.blocks import Usage
from cowork.core.events import Event, ToolEnded, ToolStarted
from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.core.ports import Question
from cowork.frontends.repl.view.tool_lines import summary
from cowork.frontends.text import call_line

ACTIONS_KEPT = 10
_WORDS = 160  # characters kept of what a child writes


@dataclass(slots=True)
class ChildAction:
    """A tool call of the child."""

    call: ToolStarted
    result: str = ""
    status: str = ""  # empty while it runs, else the record's

    @property
    def text(self) -> str:
        """`Read shop/a.py`, `$ pytest -q`."""
        return action_text(self.call.name, call_line(self.call))


@dataclass(slots=True)
class ChildState:
    """One child: who it is, what it does, what it has used, and whether its panel is open."""

    subagent_id: str
    path: str
    description: str
    model: str
    color: str
    max_turns: int
    started: float  # on the chat's clock
    status: str = "active"
    row: str | None = None  # as a program of the person's wants it; empty: not at all
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    doing: str = ""
    words: str = ""  # the last it wrote or thought
    stopping: bool = False
    open: bool | None = None  # the person's choice; None: as the screen allows
    shown_open: bool = False  # as it was drawn last
    in_roster: bool = False  # it was a row among many, and stays one when the others have ended: nothing jumps
    asking: list[Question] = field(default_factory=list)  # what waits for the person's answer
    actions: deque[ChildAction] = field(default_factory=lambda: deque(maxlen=ACTIONS_KEPT))

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
                self.turns, self.tool_calls = event.turns, event.tool_calls
                self.usage, self.cost_usd = event.usage, event.cost_usd
                if not self.actions:  # afterwards the calls themselves tell what it does
                    self.doing = one_line(event.action)
            case ToolStarted():
                self.actions.append(ChildAction(event))
            case events.ToolOutput():
                rows = [row.strip() for row in visible(event.text).split("\n") if row.strip()]
                for action in self._of_call(event.tool_use_id) if rows else ():
                    action.result = rows[-1]
            case ToolEnded():
                for action in self._of_call(event.tool_use_id):
                    action.status = str(event.record.get("status") or "success")
                    action.result = summary(event.record, event.display)
                self.doing, self.words = "thinking", ""
            case events.ThinkingDelta():
                self._speak("thinking", event.text)
            case events.TextDelta():
                self._speak("writing", event.text)
            case events.RetryScheduled():
                what = one_line(event.kind).replace("_", " ")
                self.doing = f"{what}, trying again ({event.attempt} of {event.max_attempts})"

    def asks_for(self, action: ChildAction) -> bool:
        """Whether the action waits for the person's answer."""
        given = action.call.name, action.call.input
        return not action.status and any((question.tool, question.input) == given for question in self.asking)

    def _speak(self, how: str, text: str) -> None:
        self.words = (self.words + text)[-_WORDS:] if self.doing == how else text[-_WORDS:]
        self.doing = how

    def _of_call(self, tool_use_id: str) -> list[ChildAction]:
        return [action for action in self.actions if action.call.tool_use_id == tool_use_id]


def new_child(event: events.AgentStarted, now: float) -> ChildState:
    """The state of a child that was sent out."""
    described, model = one_line(event.description), one_line(event.model or event.model_id)
    known = (event.subagent_id, event.agent, described, model, event.color, event.max_turns, now)
    return ChildState(*known, status=event.status)


def action_text(name: str, line: str) -> str:
    """A call with its tool's name, which a command line does without."""
    return line if line.startswith("$ ") else f"{one_line(name)} {line}".rstrip()


def in_tree_order(children: Iterable[ChildState]) -> list[ChildState]:
    """Each child right after its parent; siblings in the order in which they were sent out."""
    children = list(children)
    order = {child.path: place for place, child in enumerate(children)}

    def place(child: ChildState) -> list[int]:
        return [order[path] for path in accumulate(child.path.split("/"), "{}/{}".format) if path in order]

    return sorted(children, key=place)
