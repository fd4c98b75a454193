"""What the events add up to on the screen: lines that are finished, and the live part under them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cowork.core import format
from cowork.core.blocks import Json, Text
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    Event,
    Notice,
    PromptAdded,
    ReplyAdded,
    RetryScheduled,
    SessionRewound,
    TextDelta,
    ThinkingDelta,
    TodoUpdated,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnEnded,
)
from cowork.core.ports import Question
from cowork.frontends.calls import FEW, LOOKS
from cowork.frontends.host import StatusLines
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.child_state import ChildState, new_child
from cowork.frontends.repl.view.panels import ended_line
from cowork.frontends.repl.view.stream import MarkdownStream
from cowork.frontends.repl.view.styled import Line
from cowork.frontends.repl.view.theme import Theme
from cowork.frontends.repl.view.tool_lines import finished_lines, looks_line

Draw = Callable[[int, Theme], Sequence[Line]]
_THOUGHT_KEPT = 400  # characters of reasoning
_OUTPUT_KEPT = 4_000  # characters of a running command's output


@dataclass(slots=True)
class RunningTool:
    """A call of the main agent that has not ended."""

    call: ToolStarted
    started: float
    output: str = ""

    def is_asked_about(self, question: Question) -> bool:
        """Whether a question is the call's own, or asks to allow it."""
        if question.tool_use_id:
            return question.tool_use_id == self.call.tool_use_id and question.agent == self.call.agent
        return (question.tool, question.input) == (self.call.name, self.call.input)


