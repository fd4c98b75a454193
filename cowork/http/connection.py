"""Opens connections for the direct transport: TCP, TLS, and either of them through an HTTP proxy."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

from cowork.core.errors import ProviderError
from cowork.http.errors import HttpError, WrongProtocolError, connection_error, proxy_refusal
from cowork.http.http1 import Head, encode_head, not_http, parse_head
from cowork.http.proxies import Proxy

READ = 256 * 1024
_TLS_PATIENCE = 1.0  # seconds of silence in a handshake before the port is suspected to have no TLS

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def exchange(connection: Connection, request: bytes) -> Head:
    """Send a request and read the head of its answer, which may come before all of the request was taken.

    Closes the connection when that fails; EOFError means that the peer closed it without a byte of answer.
    """
    reader, writer = connection
    writer.write(request)
    try:
        while True:
            head = parse_head(await reader.readuntil(b"\r\n\r\n"))
            if head.status >= 200:  # the others only announce it
                return head
    except asyncio.IncompleteReadError as error:
        failure: BaseException = not_http(error.partial) if error.partial else EOFError()
    except asyncio.LimitOverrunError:
        failure = HttpError("the answer has too many headers")
    except BaseException as error:
        failure = error
    writer.transport.abort()
    raise failure


class Dialer:
    """Opens connections to the host of one URL."""

    def __init__(self, url: str, proxy: Proxy | None, tls: Callable[[], ssl.SSLContext], timeout: float) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._proxy = proxy
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._timeout = timeout

    async def open(self) -> Connection:
        if self._proxy is not None:
            return await self._open_through(self._proxy)
        async with asyncio.timeout(self._timeout):
            connection = await _connect(self._host, self._port)
            if self._secure:
                await self._start_tls(connection, self._host, self._port)
            return connection

    async def _open_through(self, proxy: Proxy) -> Connection:
        """Straight to the proxy for http, through a tunnel for https."""
        try:
            async with asyncio.timeout(self._timeout):
                connection = await _connect(proxy.host, proxy.port)
                if proxy.secure:
                    await self._start_tls(connection, proxy.host, proxy.port)
                if not self._secure:
                    return connection
                target = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
                head = await exchange(connection, encode_head("CONNECT", target, {"host": target, **proxy.headers}))
        except (OSError, EOFError, HttpError) as error:
            failure = connection_error(error, host=f"the proxy {proxy.name}")
            raise ProviderError("proxy", failure.message) from error
        if head.status != 200:
            connection[1].transport.abort()
            raise proxy_refusal(head.status, proxy.name, target)
        async with asyncio.timeout(self._timeout):
            await self._start_tls(connection, self._host, 0)
        return connection

    async def _start_tls(self, connection: Connection, host: str, port: int) -> None:
        """Shake hands; a `port` that stays silent is asked whether it speaks plain HTTP instead."""
        if self._tls is None:
            self._tls = self._make_tls()
        handshake = asyncio.ensure_future(connection[1].start_tls(self._tls, server_hostname=host))
        try:
            await asyncio.wait({handshake}, timeout=_TLS_PATIENCE)
            if not handshake.done() and port and await _answers_in_clear(host, port):
                raise WrongProtocolError("it does not speak TLS; is it an http:// address?")
            await handshake
        except BaseException:
            handshake.cancel()
            connection[1].transport.abort()
            raise


async def _answers_in_clear(host: str, port: int) -> bool:
    """Whether a port speaks plain HTTP; servers that want TLS answer 400 to it."""
    with contextlib.suppress(OSError, EOFError, HttpError):
        connection = await _connect(host, port)
        head = await exchange(connection, encode_head("HEAD", "/", {"host": host, "connection": "close"}))
        connection[1].transport.abort()
        return head.status != 400
    return False


async def _connect(host: str, port: int) -> Connection:
    return await asyncio.open_connection(host, port, limit=READ, happy_eyeballs_delay=0.25)
