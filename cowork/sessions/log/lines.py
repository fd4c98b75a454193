"""A line of a session log: the JSON of an event, ended by its line number and the checksum of what is before."""

from __future__ import annotations

import json
import re
import zlib
from typing import NamedTuple

from cowork.core.blocks import Json
from cowork.core.events import Event, from_dict, to_dict

TRAILER_BYTES = len(b',"_crc":"01234567"}')
_HEAD = re.compile(rb'\{"type":"([a-z_.]+)","id":(\d+),"at":([0-9.eE+-]+),"session_id":"[^"\\]*","agent":"([^"\\]*)"')
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
        except (TypeError, ValueError, AttributeError):
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
    return parse(line) if has_good_checksum(line) else None


def has_good_checksum(line: bytes) -> bool:
    """Whether a line without its end is as it was written."""
    return line[-TRAILER_BYTES:] == b',"_crc":"%08x"}' % zlib.crc32(memoryview(line)[:-TRAILER_BYTES])


def parse(line: bytes) -> Json | None:
    """The object of a line whose checksum is good."""
    try:
        text = line.decode()
        raw, end = _parse(text)
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(raw, dict) and end == len(text) else None
