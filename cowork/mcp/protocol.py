"""What both ends say: revisions, JSON-RPC messages, errors, and the port over which messages travel."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from cowork import __version__
from cowork.core.blocks import Json
from cowork.core.hygiene import visible_line

MODERN = "2026-07-28"  # stateless: every request says who we are
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first: a session begun by `initialize`
MOST_BYTES = 16 << 20  # of one message

HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32601, -32602, -32603
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)

CLIENT_INFO = {"name": "cowork", "title": "cowork", "version": __version__}
CAPABILITIES: Json = {"elicitation": {"form": {}, "url": {}}}
_META = "io.modelcontextprotocol/"
SUBSCRIPTION = f"{_META}subscriptionId"
_LONGEST = 500


class McpError(Exception):
    """A server refused, broke the protocol or is gone; the text says so in one line."""

    def __init__(self, text: str, code: int = 0, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


class ServerGone(McpError):
    """The connection ended; whatever was under way is lost."""


class LoginNeeded(McpError):
    """The server wants a person to log in first."""

    def __init__(self, text: str, challenge: str = "") -> None:
        super().__init__(text)
        self.challenge = challenge  # what its WWW-Authenticate header said


OnMessage = Callable[[Json], None]


class Channel(Protocol):
    """Carries messages to one server and back; notifications and requests of the server go to `on_message`."""

    on_message: OnMessage
    on_close: Callable[[ServerGone], None]
    version: str  # the revision in use, once it is known
    remote: bool

    async def open(self) -> None: ...
    async def request(self, message: Json, headers: Mapping[str, str]) -> Json: ...
    async def notify(self, message: Json) -> None: ...
    async def cancel(self, request_id: int) -> None: ...
    async def aclose(self) -> None: ...


Elicit = Callable[[Json], Awaitable[Json]]
"""Puts a server's question to the person: `params` of elicitation/create -> its result."""


def request(id: int, method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, params: Json | None = None) -> Json:
    return {"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {})


def result(id: Any, value: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: Any, code: int, message: str, data: Any = None) -> Json:
    found: Json = {"code": code, "message": message} | ({"data": data} if data is not None else {})
    return {"jsonrpc": "2.0", "id": id, "error": found}


def modern_meta() -> Json:
    """What every request of the stateless revision carries."""
    return {
        f"{_META}protocolVersion": MODERN,
        f"{_META}clientInfo": CLIENT_INFO,
        f"{_META}clientCapabilities": CAPABILITIES,
    }


def decode(raw: bytes | str) -> Json:
    """A message from its bytes; McpError when it is none."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as problem:
        shown = raw[:60].decode("utf-8", "replace") if isinstance(raw, bytes) else raw[:60]
        raise McpError(f"sent something that is not JSON: {visible_line(shown)}") from problem
    if not isinstance(found, dict):
        raise McpError("sent JSON that is not a message")
    return found


def encode(message: Json) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def result_of(message: Json) -> Json:
    """The result in a response, or its error raised."""
    if isinstance(refused := message.get("error"), dict):
        code = refused.get("code")
        said = one_line(str(refused.get("message") or "no reason given"))
        raise McpError(said, code if isinstance(code, int) else 0, refused.get("data"))
    found = message.get("result")
    if not isinstance(found, dict):
        raise McpError("answered without a result")
    return found


def one_line(text: str, most: int = _LONGEST) -> str:
    """A server's words in one line, without anything that could steer a terminal."""
    flat = visible_line(" ".join(text[: most * 4].split()))
    return flat if len(flat) <= most else flat[: most - 1] + "…"
