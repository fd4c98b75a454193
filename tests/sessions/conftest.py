"""Histories for the session tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from cowork.core.blocks import Text, ToolUse, Usage
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    Event,
    PromptAdded,
    ReplyAdded,
    SessionStarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from cowork.sessions.log.writer import SessionLog

Stamp = Callable[..., list[Event]]


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sessions"


@pytest.fixture
def stamp() -> Stamp:
    """Number events as the emitter does; an agent is kept where one is set."""

    def stamped(events: Iterable[Event], session_id: str = "s1", first: int = 1, at: float = 1000.0) -> list[Event]:
        return [replace(e, id=n, at=at + n, session_id=session_id) for n, e in enumerate(events, first)]

    return stamped


@pytest.fixture
def turns() -> Callable[[int], list[Event]]:
    """A session of so many prompts, each with a tool, a child and an answer; not stamped."""

    def make(count: int, cwd: str = "/project") -> list[Event]:
        events: list[Event] = [SessionStarted(cwd, "big", "scripted", "ask", "trunk", "1")]
        for n in range(count):
            call, task = ToolUse(f"c{n}", "Read", {"file_path": "a"}), ToolUse(f"t{n}", "Task", {"prompt": "look"})
            child = f"main/explore-{n}"
            events += [
                PromptAdded(f"prompt {n}: äöü ☃ \U0001f600"),
                TextDelta("I "),
                ReplyAdded((Text("I look."), call, task), "tool_use", Usage(100, 10, 5, 1), 0.25, "big"),
                ToolStarted(call.id, "Read", call.input),
                ToolEnded(call.id, "Read", {"status": "success", "data": {}, "text": "content\nof a"}),
                ToolStarted(task.id, "Task", task.input),
                AgentStarted(f"id{n}", "main", task.id, "look", "look", "explore", "light", "small", agent=child),
                PromptAdded("look", source="agent", agent=child),
                ReplyAdded((Text("found"),), "end_turn", Usage(50, 5), 0.125, "small", agent=child),
                AgentEnded(f"id{n}", "completed", {"data": {"result": "found"}}, agent=child),
                ToolEnded(task.id, "Task", {"status": "success", "data": {}, "text": "found"}),
                ReplyAdded((Text(f"answer {n}"),), "end_turn", Usage(120, 12, 100), 0.5, "big"),
                TurnEnded("completed", f"answer {n}", 2),
            ]
        return events

    return make


@pytest.fixture
def store(sessions: Path, stamp: Stamp) -> Callable[..., Path]:
    """Write stamped events as the log of a session; gives its path."""

    def written(events: Iterable[Event], session_id: str = "s1") -> Path:
        with SessionLog.create(sessions, session_id) as log:
            for event in events:
                log(event)
        return log.path

    return written
