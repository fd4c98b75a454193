"""The lines of a session log: how an event is written as one, and how a log is read, whatever happened to it.

A line is the JSON of an event, ended by its number and the checksum of what is before. Whole records are kept, the rest
is said, the file stays as it is.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

from cowork.core.blocks import Json
from cowork.core.events import Event, SessionRewound, from_dict, to_dict

TRAILER_BYTES = len(b',"_crc":"01234567"}')
_HEAD = re.compile(rb'\{"type":"([a-z_.]+)","id":(\d+),"at":([0-9.eE+-]+),"session_id":"[^"\\]*","agent":"([^"\\]*)"')
_START = re.compile(rb'\{"type":"[a-z_.]+","id":\d+,"at":[0-9.eE+-]+,"session_id":"')
_END = re.compile(rb'"_crc":"[0-9a-f]{8}"\}')
_NOT_AN_EVENT = (TypeError, ValueError, AttributeError)
_parse = json.JSONDecoder().raw_decode  # `json.loads` guesses encodings and looks for white space on every line


class LogLine(NamedTuple):
    """A line, without its end, and what its head says; the rest of it is parsed when it is asked for."""

    kind: str
    id: int
    at: float
    agent: str
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> LogLine | None:
        """None if it does not look like one."""
        head = _HEAD.match(data)
        return cls(head[1].decode(), int(head[2]), float(head[3]), head[4].decode(), data) if head else None

    def event(self) -> Event | None:
        """What happened; None if a byte of the line is wrong or it is of a newer version."""
        try:
            raw = decode(self.data)
            return from_dict(raw) if raw else None
        except _NOT_AN_EVENT:
            return None


def encode(event: Event, number: int) -> bytes:
    """The event as a line, with its end."""
    raw = to_dict(event)
    raw["_n"] = number
    try:
        body = json.dumps(raw, ensure_ascii=False, separators=(",", ":"), default=str).encode()
    except UnicodeEncodeError:  # half a surrogate pair, as in a file name that is not UTF-8
        body = json.dumps(raw, separators=(",", ":"), default=str).encode()
    body = body[:-1]
    return b'%s,"_crc":"%08x"}\n' % (body, zlib.crc32(body))


def decode(line: bytes) -> Json | None:
    """The object of a whole line without its end; None if a byte of it is wrong."""
    if not has_good_checksum(line):
        return None
    try:
        text = line.decode()
        raw, end = _parse(text)
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(raw, dict) and end == len(text) else None


def has_good_checksum(line: bytes) -> bool:
    """Whether a line without its end is as it was written."""
    return line[-TRAILER_BYTES:] == b',"_crc":"%08x"}' % zlib.crc32(memoryview(line)[:-TRAILER_BYTES])


@dataclass(slots=True)
class Loaded:
    """What a log holds. `damage` says in plain words what was wrong, with line numbers."""

    events: list[Event] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    last_id: int = 0  # the highest event id, those of skipped records included; new events go on from here
    last_line: int = 0  # number of the last record
    torn: bool = False  # the file does not end with a line end
    leftovers: int = 0  # so many events at the start are all that is left of what a summary stands for


def read(path: Path) -> Loaded:
    """Everything a log still holds; a missing file is an empty one with damage."""
    reader = LogReader()
    try:
        with open_log(path) as file:
            for number, line in enumerate(file, 1):
                reader.take(number, line)
    except FileNotFoundError:
        reader.loaded.damage.append(f"{path.name} is missing.")
    return reader.finish()


def events_of(path: Path, agent: str, kind: str = "") -> Iterator[Event]:
    """The story of one agent, or events of one kind of it, without what was rewound; read as it is asked for.

    Damaged lines are passed over.
    """
    rewinds = [e for e in _events(path, agent, "session.rewound") if isinstance(e, SessionRewound) and e.conversation]
    for event in _events(path, agent, kind):
        if not isinstance(event, SessionRewound) and not is_undone(event.id, rewinds):
            yield event


def is_undone(event_id: int, rewinds: Iterable[SessionRewound]) -> bool:
    """Whether one of these rewinds took an event out of the conversation."""
    return any(rewind.to <= event_id < rewind.id for rewind in rewinds)


def _events(path: Path, agent: str, kind: str) -> Iterator[Event]:
    with open_log(path) as file:
        for data in file:
            line = LogLine.of(data.rstrip(b"\n"))
            if line and line.agent == agent and kind in ("", line.kind) and (event := line.event()):
                yield event


def open_log(path: Path, offset: int = 0) -> BinaryIO:
    """The file, from some place on. What is no file is never waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(fd, "rb", buffering=1 << 18)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "Not a file", str(path))
    file.seek(offset)
    return file


