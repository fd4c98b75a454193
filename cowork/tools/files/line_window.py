"""Takes a window of numbered lines from a stream of bytes of any length, in bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
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
    room: int = PAGE_BYTES  # below 0: a line did not fit any more

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    def add(self, data: bytes, length: int, encoding: str) -> None:
        """Take in a line, of which this is the start, if the page has room."""
        if length == len(data) and data.endswith(b"\r"):
            data, length = data[:-1], length - 1
        text = printable(data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace"))
        shown = text[:MAX_LINE]
        self.room -= len(shown.encode("utf-8")) + _OVERHEAD
        if self.room >= 0 or not self.lines:
            self.lines.append(shown)
            self.hidden.append(length - len(shown.encode(encoding, "replace")) if len(text) > MAX_LINE else 0)


def window(chunks: Iterable[bytes], encoding: str, first: int, limit: int, *, budget: int) -> Window:
    """The window of these lines. Once it has them it goes on counting, but not beyond `budget` bytes."""
    if encoding.startswith(("utf-16", "utf-32")):
        chunks, encoding = _as_utf8(chunks, encoding), "utf-8"
    out, limit = Window(first), min(limit, PAGE_LINES)
    line, length = b"", 0  # the start of the line at hand, and how long it is so far

    def wanting() -> bool:
        return len(out.lines) < limit and out.room >= 0

    for chunk in chunks:
        newlines = chunk.count(b"\n")
        if not wanting() or out.total + newlines < first - 1:  # nothing of it is shown
            out.total += newlines
            length = len(chunk) - chunk.rfind(b"\n") - 1 if newlines else length + len(chunk)
        else:
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                out.total += 1
                if out.total >= first and wanting():
                    out.add(line + piece[: _KEPT - len(line)], length + len(piece), encoding)
                line, length = b"", 0
            line, length = line + rest[: _KEPT - len(line)], length + len(rest)
        budget -= len(chunk)
        if budget <= 0 and (not wanting() or length > _KEPT):
            break
    else:
        out.ended = True
    if length:  # the last line may have no newline
        out.total += 1
        if out.total >= first and wanting():
            out.add(line, length, encoding)
    return out


def _as_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")
