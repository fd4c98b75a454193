"""Server-sent events, incrementally: bytes in at any chunking, the data payloads they complete out."""

from __future__ import annotations

from cowork.http.errors import broken_stream

_BOM = b"\xef\xbb\xbf"
_MOST = 16 << 20  # bytes of one event: the longest answers a model gives are a tenth of it


class SseParser:
    """Gives the data of each event once its blank line has come; names, ids and comments are of no use here.

    A service that does not stream answers with one JSON object: that is a payload too, given at the end.
    """

    def __init__(self, host: str = "the service") -> None:
        self._host = host
        self._held = bytearray()  # the unfinished event
        self._after_cr = False
        self._fresh = True
        self._is_json = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads completed by this read, in order."""
        looked = max(len(self._held) - 1, 0)  # a blank line may come in two reads
        self._held += self._with_plain_newlines(chunk)
        payloads = [] if self._is_json or self._held.find(b"\n\n", looked) < 0 else self._take_whole_events()
        if len(self._held) > _MOST:
            raise broken_stream(self._host, f"one event is longer than {_MOST >> 20} MB")
        return payloads

    def close(self) -> list[bytes]:
        """What a stream without a last blank line still holds, or the one JSON object it was."""
        payloads = [] if self._is_json else self.feed(b"\n\n")
        return [bytes(self._held)] if self._is_json else payloads

    def data_of(self, event: bytes) -> bytes:
        """The payload of one event."""
        lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line[:5] == b"data:"]
        return lines[0] if len(lines) == 1 else b"\n".join(lines)

    def _take_whole_events(self) -> list[bytes]:
        whole = bytes(self._held)
        if self._fresh:
            whole = whole.removeprefix(_BOM)
            self._fresh = False
            if whole.lstrip()[:1] == b"{":
                self._is_json, self._held = True, bytearray(whole)
                return []
        *events, rest = whole.split(b"\n\n")
        self._held = bytearray(rest)
        return [data for event in events if (data := self.data_of(event))]

    def _with_plain_newlines(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" not in chunk:
            return chunk
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