def is_after(path: Path, offset: int, end: str) -> bool:
    """Whether the line before a place ends so: the log still is what was read, perhaps with more at its end."""
    with open_log(path, max(0, offset - len(end) - 1)) as file:
        return file.read(len(end) + 1) == (end + "\n").encode()


def read_from(path: Path, offset: int, most: int = 1 << 22) -> tuple[list[Event], int]:
    """The events of the whole lines after `offset`, about `most` bytes of them, and where to go on; for followers.

    A line without its end is being written. What is damaged or of a newer version is passed over.
    """
    events: list[Event] = []
    with open_log(path, offset) as file:
        for line in file.readlines(most):
            if not line.endswith(b"\n"):
                break
            offset += len(line)
            found = LogLine.of(line[:-1])
            if found and (event := found.event()):
                events.append(event)
    return events, offset


class LogReader:
    """Takes in a log line by line, with care for what is damaged, doubled or out of order."""

    def __init__(self, last_line: int = 0, last_id: int = 0) -> None:
        self.loaded = Loaded(last_line=last_line, last_id=last_id)
        self._seen: dict[int, bytes] = {}  # event id -> checksum of its line
        self._bad = 0  # damaged places since the last whole record
        self._sorted = True

    def take(self, number: int, line: bytes) -> None:
        self.loaded.torn = not line.endswith(b"\n")
        line = line.rstrip(b"\n")
        if raw := decode(line):
            self._keep(number, line, raw)
        elif line:
            self._salvage(number, line)

    def pass_over(self, number: int, event_id: int, place: int) -> None:
        """A line that is whole and not needed: only its numbers count."""
        self._count_missing(number, place)
        self.loaded.last_id = event_id

    def finish(self) -> Loaded:
        if not self._sorted:
            self.loaded.events.sort(key=lambda e: e.id)
            self.loaded.damage.append("Records were out of order and have been sorted.")
        return self.loaded

    def _salvage(self, number: int, line: bytes) -> None:
        """Whole records inside a damaged line: after a torn one, or where a line end was overwritten."""
        kept = 0
        for begin, until in pairwise([*(m.start() for m in _START.finditer(line)), len(line)]):
            end = max((m.end() for m in _END.finditer(line, begin, until)), default=begin)
            if raw := decode(line[begin:end]):
                self._say_damage(number, begin - kept)
                self._keep(number, line[begin:end], raw)
                kept = end
        self._say_damage(number, len(line) - kept)

    def _say_damage(self, number: int, size: int) -> None:
        if not size:
            return
        self._bad += 1
        what = "ends in the middle of a record" if self.loaded.torn else "is damaged"
        self.loaded.damage.append(f"Line {number} {what}: {size} bytes were set aside.")

    def _keep(self, number: int, line: bytes, raw: Json) -> None:
        event_id, place = raw.get("id"), raw.get("_n")
        if type(event_id) is not int or type(place) is not int:
            self._say_damage(number, len(line))
            return
        crc = line[-TRAILER_BYTES:]
        if (known := self._seen.get(event_id)) is not None:
            same = "is there twice" if known == crc else "has a number that another record has"
            self.loaded.damage.append(f"Line {number} {same} (event {event_id}): the later one was set aside.")
            return
        self._seen[event_id] = crc
        self._count_missing(number, place)
        try:
            event = from_dict(raw)
        except _NOT_AN_EVENT:
            self._say_damage(number, len(line))
            return
        self._sorted = self._sorted and event_id >= self.loaded.last_id
        self.loaded.last_id = max(self.loaded.last_id, event_id)
        if event is None:
            kind = str(raw.get("type"))[:40]
            self.loaded.damage.append(f"Line {number} is of a newer version ({kind!r}) and was skipped.")
        else:
            self.loaded.events.append(event)

    def _count_missing(self, number: int, place: int) -> None:
        missing = place - self.loaded.last_line - 1 - self._bad
        if missing > 0:
            what = "records are" if missing > 1 else "record is"
            self.loaded.damage.append(f"{missing} {what} missing before line {number}.")
        self.loaded.last_line = max(self.loaded.last_line, place)
        self._bad = 0
