"""Takes a window of numbered lines from a stream of bytes of any length, in bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field

from cowork.tools.files.encoding import printable

MAX_LINE = 2_000  # characters of one line that are shown
PAGE_LINES = 1_996  # what one result may hold, so that with its notes the central clipping leaves it alone
PAGE_BYTES = 48_000
_OVERHEAD = 12  # its number, tab and newline
_KEPT = 4 * MAX_LINE + 4  # bytes of a line that can matter for what is shown of it


@dataclass(slots=True)
class Window:
    """Lines `first`… as far as they were asked for and fit."""

    first: int
    lines: list[str] = field(default_factory=list)  # without their newlines
    hidden: list[int] = field(default_factory=list)  # per line, bytes that were left out of it
    total: int = 0  # lines passed so far; all of them when `ended`
    ended: bool = False  # the end of the file was reached
    full: bool = False  # the page had no more room, though more was asked for

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def window(chunks: Iterator[bytes], encoding: str, first: int, limit: int, *, budget: int) -> Window:
    """The window of these lines. Once it has them it goes on counting, but not beyond `budget` bytes."""
    if encoding.startswith(("utf-16", "utf-32")):
        chunks, encoding = _as_utf8(chunks, encoding), "utf-8"
    taker = _Taker(Window(first), encoding, limit)
    read = 0
    for chunk in chunks:
        taker.feed(chunk)
        read += len(chunk)
        if read >= budget and taker.settled:
            break
    else:
        taker.out.ended = True
    taker.finish()
    return taker.out


class _Taker:
    """Cuts chunks into lines and keeps those of the window, each only as far as it can be shown."""

    def __init__(self, out: Window, encoding: str, limit: int) -> None:
        self.out = out
        self._encoding = encoding
        self._limit = limit
        self._room = PAGE_BYTES
        self._line = bytearray()  # the start of the line at hand
        self._length = 0  # and how long it is so far

    @property
    def settled(self) -> bool:
        """Nothing that follows can change what is shown."""
        return not self._wanting or self._length > _KEPT

    @property
    def _wanting(self) -> bool:
        return len(self.out.lines) < self._limit and not self.out.full

    def feed(self, chunk: bytes) -> None:
        at = 0
        while at < len(chunk):
            before = max(0, self.out.first - self.out.total - 1) if self._wanting else -1
            if before:
                at = self._skip(chunk, at, before)
                continue
            end = chunk.find(b"\n", at)
            stop = len(chunk) if end < 0 else end
            self._line += chunk[at : min(stop, at + _KEPT - len(self._line))]
            self._length += stop - at
            at = stop + 1
            if end >= 0:
                self._add()

    def finish(self) -> None:
        """The last line may have no newline."""
        if not self._length:
            return
        if self._wanting and self.out.total + 1 >= self.out.first:
            self._add()
        else:
            self.out.total += 1

    def _skip(self, chunk: bytes, at: int, lines: int) -> int:
        """Pass that many lines without keeping them; -1: all there are."""
        newlines = chunk.count(b"\n", at)
        if lines < 0 or newlines < lines:
            after = chunk.rfind(b"\n", at) + 1
            self._length = len(chunk) - after if after else self._length + len(chunk) - at
            self.out.total += newlines
            return len(chunk)
        for _ in range(lines):
            at = chunk.index(b"\n", at) + 1
        self.out.total += lines
        self._length = 0
        return at

    def _add(self) -> None:
        """The line at hand is whole: keep it if the page has room."""
        data, length = bytes(self._line), self._length
        self._line, self._length = bytearray(), 0
        self.out.total += 1
        if length == len(data) and data.endswith(b"\r"):
            data, length = data[:-1], length - 1
        text = printable(data.decode(self._encoding, "surrogateescape" if self._encoding == "utf-8" else "replace"))
        shown = text[:MAX_LINE]
        size = len(shown.encode("utf-8")) + _OVERHEAD
        if size > self._room and self.out.lines:
            self.out.full = True
            return
        self._room -= size
        self.out.lines.append(shown)
        self.out.hidden.append(length - len(shown.encode(self._encoding, "replace")) if len(text) > MAX_LINE else 0)


def _as_utf8(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")
