"""The HTTP side of the loopback model service: reads a request, sends the chosen turn, does what its fault says."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from tests.wire.encode import encode, error_body, error_event, sse
from tests.wire.turns import Cut, Fault, Turn

PATHS = {"/v1/messages": "anthropic", "/v1/responses": "openai", "/v1/chat/completions": "openai-chat"}


@dataclass(slots=True, eq=False)
class Seen:
    """One request as it came in."""

    format: str
    path: str
    headers: dict[str, str]  # names in lower case
    raw: bytes
    body: dict[str, Any]
    violations: list[str] = field(default_factory=list)
    turn: Turn | None = None
    at: float = field(default_factory=time.monotonic)

    @property
    def opening(self) -> str:
        """The system prompt and the first user message as text: what routes look at."""
        listed = self.body.get("messages") or self.body.get("input") or []
        first = next((m for m in listed if m.get("role") == "user"), {})
        system = self.body.get("system") or self.body.get("instructions") or ""
        if listed and listed[0].get("role") in ("system", "developer"):
            system = listed[0].get("content")
        return json.dumps([system, first], ensure_ascii=False)


class Owner(Protocol):
    """What the HTTP side needs of the service."""

    requests: list[Seen]
    connections: int
    cut: Cut | None
    closing: threading.Event

    def take(self, seen: Seen) -> Turn: ...
    def note_hung_up(self) -> None: ...


class Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), Exchange)

    def server_bind(self) -> None:
        # Without the reverse look-up of the host name that HTTPServer does.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.owner.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nothing to print."""


class Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Http

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        if self.path not in ("/v1/models", "/api/tags"):
            self._plain(404, {}, b"{}")
            return
        name = "test-model"
        listed = {"object": "list", "data": [{"id": name, "object": "model"}], "models": [{"name": name}]}
        self._plain(200, {"content-type": "application/json"}, json.dumps(listed).encode())

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        format = PATHS.get(self.path.partition("?")[0])
        if format is None:
            self._plain(404, {}, json.dumps(error_body("anthropic", 404, message=self.path)).encode())
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(raw)
            seen = Seen(format, self.path, headers, raw, body if isinstance(body, dict) else {})
        except ValueError:
            seen = Seen(format, self.path, headers, raw, {}, ["the body is not JSON"])
        owner = self.server.owner
        chosen = owner.take(seen)
        if chosen.delay_s:
            time.sleep(chosen.delay_s)
        try:
            self._answer(chosen, seen)
        except (OSError, _GoneError):
            owner.note_hung_up()
            self.close_connection = True

    def _answer(self, chosen: Turn, seen: Seen) -> None:
        fault = chosen.fault
        self._wait(chosen, "headers")
        if fault and fault.where == "headers" and self._fail(fault, seen.format):
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("request-id", f"req_{len(self.server.owner.requests):03}")
        self.end_headers()
        if chosen.raw is not None:
            self._send(chosen.raw, chosen)
            self._chunk(b"")
            return
        number = self.server.owner.requests.index(seen)
        stream = encode(seen.format, chosen, str(seen.body.get("model")), number)
        events = [sse(name, data) for name, data in stream.events]
        places = {0: "first", len(events) // 2: "middle", stream.stop: "last"}
        pending: list[bytes] = []
        for n, event in enumerate(events):
            where = places.get(n, "")
            if chosen.hold and chosen.hold.where == where:
                self._flush(pending, chosen)
                self._wait(chosen, where)
            if fault and fault.where == where:
                self._flush(pending, chosen)
                if self._fail(fault, seen.format):
                    return
            pending.append(event)
        self._flush(pending, chosen)
        self._chunk(b"")

    def _flush(self, pending: list[bytes], chosen: Turn) -> None:
        if chosen.cut is None and self.server.owner.cut is None:
            for event in pending:
                self._chunk(event)
        elif pending:
            self._send(b"".join(pending), chosen)
        pending.clear()

    def _send(self, data: bytes, chosen: Turn) -> None:
        cut = chosen.cut if chosen.cut is not None else self.server.owner.cut
        for piece in _pieces(data, cut):
            self._chunk(piece)

    def _chunk(self, data: bytes) -> None:
        """One HTTP chunk; an empty one ends the body."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _wait(self, chosen: Turn, where: str) -> None:
        if chosen.hold is None or chosen.hold.where != where:
            return
        chosen.hold.reached.set()
        while not chosen.hold.release.wait(0.02):
            self._still_there()

    def _fail(self, fault: Fault, format: str) -> bool:
        """Do what the fault says; whether the answer ends here."""
        early = fault.where == "headers"
        match fault.kind:
            case "status" | "error" if early:
                self._refuse(fault, format)
            case "status" | "error":
                self._chunk(sse(*error_event(format, fault.status, fault.code)))
                self._chunk(b"")
            case "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                self.connection.close()
            case "close":
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
            case "truncated" if early:
                self._plain(200, {"content-type": "text/event-stream"}, b"")
            case "truncated":
                self._chunk(b"")
            case "malformed" if early:
                self._plain(200, {"content-type": "text/html"}, b"<html>a proxy that answers itself</html>")
            case "malformed":
                named = b"" if format == "openai-chat" else b"event: content_block_delta\n"
                self._chunk(named + b'data: {"type": "content_block_delta", "delta"\n\n')
                return False
            case "stall" | "pings":
                self._stall(fault, early)
        return True

    def _refuse(self, fault: Fault, format: str) -> None:
        body = error_body(format, fault.status, fault.code) if fault.body is None else fault.body
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        kind = "text/html" if isinstance(body, str) else "application/json"
        self._plain(fault.status, {"content-type": kind, **fault.headers}, raw)

    def _stall(self, fault: Fault, early: bool) -> None:
        if early and fault.kind == "pings":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
        while not self.server.owner.closing.wait(0.02):
            self._still_there()
            if fault.kind == "pings":
                self._chunk(b'event: ping\ndata: {"type": "ping"}\n\n: still here\n\n')
        self.close_connection = True

    def _still_there(self) -> None:
        if self.server.owner.closing.is_set():
            raise _GoneError
        if isinstance(self.connection, ssl.SSLSocket):
            return
        try:
            if self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                raise _GoneError
        except BlockingIOError:
            return

    def _plain(self, code: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


class _GoneError(Exception):
    """The client, or this server, is no longer interested."""


def _pieces(data: bytes, cut: Cut | None) -> Iterable[bytes]:
    if cut is None:
        return [data]
    if callable(cut):
        return [piece for piece in cut(data) if piece]
    if isinstance(cut, int):
        return [data[i : i + cut] for i in range(0, len(data), cut)]
    edges = [0, *sorted({p for p in cut if 0 < p < len(data)}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]
