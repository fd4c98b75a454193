"""Reading a session log, whatever happened to it: whole records are kept, the rest is said, the file stays as it is."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json
from cowork.core.events import ContextCompacted, Event, ToolEnded, from_dict
from cowork.core.transcript import is_pinned

_parse = json.JSONDecoder().raw_decode  # `json.loads` guesses encodings and looks for white space on every line
TRAILER_BYTES = len(b',"_crc":"01234567"}')
_START = re.compile(rb'\{"type":"[a-z_.]+","id":\d+,"at":[0-9.eE+-]+,"session_id":"')
_TRIES = 4  # a line may hold the torn start of one record before a whole one, hardly more
_SHORT = 200  # characters of a text, and items of a list
_END = re.compile(rb'"_crc":"[0-9a-f]{8}"\}')


@dataclass(slots=True)
class Loaded:
    """What a log holds. `damage` says in plain words what was wrong, with line numbers; `aside` is what was skipped."""

    events: list[Event] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    aside: list[Json] = field(default_factory=list)  # records of a newer version, as they were
    last_line: int = 0  # number of the last record
    torn: bool = False  # the file does not end with a line end

    @property
    def last_id(self) -> int:
        """The highest event id; new events go on from here."""
        known = max((e.id for e in self.events), default=0)
        return max([known, *(i for raw in self.aside if isinstance(i := raw.get("id"), int))])


def read(path: Path, *, lean: bool = False) -> Loaded:
    """Everything a log still holds; a missing file is an empty one with damage. What is no file is never waited for.

    `lean`: results that the main conversation does not hold any more are clipped, so that memory is bounded by the
    window and the number of events, not by the size of the file.
    """
    reader = _Reader(lean=lean)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "Not a file", str(path))
            for number, line in enumerate(file, 1):
                reader.take(number, line)
    except FileNotFoundError:
        reader.loaded.damage.append(f"{path.name} is missing.")
    return reader.finish()


def read_from(path: Path, offset: int, most: int = 1 << 22) -> tuple[list[Event], int]:
    """The events of the whole lines after `offset`, about `most` bytes of them, and where to go on; for followers.

    A line without its end is being written. What is damaged or of a newer version is passed over.
    """
    events: list[Event] = []
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        file.seek(offset)
        for line in file.readlines(most):
            if not line.endswith(b"\n"):
                break
            offset += len(line)
            try:
                event = from_dict(raw) if (raw := decode(line[:-1])) else None
            except (TypeError, ValueError, AttributeError):
                continue
            if event is not None:
                events.append(event)
    return events, offset


def has_good_checksum(line: bytes) -> bool:
    """Whether a line without its line end is as it was written."""
    return line[-TRAILER_BYTES:] == b',"_crc":"%08x"}' % zlib.crc32(memoryview(line)[:-TRAILER_BYTES])


def decode(line: bytes) -> Json | None:
    """The object of a whole line without its line end; None if a byte of it is wrong."""
    return parse(line) if has_good_checksum(line) else None


def parse(line: bytes) -> Json | None:
    """The object of a line whose checksum is good."""
    try:
        text = line.decode()
        raw, end = _parse(text)
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(raw, dict) and end == len(text) else None


class _Reader:
    def __init__(self, *, lean: bool) -> None:
        self.loaded = Loaded()
        self._lean = lean
        self._clipped = 0  # events that were looked at for it
        self._seen: dict[int, bytes] = {}  # event id -> checksum of its line
        self._bad = 0  # damaged places since the last whole record
        self._last_id = 0
        self._sorted = True

    def take(self, number: int, line: bytes) -> None:
        self.loaded.torn = not line.endswith(b"\n")
        line = line.rstrip(b"\n")
        if raw := decode(line):
            self._keep(number, line, raw)
        elif line:
            self._salvage(number, line)

    def finish(self) -> Loaded:
        if not self._sorted:
            self.loaded.events.sort(key=lambda e: e.id)
            self.loaded.damage.append("Records were out of order and have been sorted.")
        return self.loaded

    def _salvage(self, number: int, line: bytes) -> None:
        """Whole records inside a damaged line: after a torn one, or where a line end was overwritten."""
        kept = searched = 0
        for end in [m.end() for m in _END.finditer(line)]:
            begins = [m.start() for m in _START.finditer(line, searched, end)]
            searched = end
            for begin in dict.fromkeys(begins[:_TRIES] + begins[-_TRIES:]):
                if raw := decode(line[begin:end]):
                    self._say_damage(number, begin - kept)
                    self._keep(number, line[begin:end], raw)
                    kept = end
                    break
        self._say_damage(number, len(line) - kept)

    def _say_damage(self, number: int, size: int) -> None:
        if not size:
            return
        self._bad += 1
        what = "ends in the middle of a record" if self.loaded.torn else "is damaged"
        self.loaded.damage.append(f"Line {number} {what}: {size} bytes were set aside.")

    def _keep(self, number: int, line: bytes, raw: dict[str, Any]) -> None:
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
        except (TypeError, ValueError, AttributeError):
            self._say_damage(number, len(line))
            return
        if event is None:
            self.loaded.aside.append(raw)
            kind = str(raw.get("type"))[:40]
            self.loaded.damage.append(f"Line {number} is of a newer version ({kind!r}) and was skipped.")
            return
        if event_id < self._last_id:
            self._sorted = False
        self._last_id = event_id
        self.loaded.events.append(event)
        if self._lean:
            self._clip(event)

    def _clip(self, event: Event) -> None:
        """Let go of the bulk of a child's result, and of what a summary took the place of."""
        events = self.loaded.events
        match event:
            case ToolEnded() if event.agent != "main":
                events[-1] = _clipped(event)
            case ContextCompacted(agent="main") if event.summary.strip():
                start = event.keep_from or event.id
                while self._clipped < len(events) and (old := events[self._clipped]).id < start:
                    if isinstance(old, ToolEnded) and old.agent == "main" and not is_pinned(old):
                        events[self._clipped] = _clipped(old)
                    self._clipped += 1

    def _count_missing(self, number: int, place: int) -> None:
        missing = place - self.loaded.last_line - 1 - self._bad
        if missing > 0:
            self.loaded.damage.append(
                f"{missing} record{'s are' if missing > 1 else ' is'} missing before line {number}."
            )
        self.loaded.last_line = max(self.loaded.last_line, place)
        self._bad = 0


def _clipped(event: ToolEnded) -> ToolEnded:
    return replace(event, record=_short(event.record), display=_short(event.display), images=())


def _short(value: Any) -> Any:
    """A value of JSON without its long texts and lists."""
    if isinstance(value, str):
        return value if len(value) <= _SHORT else value[:_SHORT] + "…"
    if isinstance(value, list):
        return [_short(item) for item in value[:_SHORT]]
    return {name: _short(item) for name, item in value.items()} if isinstance(value, dict) else value
