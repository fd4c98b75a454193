"""A remote server on loopback for tests: streamable HTTP in both eras, and the authorization server of its own."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

Json = dict[str, Any]
TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("echo", "slow", "broken")]


@dataclass
class Remote:
    """What the server does, and what it was asked."""

    era: str = "modern"
    login: bool = False
    lasts: int = 3600  # seconds that a token does
    asked: list[tuple[str, str, Json, Json]] = field(default_factory=list)  # method, path, headers, body
    tokens: set[str] = field(default_factory=set)
    refreshed: int = 0
    challenge: str = ""  # of the login under way
    wrong_state: bool = False
    sessions: int = 0
    session: str = "s"  # what the name of one begins with
    closed: threading.Event = field(default_factory=threading.Event)  # a client left a stream
    url: str = ""

    def calls(self, method: str) -> list[tuple[Json, Json]]:
        """(headers, body) of the messages with that method."""
        return [(headers, body) for _, _, headers, body in self.asked if body.get("method") == method]

    def token(self) -> Json:
        token = f"token-{len(self.tokens)}-{self.refreshed}"
        self.tokens.add(token)
        return {"access_token": token, "refresh_token": "again", "expires_in": self.lasts, "token_type": "Bearer"}


@contextmanager
def remote(**ways: Any) -> Iterator[Remote]:
    """The server while it runs."""
    facts = Remote(**ways)
    handler = type("Bound", (_Handler,), {"remote": facts})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    facts.url = f"http://127.0.0.1:{server.server_port}/mcp"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield facts
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    remote: Remote

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        base = self.remote.url.removesuffix("/mcp")
        self.remote.asked.append(("GET", self.path, dict(self.headers), {}))
        match urlsplit(self.path).path:
            case "/.well-known/oauth-protected-resource/mcp":
                self._say({"resource": self.remote.url, "authorization_servers": [base], "scopes_supported": ["use"]})
            case "/.well-known/oauth-authorization-server":
                ends = {f"{name}_endpoint": f"{base}/{name}" for name in ("authorization", "token", "registration")}
                self._say({"issuer": base, "code_challenge_methods_supported": ["S256"], **ends})
            case "/authorization":
                self._authorize(dict(parse_qsl(urlsplit(self.path).query)))
            case "/mcp" if self.headers.get("last-event-id") == "7":
                self._stream([_answer(self.remote.asked[-2][3]["id"], "taken up")])
            case "/mcp" if self.remote.era == "legacy":
                self._stream([{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}])
            case _:
                self._say({}, 404)

    def do_DELETE(self) -> None:
        self.remote.asked.append(("DELETE", self.path, dict(self.headers), {}))
        self._say({})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/token":
            return self._tokens(dict(parse_qsl(raw.decode())))
        body = json.loads(raw)
        self.remote.asked.append(("POST", self.path, dict(self.headers), body))
        if self.path == "/registration":
            return self._say({"client_id": "c1", "token_endpoint_auth_method": "none"}, 201)
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        if self.remote.login and bearer not in self.remote.tokens:
            where = f"{self.remote.url.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp"
            return self._say({}, 401, {"www-authenticate": f'Bearer resource_metadata="{where}"'})
        return self._message(body)

    # ------------------------------------------------------------ the protocol

    def _message(self, body: Json) -> None:
        modern, method, id = self.remote.era == "modern", body.get("method", ""), body.get("id")
        if id is None:
            return self._say({}, 202)
        if method == ("initialize" if modern else "server/discover"):
            return self._say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}, 400)
        session = f"{self.remote.session}{self.remote.sessions}"
        if method == "initialize":
            self.remote.sessions += 1
            facts = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
            return self._say(
                _result(id, facts), 200, {"mcp-session-id": f"{self.remote.session}{self.remote.sessions}"}
            )
        if not modern and self.headers.get("mcp-session-id") != session:
            return self._say({}, 404)
        if method == "server/discover":
            return self._say(_result(id, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}))
        if method == "tools/list":
            return self._say(_result(id, {"tools": TOOLS}))
        return self._called(id, body["params"])

    def _called(self, id: int, params: Json) -> None:
        if params["name"] == "broken":  # the stream ends before the answer
            half = b'id: 8\ndata: {"jsonrpc": "2.' if params["arguments"].get("half") else b""
            return self._stream([{"jsonrpc": "2.0", "method": "notifications/message"}], b"id: 7\nretry: 10\n", half)
        token = params.get("_meta", {}).get("progressToken")
        told = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
        progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
        if params["name"] == "slow":
            self._stream([progress])
            try:
                while True:  # until the client leaves
                    self.wfile.write(b": still here\n\n")
                    self.closed_or_later()
            except OSError:
                self.remote.closed.set()
            return None
        return self._stream([progress, _answer(id, f"echo: {params['arguments'].get('text')}")])

    def closed_or_later(self) -> None:
        self.wfile.flush()
        self.remote.closed.wait(0.02)

    # ------------------------------------------------------------ the login

    def _authorize(self, asked: Json) -> None:
        self.remote.challenge = asked["code_challenge"]
        assert (asked["code_challenge_method"], asked["resource"]) == ("S256", self.remote.url)
        back = {"code": "the-code", "state": "another" if self.remote.wrong_state else asked["state"]}
        self._say({}, 302, {"location": f"{asked['redirect_uri']}?{urlencode(back)}"})

    def _tokens(self, form: Json) -> None:
        self.remote.asked.append(("POST", "/token", dict(self.headers), form))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proved = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.remote.challenge
        if form["grant_type"] == "refresh_token" and form["refresh_token"] == "again":
            self.remote.refreshed += 1
        elif not proved or form.get("code") != "the-code":
            return self._say({"error": "invalid_grant"}, 400)
        return self._say(self.remote.token())

    # ------------------------------------------------------------ answers

    def _say(self, body: Json, status: int = 200, headers: Json | None = None) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": len(raw), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, messages: list[Json], head: bytes = b"", half: bytes = b"") -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        if half:
            self.send_header("content-length", "9999")
        self.end_headers()
        for message in messages:
            self.wfile.write(head + b"data: " + json.dumps(message).encode() + b"\n\n")
        self.wfile.write(half)
        self.wfile.flush()


def _result(id: int, found: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": {"serverInfo": {"name": "far", "version": "1"}, **found}}


def _answer(id: int, text: str) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}}
