"""Reads of a log what going on with it needs. What a summary stands for is not parsed, and next time not even read.

Beside a large log lies a resume point: the place in the log where the conversation begins that the model still sees,
and the few lines from before that still matter. It is only a memory of what the log says; without it the log is read
from its start. Lines are told apart by their head, and only those that matter are parsed.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from cowork.core import events
from cowork.core.blocks import Json, as_object
from cowork.core.transcript import PROMPTS_KEPT
from cowork.private_files import replace_private
from cowork.sessions.log.reader import TRAILER_BYTES, Loaded, LogLine, LogReader, encode, is_after, is_undone, open_log

MAIN = "main"
RESUME_POINT = "resume-point.jsonl"
LARGE = 4 * 1024 * 1024  # bytes of a log that are worth being left out
_VERSION = 1
_END = re.compile(rb',"_n":(\d+),"_crc":"[0-9a-f]{8}"\}\n')
_END_BYTES = 48
_SHORT = 200  # characters of a text, and items of a list
_MARKS = (b'{"type":"context.compacted"', b'{"type":"session.rewound"')
_DATA = re.compile(rb'"record":\{"status":"[a-z_]*","data":')
_DATA_BYTES = 2_000  # of a result's data, which is before its text
_OF_FILES = re.compile(rb'"family":"(?:read|write|)"')
_CALL = re.compile(rb'"tool_use_id":"([^"\\]*)"')
_parse = json.JSONDecoder().raw_decode

_Summaries = list[tuple[int, events.ContextCompacted]]  # each with its place in the file
_Rewinds = list[events.SessionRewound]


@dataclass(slots=True)
class _Place:
    """A place in a log, between two lines."""

    offset: int = 0
    number: int = 0  # of lines before it
    last_line: int = 0  # as the line before it counts
    last_id: int = 0  # the highest event before it
    end: str = ""  # the end of the line before it, to know the log again by


def read_to_resume(path: Path, *, large: int = LARGE) -> Loaded:
    """The log as far as going on needs it: all of it, but for what a summary stands for if that is `large`."""
    known, left = _load_point(path)
    try:
        summaries, rewinds = _read_marks(path, known.offset)
        if known.offset and any(rewind.to <= known.last_id for rewind in rewinds):
            known, left = _Place(), Leftovers()  # something that was left out counts again
            summaries, rewinds = _read_marks(path, 0)
        start = _find_start(summaries, rewinds, known.offset + large)
        return _read(path, known, left, start, rewinds)
    except FileNotFoundError:
        return Loaded(damage=[f"{path.name} is missing."])


def _read_marks(path: Path, offset: int) -> tuple[_Summaries, _Rewinds]:
    """The summaries of the conversation and the rewinds, from some place on."""
    summaries: _Summaries = []
    rewinds: _Rewinds = []
    with open_log(path, offset) as file:
        for data in file:
            line = LogLine.of(data[:-1]) if data.startswith(_MARKS) else None
            match line and line.event():
                case events.ContextCompacted(agent="main") as event if event.summary.strip():
                    summaries.append((offset, event))
                case events.SessionRewound(conversation=True) as event:
                    rewinds.append(event)
            offset += len(data)
    return summaries, rewinds


def _find_start(summaries: _Summaries, rewinds: _Rewinds, least_offset: int) -> int:
    """The event before which only leftovers are needed: what the last summary that counts has kept."""
    start, starts = 0, dict[int, int]()
    for offset, event in summaries:
        if not is_undone(event.id, rewinds):
            first = min(event.keep_from or event.id, event.id)
            starts[event.id] = starts.get(first, first)  # one that keeps an older summary keeps what that kept
            start = starts[event.id] if offset >= least_offset else start
    return start


def _read(path: Path, known: _Place, left: Leftovers, start: int, rewinds: _Rewinds) -> Loaded:
    """Read from a place on; of the events before `start`, only leftovers are kept."""
    reader, place, offset = LogReader(known.last_line, known.last_id), known, known.offset
    loaded = reader.loaded
    with open_log(path, offset) as file:
        for number, data in enumerate(file, known.number + 1):
            offset += len(data)
            line, end = LogLine.of(data[:-1]), _END.search(data, max(0, len(data) - _END_BYTES))
            if line and line.id <= place.last_id:
                loaded.damage.append(f"Line {number} is there twice or out of order (event {line.id}).")
            elif line and end and line.id < start:
                left.take(line, undone=is_undone(line.id, rewinds))
                reader.pass_over(number, line.id, int(end[1]))
                place = _Place(offset, number, int(end[1]), line.id, line.data[-TRAILER_BYTES:].decode())
            else:
                reader.take(number, data)
                last = loaded.events[-1] if loaded.events else None
                if isinstance(last, events.ToolEnded) and last.agent != MAIN:
                    short = {"record": _shorten(last.record), "display": _shorten(last.display)}
                    loaded.events[-1] = replace(last, **short, images=())
    reader.finish()
    if place.offset > known.offset and not any(event.id < start for event in loaded.events):
        _store_point(path, place, left)
    before = [event for line in left.lines() if (event := line.event())]
    loaded.events[:0], loaded.leftovers = before, len(before)
    return loaded


def _load_point(path: Path) -> tuple[_Place, Leftovers]:
    """Where to begin, with what is left from before; the start of the log if no point is known of it."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        head, *lines = (path.parent / RESUME_POINT).read_bytes().splitlines()
        raw = json.loads(head)
        place = _Place(*(raw[name] for name in ("offset", "number", "last_line", "last_id", "end")))
        found = [LogLine.of(line) for line in lines]
        is_whole = raw["version"] == _VERSION and len(lines) == raw["lines"] and all(found)
        if is_whole and is_after(path, place.offset, place.end):
            left = Leftovers()
            for line in filter(None, found):
                left.take(line)
            return place, left
    return _Place(), Leftovers()


