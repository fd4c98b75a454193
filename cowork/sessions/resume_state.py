"""What a resumed session takes up again beside its conversation, and what is wrong with one: pure folds of the log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path

from cowork.core import events
from cowork.core.blocks import Json, Tally, Text, Thinking, ToolUse, as_object, outcome_of
from cowork.core.format import plural
from cowork.core.frozen import frozen
from cowork.core.transcript import Transcript
from cowork.sessions.cost import Spending, charges
from cowork.sessions.log.reader import Loaded, is_undone

MAIN = "main"
_PEOPLE = ("user", "queue", "steer")


@frozen
class InterruptedChild:
    """A child that was cut off, with what it had."""

    start: events.AgentStarted
    turns: int
    text: str  # the last it said
    files_changed: tuple[str, ...]
    spent: Spending
    tally: Tally  # of its calls
    duration_ms: int  # until the last that is known of it

    @property
    def line(self) -> str:
        """In a line, for people and for the model."""
        changed = f", changed {', '.join(self.files_changed)}" if self.files_changed else ""
        said = f"; last words: {' '.join(self.text.split())[:200]}" if self.text else ""
        who, had = self.start, f"{plural(self.turns, 'turn')} and {plural(self.tally.total(), 'tool call')}"
        about = f"{who.subagent_type} ({who.description}) was interrupted after {had}{changed}{said}"
        return f"{about} [subagent_id {who.subagent_id}]"


@frozen
class ResumeState:
    """The state of the main agent, and the children that were running."""

    todos: tuple[Json, ...] = ()
    mode: str = ""
    model: str = ""
    chosen: str = ""  # the model, if it was chosen in the session and not by the settings of that time
    cwd: str = ""  # of the last call; empty if it is gone or never was
    seen: dict[str, str] = field(default_factory=dict)  # resolved path -> hash last read or written
    children: tuple[InterruptedChild, ...] = ()
    jobs: tuple[str, ...] = ()  # a line on each command in the background that nobody saw the end of
    last_job: int = 0  # the highest number a background command had


def restore(history: Iterable[events.Event], root: Path) -> ResumeState:
    """What to go on with; paths of records are relative to `root` where they are not whole."""
    everything = list(history)
    kept = surviving(everything)
    shown, seen, jobs = "", dict[str, str](), dict[str, str]()
    families: dict[str, str] = {}  # of the calls; a tool from outside may name paths and hashes that mean nothing here
    for event in kept:
        if isinstance(event, events.ToolStarted) and event.agent == MAIN:
            families[event.tool_use_id] = event.family
        if not isinstance(event, events.ToolEnded) or event.agent != MAIN:
            continue
        data, context = _data_of(event), event.record.get("context")
        if isinstance(context, dict):
            shown = str(context.get("cwd") or "")
        path, digest = data.get("path"), data.get("hash")
        of_files = families.pop(event.tool_use_id, "") in ("", "read", "write")
        if of_files and isinstance(path, str) and isinstance(digest, str) and path and digest:
            seen[os.path.realpath(os.path.join(root, path))] = digest
        name = str(data.get("bash_id") or data.get("shell_id") or "")
        given = as_object(as_object(context).get("params_input"))
        if data.get("running") is not True:
            jobs.pop(name, None)
        elif "command" in given:
            command = " ".join(str(given["command"]).split())[:200]
            output = data.get("output_file") or "no file"
            jobs[name] = f"{name} (`{command}`) ended with the process it ran in; its output is in {output}."
    cwd = os.path.normpath(os.path.join(root, shown)) if shown else ""
    return ResumeState(
        todos(kept),
        *_settings(everything),
        cwd=cwd if os.path.isdir(cwd) else "",
        seen=seen,
        children=find_interrupted(kept),
        jobs=tuple(jobs.values()),
        last_job=max(map(_job_number, everything), default=0),
    )


def surviving(history: Iterable[events.Event]) -> list[events.Event]:
    """The events that rewinding left in the conversation."""
    history = list(history)
    rewinds = [event for event in history if isinstance(event, events.SessionRewound) and event.conversation]
    return [event for event in history if not is_undone(event.id, rewinds)]


def todos(history: Iterable[events.Event]) -> tuple[Json, ...]:
    """The newest todo list of the main agent."""
    lists = [event.todos for event in history if isinstance(event, events.TodoUpdated) and event.agent == MAIN]
    return lists[-1] if lists else ()


def _settings(history: Iterable[events.Event]) -> tuple[str, str, str]:
    """(mode, model, model chosen by hand) as they were last. Rewinding does not undo a choice of the person."""
    mode = model = chosen = ""
    for event in history:
        match event:
            case events.SessionStarted():
                mode, model = event.mode or mode, event.model or model
                chosen = chosen if model == chosen else ""
            case events.Notice(code="mode.changed"):
                mode = str(event.data.get("mode") or mode)
            case events.Notice(code="model.changed"):
                model = chosen = str(event.data.get("model") or model)
    return mode, model, chosen


def find_interrupted(history: Sequence[events.Event]) -> tuple[InterruptedChild, ...]:
    """The children that were sent out and never came back."""
    open_children: dict[str, events.AgentStarted] = {}
    for event in history:
        match event:
            case events.AgentStarted():
                open_children.pop(event.agent, None)  # one that was sent out again is the latest
                open_children[event.agent] = event
            case events.AgentEnded():
                open_children.pop(event.agent, None)
    return tuple(_describe_child(started, history) for started in open_children.values())


def rewind_points(transcript: Transcript) -> tuple[events.PromptAdded, ...]:
    """The person's prompts that one can go back to, oldest first."""
    return tuple(p for p in transcript.prompts() if p.source in _PEOPLE)


