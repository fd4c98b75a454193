"""What the events add up to on the screen: lines that are finished, and the live part under them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cowork.core import events, format
from cowork.core.blocks import Json, Text
from cowork.core.events import Event, ToolEnded, ToolStarted
from cowork.core.ports import Question
from cowork.frontends.host import StatusLines
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.panels import CallState, ChildState, ended_line, new_child
from cowork.frontends.repl.view.stream import MarkdownStream
from cowork.frontends.repl.view.tool_lines import finished_lines, looks_line
from cowork.frontends.styled import Line, Theme
from cowork.frontends.text import FEW, LOOKS

Draw = Callable[[int, Theme], Sequence[Line]]
_THOUGHT_KEPT = 400  # characters of reasoning
_OUTPUT_KEPT = 4_000  # characters of a running command's output


@dataclass(slots=True)
class Scene:
    """The state behind the screen. `apply` is cheap; drawing happens in `take` and in `frame.live_lines`."""

    clock: Callable[[], float] = time.monotonic
    tools: dict[str, CallState] = field(default_factory=dict)  # calls of the main agent that have not ended
    looks: list[tuple[str, Draw]] = field(default_factory=list)  # the run of looks that goes on: name and line of each
    panels: dict[str, ChildState] = field(default_factory=dict)  # by the child's path
    todos: tuple[Json, ...] = ()
    todos_changed: bool = False  # in this turn
    stream: MarkdownStream | None = None
    retry: tuple[float, events.RetryScheduled] | None = None  # (when the next try starts, why)
    thinking: str = ""  # the end of the reasoning that goes on
    _thought: tuple[str, float] = ("", 0.0)  # how it began, and when
    working_since: float | None = None
    last_answer: str = ""
    _pending: list[tuple[str, Draw]] = field(default_factory=list)
    _last_kind: str = ""

    def begin(self) -> None:
        """A turn starts."""
        self.working_since = self.clock()

    def finish(self) -> None:
        """The turn is over, whatever was still open."""
        self._end_looks()
        self._end_stream()
        self.tools.clear()
        self.retry = self.working_since = None
        self.thinking = ""

    def replay(self, history: Sequence[Event], prompts: int = 3) -> None:
        """Another conversation: forget this one, and print the end of it, from the last few prompts on.

        Nothing of it runs any more, but its todo list stands; the viewer has all of it.
        """
        self.finish()
        self.panels.clear()
        self.last_answer = ""
        starts = [n for n, e in enumerate(history) if isinstance(e, events.PromptAdded) and e.agent == "main"]
        start = starts[-prompts] if len(starts) > prompts else 0
        if start:
            earlier = format.plural(len(starts) - prompts, "earlier prompt")
            self.say("note", lambda columns, theme: [[("dim", f"· {earlier} · Ctrl+O shows all")]])
        for event in history[start:]:
            self.apply(event)
        self.finish()
        self.panels.clear()
        self.todos = next((e.todos for e in reversed(history) if isinstance(e, events.TodoUpdated)), ())

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

    def apply(self, event: Event) -> None:
        """Take note of what happened."""
        if isinstance(event, events.AgentStarted):
            self.panels[event.agent] = new_child(event, self.clock())
        elif isinstance(event, events.AgentEnded):
            if panel := self.panels.pop(event.agent, None):
                self.say("agent", lambda columns, theme: ended_line(panel, event, columns, theme))
        elif event.agent in self.panels:
            self.panels[event.agent].apply(event, self.clock())
        elif event.agent == "main":
            self._apply_main(event)

    def take(self, columns: int, theme: Theme) -> list[Line]:
        """The lines finished since the last call, each exactly once."""
        out: list[Line] = []
        pending, self._pending = self._pending, []
        if (stream := self.stream) is not None:
            pending.append(("text", stream.take))
        for kind, draw in pending:
            lines = draw(columns, theme)
            if lines and self._last_kind and (kind != self._last_kind or kind in ("prompt", "plan")):
                out.append([])
            self._last_kind = kind if lines else self._last_kind
            out.extend(lines)
        return out

    def _apply_main(self, event: Event) -> None:
        match event:
            case events.TextDelta(text=text):
                self._progress()
                self._end_looks()
                self.stream = self.stream or MarkdownStream("● ")
                self.stream.feed(text)
            case events.ThinkingDelta(text=text):
                self.retry = None
                began, since = self._thought
                self._thought = (began + text)[:_THOUGHT_KEPT], since if began else self.clock()
                self.thinking = (self.thinking + text)[-_THOUGHT_KEPT:]
            case events.ReplyAdded():
                self._reply(event)
            case ToolStarted():
                self._progress()
                self._end_stream()
                self.tools[event.tool_use_id] = CallState(event, self.clock())
            case events.ToolOutput(tool_use_id=key, text=text):
                if key in self.tools:
                    self.tools[key].output = (self.tools[key].output + text)[-_OUTPUT_KEPT:]
            case ToolEnded():
                self._end_tool(event)
            case events.TodoUpdated(todos=todos):
                before, self.todos, self.todos_changed = self.todos, todos, True
                self.say("todo", lambda columns, theme: notes.todo_change(before, todos, columns))
            case StatusLines(rows=rows):
                for child in self.panels.values():
                    child.row = rows.get(child.start.subagent_id)
            case events.RetryScheduled():
                self._retry(event)
            case events.Notice(code="mode.changed"):
                pass  # the status line shows it
            case events.Notice() | events.ContextCompacted():
                self.say("note", lambda columns, theme: notes.note_lines(event, columns))
            case events.PromptAdded() | events.SessionRewound() | events.TurnEnded():
                self._end_stream()
                if isinstance(event, events.TurnEnded):
                    self._end_turn()
                kind = {"prompt.added": "prompt", "turn.ended": "end"}.get(event.type, "note")
                self.say(kind, lambda columns, theme: notes.note_lines(event, columns))

    def _progress(self) -> None:
        """Something else than reasoning follows: what there was of it becomes one folded line."""
        self.retry = None
        text, since = self._thought
        self.thinking, self._thought = "", ("", 0.0)
        if text.strip():
            seconds = self.clock() - since
            self.say("thought", lambda columns, theme: [notes.thought_line(text, seconds, columns)])

    def _reply(self, event: events.ReplyAdded) -> None:
        """The whole answer: what had not streamed is shown now."""
        text = "".join(b.text for b in event.content if isinstance(b, Text))
        self._progress()
        if text.strip():
            self.last_answer = text
        stream = self.stream or MarkdownStream("● ")
        if missing := stream.missing(text):
            self.stream = stream
            stream.feed(missing)
        self._end_stream()

    def _end_stream(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            self.say("text", stream.end)

    def _end_tool(self, event: ToolEnded) -> None:
        running = self.tools.pop(event.tool_use_id, None)
        is_child = bool((event.record.get("data") or {}).get("subagent_id"))  # one that never started is told here
        if event.display.get("kind") == "todos" or is_child:
            return
        call = running.call if running else ToolStarted(event.tool_use_id, event.name)

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
            looks = [("", lambda columns, theme: [looks_line(names, columns)])]
        self._pending.extend(("tool", draw) for _, draw in looks)

    def _retry(self, event: events.RetryScheduled) -> None:
        """What streamed since the last request is withdrawn; what was already printed can only be disowned."""
        stream, self.stream = self.stream, None
        self.thinking, self._thought = "", ("", 0.0)
        self.retry = (self.clock() + event.delay_s, event)
        if stream is not None and stream.started:
            self.say("note", lambda columns, theme: [[("dim", "⊘ the answer above broke off and starts over")]])

    def _end_turn(self) -> None:
        self.tools.clear()
        self.retry = None
        todos = self.todos
        if self.todos_changed and any(todo.get("status") != "completed" for todo in todos):
            self.say("todo", lambda columns, theme: notes.todo_summary(todos, columns))
        self.todos_changed = False
