"""Reads of a log what going on with it needs. What a summary stands for is not parsed, and next time not even read.

Beside a large log lies a resume point: the place in the log where the conversation begins that the model still sees,
and the few lines from before that still matter. It is only a memory of what the log says; without it the log is read
from its start.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from cowork.core.events import ContextCompacted, Event, SessionRewound, ToolEnded
from cowork.private_files import replace_private
from cowork.sessions.log.leftovers import MAIN, Leftovers
from cowork.sessions.log.lines import TRAILER_BYTES, LogLine
from cowork.sessions.log.reader import Loaded, LogReader, is_after, open_log

RESUME_POINT = "resume-point.jsonl"
LARGE = 4 * 1024 * 1024  # bytes of a log that are worth being left out
_VERSION = 1
_END = re.compile(rb',"_n":(\d+),"_crc":"[0-9a-f]{8}"\}\n')
_END_BYTES = 48
_SHORT = 200  # characters of a text, and items of a list


@dataclass(slots=True)
class _Place:
    """A place in a log, between two lines."""

    offset: int = 0
    number: int = 0  # of lines before it
    last_line: int = 0  # as the line before it counts
    end: str = ""  # the end of the line before it, to know the log again by


class _Waiting(NamedTuple):
    """A line that is not parsed yet, for a summary may come to stand for it."""

    line: LogLine
    number: int
    offset: int
    place: int  # as the line itself counts


class _RewoundTooFar(Exception):
    """Something that was left out counts again."""


def read_to_resume(path: Path, *, large: int = LARGE) -> Loaded:
    """The log as far as going on needs it: all of it, but for what a summary stands for if that is `large`."""
    try:
        return _ResumeReader(path, large).read()
    except _RewoundTooFar:
        (path.parent / RESUME_POINT).unlink(missing_ok=True)
        return _ResumeReader(path, 1 << 62).read()


class _ResumeReader(LogReader):
    def __init__(self, path: Path, large: int) -> None:
        super().__init__()
        self._path = path
        self._large = large
        self._point = path.parent / RESUME_POINT
        self._left = Leftovers()
        self._from = _Place()  # where what is not left out begins
        self._waiting: deque[_Waiting] = deque()
        self._offset = 0

    def read(self) -> Loaded:
        known = self._load_point() if self._large < 1 << 62 else _Place()
        self._from, self._offset, self.loaded.last_line = known, known.offset, known.last_line
        self._last_id = self._left.last_id
        try:
            with open_log(self._path, known.offset) as file:
                for number, line in enumerate(file, known.number + 1):
                    self.take(number, line)
        except FileNotFoundError:
            self.loaded.damage.append(f"{self._path.name} is missing.")
        self._parse_waiting()
        if self._from.offset > known.offset:
            self._store_point()
        return self.finish()

    def finish(self) -> Loaded:
        loaded = super().finish()
        before = [event for line in self._left.lines() if (event := line.event())]
        loaded.events[:0], loaded.leftovers = before, len(before)
        return loaded

    def take(self, number: int, line: bytes) -> None:
        start, self._offset = self._offset, self._offset + len(line)
        found = LogLine.of(line[:-1])
        end = _END.search(line, max(0, len(line) - _END_BYTES))
        if not found or not end or found.id <= self._last_id or int(end[1]) != self.loaded.last_line + 1:
            self._take_with_care(number, line, found)
            return
        self.loaded.last_line += 1
        self._last_id = found.id
        self._waiting.append(_Waiting(found, number, start, self.loaded.last_line))
        if found.kind == "context.compacted" and found.agent == MAIN and start - self._from.offset >= self._large:
            self._leave_out(found.event())
        elif found.kind == "session.rewound":
            event = found.event()
            if isinstance(event, SessionRewound) and event.conversation and event.to <= self._left.last_id:
                raise _RewoundTooFar

    def _take_with_care(self, number: int, line: bytes, found: LogLine | None) -> None:
        self._parse_waiting()
        if found and found.id <= self._left.last_id:
            self.loaded.damage.append(f"Line {number} is there twice or out of order (event {found.id}).")
        else:
            super().take(number, line)

    def _leave_out(self, event: Event | None) -> None:
        """Keep only leftovers of what a summary took the place of, where that is much."""
        if not isinstance(event, ContextCompacted) or not event.summary.strip():
            return
        start = min(event.keep_from or event.id, event.id)
        first = next(waiting for waiting in self._waiting if waiting.line.id >= start)
        is_older_summary = first.line.kind == "context.compacted" and first.line.id < event.id
        if is_older_summary or first.offset - self._from.offset < self._large:
            return
        undone_from = 1 << 62
        taken: list[tuple[LogLine, bool]] = []
        for line, *_ in reversed(self._waiting):
            if line.id < start:
                taken.append((line, line.id >= undone_from))
            if line.kind == "session.rewound" and isinstance(rewound := line.event(), SessionRewound):
                undone_from = min(undone_from, rewound.to if rewound.conversation else undone_from)
        for line, undone in reversed(taken):
            self._left.take(line, undone=undone)
        while self._waiting[0] is not first:
            before = self._waiting.popleft()
            self._from = _Place(
                first.offset, before.number, first.place - 1, before.line.data[-TRAILER_BYTES:].decode()
            )

    def _parse_waiting(self) -> None:
        for line, number, *_ in self._waiting:
            event = line.event()
            if event is None:  # damaged, or of a newer version
                super().take(number, line.data + b"\n")
                continue
            self._seen[line.id] = line.data[-TRAILER_BYTES:]
            if isinstance(event, ToolEnded) and event.agent != MAIN:
                event = replace(event, record=_short(event.record), display=_short(event.display), images=())
            self.loaded.events.append(event)
        if self._waiting:
            self._waiting.clear()
            self._bad = 0  # every one of them was counted when it came

    def _load_point(self) -> _Place:
        """Where to begin; the start of the log if there is no point, or it is of another log."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            head, *lines = self._point.read_bytes().splitlines()
            raw = json.loads(head)
            place = _Place(*(raw[name] for name in ("offset", "number", "last_line", "end")))
            found = [LogLine.of(line) for line in lines]
            is_whole = raw["version"] == _VERSION and len(lines) == raw["lines"] and all(found)
            if is_whole and is_after(self._path, place.offset, place.end):
                for line in filter(None, found):
                    self._left.take(line)
                self._left.last_id = raw["last_id"]
                return place
        return _Place()

    def _store_point(self) -> None:
        lines = [line.data for line in self._left.lines()]
        raw = {"version": _VERSION, "lines": len(lines), "last_id": self._left.last_id, **asdict(self._from)}
        with contextlib.suppress(OSError):  # next time all is read again
            replace_private(self._point, b"\n".join((json.dumps(raw).encode(), *lines)) + b"\n")


def _short(value: Any) -> Any:
    """A value of JSON without its long texts and lists."""
    if isinstance(value, str):
        return value if len(value) <= _SHORT else value[:_SHORT] + "…"
    if isinstance(value, list):
        return [_short(item) for item in value[:_SHORT]]
    return {name: _short(item) for name, item in value.items()} if isinstance(value, dict) else value