def diagnose(loaded: Loaded) -> list[str]:
    """Damage of the file first, then gaps in the story; empty when all is well. Nothing here stops a resume."""
    history = loaded.events
    found = list(loaded.damage)
    if not any(isinstance(e, events.SessionStarted) for e in history):
        found.append("The start of the session is missing: its folder and model are unknown.")
    if not any(isinstance(e, events.PromptAdded) and e.agent == MAIN for e in history):
        found.append("It holds no prompt: there is nothing to go on with.")
    found += _find_unpaired(history)
    found += [f"A child was cut off: {child.line}." for child in find_interrupted(history)]
    replies = [event for event in history if isinstance(event, events.ReplyAdded) and event.agent == MAIN]
    models = {block.model for reply in replies for block in reply.content if isinstance(block, Thinking)}
    if len(models) > 1:
        found.append(f"It holds reasoning of {len(models)} models: each is only shown its own.")
    return found


def _find_unpaired(history: Sequence[events.Event]) -> list[str]:
    calls: dict[tuple[str, str], str] = {}
    orphans = 0
    for event in history:
        if isinstance(event, events.ReplyAdded):
            calls.update(((event.agent, b.id), b.name) for b in event.content if isinstance(b, ToolUse))
        elif isinstance(event, events.ToolEnded):
            orphans += calls.pop((event.agent, event.tool_use_id), None) is None
    found = []
    if calls:
        names = ", ".join(sorted(set(calls.values())))
        found.append(f"{len(calls)} tool calls ({names}) have no result: the model is told that they were interrupted.")
    if orphans:
        found.append(f"{orphans} results belong to a reply that is missing: the model does not see them.")
    return found


def _describe_child(started: events.AgentStarted, history: Sequence[events.Event]) -> InterruptedChild:
    path = started.agent
    text, turns = "", 0
    tally = Tally()
    running: dict[str, str] = {}
    changed: dict[str, None] = {}
    own = [e for e in history if e.id >= started.id and f"{e.agent}/".startswith(f"{path}/")]
    for event in own:
        if isinstance(event, events.ToolEnded):
            changed.update(dict.fromkeys(_changed_files(event)))
        if event.agent != path:
            continue
        match event:
            case events.ReplyAdded():
                turns += 1
                text = "".join(b.text for b in event.content if isinstance(b, Text)).strip() or text
            case events.ToolStarted():
                tally.start(event.name)
                running[event.tool_use_id] = event.name
            case events.ToolEnded():
                if running.pop(event.tool_use_id, None):
                    tally.end(event.name, outcome_of(event.record))
    for name in running.values():
        tally.end(name, "failed")
    spent = sum((charge.spent for charge in charges(own)), Spending())
    took = max(0, round(1000 * (own[-1].at - started.at)))
    return InterruptedChild(started, turns, text, tuple(changed), spent, tally, took)


def _job_number(event: events.Event) -> int:
    """Of the background command a call started."""
    number = str(_data_of(event).get("bash_id") or "").rpartition("_")[2] if isinstance(event, events.ToolEnded) else ""
    return int(number) if number.isdecimal() else 0


def _changed_files(event: events.ToolEnded) -> list[str]:
    if event.record.get("status") == "error":
        return []
    data = _data_of(event)
    listed, path = data.get("files_changed"), data.get("path")
    found = [str(p) for p in listed] if isinstance(listed, list) else []
    return [*found, path] if "added" in data and isinstance(path, str) else found


def _data_of(event: events.ToolEnded) -> Json:
    return as_object(event.record.get("data"))
