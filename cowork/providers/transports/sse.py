"""Server-sent events, incrementally: bytes in at any chunking, the data payloads they complete out."""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class SseParser:
    """Gives the data of each event once its blank line has come; names, ids and comments are of no use here."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the unfinished event; joined only when a line ends
        self._after_cr = False
        self._fresh = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads completed by this read, in order."""
        chunk = self._with_plain_newlines(chunk)
        self._parts.append(chunk)
        if b"\n" not in chunk:
            return []
        whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if self._fresh:
            whole = whole.removeprefix(_BOM)
            self._fresh = False
        *events, rest = whole.split(b"\n\n")
        self._parts = [rest] if rest else []
        return [data for event in events if (data := _data(event))]

    def close(self) -> list[bytes]:
        """What a stream without a last blank line still holds."""
        data = _data(b"".join(self._parts))
        self._parts = []
        return [data] if data else []

    def _with_plain_newlines(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" not in chunk:
            return chunk
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data(event: bytes) -> bytes:
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line[:5] == b"data:"]
    return lines[0] if len(lines) == 1 else b"\n".join(lines)