@dataclass(slots=True)
class Scene:
    """The state behind the screen. `apply` is cheap; drawing happens in `take` and in `live.live_lines`."""

    clock: Callable[[], float] = time.monotonic
    tools: dict[str, RunningTool] = field(default_factory=dict)
    looks: list[tuple[str, Draw]] = field(default_factory=list)  # the run of looks that goes on: name and line of each
    panels: dict[str, ChildState] = field(default_factory=dict)  # by the child's path
    todos: tuple[Json, ...] = ()
    todos_changed: bool = False  # in this turn
    stream: MarkdownStream | None = None
    retry: tuple[float, RetryScheduled] | None = None  # (when the next try starts, why)
    thinking: str = ""  # the end of the reasoning that goes on
    _thought: tuple[str, float] = ("", 0.0)  # how it began, and when
    working_since: float | None = None
    last_answer: str = ""
    version: int = 0
    _pending: list[tuple[str, Draw]] = field(default_factory=list)
    _last_kind: str = ""

    def begin(self) -> None:
        """A turn starts."""
        self.working_since = self.clock()
        self.version += 1

    def finish(self) -> None:
        """The turn is over, whatever was still open."""
        self._end_looks()
        self._end_stream()
        self.tools.clear()
        self.retry = None
        self.thinking = ""
        self.working_since = None
        self.version += 1

    def replay(self, events: Sequence[Event], prompts: int = 3) -> None:
        """Another conversation: forget this one, and print the end of it, from the last few prompts on.

        Nothing of it runs any more, but its todo list stands; the viewer has all of it.
        """
        self.finish()
        self.panels.clear()
        self.last_answer = ""
        starts = [n for n, e in enumerate(events) if isinstance(e, PromptAdded) and e.agent == "main"]
        start = starts[-prompts] if len(starts) > prompts else 0
        if start:
            earlier = format.plural(len(starts) - prompts, "earlier prompt")
            self.say("note", lambda columns, theme: [[("dim", f"· {earlier} · Ctrl+O shows all")]])
        for event in events[start:]:
            self.apply(event)
        self.finish()
        self.panels.clear()
        self.todos = next((e.todos for e in reversed(events) if isinstance(e, TodoUpdated)), ())

    @contextmanager
    def asking(self, question: Question) -> Iterator[None]:
        """A question is open: its child says so, and a call that waited for the answer starts only after it."""
        child = self.panels.get(question.agent)
        if child is not None:
            child.asking.append(question)
        try:
            yield
        finally:
            if child is not None:
                child.asking.remove(question)
            for tool in self.tools.values():
                if tool.is_asked_about(question):
                    tool.started = self.clock()

    def say(self, kind: str, draw: Draw) -> None:
        """Print something once, above the live region. Kinds are set apart by a blank line."""
        self._end_looks()
        self._pending.append((kind, draw))
        self.version += 1

    def apply(self, event: Event) -> None:
        """Take note of what happened."""
        self.version += 1
        if isinstance(event, AgentStarted):
            self.panels[event.agent] = new_child(event, self.clock())
        elif isinstance(event, AgentEnded):
            self._agent_ended(event)
        elif event.agent in self.panels:
            self.panels[event.agent].apply(event, self.clock())
        elif event.agent == "main":
            self._apply_main(event)

    def take(self, columns: int, theme: Theme) -> list[Line]:
        """The lines finished since the last call, each exactly once."""
        out: list[Line] = []
        pending, self._pending = self._pending, []
        for kind, draw in pending:
            self._append(out, kind, draw(columns, theme))
        if self.stream is not None:
            self._append(out, "text", self._stream_lines(self.stream, columns, theme, end=False))
        return out

    def _append(self, out: list[Line], kind: str, lines: Sequence[Line]) -> None:
        if not lines:
            return
        if self._last_kind and (kind != self._last_kind or kind == "prompt"):
            out.append([])
        self._last_kind = kind
        out.extend(lines)

    def _stream_lines(self, stream: MarkdownStream, columns: int, theme: Theme, *, end: bool) -> list[Line]:
        first = not stream.started
        lines = stream.end(columns - 2, theme) if end else stream.take(columns - 2, theme)
        return with_bullet(lines, first=first)

    def _apply_main(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._progress()
                self._end_looks()
                if self.stream is None:
                    self.stream = MarkdownStream()
                self.stream.feed(text)
            case ThinkingDelta(text=text):
                self.retry = None
                began, since = self._thought
                self._thought = (began + text)[:_THOUGHT_KEPT], since if began else self.clock()
                self.thinking = (self.thinking + text)[-_THOUGHT_KEPT:]
            case PromptAdded():
                self._end_stream()
                self.say("prompt", lambda columns, theme: notes.prompt_lines(event, columns))
            case ReplyAdded():
                self._reply(event)
            case ToolStarted():
                self._progress()
                self._end_stream()
                self.tools[event.tool_use_id] = RunningTool(event, self.clock())
            case ToolOutput(tool_use_id=key, text=text):
                if key in self.tools:
                    self.tools[key].output = (self.tools[key].output + text)[-_OUTPUT_KEPT:]
            case ToolEnded():
                self._tool_ended(event)
            case TodoUpdated(todos=todos):
                before, self.todos = self.todos, todos
                self.todos_changed = True
                self.say("todo", lambda columns, theme: notes.todo_change(before, todos, columns))
            case StatusLines(rows=rows):
                for child in self.panels.values():
                    child.row = rows.get(child.subagent_id)
            case RetryScheduled():
                self._retry(event)
            case TurnEnded():
                self._turn_ended(event)
            case Notice(code=code) if code == "mode.changed":
                pass  # the status line shows it
            case Notice() | ContextCompacted() | SessionRewound():
                if isinstance(event, SessionRewound):
                    self._end_stream()
                self.say("note", lambda columns, theme: notes.note_lines(event, columns))

    def _progress(self) -> None:
        """Something else than reasoning follows: what there was of it becomes one folded line."""
        self.retry = None
        text, since = self._thought
        self.thinking, self._thought = "", ("", 0.0)
        if text.strip():
            seconds = self.clock() - since
            self.say("thought", lambda columns, theme: [notes.thought_line(text, seconds, columns)])

    def _reply(self, event: ReplyAdded) -> None:
        """The whole answer: what had not streamed is shown now."""
        text = "".join(b.text for b in event.content if isinstance(b, Text))
        self._progress()
        if text.strip():
            self.last_answer = text
        stream = self.stream or MarkdownStream()
        missing = stream.missing(text)
        if missing:
            self.stream = stream
            stream.feed(missing)
        self._end_stream()

    def _end_stream(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            self.say("text", lambda columns, theme: self._stream_lines(stream, columns, theme, end=True))

    def _tool_ended(self, event: ToolEnded) -> None:
        running = self.tools.pop(event.tool_use_id, None)
        if event.display.get("kind") == "todos" or self._is_panel(event):
            return
        call = running.call if running else ToolStarted(event.tool_use_id, event.name, _given(event.record))

        def draw(columns: int, theme: Theme) -> Sequence[Line]:
            return finished_lines(call, event.record, event.display, columns, theme)

        if call.family in LOOKS and event.record.get("status") == "success":
            self.looks.append((event.name, draw))
        else:
            self.say("tool", draw)

    def look_lines(self, columns: int, theme: Theme) -> list[Line]:
        """The run of looks so far: a few as they are, more of them as one line with the last."""
        if len(self.looks) > FEW:
            return [looks_line([name for name, _ in self.looks], columns), *self.looks[-1][1](columns, theme)]
        return [line for _, draw in self.looks for line in draw(columns, theme)]

    def _end_looks(self) -> None:
        """Something else follows: the run is finished, and printed."""
        looks, self.looks = self.looks, []
        if len(looks) > FEW:
            names = [name for name, _ in looks]
            self._pending.append(("tool", lambda columns, theme: [looks_line(names, columns)]))
        else:
            self._pending.extend(("tool", draw) for _, draw in looks)

    def _is_panel(self, event: ToolEnded) -> bool:
        data: dict[str, Any] = event.record.get("data") or {}
        return bool(data.get("subagent_id"))  # without one it never started, and its error is told here

    def _agent_ended(self, event: AgentEnded) -> None:
        panel = self.panels.pop(event.agent, None)
        if panel is None:
            return
        self.say("agent", lambda columns, theme: ended_line(panel, event, columns, theme))

    def _retry(self, event: RetryScheduled) -> None:
        """What streamed since the last request is withdrawn; what was already printed can only be disowned."""
        stream, self.stream = self.stream, None
        self.thinking, self._thought = "", ("", 0.0)
        self.retry = (self.clock() + event.delay_s, event)
        if stream is not None and stream.started:
            self.say("note", lambda columns, theme: [[("dim", "⊘ the answer above broke off and starts over")]])

    def _turn_ended(self, event: TurnEnded) -> None:
        self._end_stream()
        self.tools.clear()
        self.retry = None
        todos = self.todos
        if any(todo.get("status") != "completed" for todo in todos) and self.todos_changed:
            self.say("todo", lambda columns, theme: notes.todo_summary(todos, columns))
        self.todos_changed = False
        self.say("end", lambda columns, theme: notes.turn_end_lines(event, columns))


def with_bullet(lines: Sequence[Line], *, first: bool) -> list[Line]:
    """The lines of an answer, set in by two; the very first carries the glyph."""
    out: list[Line] = []
    for line in lines:
        if first and line:
            out.append([("accent", "● "), *line])
            first = False
        else:
            out.append([("", "  "), *line] if line else [])
    return out


def _given(record: Json) -> Json:
    given = (record.get("context") or {}).get("params_input")
    return given if isinstance(given, dict) else {}
