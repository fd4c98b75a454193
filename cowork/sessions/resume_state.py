"""What a resumed session takes up again beside its conversation, as pure folds of the log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json, Tally, Text, outcome_of
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    Event,
    Notice,
    PromptAdded,
    ReplyAdded,
    SessionRewound,
    SessionStarted,
    TodoUpdated,
    ToolEnded,
    ToolStarted,
)
from cowork.core.frozen import frozen
from cowork.core.transcript import Transcript
from cowork.sessions.cost import Spending, charges

MAIN = "main"
_PEOPLE = ("user", "queue", "steer")


@frozen
class InterruptedChild:
    """A child that was cut off, with what it had."""

    agent: str
    subagent_id: str
    subagent_type: str
    description: str
    model: str = ""
    turns: int = 0
    tool_calls: int = 0
    text: str = ""  # the last it said
    doing: str = ""  # the tool that ran when it stopped
    files_changed: tuple[str, ...] = ()
    spent: Spending = field(default_factory=Spending)
    tally: Tally = field(default_factory=Tally)

    @property
    def line(self) -> str:
        """In a line, for people and for the model."""
        changed = f", changed {', '.join(self.files_changed)}" if self.files_changed else ""
        said = f"; last words: {' '.join(self.text.split())[:200]}" if self.text else ""
        return (
            f"{self.subagent_type} ({self.description}) was interrupted after {self.turns} turns and "
            f"{self.tool_calls} tool calls{changed}{said} [subagent_id {self.subagent_id}]"
        )


@frozen
class LostJob:
    """A command of the main agent that ran in the background, and ended with the process at the latest."""

    name: str
    command: str
    output_file: str

    @property
    def line(self) -> str:
        """For the model."""
        return f"{self.name} (`{self.command}`) ended with the process it ran in; its output is in {self.output_file}."


@frozen
class ResumeState:
    """The state of the main agent, and the children that were running."""

    todos: tuple[Json, ...] = ()
    mode: str = ""
    model: str = ""
    chosen: str = ""  # the model, if it was chosen in the session and not by the settings of that time
    cwd: str = ""  # where Bash was
    seen: dict[str, str] = field(default_factory=dict)  # resolved path -> hash last read or written
    children: tuple[InterruptedChild, ...] = ()
    jobs: tuple[LostJob, ...] = ()
    last_job: int = 0  # the highest number a background command had


def restore(events: Iterable[Event], root: Path) -> ResumeState:
    """What to go on with; paths of records are relative to `root` where they are not whole."""
    everything = list(events)
    kept = surviving(everything)
    mode, model, chosen = settings(everything)
    return ResumeState(
        todos=todos(kept),
        mode=mode,
        model=model,
        chosen=chosen,
        cwd=working_directory(kept, root),
        seen=read_state(kept, root),
        children=interrupted(kept),
        jobs=lost_jobs(kept),
        last_job=max((_number(e) for e in everything), default=0),
    )


def surviving(events: Iterable[Event]) -> list[Event]:
    """The events that rewinding left in the conversation."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, SessionRewound) and event.conversation:
            kept = [e for e in kept if e.id < event.to]
        kept.append(event)
    return kept


def todos(events: Iterable[Event], agent: str = MAIN) -> tuple[Json, ...]:
    """The newest todo list of an agent."""
    found: tuple[Json, ...] = ()
    for event in events:
        if isinstance(event, TodoUpdated) and event.agent == agent:
            found = event.todos
    return found


def settings(events: Iterable[Event]) -> tuple[str, str, str]:
    """(mode, model, model chosen by hand) as they were last. Rewinding does not undo a choice of the person."""
    mode = model = chosen = ""
    for event in events:
        match event:
            case SessionStarted():
                mode, model = event.mode or mode, event.model or model
                chosen = chosen if model == chosen else ""
            case Notice(code="mode.changed"):
                mode = str(event.data.get("mode") or mode)
            case Notice(code="model.changed"):
                model = chosen = str(event.data.get("model") or model)
    return mode, model, chosen


def working_directory(events: Iterable[Event], root: Path) -> str:
    """The working directory of the main agent's last call, empty if it is gone or never was."""
    shown = ""
    for event in events:
        if isinstance(event, ToolEnded) and event.agent == MAIN:
            context = event.record.get("context")
            shown = str(context.get("cwd") or "") if isinstance(context, dict) else shown
    path = os.path.normpath(os.path.join(root, shown)) if shown else ""
    return path if os.path.isdir(path) else ""


