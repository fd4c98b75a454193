"""A lean HTTP client: keep-alive HTTP/1.1 to one host, with next to nothing between socket and caller.

A general HTTP client takes several times the CPU for a long stream and most of the start-up time:
docs/decisions/own-wire-code.md has the figures.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import ssl
import sys
from collections.abc import Mapping
from dataclasses import field
from urllib.parse import unquote, urlsplit

from cowork.core.errors import ProviderError, UserError
from cowork.core.frozen import frozen
from cowork.core.later import later
from cowork.http.errors import NO_TLS, HttpError, WrongProtocolError, connection_error, one_line, proxy_refusal
from cowork.http.http1 import Head, body_of, encode_head, not_http, parse_head

with later(__name__):
    from urllib.request import getproxies, proxy_bypass

    from httpcore2 import default_ssl_context

CONNECT_TIMEOUT = 15.0
NETWORK_ERRORS = (OSError, EOFError, HttpError)
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_READ = 256 * 1024
_IDLE_CONNECTIONS = 20
_TLS_PATIENCE = 1.0  # seconds of silence in a handshake before the port is suspected to have no TLS
_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
_HINT = (
    "HTTPS_PROXY, HTTP_PROXY and ALL_PROXY take http://host:port or https://host:port, not SOCKS; "
    "NO_PROXY lists the hosts to reach without one."
)


@frozen
class Proxy:
    """An HTTP proxy; `name` is its address for people, without the password."""

    name: str
    host: str
    port: int
    secure: bool
    headers: Mapping[str, str] = field(repr=False)


def proxy_for(url: str) -> Proxy | None:
    """The proxy the environment names for a URL; looked up only where it names one at all."""
    if not any(name in os.environ or name.upper() in os.environ for name in _VARIABLES):
        return None
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "127.0.0.1", "::1") or proxy_bypass(host):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return _parse_proxy(found) if found else None


def _parse_proxy(url: str) -> Proxy:
    """The proxy at a URL, with its credentials percent-decoded."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise UserError("The proxy address in the environment cannot be read", _HINT) from None
    name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in parts.netloc:
        raise UserError(one_line(f"The proxy {name} cannot be used"), _HINT)
    headers: dict[str, str] = {}
    if "@" in parts.netloc:
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers["proxy-authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Proxy(name, parts.hostname, port, parts.scheme == "https", headers)


def default_tls() -> ssl.SSLContext:
    """Trust what the system trusts: OpenSSL's own place where there is something in it, else a search for it."""
    paths = ssl.get_default_verify_paths()
    hashed = os.listdir(paths.capath) if paths.capath else []
    has_own = sys.platform == "linux" and (paths.cafile or any(name.endswith(".0") for name in hashed))
    context = ssl.create_default_context() if has_own else default_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Response:
    """An answer whose head has come. Close it when done: a connection that was read to its end is kept."""

    def __init__(self, idle: list[Connection], connection: Connection, head: Head) -> None:
        self.status, self.headers = head.status, head.headers
        self._idle, self._connection, self._head = idle, connection, head
        self._closed = False
        try:
            self._body = body_of(head)
        except HttpError:
            connection[1].transport.abort()
            raise

    async def read(self) -> bytes:
        """The next bytes of the body, a network read at a time; empty at its end."""
        while not self._body.done:
            data = await self._connection[0].read(_READ)
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
            if self._body.done and self._head.keep_alive and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(self._connection)
            else:
                self._connection[1].transport.abort()


class HttpClient:
    """Requests to one URL over connections that are kept for the life of the client."""

    def __init__(self, url: str, *, connect_timeout: float = CONNECT_TIMEOUT) -> None:
        self.proxy = proxy_for(url)
        self._idle: list[Connection] = []
        self._tls: ssl.SSLContext | None = None
        self._timeout = connect_timeout
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {"host": parts.netloc.rpartition("@")[2], "accept-encoding": "identity"}
        if self.proxy and not self._secure:
            self._target = f"http://{self._headers['host']}{self._target}"
            self._headers |= self.proxy.headers

    async def send(self, method: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """Send the request and read the head of its answer.

        A service may close a kept connection just when the request is sent, unread. That is no failed attempt: the
        request goes out again at once on a new connection.
        """
        length = {"content-length": str(len(body))} if body or method == "POST" else {}
        request = encode_head(method, self._target, {**self._headers, **headers, **length}) + body
        while self._idle:
            kept = self._idle.pop()
            if kept[0].at_eof() or kept[1].is_closing():
                kept[1].transport.abort()
                continue
            with contextlib.suppress(OSError, EOFError):
                head = await _exchange(kept, request)
                if head.status != 408 or head.keep_alive:  # which some say when they close
                    return Response(self._idle, kept, head)
                kept[1].transport.abort()
            break
        connection = await self.connect()
        return Response(self._idle, connection, await _exchange(connection, request))

    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop()[1].transport.abort()
        await asyncio.sleep(0)  # in which the sockets are closed

    async def connect(self) -> Connection:
        """Open a connection: TCP, TLS, and either of them through an HTTP proxy."""
        if self.proxy is not None:
            return await self._open_through(self.proxy)
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
                head = await _exchange(connection, encode_head("CONNECT", target, {"host": target, **proxy.headers}))
        except NETWORK_ERRORS as error:
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
            self._tls = default_tls()
        handshake = asyncio.ensure_future(connection[1].start_tls(self._tls, server_hostname=host))
        try:
            await asyncio.wait({handshake}, timeout=_TLS_PATIENCE)
            if not handshake.done() and port and await _answers_in_clear(host, port):
                raise WrongProtocolError(NO_TLS)
            await handshake
        except BaseException:
            handshake.cancel()
            connection[1].transport.abort()
            raise


async def _answers_in_clear(host: str, port: int) -> bool:
    """Whether a port speaks plain HTTP; servers that want TLS answer 400 to it."""
    with contextlib.suppress(*NETWORK_ERRORS):
        connection = await _connect(host, port)
        head = await _exchange(connection, encode_head("HEAD", "/", {"host": host, "connection": "close"}))
        connection[1].transport.abort()
        return head.status != 400
    return False


async def _connect(host: str, port: int) -> Connection:
    return await asyncio.open_connection(host, port, limit=_READ, happy_eyeballs_delay=0.25)


async def _exchange(connection: Connection, request: bytes) -> Head:
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
