"""The lean transport: keep-alive HTTP/1.1 on asyncio streams, with next to nothing between socket and codec.

A general HTTP client takes several times the CPU for a long stream and most of the start-up time; only a network that
needs a proxy gets one (`proxied`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import field
from urllib.parse import urlsplit

from cowork.core.frozen import frozen
from cowork.providers.errors import broken_stream, connection_error, http_error, unstreamed
from cowork.providers.transports.http1 import Body, Head, HttpError, body_of, encode_head, parse_head
from cowork.providers.transports.sse import SseParser

CONNECT_TIMEOUT = 15.0
LONGEST_ERROR = 64 * 1024  # bytes of a refusal worth reading

_READ = 256 * 1024
_IDLE_CONNECTIONS = 20
_NETWORK_ERRORS = (OSError, EOFError, HttpError, asyncio.LimitOverrunError)

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@frozen
class Address:
    """Where requests go. Redirects are never followed, so the key reaches this host and no other."""

    url: str
    host: str  # for people
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(default="", repr=False)  # never to be shown, whatever the service echoes
    proxy: str = field(default="", repr=False)


class DirectTransport:
    """POSTs over connections that are kept for the life of the provider."""

    def __init__(
        self,
        address: Address,
        *,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self.host = address.host
        self._address = address
        self._connect_timeout = connect_timeout
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._idle: list[_Connection] = []
        parts = urlsplit(address.url)
        self._name = parts.hostname or ""
        self._secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {
            "host": parts.netloc.rpartition("@")[2],
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            **{name.lower(): value for name, value in address.headers.items()},
        }

    async def post(self, body: bytes) -> AsyncGenerator[list[bytes], None]:
        connection: _Connection | None = None
        framed: Body | None = None
        try:
            connection, head = await self._exchange(body)
            framed = body_of(head)
            await self._check(connection[0], head, framed)
            parser = SseParser()
            while data := await _read(connection[0], framed):
                if payloads := parser.feed(data):
                    yield payloads
            if payloads := parser.close():
                yield payloads
        except _NETWORK_ERRORS as error:
            if framed is not None:
                raise broken_stream(self.host, "the connection was lost in the middle of the answer") from error
            raise connection_error(error, host=self.host, secret=self._address.secret) from error
        finally:
            if connection is not None:
                self._give_back(connection, reusable=framed is not None and framed.done and head.keep_alive)

    async def aclose(self) -> None:
        connections, self._idle = self._idle, []
        for _, writer in connections:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await writer.wait_closed()

    async def _exchange(self, body: bytes) -> tuple[_Connection, Head]:
        """Send the request and read the head of its answer."""
        request = encode_head("POST", self._target, {**self._headers, "content-length": str(len(body))}) + body
        connection = self._take_idle() or await self._connect()
        try:
            return connection, await _roundtrip(connection, request)
        except BaseException:
            connection[1].transport.abort()
            raise

    def _take_idle(self) -> _Connection | None:
        """A kept connection that the service has not closed meanwhile."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.transport.abort()
        return None

    async def _connect(self) -> _Connection:
        if self._secure and self._tls is None:
            self._tls = self._make_tls()
        async with asyncio.timeout(self._connect_timeout):
            return await asyncio.open_connection(
                self._name, self._port, ssl=self._tls, limit=_READ, happy_eyeballs_delay=0.25
            )

    async def _check(self, reader: asyncio.StreamReader, head: Head, framed: Body) -> None:
        """Raise for anything but a stream of events."""
        kind = head.headers.get("content-type", "").partition(";")[0].strip()
        if head.status == 200 and kind not in ("application/json", "text/html"):
            return
        found = bytearray()
        while len(found) < LONGEST_ERROR and (data := await _read(reader, framed)):
            found += data
        body = bytes(found[:LONGEST_ERROR])
        if head.status == 200:
            raise unstreamed(kind, body, host=self.host, secret=self._address.secret)
        raise http_error(head.status, head.headers, body, host=self.host, secret=self._address.secret)

    def _give_back(self, connection: _Connection, *, reusable: bool) -> None:
        if reusable and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection[1].transport.abort()


async def _roundtrip(connection: _Connection, request: bytes) -> Head:
    reader, writer = connection
    writer.write(request)
    await writer.drain()
    while True:
        head = parse_head(await reader.readuntil(b"\r\n\r\n"))
        if head.status >= 200:  # the others only announce it
            return head


async def _read(reader: asyncio.StreamReader, framed: Body) -> bytes:
    """The next bytes of a body, a network read at a time; empty at its end."""
    while not framed.done:
        data = await reader.read(_READ)
        if not data:
            framed.end()
            return b""
        if piece := framed.feed(data):
            return piece
    return b""