def _store_point(path: Path, place: _Place, left: Leftovers) -> None:
    lines = [line.data for line in left.lines()]
    raw = {"version": _VERSION, "lines": len(lines), **asdict(place)}
    with contextlib.suppress(OSError):  # next time all is read again
        replace_private(path.parent / RESUME_POINT, b"\n".join((json.dumps(raw).encode(), *lines)) + b"\n")


def _shorten(value: Any) -> Any:
    """A value of JSON without its long texts and lists."""
    if isinstance(value, str):
        return value if len(value) <= _SHORT else value[:_SHORT] + "…"
    if isinstance(value, list):
        return [_shorten(item) for item in value[:_SHORT]]
    return {name: _shorten(item) for name, item in value.items()} if isinstance(value, dict) else value


class Leftovers:
    """Takes in lines oldest first; `lines` gives those that still matter, a bounded number for each kind of thing."""

    def __init__(self) -> None:
        self._slots: dict[tuple[str, ...], LogLine | events.Event] = {}  # the newest of each
        self._last: LogLine | None = None  # result, which says where commands run
        self._prompts: deque[LogLine] = deque(maxlen=PROMPTS_KEPT)
        self._highest: dict[str, int] = {}  # number of a command and of a child, for the next goes on there
        self._children: dict[str, list[LogLine]] = {}  # path of a child at work -> its lines, and of those below it

    def take(self, line: LogLine, *, undone: bool = False) -> None:
        """Take in the next line; one that a rewind has `undone` counts for numbers and settings only."""
        match line.kind:
            case "session.started" | "notice":
                self._take_setting(line)
            case "agent.started" | "agent.ended":
                self._take_child(line, undone=undone)
            case "tool.ended" if line.agent == MAIN:
                self._take_result(line, undone=undone)
            case "tool.started" if line.agent == MAIN and not undone and (call := _CALL.search(line.data)):
                self._slots.pop(("call", call[1].decode()), None)
                if not _OF_FILES.search(line.data):  # paths mean nothing here in what it will give
                    self._slots["call", call[1].decode()] = line
            case "prompt.added" if line.agent == MAIN and not undone:
                self._take_prompt(line)
            case "todo.updated" if line.agent == MAIN and not undone:
                self._slots["todo",] = line
            case _ if line.agent != MAIN:
                if line.kind == "tool.ended" and b'"bash_id":' in line.data:
                    self._count_job(line, _data_of(line))
                for path, lines in self._children.items() if not undone else ():
                    if f"{line.agent}/".startswith(f"{path}/"):
                        lines.append(line)

    def lines(self) -> Iterator[LogLine]:
        """What is left, oldest first."""
        found = [*self._slots.values(), *chain.from_iterable(self._children.values()), *self._prompts]
        if self._last:
            event = self._last.event()
            context = event.record.get("context") if isinstance(event, events.ToolEnded) else None
            found.append(_shrink(self._last, context=context))
        lines = (each if isinstance(each, LogLine) else _as_line(each) for each in found)
        yield from sorted(dict.fromkeys(lines), key=lambda line: line.id)

    def _take_prompt(self, line: LogLine) -> None:
        if b'"context":""' not in line.data:
            self._slots.setdefault(("first",), line)
        if b'"source":"agent"' in line.data and isinstance(event := line.event(), events.PromptAdded):
            self._slots.pop(("ended", event.label.partition(" ended: ")[0]), None)
            self._slots.pop(("started", event.label.partition(" ended: ")[0]), None)
        self._prompts.append(line)

    def _take_setting(self, line: LogLine) -> None:
        match line.event():
            case events.SessionStarted() as event:
                self._slots["session", event.cwd, event.mode, event.model] = line
            case events.Notice(code="mode.changed" | "model.changed" | "session.forked") as event:
                self._slots[event.code, str(event.data)] = line

    def _take_child(self, line: LogLine, *, undone: bool) -> None:
        event = line.event()
        if isinstance(event, events.AgentStarted):
            name = event.subagent_id
            both = (kind(name, id=line.id, agent=line.agent) for kind in (events.AgentStarted, events.AgentEnded))
            self._count("child", name.rpartition("-")[2], *both)
            if not undone:
                self._children[line.agent] = [line]
        elif isinstance(event, events.AgentEnded) and not undone:
            started = self._children.pop(line.agent, [])[:1]
            if started and b'"background":true' in started[0].data:
                self._slots["started", event.subagent_id] = started[0]
                self._slots["ended", event.subagent_id] = line

    def _take_result(self, line: LogLine, *, undone: bool) -> None:
        data = _data_of(line)
        self._count_job(line, data)
        if undone:
            return
        self._last = line
        path, digest, call = data.get("path"), data.get("hash"), _CALL.search(line.data)
        is_file = isinstance(path, str) and isinstance(digest, str) and path and digest
        is_elsewhere = call is not None and self._slots.pop(("call", call[1].decode()), None) is not None
        if is_file and not is_elsewhere:
            self._slots["file", str(path)] = _shrink(line, data={"path": path, "hash": digest})
        if "skill" in data:
            self._slots["skill", str(data["skill"])] = line
        if job := str(data.get("bash_id") or data.get("shell_id") or ""):
            self._slots.pop(("job", job), None)
            if data.get("running") is True:
                self._slots["job", job] = line

    def _count_job(self, line: LogLine, data: Json) -> None:
        name = str(data.get("bash_id") or "")
        self._count("job", name.rpartition("_")[2], _shrink(line, data={"bash_id": name}))

    def _count(self, what: str, number: str, *kept: events.Event) -> None:
        """Keep these, if nothing of a higher number is kept."""
        if number.isdecimal() and int(number) >= self._highest.get(what, 0):
            self._highest[what] = int(number)
            self._slots |= {(f"highest {what}", event.type): event for event in kept}


def _data_of(line: LogLine) -> Json:
    """The data of a result, without parsing the text after it."""
    if found := _DATA.search(line.data, 0, 1000):
        with contextlib.suppress(ValueError):  # it may be longer than that
            return as_object(_parse(line.data[found.end() : found.end() + _DATA_BYTES].decode(errors="replace"))[0])
    event = line.event()
    return as_object(event.record.get("data")) if isinstance(event, events.ToolEnded) else {}


def _shrink(line: LogLine, **record: Any) -> events.ToolEnded:
    """A result of which only this is left."""
    return events.ToolEnded(record={"status": "success", **record}, id=line.id, agent=line.agent)


def _as_line(event: events.Event) -> LogLine:
    return LogLine(event.type, event.id, event.at, event.agent, encode(event, 0)[:-1])
