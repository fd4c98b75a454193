"""A host whose answers are scripted, so that the chat can be driven without the application."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from cowork.core import format
from cowork.core.blocks import Text, ToolUse, Usage
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    AgentUpdated,
    Event,
    Notice,
    PromptAdded,
    ReplyAdded,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
    TodoUpdated,
    ToolEnded,
    ToolOutput,
    TurnEnded,
)
from cowork.core.ports import MODES, Ask, Question
from cowork.frontends.host import Choose, Command, CommandResult, Options, PromptResult, Row, Status
from cowork.frontends.repl.repl import Repl
from cowork.frontends.repl.view.scene import Scene
from tests.fakes.calls import started

Play = Callable[["FakeHost", str], Awaitable[None]]


def _size() -> str:
    """With DEMO_SIZE, the size of the window as the program knows it: shown as the mode, it is always on the screen."""
    if not os.environ.get("DEMO_SIZE"):
        return ""
    size = os.get_terminal_size()
    return f"{size.columns}x{size.lines}"


def chat_on(scene: Scene, activity: str = "") -> Repl:
    """A chat that shows this scene and is not running."""
    host = FakeHost({})
    host.activity = activity
    repl = Repl(host, Options(), {"TERM": "xterm"})
    repl.scene = scene
    return repl


class FakeHost:
    """Plays the script whose name is the first word of a prompt; anything else is echoed."""

    def __init__(self, scripts: dict[str, Play], files: Sequence[str] = (), cwd: str = "/home/ada/src/shop") -> None:
        self.scripts = scripts
        self.paths = list(files)
        self.cwd = cwd
        self.mode = "ask"
        self.cost = 0.0
        self.activity = ""
        self.log: list[Event] = []
        self.said: list[str] = []  # every prompt that was submitted
        self.steered: list[str] = []
        self.waiting: list[str] = []  # typed ahead, as the chat last told it
        self.children: list[tuple[str, str]] = []  # (subagent id, what the person asked of it)
        self.emit_to: Callable[[Event], None] = lambda event: None
        self.ask: Ask = self._nobody
        self.answers: list[tuple[str, str]] = []
        self.stopped: dict[str, asyncio.Event] = {}
        self._ids = itertools.count(1)
        self._calls = itertools.count(1)
        self._turn: asyncio.Task[Any] | None = None
        self._inner: asyncio.Future[None] | None = None

    # ---- what the chat calls

    def status(self) -> Status:
        return Status(
            version="0.1", cwd=self.cwd, branch="main", model="claude-sonnet-4-5", light_model="haiku-4-5",
            mode=_size() or self.mode, context_percent=3 + len(self.said), cost_usd=self.cost, agents=6,
            knowledge=("AGENTS.md",), activity=self.activity,
        )  # fmt: skip

    def commands(self) -> Sequence[Command]:
        return (
            Command("cost", "what this session has cost", self._cost, busy=True),
            Command("compact", "summarise the conversation", self._say("compacted"), "[focus]"),
            Command("clear", "start over", self._say(""), resets=True),
            Command("init", "write AGENTS.md by exploring", self._init),
            Command("model", "show or change the model", self._say("model"), "[main|light]", lambda: ("main", "light")),
            Command("resume", "go on with an earlier session", self._say("resumed")),
            Command("sessions", "a list to choose from", self._sessions),
            Command("context", "what fills the window", self._say("context")),
        )

    async def submit(self, text: str, images: Sequence[Path] = (), *, label: str = "") -> None:
        self.said.append(text)
        self._turn = asyncio.current_task()
        self.emit(PromptAdded(text, label=label))
        started = time.monotonic()
        reason = "completed"
        play = self.scripts.get(text.split()[0] if text.split() else "", echo)
        inner = asyncio.ensure_future(play(self, text))
        self._inner = inner
        try:
            await inner
        except asyncio.CancelledError:
            reason = "interrupted"
        took = int((time.monotonic() - started) * 1000)
        self.emit(TurnEnded(reason, num_turns=1, duration_ms=took, cost_usd=0.01, usage=Usage(900, 100)))

    def interrupt(self) -> None:
        if self._inner:
            self._inner.cancel()

    def steer(self, text: str) -> None:
        self.steered.append(text)

    def keep_waiting(self, texts: Sequence[str]) -> None:
        self.waiting = list(texts)

    def read_waiting(self) -> Sequence[str]:
        return self.waiting

    def stop_child(self, subagent_id: str, how: Literal["finish", "kill"]) -> None:
        self.children.append((subagent_id, how))
        if subagent_id in self.stopped:
            self.stopped[subagent_id].set()

    async def tell_child(self, subagent_id: str, text: str, images: Sequence[Path] = ()) -> None:
        self.children.append((subagent_id, " ".join((text, *(image.name for image in images)))))

    def cycle_mode(self) -> str:
        self.mode = MODES[(MODES.index(self.mode) + 1) % len(MODES)]
        return self.mode

    async def files(self) -> Sequence[str]:
        return self.paths

    async def resources(self, typed: str) -> Sequence[tuple[str, str]]:
        return ()

    def agents(self) -> Sequence[tuple[str, str]]:
        return (("explore", "finds things in the code"), ("plan", "thinks a change through"))

    async def run_shell(self, command: str) -> None:
        await self.tool("Bash", {"command": command}, output=f"you ran {command}\n", lines=1)

    async def add_note(self, text: str) -> str:
        return f"added to AGENTS.md: {text}"

    def history(self) -> Sequence[Event]:
        return [event for event in self.log if event.durable]

    # ---- what scripts call

    def emit(self, event: Event, agent: str = "main") -> None:
        event = replace(event, id=next(self._ids), at=time.time(), agent=agent)
        if event.durable:
            self.log.append(event)
        self.emit_to(event)

    async def say(self, text: str, *, pieces: int = 40, pause: float = 0.01, agent: str = "main") -> None:
        """Stream a text in pieces and close it with the whole reply."""
        size = max(1, len(text) // pieces)
        for start in range(0, len(text), size):
            self.emit(TextDelta(text[start : start + size]), agent)
            await asyncio.sleep(pause)
        self.emit(ReplyAdded((Text(text),), "end_turn", Usage(900, len(text) // 4), 0.01), agent)

    async def tool(
        self, name: str, given: dict[str, Any], *, text: str = "done", display: dict[str, Any] | None = None,
        status: str = "success", pause: float = 0.05, output: str = "", lines: int = 0, agent: str = "main",
        summary: str = "",
    ) -> str:  # fmt: skip
        key = f"call-{next(self._calls)}"
        self.emit(ReplyAdded((ToolUse(key, name, given),), "tool_use", Usage(500, 50), 0.005), agent)
        self.emit(started(key, name, given), agent)
        for row in output.splitlines(keepends=True):
            self.emit(ToolOutput(key, row), agent)
            await asyncio.sleep(pause / 4)
        await asyncio.sleep(pause)
        display = dict(display or {})
        if output:
            lines = lines or output.count("\n")
            display |= {"kind": "terminal", "command": given.get("command"), "output": output, "exit_code": 0,
                        "lines": lines, "summary": format.plural(lines, "line")}  # fmt: skip
        if summary:
            display["summary"] = summary
        record: dict[str, Any] = {"status": status, "data": {}, "text": text, "stats": {}, "context": {}}
        if status == "error":
            record["error"] = {"code": "NOT_FOUND", "message": text}
        self.emit(ToolEnded(key, name, record, display), agent)
        return key

    async def child(
        self, number: int, kind: str, description: str, steps: Sequence[tuple[str, dict[str, Any], str]], *,
        pause: float = 0.1, color: str = "", status: str = "completed", think: float = 0.0,
        until: asyncio.Event | None = None, parent: str = "main",
    ) -> None:  # fmt: skip
        """A child that does its steps and reports."""
        path, key = f"{parent}/{kind}-{number}", f"sub{number}"
        call = f"task-{number}"
        self.stopped[key] = asyncio.Event()
        given = {"description": description, "prompt": f"{description}, please", "subagent_type": kind}
        self.emit(started(call, "Task", given), parent)
        self.emit(
            AgentStarted(key, parent, call, description, given["prompt"], kind, "light", max_turns=10, color=color),
            path,
        )
        self.emit(PromptAdded(given["prompt"], source="agent"), path)
        used = Usage()
        ended = status
        try:
            for turn, (name, args, result) in enumerate(steps, 1):
                used += Usage(900 + 10 * turn, 80)
                if think:
                    self.emit(ThinkingDelta("hm"), path)
                    await asyncio.sleep(think)
                await self.tool(name, args, pause=pause, agent=path, summary=result)
                self.emit(AgentUpdated(key, "active", turn, turn, used, 0.0007 * turn, action=""), path)
                if self.stopped[key].is_set():
                    ended = "incomplete"
                    break
            if until is not None:
                await until.wait()
        except asyncio.CancelledError:
            ended = "aborted"
            raise
        finally:
            data = {"status": ended, "subagent_id": key, "subagent_type": kind, "duration_ms": 21_000,
                    "usage": {"prompt_tokens": used.prompt_tokens, "completion_tokens": used.output_tokens},
                    "total_cost_usd": 0.0007 * len(steps), "tool_summary": [{"tool": "Read", "count": len(steps)}],
                    "metadata": {"turns_used": str(len(steps))}, "result": f"{description}: found it"}  # fmt: skip
            record: dict[str, Any] = {"status": "success", "data": data, "text": "Subagent completed.", "stats": {},
                                      "context": {}}  # fmt: skip
            if ended == "error":
                record |= {"status": "error", "error": {"code": "TIMEOUT", "message": "timed out after 60 s"}}
            self.emit(AgentEnded(key, ended, record), path)
            self.emit(ToolEnded(call, "Task", record, {}), parent)

    async def question(self, question: Question) -> str:
        """Ask, remember the answer, give the choice."""
        answer = await self.ask(question)
        self.answers.append((answer.choice, answer.note))
        return answer.choice

    async def _nobody(self, question: Question) -> Any:
        raise AssertionError("no chat is connected")

    async def _cost(self, rest: str) -> CommandResult:
        return "| model | cost |\n|---|---|\n| sonnet | $0.10 |\n| haiku | $0.02 |\n"

    async def _init(self, rest: str) -> CommandResult:
        return PromptResult("Explore this repository and write AGENTS.md", "/init")

    async def _sessions(self, _: str) -> CommandResult:
        async def chosen(row: Row) -> CommandResult:
            return f"chose {row.label}"

        rows = [
            Row(f"s{n}", f"session {n} about refunds for guests", f"{n} h ago · {n} turns · $0.04 · s{n}2i374cynsr",
                f"what session {n} was about: " + "refunds for guests " * 12)
            for n in range(1, 15)
        ]  # fmt: skip
        return Choose("Go on with which session?", rows, chosen)

    def _say(self, word: str) -> Callable[[str], Awaitable[CommandResult]]:
        async def run(rest: str) -> CommandResult:
            return f"{word} {rest}".strip()

        return run


async def echo(host: FakeHost, text: str) -> None:
    await host.say(f"You said: {text}", pieces=4)


__all__ = ["FakeHost", "Notice", "RetryScheduled", "TodoUpdated"]
