"""Runs for programs: one object at the end, or one event a line. Everything is ASCII, so no byte of it can steer a
terminal and no locale can spoil it."""

from __future__ import annotations

from typing import TextIO

from cowork.core.events import Event, RunEnded, to_dict
from cowork.core.hygiene import ascii_json


class JsonResult:
    """`--output json`: the result of the run as one object."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunEnded):
            _write(self._out, event.result)


class JsonStream:
    """`--output stream-json`: every event as it happens, `run.ended` last."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, event: Event) -> None:
        _write(self._out, to_dict(event))


def _write(out: TextIO, value: object) -> None:
    # One write a line, so that lines of parallel writers to one file do not mix.
    out.write(ascii_json(value, separators=(",", ":"), default=str) + "\n")
    out.flush()
