"""What a conversation still needs of the events that a summary stands for: a few lines of the log instead of all.

Lines are told apart by their head, and only those that matter are parsed. What is kept is lines of a log again, so it
can be written to a file and taken in by the same code.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from cowork.core.events import AgentEnded, AgentStarted, Event, Notice, PromptAdded, SessionStarted, ToolEnded
from cowork.core.transcript import PROMPTS_KEPT
from cowork.sessions.log.reader import LogLine, encode

MAIN = "main"
_DATA = re.compile(rb'"record":\{"status":"[a-z_]*","data":')
_DATA_BYTES = 2_000  # of a result's data, which is before its text
_OF_FILES = re.compile(rb'"family":"(?:read|write|)"')
_CALL = re.compile(rb'"tool_use_id":"([^"\\]*)"')
_parse = json.JSONDecoder().raw_decode


class Leftovers:
    """Takes in lines oldest first; `lines` gives those that still matter, a bounded number for each kind of thing."""

    def __init__(self) -> None:
        self.last_id = 0
        self._slots: dict[tuple[str, ...], LogLine] = {}  # the newest of each
        self._last: LogLine | None = None  # result, which says where commands run
        self._prompts: deque[LogLine] = deque(maxlen=PROMPTS_KEPT)
        self._highest: dict[str, LogLine] = {}  # with the highest numbers, for the next ones go on from there
        self._numbers = {"child": 0, "job": 0}
        self._settings: list[LogLine] = []
        self._in_force: tuple[str, ...] = ()
        self._files: dict[str, tuple[LogLine, str]] = {}
        self._elsewhere: dict[bytes, LogLine] = {}  # open calls of tools whose paths mean nothing here
        self._children: dict[str, list[LogLine]] = {}  # path of a child at work -> its lines, and of those below it

    def take(self, line: LogLine, *, undone: bool = False) -> None:
        """Take in the next line; one that a rewind has `undone` counts for numbers and settings only."""
        self.last_id = max(self.last_id, line.id)
        match line.kind:
            case "session.started" | "notice":
                self._take_setting(line)
            case "agent.started" | "agent.ended":
                self._take_child(line, undone=undone)
            case "tool.ended" if line.agent == MAIN:
                self._take_result(line, undone=undone)
            case "tool.started" if line.agent == MAIN and not undone:
                self._take_call(line)
            case "prompt.added" if line.agent == MAIN and not undone:
                self._take_prompt(line)
            case "todo.updated" if line.agent == MAIN and not undone:
                self._slots["todo",] = line
            case _ if line.agent != MAIN:
                if line.kind == "tool.ended" and b'"bash_id":' in line.data:
                    self._count_job(line, _data_of(line))
                if not undone:
                    self._add_to_child(line)

    def lines(self) -> Iterator[LogLine]:
        """What is left, oldest first."""
        files = (_shrunk(line, data={"path": path, "hash": digest}) for path, (line, digest) in self._files.items())
        last = [_shrunk(self._last, context=_context(self._last))] if self._last else []
        children = (line for lines in self._children.values() for line in lines)
        numbers = [*self._highest.values()]
        calls = self._elsewhere.values()
        found = (*numbers, *self._slots.values(), *self._prompts, *self._settings, *calls, *files, *last, *children)
        yield from sorted(dict.fromkeys(found), key=lambda line: line.id)

    def _take_prompt(self, line: LogLine) -> None:
        if b'"context":""' not in line.data:
            self._slots.setdefault(("first",), line)
        if b'"source":"agent"' in line.data and isinstance(event := line.event(), PromptAdded):
            self._slots.pop(("ended", event.label.partition(" ended: ")[0]), None)
            self._slots.pop(("started", event.label.partition(" ended: ")[0]), None)
        self._prompts.append(line)

    def _take_setting(self, line: LogLine) -> None:
        event = line.event()
        if isinstance(event, SessionStarted):
            says: tuple[str, ...] = (event.cwd, event.mode, event.model)
        elif isinstance(event, Notice) and event.code in ("mode.changed", "model.changed", "session.forked"):
            says = (event.code, str(event.data))
        else:
            return
        if says != self._in_force:
            self._settings.append(line)
            self._in_force = says

    def _take_child(self, line: LogLine, *, undone: bool) -> None:
        event = line.event()
        if not isinstance(event, AgentStarted | AgentEnded):
            return
        name = event.subagent_id
        if isinstance(event, AgentStarted):
            if self._is_highest("child", name.rpartition("-")[2]):
                start = AgentStarted(name, id=line.id, agent=line.agent)
                self._highest["child"] = _as_line(start)
                self._highest["its end"] = _as_line(AgentEnded(name, id=line.id, agent=line.agent))
            if not undone:
                self._children[line.agent] = [line]
        elif not undone:
            started = self._children.pop(line.agent, [])[:1]
            if started and b'"background":true' in started[0].data:
                self._slots["started", name], self._slots["ended", name] = started[0], line

    def _add_to_child(self, line: LogLine) -> None:
        for path, lines in self._children.items():
            if line.agent == path or line.agent.startswith(path + "/"):
                lines.append(line)

    def _take_call(self, line: LogLine) -> None:
        if not (call := _CALL.search(line.data)):
            return
        self._elsewhere.pop(call[1], None)
        if not _OF_FILES.search(line.data):
            self._elsewhere[call[1]] = line

    def _take_result(self, line: LogLine, *, undone: bool) -> None:
        data = _data_of(line)
        job = str(data.get("bash_id") or data.get("shell_id") or "")
        self._count_job(line, data)
        if undone:
            return
        self._last = line
        path, digest, call = data.get("path"), data.get("hash"), _CALL.search(line.data)
        is_file = isinstance(path, str) and isinstance(digest, str) and path and digest
        is_elsewhere = call is not None and self._elsewhere.pop(call[1], None) is not None
        if is_file and not is_elsewhere:
            self._files[str(path)] = (line, str(digest))
        if "skill" in data:
            self._slots["skill", str(data["skill"])] = line
        if job and data.get("running") is True:
            self._slots["job", job] = line
        elif job:
            self._slots.pop(("job", job), None)

    def _count_job(self, line: LogLine, data: Mapping[str, Any]) -> None:
        name = str(data.get("bash_id") or "")
        if name and self._is_highest("job", name.rpartition("_")[2]):
            self._highest["job"] = _shrunk(line, data={"bash_id": name})

    def _is_highest(self, what: str, number: str) -> bool:
        if not number.isdecimal() or int(number) < self._numbers[what]:
            return False
        self._numbers[what] = int(number)
        return True


def _data_of(line: LogLine) -> Mapping[str, Any]:
    """The data of a result, without parsing the text after it."""
    found = _DATA.search(line.data, 0, 1000)
    if found:
        try:
            data, _ = _parse(line.data[found.end() : found.end() + _DATA_BYTES].decode(errors="replace"))
            return data if isinstance(data, dict) else {}
        except ValueError:
            pass  # longer than that
    event = line.event()
    data = event.record.get("data") if isinstance(event, ToolEnded) else None
    return data if isinstance(data, dict) else {}


def _context(line: LogLine) -> Any:
    event = line.event()
    return event.record.get("context") if isinstance(event, ToolEnded) else None


def _shrunk(line: LogLine, **record: Any) -> LogLine:
    """A result of which only this is left."""
    return _as_line(ToolEnded(record={"status": "success", **record}, id=line.id, agent=line.agent))


def _as_line(event: Event) -> LogLine:
    return LogLine(event.type, event.id, event.at, event.agent, encode(event, 0)[:-1])
