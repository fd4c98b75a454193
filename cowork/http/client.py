"""A lean HTTP client: keep-alive HTTP/1.1 to one host, with next to nothing between socket and caller.

A general HTTP client takes several times the CPU for a long stream and most of the start-up time:
docs/decisions/own-wire-code.md has the figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from cowork.http.connection import READ, Connection, Dialer, exchange
from cowork.http.errors import HttpError
from cowork.http.http1 import Head, body_of, encode_head
from cowork.http.proxies import Proxy

CONNECT_TIMEOUT = 15.0
NETWORK_ERRORS = (OSError, EOFError, HttpError)

_IDLE_CONNECTIONS = 20


class Response:
    """An answer whose head has come. Close it when done: a connection that was read to its end is kept."""

    def __init__(self, client: HttpClient, connection: Connection, head: Head) -> None:
        self.status, self.headers = head.status, head.headers
        self._client, self._connection, self._head = client, connection, head
        self._closed = False
        try:
            self._body = body_of(head)
        except HttpError:
            connection[1].transport.abort()
            raise

    async def read(self) -> bytes:
        """The next bytes of the body, a network read at a time; empty at its end."""
        while not self._body.done:
            data = await self._connection[0].read(READ)
            if not data:
                self._body.end()
                return b""
            if piece := self._body.feed(data):
                return piece
        return b""

    async def start_of(self, most: int) -> bytes:
        """The first bytes of the body; a peer may hang up on what it refuses, and what came until then counts."""
        found = bytearray()
        with contextlib.suppress(*NETWORK_ERRORS):
            while len(found) < most and (data := await self.read()):
                found += data
        return bytes(found[:most])

    def close(self) -> None:
        """Give the connection back; more than once does no harm."""
        if not self._closed:
            self._closed = True
            self._client.give_back(self._connection, reusable=self._body.done and self._head.keep_alive)


class HttpClient:
    """Requests to one URL over connections that are kept for the life of the client."""

    def __init__(
        self,
        url: str,
        *,
        proxy: Proxy | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self._dialer = Dialer(url, proxy, tls, connect_timeout)
        self._idle: list[Connection] = []
        parts = urlsplit(url)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {"host": parts.netloc.rpartition("@")[2], "accept-encoding": "identity"}
        if proxy and parts.scheme == "http":
            self._target = f"http://{self._headers['host']}{self._target}"
            self._headers |= proxy.headers

    async def send(self, method: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """Send the request and read the head of its answer.

        A service may close a kept connection just when the request is sent, unread. That is no failed attempt: the
        request goes out again at once on a new connection.
        """
        length = {"content-length": str(len(body))} if body or method == "POST" else {}
        request = encode_head(method, self._target, {**self._headers, **headers, **length}) + body
        if kept := self._take_idle():
            with contextlib.suppress(OSError, EOFError):
                head = await exchange(kept, request)
                if head.status != 408 or head.keep_alive:  # which some say when they close
                    return Response(self, kept, head)
                kept[1].transport.abort()
        connection = await self._dialer.open()
        return Response(self, connection, await exchange(connection, request))

    def give_back(self, connection: Connection, *, reusable: bool) -> None:
        if reusable and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection[1].transport.abort()

    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop()[1].transport.abort()
        await asyncio.sleep(0)  # in which the sockets are closed

    def _take_idle(self) -> Connection | None:
        """A kept connection that the peer has not closed meanwhile."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.transport.abort()
        return None
