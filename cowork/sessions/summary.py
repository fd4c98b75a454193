"""What lists and costs need of a log, as a fold that stops at the end of the log and goes on from there later.

Most of a log are results of tools. Their lines are checked, not parsed, so a summary costs little more than reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    Event,
    Notice,
    PromptAdded,
    ReplyAdded,
    SessionRewound,
    SessionStarted,
    from_dict,
)
from cowork.sessions.cost import Meter, Slice, Spending, day_of
from cowork.sessions.log.lines import TRAILER_BYTES, LogLine, has_good_checksum, parse
from cowork.sessions.log.reader import is_after, open_log, read
from cowork.sessions.tasks import TaskRow, ended_row, started_row

TITLE_LENGTH = 80
_UNREAD = frozenset({"tool.started", "tool.ended", "todo.updated", "question.asked", "question.answered"})
_PAID = b'"request":{"usage":'  # a tool that asked a model


class Irregular(Exception):
    """A line that is damaged or out of order: the whole log must be read with care."""


@dataclass(slots=True)
class Summary:
    """What a log says up to `offset`."""

    session_id: str
    title: str = ""
    name: str = ""  # that the person gave it
    first_prompt: int = 0
    cwd: str = ""
    branch: str = ""
    model: str = ""
    prompts: int = 0
    turns: int = 0  # requests of the main agent
    created: float = 0.0
    last_used: float = 0.0
    slices: dict[tuple[str, str, str], Spending] = field(default_factory=dict)
    tasks: list[TaskRow] = field(default_factory=list)
    running: dict[str, int] = field(default_factory=dict)  # agent -> place in `tasks`
    meter: Meter = field(default_factory=Meter)
    offset: int = 0
    last_id: int = 0
    last_line: str = ""  # the end of the line before `offset`, to know the log again by

    def apply(self, event: Event) -> None:
        self.touch(event.id, event.at)
        match event:
            case SessionStarted():
                self.cwd, self.branch, self.model = event.cwd or self.cwd, event.branch, event.model or self.model
            case PromptAdded(agent="main"):
                self.prompts += 1
                if not self.title:
                    self.title, self.first_prompt = title_of(event.label or event.text), event.id
            case ReplyAdded(agent="main"):
                self.turns += 1
                self.model = event.model or self.model
            case Notice(code="session.renamed"):
                self.name = str(event.data.get("title", ""))
            case SessionRewound(conversation=True) if event.to <= self.first_prompt:
                self.title = ""
        if event.session_id not in ("", self.session_id):
            return  # a fork's past was paid for elsewhere
        match event:
            case AgentStarted():
                self.running[event.agent] = len(self.tasks)
                self.tasks.append(started_row(event, self.session_id))
            case AgentEnded() if event.agent in self.running:
                place = self.running.pop(event.agent)
                self.tasks[place] = ended_row(self.tasks[place], event)
        if charge := self.meter.apply(event):
            key = (day_of(charge.at), charge.model, charge.kind)
            self.slices[key] = self.slices.get(key, Spending()) + charge.spent

    def touch(self, event_id: int, at: float) -> None:
        self.created = self.created or at
        self.last_used, self.last_id = at, event_id

    @property
    def spent(self) -> Spending:
        total = Spending()
        for part in self.slices.values():
            total += part
        return total

    def to_dict(self) -> Json:
        plain = ("session_id", "title", "name", "first_prompt", "cwd", "branch", "model", "prompts", "turns", "created",
                 "last_used", "running", "offset", "last_id", "last_line")  # fmt: skip
        raw: Json = {name: getattr(self, name) for name in plain}
        raw["slices"] = [[*key, spent.to_dict()] for key, spent in self.slices.items()]
        raw["tasks"] = [row.to_list() for row in self.tasks]
        return raw | {"meter": self.meter.agents}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Summary:
        slices = {(day, model, kind): Spending.from_dict(spent) for day, model, kind, spent in raw["slices"]}
        tasks = [TaskRow(raw["session_id"], *row) for row in raw["tasks"]]
        return cls(**{**raw, "slices": slices, "tasks": tasks, "meter": Meter(raw["meter"])})

    def parts(self) -> list[Slice]:
        """What it spent, by day, model and kind of agent."""
        return [Slice(*key, spent) for key, spent in self.slices.items()]


def summarize(path: Path, session_id: str, known: Summary | None = None) -> Summary:
    """The summary of a log; with what is `known` of it, only what came since is read."""
    try:
        if known and known.offset > 0 and is_after(path, known.offset, known.last_line):
            return _extended(known, path)
        return _extended(Summary(session_id), path)
    except Irregular:
        whole = Summary(session_id)
        for event in read(path).events:
            whole.apply(event)
        whole.offset = -1  # such a log is read whole each time it grows
        return whole


def title_of(text: str) -> str:
    """The first line that says something, clipped."""
    line = next((" ".join(part.split()) for part in text.splitlines() if part.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def _extended(summary: Summary, path: Path) -> Summary:
    offset, body = summary.offset, b""
    with open_log(path, offset) as file:
        for line in file:
            if not line.endswith(b"\n"):
                break  # it is being written, or torn; either way it is looked at again when the log has grown
            body = line[:-1]
            _take_line(summary, body)
            offset += len(line)
    if body:
        summary.offset, summary.last_line = offset, body[-TRAILER_BYTES:].decode("ascii", "replace")
    return summary


def _take_line(summary: Summary, body: bytes) -> None:
    """Fold one whole line; Irregular if it is damaged or out of order."""
    line = LogLine.of(body)
    if line is None or not has_good_checksum(body) or line.id <= summary.last_id:
        raise Irregular
    if line.kind in _UNREAD and _PAID not in body:
        summary.touch(line.id, line.at)
        return
    raw = parse(body)
    if raw is None:
        raise Irregular
    if line.kind == "reply.added":
        raw.pop("content", None)  # what was said costs nothing more
    try:
        event = from_dict(raw)
    except (TypeError, ValueError, AttributeError) as error:
        raise Irregular from error
    if event:  # else it is of a newer version
        summary.apply(event)
