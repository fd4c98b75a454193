"""A page that follows a session while it runs, served to this machine alone and to whoever has its token.

It only reads: GET is all it knows. A browser that another site sends here is refused by its Host, Origin or
Sec-Fetch-Site, and without the cookie that the token was exchanged for nothing is told at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, urlsplit

from cowork.reports.page import Packer, live_page, to_script
from cowork.sessions.index import SessionEntry
from cowork.sessions.log.lock import holder
from cowork.sessions.log.reader import read_from
from cowork.sessions.log.writer import LOCK, LOG

HOST = "127.0.0.1"
_LOOK_S = 0.25  # how often the log is looked at
_PULSE_S = 15.0  # how often a silent stream says that it is there
_HEAD_BYTES, _HEAD_S = 16_384, 10.0
_STREAMS = 8  # open at once
_SAFE = (
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
)


@dataclass
class WatchServer:
    """Serves one session. `url` opens it once; the browser that used it keeps a cookie."""

    folder: Path
    entry: SessionEntry
    port: int = 0
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    _cookie: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    _streams: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/?token={self._token}"

    async def start(self) -> asyncio.Server:
        """Listen on this machine; without a port of one's own, any that is free."""
        server = await asyncio.start_server(self._answer, HOST, self.port, limit=_HEAD_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            try:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
                method, url, headers = _parse(head)
            except ValueError:
                await _say(writer, HTTPStatus.BAD_REQUEST)
            else:
                await self._route(method, url, headers, writer)
            finally:
                writer.close()

    async def _route(
        self, method: str, url: SplitResult, headers: Mapping[str, str], writer: asyncio.StreamWriter
    ) -> None:
        kept_as = f"cowork_{self.port}"  # browsers do not keep the cookies of two ports apart
        pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        cookie = next((value for name, _, value in pairs if name == kept_as), "")
        if method != "GET":
            await _say(writer, HTTPStatus.METHOD_NOT_ALLOWED, "Allow: GET\r\n")
        elif not self._is_from_here(headers):
            await _say(writer, HTTPStatus.FORBIDDEN)
        elif url.path == "/" and self._accepts(parse_qs(url.query).get("token", [""])[0]):
            cookie = f"Set-Cookie: {kept_as}={self._cookie}; HttpOnly; SameSite=Strict; Path=/\r\n"
            await _say(writer, HTTPStatus.SEE_OTHER, f"Location: /\r\n{cookie}")
        elif not secrets.compare_digest(cookie.encode(), self._cookie.encode()):
            await _say(writer, HTTPStatus.FORBIDDEN)
        elif url.path == "/":
            known = {name: getattr(self.entry, name) for name in ("id", "title", "cwd", "branch", "model")}
            page = live_page(known | {"started": self.entry.created, "live": True, "redacted": False})
            await _say(writer, HTTPStatus.OK, "Content-Type: text/html; charset=utf-8\r\n", page.encode())
        elif url.path != "/events":
            await _say(writer, HTTPStatus.NOT_FOUND)
        elif self._streams >= _STREAMS:
            await _say(writer, HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            await self._stream(headers.get("last-event-id", ""), writer)

    def _is_from_here(self, headers: Mapping[str, str]) -> bool:
        hosts = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        origin, sent_by = headers.get("origin"), headers.get("sec-fetch-site", "none")
        known = origin is None or origin in {f"http://{host}" for host in hosts}
        return headers.get("host") in hosts and known and sent_by in ("none", "same-origin")

    def _accepts(self, token: str) -> bool:
        """Whether this is the token; it opens the page once."""
        if not self._token or not secrets.compare_digest(token.encode(), self._token.encode()):
            return False
        self._token = ""
        return True

    async def _stream(self, had: str, writer: asyncio.StreamWriter) -> None:
        """Send every event, then each that comes; `had` says how far in the log a browser had come."""
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{_SAFE}Connection: close\r\n\r\n".encode())
        self._streams += 1
        try:
            await self._follow(writer, int(had) if had.isdecimal() and len(had) < 20 else 0)
        finally:
            self._streams -= 1

    async def _follow(self, writer: asyncio.StreamWriter, had: int) -> None:
        packer, offset, silent = Packer(), 0, 0.0
        while not writer.is_closing():
            over = holder(self.folder / LOCK) is None  # asked first, so that nothing written before is missed
            events, offset = read_from(self.folder / LOG, offset)
            part = packer.pack(events)
            if events and offset > had:
                writer.write(f"id: {offset}\ndata: {to_script(part)}\n\n".encode())
                silent = 0.0
            elif not events and over:
                writer.write(b"event: ended\ndata: {}\n\n")
                await writer.drain()
                return
            elif silent >= _PULSE_S:
                writer.write(b": still here\n\n")
                silent = 0.0
            await writer.drain()
            if not events:
                await asyncio.sleep(_LOOK_S)
                silent += _LOOK_S


async def _say(writer: asyncio.StreamWriter, status: HTTPStatus, headers: str = "", body: bytes = b"") -> None:
    text = body or f"{status.phrase}\n".encode()
    kind = "" if "Content-Type" in headers else "Content-Type: text/plain\r\n"
    head = f"HTTP/1.1 {status} {status.phrase}\r\n{headers}{kind}{_SAFE}Content-Length: {len(text)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + text)
    await writer.drain()


def _parse(head: bytes) -> tuple[str, SplitResult, dict[str, str]]:
    """The method, target and headers of a request; a ValueError if it is none."""
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, version = first.split(" ")
    pairs = [(name.strip().lower(), value.strip()) for name, value in (line.split(":", 1) for line in lines)]
    headers = dict(pairs)
    twice = len(headers) < len(pairs)  # it could mean two things
    if twice or not version.startswith("HTTP/1.") or not target.startswith("/"):
        raise ValueError("not a request")
    return method, urlsplit(target), headers
