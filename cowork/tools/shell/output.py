"""Keeps what a command prints: head and tail in memory, the rest in a file, however much there is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from cowork.tools.shell.terminal_text import Stream

WHOLE_BYTES, WHOLE_LINES = 46_000, 1_900  # up to here the model gets all of it
HEAD_BYTES, HEAD_LINES = 16_000, 700
TAIL_BYTES, TAIL_LINES = 28_000, 1_100
RECORDED_BYTES = 100 << 20


class Capture:
    """The output of one command as plain text. Memory does not grow with it."""

    def __init__(self, scratch: Path, name: str, *, file: bool = False) -> None:
        self.path = scratch / f"{name}-{os.urandom(4).hex()}.txt"
        self.bytes = 0  # as the command wrote them
        self.lines = 0
        self.recorded = 0  # bytes in the file
        self.full = False  # the file has reached its size; the rest was not recorded
        self._stream = Stream()
        self._head = ""
        self._tail = ""
        self._open_line = False
        self.spilled = False  # there is, or should be, a file
        self.problem = ""  # why recording ended early
        self._file: int | None = None
        if file:
            self._spill()

    def feed(self, data: bytes) -> str:
        """Take in some output; gives what of it is worth showing."""
        self.bytes += len(data)
        return self._keep(self._stream.feed(data))

    def finish(self) -> str:
        """There will be no more."""
        text = self._keep(self._stream.finish())
        self.lines += self._open_line
        if self._file is not None:
            os.close(self._file)
            self._file = None
        return text

    def settle(self) -> None:
        """Count the unfinished line in, for a reader who will not wait for its end."""
        self._keep(self._stream.flush())

    def pending(self) -> str:
        """The last line, which has no end yet."""
        return self._stream.pending

    @property
    def binary(self) -> bool:
        """Whether most of it is no text."""
        return self._head.count("\ufffd") * 5 + self._head.count("\\x") * 20 > len(self._head)

    def text(self) -> str:
        """All of it, or head and tail and where the rest is."""
        if not self.spilled or (self.recorded <= WHOLE_BYTES and self.lines <= WHOLE_LINES and not self.full):
            return self._head
        head = _first(self._head, HEAD_BYTES, HEAD_LINES)
        tail = self.tail()
        left = max(0, self.lines - head.count("\n") - tail.count("\n"))
        rest = f"all of it is in {self.path}"
        if self.full:
            rest = f"the first {_size(self.recorded)} are in {self.path}, the rest was not recorded{self.problem}"
        return f"{head}\n[… about {left:,} lines left out of {self.lines:,} ({_size(self.bytes)}); {rest} …]\n\n{tail}"

    def tail(self, size: int = TAIL_BYTES, lines: int = TAIL_LINES) -> str:
        """The end of it, from the beginning of a line where there is one."""
        return _last(self._tail or self._head, size, lines)

    def read(self, start: int, most: int) -> bytes:
        """Recorded bytes from `start` on; a link or a pipe that a command put in the file's place leads nowhere."""
        alone = os.O_NOFOLLOW | os.O_NONBLOCK
        with open(self.path, "rb", opener=lambda path, flags: os.open(path, flags | alone)) as file:
            file.seek(start)
            return file.read(most)

    def _keep(self, text: str) -> str:
        if not text:
            return ""
        self.lines += text.count("\n")
        self._open_line = not text.endswith("\n")
        data = text.encode("utf-8", "replace")
        if not self.spilled and (self.recorded + len(data) > WHOLE_BYTES or self.lines > WHOLE_LINES):
            self._spill()
        if len(self._head) < WHOLE_BYTES:
            self._head += text[:WHOLE_BYTES]
        if not self.spilled:
            self.recorded += len(data)
        else:
            self._tail = (self._tail + text)[-2 * TAIL_BYTES :]
            self._record(data)
        return text

    def _record(self, data: bytes) -> None:
        if self.full or self._file is None:
            return
        part = data[: RECORDED_BYTES - self.recorded]
        try:
            written = os.write(self._file, part)
        except OSError as error:  # what is recorded stays, and the command goes on
            written, self.problem = 0, f" ({error.strerror})"
        self.recorded += written
        self.full = written < len(data)

    def _spill(self) -> None:
        self.spilled = True
        before, self._tail, self.recorded = self._head.encode("utf-8", "replace"), self._head, 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._record(before)
        except OSError as error:
            self.full, self.problem = True, f" ({error.strerror})"


class Live:
    """Hands output to a screen now and then, in pieces a screen can take."""

    _PIECE = 4_000
    _CALM = 64_000  # after this much the pace slows down

    def __init__(self, output: Callable[[str], None], pending: Callable[[], str]) -> None:
        self._output = output
        self._pending = pending  # the unfinished line, as it looks now
        self._new = ""
        self._skipped = False
        self._sent = ""  # of the unfinished line
        self._total = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """New final text."""
        self._new += text
        if len(self._new) > self._PIECE:
            self._new, self._skipped = _last(self._new, self._PIECE, 200), True
        if self._timer is None:
            delay = 0.1 if self._total < self._CALM else 1.0
            self._timer = asyncio.get_running_loop().call_later(delay, self.flush)

    def flush(self) -> None:
        """Send what is there."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        line = self._pending()[-self._PIECE :]
        text = self._new + line
        if self._skipped:
            text = f"\n[…]\n{text}"
        elif text.startswith(self._sent):
            text = text[len(self._sent) :]
        elif self._sent:
            text = f"\n{text}"
        self._sent, self._new, self._skipped = line, "", False
        if text:
            self._total += len(text)
            self._output(text)

    def close(self) -> None:
        """Send what is there, and nothing that comes after."""
        self.flush()
        self._output = lambda text: None


def _first(text: str, size: int, lines: int) -> str:
    text = text[:size].encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
    text = "\n".join(text.split("\n", lines)[:lines])
    end = text.rfind("\n") + 1
    return text[:end] if end * 2 > len(text) else text


def _last(text: str, size: int, lines: int) -> str:
    data = text[-size:].encode("utf-8", "replace")
    text = "\n".join(data[-size:].decode("utf-8", "ignore").rsplit("\n", lines)[-lines:])
    start = text.find("\n", 0, len(text) // 2) + 1 if len(data) >= size else 0
    return text[start:]


def _size(count: int) -> str:
    power = min(3, (count.bit_length() - 1) // 10) if count else 0
    return f"{count / 1024**power:.1f} {('', 'KB', 'MB', 'GB')[power]}" if power else f"{count} bytes"
