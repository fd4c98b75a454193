"""Runs for programs. Everything is ASCII, so no byte of it can steer a terminal and no locale can spoil it."""

from __future__ import annotations

from typing import TextIO

from cowork.core.events import Event, RunEnded, to_dict
from cowork.core.hygiene import ascii_json


class JsonOutput:
    """`--output json`: the result of the run as one object; with `stream`, every event as it happens."""

    def __init__(self, out: TextIO, *, stream: bool) -> None:
        self._out, self._stream = out, stream

    def __call__(self, event: Event) -> None:
        if self._stream:
            value = to_dict(event)
        elif isinstance(event, RunEnded):
            value = event.result
        else:
            return
        # One write a line, so that lines of parallel writers to one file do not mix.
        self._out.write(ascii_json(value, separators=(",", ":"), default=str) + "\n")
        self._out.flush()
