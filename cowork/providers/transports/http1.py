"""As much of HTTP/1.1 as a POST with a streamed answer needs, without any IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from cowork.core.frozen import frozen

_LONGEST_LINE = 8_192


class HttpError(Exception):
    """Bytes that are no HTTP."""


@frozen
class Head:
    """Status and headers, names in lower case."""

    status: int
    headers: Mapping[str, str]
    keep_alive: bool


class Body(Protocol):
    """Takes what the network gives and hands on what belongs to the body."""

    done: bool

    def feed(self, data: bytes) -> bytes: ...

    def end(self) -> None:
        """The connection closed; raises HttpError if that is too early."""


def encode_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """A request head; the headers were checked to be printable ASCII."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def parse_head(raw: bytes) -> Head:
    """The head of a response, up to and with its blank line."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
        raise HttpError("the answer is no HTTP")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            continue
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    closing = headers.get("connection", "").lower()
    return Head(int(status), headers, "close" not in closing and version != "HTTP/1.0")


def body_of(head: Head) -> Body:
    """How the body of a response is framed."""
    if head.headers.get("transfer-encoding", "").lower().endswith("chunked"):
        return Chunked()
    if head.status in (204, 304):
        return Sized(0)
    length = head.headers.get("content-length")
    if length is None:
        return UntilClosed()
    if not (length.isascii() and length.isdigit()):
        raise HttpError("the answer has no readable length")
    return Sized(int(length))


class Chunked:
    """Pieces, each after a line with its size, up to one of size 0 and its trailers."""

    def __init__(self) -> None:
        self.done = False
        self._buffer = b""
        self._left = 0  # bytes of the current piece still to come, with its line end
        self._trailers = False

    def feed(self, data: bytes) -> bytes:
        data = self._buffer + data if self._buffer else data
        out: list[bytes] = []
        at = 0
        while at < len(data) and not self.done:
            if self._left > 2:
                piece = data[at : at + self._left - 2]
                out.append(piece)
                at += len(piece)
                self._left -= len(piece)
                continue
            if self._left:
                if data[at : at + 1] not in (b"\r", b"\n"):
                    raise HttpError("a piece of the answer has no end")
                at += 1
                self._left -= 1
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            self._line(data[at:end])
            at = end + 2
        self._buffer = data[at:]
        if len(self._buffer) > _LONGEST_LINE and not self.done:
            raise HttpError("the answer has an endless line")
        return b"".join(out)

    def end(self) -> None:
        if not self.done:
            raise HttpError("the connection was closed in the middle of the answer")

    def _line(self, line: bytes) -> None:
        if self._trailers:
            self.done = not line
            return
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            size = -1
        if size < 0:
            raise HttpError("a piece of the answer has no readable size")
        self._trailers = size == 0
        self._left = size + 2 if size else 0


class Sized:
    """A number of bytes told beforehand."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.done = size == 0

    def feed(self, data: bytes) -> bytes:
        piece = data[: self._left]
        self._left -= len(piece)
        self.done = self._left == 0
        return piece

    def end(self) -> None:
        if not self.done:
            raise HttpError("the connection was closed in the middle of the answer")


class UntilClosed:
    """Everything until the connection closes; such an end says nothing about completeness."""

    done = False

    def feed(self, data: bytes) -> bytes:
        return data

    def end(self) -> None:
        """Any end will do: the codec knows whether the answer is whole."""
