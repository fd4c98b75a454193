"""The lean transport: keep-alive HTTP/1.1 on asyncio streams, with next to nothing between socket and codec.

A general HTTP client takes several times the CPU for a long stream and most of the start-up time:
docs/decisions/own-wire-code.md has the figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import field
from urllib.parse import urlsplit

from cowork.core.frozen import frozen
from cowork.providers.errors import HttpError, broken_stream, connection_error, http_error, proxy_refusal
from cowork.providers.proxies import Proxy
from cowork.providers.transports.connection import READ, Connection, Dialer, exchange
from cowork.providers.transports.http1 import Body, Head, body_of, encode_head
from cowork.providers.transports.sse import SseParser

CONNECT_TIMEOUT = 15.0

_LONGEST_ERROR = 64 * 1024  # bytes of a refusal worth reading
_IDLE_CONNECTIONS = 20
_NETWORK_ERRORS = (OSError, EOFError, HttpError)


@frozen
class Address:
    """Where requests go. Redirects are never followed, so the key reaches this host and no other."""

    url: str
    host: str  # for people
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(default="", repr=False)  # never to be shown, whatever the service echoes
    proxy: Proxy | None = None


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
        self._dialer = Dialer(address.url, address.proxy, tls, connect_timeout)
        self._idle: list[Connection] = []
        parts = urlsplit(address.url)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {
            "host": parts.netloc.rpartition("@")[2],
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            **{name.lower(): value for name, value in address.headers.items()},
        }
        if address.proxy and parts.scheme == "http":
            self._target = f"http://{self._headers['host']}{self._target}"
            self._headers |= address.proxy.headers

    async def post(self, body: bytes) -> AsyncGenerator[list[bytes], None]:
        connection: Connection | None = None
        framed: Body | None = None
        try:
            connection, head = await self._exchange(body)
            framed = body_of(head)
            if head.status != 200:
                raise await self._refusal(connection[0], head, framed)
            parser = SseParser(self.host)
            while data := await _read(connection[0], framed):
                if payloads := parser.feed(data):
                    yield payloads
            if payloads := parser.close():
                yield payloads
        except _NETWORK_ERRORS as error:
            if framed is None:
                raise connection_error(error, host=self.host, secret=self._address.secret) from error
            why = "the connection was lost in the middle of the answer"
            raise broken_stream(self.host, str(error) if isinstance(error, HttpError) else why) from error
        finally:
            if connection is not None:
                self._give_back(connection, reusable=framed is not None and framed.done and head.keep_alive)

    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop()[1].transport.abort()
        await asyncio.sleep(0)  # in which the sockets are closed

    async def _exchange(self, body: bytes) -> tuple[Connection, Head]:
        """Send the request and read the head of its answer.

        A service may close a kept connection just when the request is sent, unread. That is no failed attempt: the
        request goes out again at once on a new connection.
        """
        request = encode_head("POST", self._target, {**self._headers, "content-length": str(len(body))}) + body
        if kept := self._take_idle():
            with contextlib.suppress(OSError, EOFError):
                head = await exchange(kept, request)
                if head.status != 408 or head.keep_alive:  # which some say when they close
                    return kept, head
                kept[1].transport.abort()
        connection = await self._dialer.open()
        return connection, await exchange(connection, request)

    def _take_idle(self) -> Connection | None:
        """A kept connection that the service has not closed meanwhile."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.transport.abort()
        return None

    async def _refusal(self, reader: asyncio.StreamReader, head: Head, framed: Body) -> Exception:
        if head.status == 407 and self._address.proxy:
            return proxy_refusal(head.status, self._address.proxy.name, self.host)
        found = bytearray()
        with contextlib.suppress(*_NETWORK_ERRORS):  # a service may hang up on what it refuses: the status is enough
            while len(found) < _LONGEST_ERROR and (data := await _read(reader, framed)):
                found += data
        body = bytes(found[:_LONGEST_ERROR])
        return http_error(head.status, head.headers, body, host=self.host, secret=self._address.secret)

    def _give_back(self, connection: Connection, *, reusable: bool) -> None:
        if reusable and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection[1].transport.abort()


async def _read(reader: asyncio.StreamReader, framed: Body) -> bytes:
    """The next bytes of a body, a network read at a time; empty at its end."""
    while not framed.done:
        data = await reader.read(READ)
        if not data:
            framed.end()
            return b""
        if piece := framed.feed(data):
            return piece
    return b""
