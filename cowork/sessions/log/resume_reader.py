"""Reads of a log what going on with it needs. What a summary stands for is not parsed, and next time not even read.

Beside a large log lies a resume point: the place in the log where the conversation begins that the model still sees,
and the few lines from before that still matter. It is only a memory of what the log says; without it the log is read
from its start.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cowork.core.events import ContextCompacted, SessionRewound, ToolEnded
from cowork.private_files import replace_private
from cowork.sessions.log.leftovers import MAIN, Leftovers
from cowork.sessions.log.reader import TRAILER_BYTES, Loaded, LogLine, LogReader, is_after, open_log

RESUME_POINT = "resume-point.jsonl"
LARGE = 4 * 1024 * 1024  # bytes of a log that are worth being left out
_VERSION = 1
_END = re.compile(rb',"_n":(\d+),"_crc":"[0-9a-f]{8}"\}\n')
_END_BYTES = 48
_SHORT = 200  # characters of a text, and items of a list
_MARKS = (b'{"type":"context.compacted"', b'{"type":"session.rewound"')


@dataclass(slots=True)
class _Place:
    """A place in a log, between two lines."""

    offset: int = 0
    number: int = 0  # of lines before it
    last_line: int = 0  # as the line before it counts
    end: str = ""  # the end of the line before it, to know the log again by


def read_to_resume(path: Path, *, large: int = LARGE) -> Loaded:
    """The log as far as going on needs it: all of it, but for what a summary stands for if that is `large`."""
    left = Leftovers()
    known = _load_point(path, left)
    try:
        summaries, rewinds = _read_marks(path, known.offset)
        if known.offset and any(rewind.to <= left.last_id for rewind in rewinds):
            left, known = Leftovers(), _Place()  # something that was left out counts again
            summaries, rewinds = _read_marks(path, 0)
        start = _find_start(summaries, rewinds, known.offset + large)
        return _read(path, known, left, start, rewinds)
    except FileNotFoundError:
        return Loaded(damage=[f"{path.name} is missing."])


def _read_marks(path: Path, offset: int) -> tuple[list[tuple[int, ContextCompacted]], list[SessionRewound]]:
    """The summaries of the conversation, each with its place in the file, and the rewinds, from some place on."""
    summaries: list[tuple[int, ContextCompacted]] = []
    rewinds: list[SessionRewound] = []
    with open_log(path, offset) as file:
        for data in file:
            line = LogLine.of(data[:-1]) if data.startswith(_MARKS) else None
            match line and line.event():
                case ContextCompacted(agent="main") as event if event.summary.strip():
                    summaries.append((offset, event))
                case SessionRewound(conversation=True) as event:
                    rewinds.append(event)
            offset += len(data)
    return summaries, rewinds


def _find_start(summaries: list[tuple[int, ContextCompacted]], rewinds: list[SessionRewound], least_offset: int) -> int:
    """The event before which only leftovers are needed: what the last summary that counts has kept."""
    start, starts = 0, dict[int, int]()
    for offset, event in summaries:
        if not _is_undone(event.id, rewinds):
            first = min(event.keep_from or event.id, event.id)
            starts[event.id] = starts.get(first, first)  # one that keeps an older summary keeps what that kept
            start = starts[event.id] if offset >= least_offset else start
    return start


def _is_undone(event_id: int, rewinds: list[SessionRewound]) -> bool:
    return any(rewind.to <= event_id < rewind.id for rewind in rewinds)


def _read(path: Path, known: _Place, left: Leftovers, start: int, rewinds: list[SessionRewound]) -> Loaded:
    """Read from a place on; of the events before `start`, only leftovers are kept."""
    reader, place, offset = LogReader(known.last_line, left.last_id), known, known.offset
    loaded = reader.loaded
    with open_log(path, offset) as file:
        for number, data in enumerate(file, known.number + 1):
            offset += len(data)
            line, end = LogLine.of(data[:-1]), _END.search(data, max(0, len(data) - _END_BYTES))
            if line and line.id <= left.last_id:
                loaded.damage.append(f"Line {number} is there twice or out of order (event {line.id}).")
            elif line and end and line.id < start:
                left.take(line, undone=_is_undone(line.id, rewinds))
                reader.pass_over(number, line.id, int(end[1]))
                place = _Place(offset, number, int(end[1]), line.data[-TRAILER_BYTES:].decode())
            else:
                reader.take(number, data)
                last = loaded.events[-1] if loaded.events else None
                if isinstance(last, ToolEnded) and last.agent != MAIN:
                    slim = replace(last, record=_short(last.record), display=_short(last.display), images=())
                    loaded.events[-1] = slim
    reader.finish()
    if place.offset > known.offset and not any(event.id < start for event in loaded.events):
        _store_point(path, place, left)
    before = [event for line in left.lines() if (event := line.event())]
    loaded.events[:0], loaded.leftovers = before, len(before)
    return loaded


def _load_point(path: Path, left: Leftovers) -> _Place:
    """Where to begin, with what is left from before; the start of the log if no point is known of it."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        head, *lines = (path.parent / RESUME_POINT).read_bytes().splitlines()
        raw = json.loads(head)
        place = _Place(*(raw[name] for name in ("offset", "number", "last_line", "end")))
        found = [LogLine.of(line) for line in lines]
        is_whole = raw["version"] == _VERSION and len(lines) == raw["lines"] and all(found)
        if is_whole and is_after(path, place.offset, place.end):
            for line in filter(None, found):
                left.take(line)
            left.last_id = raw["last_id"]
            return place
    return _Place()


def _store_point(path: Path, place: _Place, left: Leftovers) -> None:
    lines = [line.data for line in left.lines()]
    raw = {"version": _VERSION, "lines": len(lines), "last_id": left.last_id, **asdict(place)}
    with contextlib.suppress(OSError):  # next time all is read again
        replace_private(path.parent / RESUME_POINT, b"\n".join((json.dumps(raw).encode(), *lines)) + b"\n")


def _short(value: Any) -> Any:
    """A value of JSON without its long texts and lists."""
    if isinstance(value, str):
        return value if len(value) <= _SHORT else value[:_SHORT] + "…"
    if isinstance(value, list):
        return [_short(item) for item in value[:_SHORT]]
    return {name: _short(item) for name, item in value.items()} if isinstance(value, dict) else value
