"""Reads from the terminal: in large pieces, and with its answer about its background colour kept out of the keys."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.input import Input
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input

from cowork.frontends.repl.view.theme import Kind, kind_of_reply

_START = "\x1b]11;"
_PIECE = 65_536  # bytes at a time: in small ones a large paste takes seconds


def watch(source: Input, tell: Callable[[Kind], None]) -> bool:
    """Take the answer to OSC 11 out of what is read and tell its meaning; False where that is not possible."""
    if not isinstance(source, Vt100Input):
        return False
    source.stdin_reader = _Reader(source.stdin_reader, tell)
    return True


class _Reader(PosixStdinReader):
    """Reads keys; the answer may come in pieces, so an unfinished one is held back."""

    def __init__(self, inner: PosixStdinReader, tell: Callable[[Kind], None]) -> None:
        super().__init__(inner.stdin_fd, inner.errors)
        self._tell = tell
        self._held = ""

    def read(self, count: int = _PIECE) -> str:
        data = self._held + super().read(count)
        self._held = ""
        kind, data = kind_of_reply(data)
        if kind is not None:
            self._tell(kind)
        start = data.find(_START)
        if start >= 0 and len(data) - start < 64:
            data, self._held = data[:start], data[start:]
        return data