def read_state(events: Iterable[Event], root: Path, agent: str = MAIN) -> dict[str, str]:
    """Path -> hash of every file an agent read or wrote, as it last knew it."""
    seen: dict[str, str] = {}
    families: dict[str, str] = {}  # of the calls; a tool from outside may name paths and hashes that mean nothing here
    for event in events:
        if isinstance(event, ToolStarted) and event.agent == agent:
            families[event.tool_use_id] = event.family
        if not isinstance(event, ToolEnded) or event.agent != agent:
            continue
        if families.pop(event.tool_use_id, "") not in ("", "read", "write"):
            continue
        data = _data(event)
        path, digest = data.get("path"), data.get("hash")
        if isinstance(path, str) and isinstance(digest, str) and path and digest:
            seen[os.path.realpath(os.path.join(root, path))] = digest
    return seen


def interrupted(events: Sequence[Event]) -> tuple[InterruptedChild, ...]:
    """The children that were sent out and never came back."""
    open_children: dict[str, AgentStarted] = {}
    for event in events:
        match event:
            case AgentStarted():
                open_children.pop(event.agent, None)  # one that was sent out again is the latest
                open_children[event.agent] = event
            case AgentEnded():
                open_children.pop(event.agent, None)
    return tuple(_child(started, events) for started in open_children.values())


def lost_jobs(events: Iterable[Event]) -> tuple[LostJob, ...]:
    """The main agent's background commands that nobody saw the end of."""
    running: dict[str, LostJob] = {}
    for event in events:
        if not isinstance(event, ToolEnded) or event.agent != MAIN:
            continue
        data = _data(event)
        name = str(data.get("bash_id") or data.get("shell_id") or "")
        context = event.record.get("context")
        given = context.get("params_input") if isinstance(context, dict) else None
        if data.get("running") is not True:
            running.pop(name, None)
        elif isinstance(given, dict) and "command" in given:
            command = " ".join(str(given["command"]).split())
            running[name] = LostJob(name, command[:200], str(data.get("output_file") or "no file"))
    return tuple(running.values())


def rewind_points(transcript: Transcript) -> tuple[PromptAdded, ...]:
    """The person's prompts that one can go back to, oldest first."""
    return tuple(p for p in transcript.prompts() if p.source in _PEOPLE)


def _child(started: AgentStarted, events: Sequence[Event]) -> InterruptedChild:
    path = started.agent
    text, turns = "", 0
    tally = Tally()
    running: dict[str, str] = {}
    changed: dict[str, None] = {}
    for event in events:
        below = event.agent == path or event.agent.startswith(path + "/")
        if not below or event.id < started.id:
            continue
        if isinstance(event, ToolEnded):
            changed.update(dict.fromkeys(_changed(event)))
        if event.agent != path:
            continue
        match event:
            case ReplyAdded():
                turns += 1
                text = "".join(b.text for b in event.content if isinstance(b, Text)).strip() or text
            case ToolStarted():
                tally.start(event.name)
                running[event.tool_use_id] = event.name
            case ToolEnded():
                if running.pop(event.tool_use_id, None):
                    tally.end(event.name, outcome_of(event.record))
    for name in running.values():
        tally.end(name, "failed")
    spent = Spending()
    for charge in charges(e for e in events if e.id >= started.id and f"{e.agent}/".startswith(f"{path}/")):
        spent += charge.spent
    return InterruptedChild(
        path,
        started.subagent_id,
        started.subagent_type,
        started.description,
        started.model_id or started.model,
        turns,
        tally.total(),
        text,
        ", ".join(running.values()),
        tuple(changed),
        spent,
        tally,
    )


def _number(event: Event) -> int:
    """Of the background command a call started."""
    name = str(_data(event).get("bash_id") or "") if isinstance(event, ToolEnded) else ""
    number = name.rpartition("_")[2]
    return int(number) if number.isdecimal() else 0


def _changed(event: ToolEnded) -> list[str]:
    if event.record.get("status") == "error":
        return []
    data = _data(event)
    listed = data.get("files_changed")
    found = [str(p) for p in listed] if isinstance(listed, list) else []
    path = data.get("path")
    return [*found, path] if "added" in data and isinstance(path, str) else found


def _data(event: ToolEnded) -> dict[str, Any]:
    data = event.record.get("data")
    return data if isinstance(data, dict) else {}
