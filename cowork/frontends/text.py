"""One run for a person or a CI log: the answer on stdout, what happens on stderr a line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from cowork.core import events, format
from cowork.core.blocks import Json, Message, as_object
from cowork.core.events import Event, ToolEnded, ToolStarted
from cowork.core.format import one_line
from cowork.core.hygiene import Visible

if TYPE_CHECKING:
    from cowork.frontends.drawing import TerminalText

LOOKS = ("read", "search")  # families of tools; a run of such calls is folded
FEW = 2  # looks that are told one by one
_ENDINGS = {
    "completed": "done",
    "max_turns": "stopped at the turn limit",
    "budget": "stopped at the budget",
    "denied": "stopped: an action was denied",
    "schema": "failed: the answer does not fit the schema",
    "timeout": "timed out",
    "interrupted": "interrupted",
    "terminated": "terminated",
    "auth": "failed: no or refused credentials",
    "api_error": "failed: the service refused the request",
    "unavailable": "failed: the service is unavailable",
    "empty": "failed: the model gave no answer",  # these are codes of an api_error
    "refusal": "failed: the model refused",
    "script": "failed",
}


def call_line(call: ToolStarted) -> str:
    """What the call is about; in logs of earlier versions, which do not say it, the first text it was given."""
    first = next((value for value in call.input.values() if isinstance(value, str)), "")
    return one_line(call.line if call.family else first)


def call_text(call: ToolStarted, *, width: int = 72) -> str:
    """A call in a few words: `Read shop/a.py`, `Grep "guest"`, `Bash $ git push`."""
    return f"{one_line(call.name, 40)} {one_line(call_line(call), width)}".rstrip()


class TextOutput:
    """Prints a run. `live` streams the answer as it comes, `fold` counts a long run of looks: both for a terminal.

    `rendering` draws Markdown and diffs; without it they are plain text. Anything but a terminal gets the final answer
    once, at the end: a try that is withdrawn later never reaches a pipe.
    """

    def __init__(
        self, out: TextIO, err: TextIO, *, live: bool = False, fold: bool = False, quiet: bool = False,
        rendering: TerminalText | None = None,
    ) -> None:  # fmt: skip
        self._out, self._err = out, err
        self._live, self._quiet, self._fold = live, quiet, fold
        # Open calls. Services that count calls give two children the same ids.
        self._calls: dict[tuple[str, str], ToolStarted] = {}
        self._looks: dict[str, list[str]] = {}  # agent path -> the tools of the run of looks that goes on
        self._children: dict[str, str] = {}  # agent path -> its label
        self._delegated: set[tuple[str, str]] = set()  # calls whose child has lines of its own
        self._rendering = rendering
        self._stream = rendering if rendering and live else Visible()
        self._column = 0  # where the cursor of stdout stands
        self._streamed = False  # something of the current reply was printed
        self._last_reply = ""

    def __call__(self, event: Event) -> None:
        is_main = event.agent == "main"
        match event:
            case events.TextDelta() if is_main and self._live:
                self._end_looks("main")
                self._print(self._stream.feed(event.text))
                self._streamed = True
            case events.ReplyAdded() if is_main and self._live:
                self._last_reply = Message("assistant", event.content).text
                self._print(self._stream.end() if self._streamed else self._render(self._last_reply))
                self._fresh_line()
                self._restart()
            case ToolStarted():
                self._calls[event.agent, event.tool_use_id] = event
            case ToolEnded():
                self._end_call(event)
            case events.AgentStarted():
                name, label = one_line(event.agent.removeprefix("main/"), 200), one_line(event.description, 48)
                self._children[event.agent] = f'[{name} "{label}"] ' if label else f"[{name}] "
                self._delegated.add((event.parent, event.tool_use_id))
                waiting = "waits in line" if event.status == "waiting" else "started"
                self._progress(event, f"{waiting} · {one_line(event.model, 200)}" if event.model else waiting)
            case events.RunEnded():
                self._end(event.result)
            case _:
                withdrawn = isinstance(event, events.RetryScheduled) and is_main and self._streamed
                for text in _describe(event):
                    self._progress(event, f"{text} The text above is withdrawn." if withdrawn else text)
                if withdrawn:
                    self._restart()

    def _end_call(self, event: ToolEnded) -> None:
        key = event.agent, event.tool_use_id
        call = self._calls.pop(key, ToolStarted(event.tool_use_id, event.name))
        if key in self._delegated or event.display.get("kind") == "todos":
            return  # its own events told it already
        what = call_text(call)
        error = event.record.get("error")
        if isinstance(error, dict):
            denied = error.get("code") == "PERMISSION_DENIED"
            reason = (event.record.get("data") or {}).get("reason") if denied else ""  # without the words for the model
            message = one_line(str(reason or error.get("message", "")), 200)
            self._progress(event, f"denied {what}: {message}" if denied else f"{what} · failed: {message}")
            return
        summary, diff = event.display.get("summary"), event.display.get("diff")
        told = f"{what} · {one_line(str(summary), 200)}" if summary else what
        if self._fold and call.family in LOOKS:  # the first of a run are told as they come, the others counted
            run = self._looks.setdefault(event.agent, [])
            run.append(event.name)
            if len(run) <= FEW:
                self._say(event.agent, told)
            return
        self._progress(event, told)
        if self._fold and self._rendering and diff and not self._quiet:
            draw(self._err, self._rendering.diff(str(diff)))

    def _end_looks(self, agent: str) -> None:
        more = self._looks.pop(agent, [])[FEW:]
        if more:
            counted = " · ".join(f"{name} {more.count(name)}" for name in dict.fromkeys(more))
            self._say(agent, f"{format.plural(len(more), 'more look')}: {counted}")

    def _render(self, text: str) -> str:
        return self._stream.feed(text) + self._stream.end()

    def _restart(self) -> None:
        """Forget what came of an answer: it ended, or it is withdrawn."""
        self._stream.end()
        self._stream = Visible() if isinstance(self._stream, Visible) else self._stream
        self._streamed = False

    def _end(self, result: Json) -> None:
        for agent in list(self._looks):
            self._end_looks(agent)
        text = str(result.get("result") or "")
        if text and not (self._live and text.strip() == self._last_reply.strip()):
            self._print(self._render(text))
        self._fresh_line()
        error, reason = as_object(result.get("error")), str(result.get("terminal_reason", ""))
        told = reason == "denied" and not self._quiet  # the last line says it
        if error.get("message") and not told:
            hint = f"\n  {one_line(str(error['hint']), 200)}" if error.get("hint") else ""
            self._line(one_line(str(error["message"]), 400) + hint)
        used = receipts(result, result.get("num_turns"))
        ending = _ENDINGS.get(str(error.get("code"))) or _ENDINGS.get(reason, "failed")
        self._say("main", " · ".join([ending, *used]))

    def _progress(self, event: Event, text: str) -> None:
        self._end_looks(event.agent)
        self._say(event.agent, text)

    def _say(self, agent: str, text: str) -> None:
        if not self._quiet:
            self._line(self._children.get(agent, "") + text)

    def _line(self, text: str) -> None:
        self._fresh_line()
        self._err.write(f"cowork: {text}\n")
        self._err.flush()

    def _print(self, text: str) -> None:
        if not text:
            return
        if self._rendering and self._live:
            draw(self._out, text)
        else:
            self._out.write(text)
            self._out.flush()
        self._column = len(text) - text.rfind("\n") - 1 if "\n" in text else self._column + len(text)

    def _fresh_line(self) -> None:
        self._print("\n" if self._column else "")


def _describe(event: Event) -> Iterator[str]:
    """What is said of an event that needs no knowledge of those before it."""
    match event:
        case events.PromptAdded():
            yield from (f"@{one_line(line, 200)}" for line in event.attached)
        case events.AgentEnded():
            data = event.record.get("data") or {}
            message = one_line(str((event.record.get("error") or {}).get("message") or ""), 200)
            ended = "done" if event.status == "completed" else event.status
            facts = [ended, message, *receipts(data, (data.get("metadata") or {}).get("turns_used"))]
            yield " · ".join(filter(None, facts))
        case events.RetryScheduled():
            tries = f"{format.duration(event.delay_s)} ({event.attempt} of {event.max_attempts})"
            yield f"{one_line(event.message, 200).rstrip('.')}. Trying again in {tries}."
        case events.TodoUpdated(agent="main"):
            done = sum(1 for todo in event.todos if todo.get("status") == "completed")
            now = next((todo for todo in event.todos if todo.get("status") == "in_progress"), None)
            doing = f" · {one_line(str(now.get('activeForm') or now.get('content', '')), 200)}" if now else ""
            yield f"todo {done}/{len(event.todos)}{doing}"
        case events.ContextCompacted() if event.summary:
            before, after = format.tokens(event.tokens_before), format.tokens(event.tokens_after)
            yield f"summarised the older part of the conversation · {before} tok → {after} tok"
        case events.Notice():
            yield ("" if event.level == "info" else f"{event.level}: ") + one_line(event.text, 400)


def receipts(data: Json, turns: str | int | None, unknown: str = "cost unknown") -> list[str]:
    """What a run or a child used."""
    return [
        format.plural(int(turns or 0), "turn"),
        f"{format.tokens(sum((data.get('usage') or {}).values()))} tok",
        format.money(data.get("total_cost_usd"), unknown),
        format.duration((data.get("duration_ms") or 0) / 1000),
    ]


def draw(stream: TextIO, text: str) -> None:
    """Write what was made for a terminal past a stream that would show its colours as text."""
    stream.flush()
    stream.buffer.write(text.encode(stream.encoding, "replace"))
    stream.flush()
