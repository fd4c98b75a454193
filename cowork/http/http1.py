"""As much of HTTP/1.1 as a POST with a streamed answer needs, without any IO."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Literal

from cowork.core.frozen import frozen
from cowork.http.errors import ONLY_HTTP2, HttpError, WrongProtocolError

_LONGEST_LINE = 8_192
_MOST_UNPACKED = 32 << 20  # bytes one read may grow to


@frozen
class Head:
    """Status and headers, names in lower case."""

    status: int
    headers: Mapping[str, str]
    keep_alive: bool


def encode_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """A request head; the headers were checked to be printable ASCII."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def not_http(raw: bytes) -> HttpError:
    """What to say of an answer that has no head."""
    if raw[:1] == b"\x00" and raw[3:4] == b"\x04":  # the SETTINGS frame with which an HTTP/2 server begins
        return WrongProtocolError(ONLY_HTTP2)
    return HttpError("the answer is not HTTP/1.1")


def parse_head(raw: bytes) -> Head:
    """The head of a response, up to and with its blank line."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
        raise not_http(raw)
    headers: dict[str, str] = {}
    for name, colon, value in (line.partition(":") for line in lines):
        if colon:
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    closing = headers.get("connection", "").lower()
    return Head(int(status), headers, "close" not in closing and version != "HTTP/1.0")


def body_of(head: Head) -> Body:
    """The reader for the framing and the content encoding that a head announces."""
    encoding = head.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise HttpError(f"the answer is encoded as {encoding}, which was not asked for")
    packed = encoding not in ("", "identity")
    if head.headers.get("transfer-encoding", "").lower().endswith("chunked"):
        return Chunked(packed=packed)
    if head.status in (204, 304):
        return Body(0)
    lengths = {length.strip() for length in head.headers.get("content-length", "").split(",")}
    length = lengths.pop()
    if lengths or (length and not (length.isascii() and length.isdigit())):
        raise HttpError("the answer has no readable length")
    return Body(int(length) if length else None, packed=packed)


class Body:
    """Takes what the network gives and hands on what belongs to the body.

    That is a number of bytes told beforehand, else everything until the connection closes. It may be `packed` in gzip
    or deflate, although `identity` was asked for.
    """

    def __init__(self, size: int | None = None, *, packed: bool = False) -> None:
        self._left = size  # bytes still to come, where that is known
        self.done = size == 0
        self._packed = packed
        self._unpacker: zlib._Decompress | None = None

    def feed(self, data: bytes) -> bytes:
        """Take in what came; gives what of it is body."""
        piece = self._take(data)
        return self._unpack(piece) if self._packed and piece else piece

    def _take(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        piece = data[: self._left]
        self._left -= len(piece)
        self.done = self._left == 0
        return piece

    def end(self) -> None:
        """The connection closed; raises HttpError if that is too early."""
        if self._left is not None and not self.done:
            raise HttpError("the connection was closed in the middle of the answer")

    def _unpack(self, data: bytes) -> bytes:
        if self._unpacker is None:
            # gzip and zlib start like this; "deflate" is often sent without the zlib wrapper it should have.
            self._unpacker = zlib.decompressobj(47 if data[0] == 0x1F or data[0] & 15 == 8 else -15)
        try:
            out = self._unpacker.decompress(data, _MOST_UNPACKED)
        except zlib.error:
            raise HttpError("the compressed answer is damaged") from None
        if self._unpacker.unconsumed_tail:
            raise HttpError("the compressed answer grows without bounds")
        return out


class Chunked(Body):
    """Pieces, each after a line with its size, up to one of size 0 and its trailers."""

    def __init__(self, *, packed: bool = False) -> None:
        super().__init__(packed=packed)
        self._left = 0  # of the current piece
        self._buffer = b""
        self._expects: Literal["size", "end of piece", "trailer"] = "size"

    def _take(self, data: bytes) -> bytes:
        data = self._buffer + data if self._buffer else data
        out: list[bytes] = []
        at = 0
        while at < len(data) and not self.done:
            if self._left:
                piece = data[at : at + self._left]
                out.append(piece)
                at += len(piece)
                self._left -= len(piece)
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

    def _line(self, line: bytes) -> None:
        if self._expects == "trailer":
            self.done = not line
        elif self._expects == "end of piece":
            if line:
                raise HttpError("a piece of the answer has no end")
            self._expects = "size"
        else:
            size = line.partition(b";")[0].strip()
            if not size or size.strip(b"0123456789abcdefABCDEF"):
                raise HttpError("a piece of the answer has no readable size")
            self._left = int(size, 16)
            self._expects = "end of piece" if self._left else "trailer"
