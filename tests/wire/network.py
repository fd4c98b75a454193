"""Networks as they are out there: a server that answers with any bytes, and an HTTP and CONNECT proxy."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.wire.encode import encode, sse
from tests.wire.turns import Turn

FOLDER = Path(__file__).parent
AUTHORITY = FOLDER / "authority.pem"  # signed the other one
SIGNED = FOLDER / "signed.pem"  # for model.test, proxy.test, localhost, 127.0.0.1 and ::1

Play = Callable[[socket.socket], None]


def stream_of(format: str, turn: Turn) -> bytes:
    """The body of an answer that streams this turn."""
    return b"".join(sse(name, data) for name, data in encode(format, turn, "test-model", 1).events)


def read_request(peer: socket.socket) -> bytes:
    """One request with its body; empty when the client has closed."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        data = peer.recv(65536)
        if not data:
            return b""
        raw += data
    head, _, body = raw.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += peer.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(body: bytes, *headers: str, status: str = "200 OK", length: bool = True) -> bytes:
    """A response with these headers, and a length unless told not to."""
    lines = [f"HTTP/1.1 {status}", *headers, *([f"Content-Length: {len(body)}"] if length else [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(body: bytes, size: int = 7) -> bytes:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def replying(*responses: bytes) -> Play:
    """Answer one request with each of these, then close."""

    def play(peer: socket.socket) -> None:
        for response in responses:
            if not read_request(peer):
                return
            peer.sendall(response)

    return play


class Listener:
    """Accepts connections on loopback, each in a thread of its own."""

    def __init__(self, certificate: Path | None = None, family: socket.AddressFamily = socket.AF_INET) -> None:
        self.connections = 0
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
        self._socket = socket.socket(family)
        self._socket.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self._socket.listen(20)
        self.port = int(self._socket.getsockname()[1])
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def serve(self, peer: socket.socket, number: int) -> None:
        """Talk to one client; `number` counts connections from 0."""
        raise NotImplementedError

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._socket.accept()
                number, self.connections = self.connections, self.connections + 1
                threading.Thread(target=self._talk, args=(peer, number), daemon=True).start()

    def _talk(self, peer: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):
            if self._context is not None:
                peer = self._context.wrap_socket(peer, server_side=True)
            self._open.append(peer)
            try:
                self.serve(peer, number)
            finally:
                peer.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for each in (self._socket, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class RawServer(Listener):
    """Plays its n-th play on the n-th connection, the last one on all later ones."""

    def __init__(
        self, *plays: Play, certificate: Path | None = None, family: socket.AddressFamily = socket.AF_INET
    ) -> None:
        super().__init__(certificate, family)
        self._plays = plays
        self._secure = certificate is not None
        self._family = family

    def serve(self, peer: socket.socket, number: int) -> None:
        self._plays[min(number, len(self._plays) - 1)](peer)

    def url(self, format: str, scheme: str = "") -> str:
        host = "[::1]" if self._family == socket.AF_INET6 else "127.0.0.1"
        scheme = scheme or ("https" if self._secure else "http")
        return f"{scheme}://{host}:{self.port}" + ("" if format == "anthropic" else "/v1")


class ProxyServer(Listener):
    """Forwards to the port behind it whatever host is asked for. `login` is `user:password`, if it wants one."""

    def __init__(self, port: int, *, login: str = "", refuse: str = "", certificate: Path | None = None) -> None:
        super().__init__(certificate)
        self._behind = port
        self._login = login
        self._refuse = refuse
        self.asked: list[str] = []  # the first line of each request

    def serve(self, peer: socket.socket, number: int) -> None:
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += peer.recv(65536) or b"\r\n\r\n"
        head, _, rest = raw.partition(b"\r\n\r\n")
        first, *headers = head.decode().split("\r\n")
        self.asked.append(first)
        wanted = f"proxy-authorization: basic {base64.b64encode(self._login.encode()).decode()}"
        if self._login and not any(line.lower() == wanted.lower() for line in headers):
            peer.sendall(answer(b"", status="407 Proxy Authentication Required"))
            return
        if self._refuse:
            peer.sendall(answer(b"", status=self._refuse))
            return
        with socket.create_connection(("127.0.0.1", self._behind)) as behind:
            if first.startswith("CONNECT "):
                peer.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                method, url, version = first.split(" ")
                path = "/" + url.partition("://")[2].partition("/")[2]
                kept = [line for line in headers if not line.lower().startswith("proxy-")]
                behind.sendall("\r\n".join([f"{method} {path} {version}", *kept, "", ""]).encode() + rest)
            back = threading.Thread(target=_pump, args=(behind, peer), daemon=True)
            back.start()
            _pump(peer, behind)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
