"""What both ends say: revisions, errors, and the port over which messages travel."""

from __future__ import annotations

import asyncio
import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from cowork import __version__
from cowork.core import json_rpc
from cowork.core.blocks import Json
from cowork.core.format import one_line
from cowork.core.frozen import frozen
from cowork.core.hygiene import visible_line
from cowork.core.json_rpc import Answer, Hear, Peer, RpcError

T = TypeVar("T")
MODERN = "2026-07-28"  # stateless: every request says who we are
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first: a session begun by `initialize`
MOST_BYTES = 16 << 20  # of one message

MODERN_ERRORS = HEADER_MISMATCH, _MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
CLIENT_INFO = {"name": "cowork", "title": "cowork", "version": __version__}
CAPABILITIES: Json = {"elicitation": {"form": {}, "url": {}}}
META = "io.modelcontextprotocol/"
_PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?|")
CANCEL = "notifications/cancelled"


class McpError(Exception):
    """A server refused, broke the protocol or is gone; the text says so in one line."""

    def __init__(self, text: str, code: int = 0, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


class ServerGone(McpError):
    """The connection ended; whatever was under way is lost."""


class SessionEnded(ServerGone):
    """A remote server has forgotten the session; it can be begun anew."""


class LoginNeeded(McpError):
    """The server wants a person to log in first."""


@frozen
class ServerFacts:
    """What a server said of itself and has."""

    version: str  # of the protocol
    name: str
    release: str
    instructions: str
    capabilities: Json
    tools: list[Json]
    prompts: list[Json]

    def can(self, what: str) -> bool:
        return isinstance(self.capabilities.get(what), dict)


class Channel(ABC):
    """Carries requests to one server and back."""

    remote = False
    version = ""  # the revision in use, once it is known
    on_close: Callable[[ServerGone], None] = staticmethod(lambda gone: None)

    def attach(self, answer: Answer, hear: Hear) -> None:
        """What the server asks goes to `answer`, what it tells to `hear`."""
        self._peer = Peer(self._write, answer, hear, cancel=CANCEL, tells_cancelled=False, flush=self._flush)

    async def open(self) -> None:  # noqa: B027 (not every channel has something to do)
        """Make ready for the first request."""

    async def request(self, method: str, params: Json, headers: Mapping[str, str]) -> Json:
        """The result of a request."""
        try:
            found = await self._exchange(method, params, headers)
        except RpcError as error:
            raise refusal_of(error) from error
        if not isinstance(found, dict):
            raise McpError("answered without a result")
        return found

    async def _exchange(self, method: str, params: Json, headers: Mapping[str, str]) -> Any:
        return await self._peer.request(method, params)

    async def notify(self, method: str) -> None:
        self._peer.notify(method, {})
        await self._flush()

    @abstractmethod
    def _write(self, message: Json) -> None: ...

    async def _flush(self) -> None:  # noqa: B027
        """Wait until what was written is on its way."""

    @abstractmethod
    async def aclose(self) -> None: ...

    async def listen(self) -> None:  # noqa: B027
        """Hear what the server says by itself, where that needs a stream of its own."""


class Background(set[asyncio.Task[Any]]):
    """Tasks under way, which end with what started them."""

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    async def stop(self) -> None:
        for task in (ending := list(self)):
            task.cancel()
        if ending:
            await asyncio.wait(ending)


Elicit = Callable[[Json], Awaitable[Json]]
"""Puts a server's question to the person: `params` of elicitation/create -> its result."""


async def unless_stopped(work: Awaitable[T]) -> T:
    """What the work gives. That somebody else stopped it is an error of the server, and no cancel of who waits."""
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task and task.cancelling():
            raise
        raise ServerGone("was stopped") from None


def decode(raw: bytes) -> Json:
    """A message from its bytes; McpError when it is none."""
    try:
        return json_rpc.decode(raw)
    except RpcError as problem:
        if problem.code != json_rpc.PARSE_ERROR:
            raise McpError("sent JSON that is not a message") from problem
        shown = visible_line(raw[:60].decode("utf-8", "replace"))
        raise McpError(f"sent something that is not JSON: {shown}") from problem


def refusal_of(error: RpcError) -> McpError:
    """A server's error answer, in one line."""
    return McpError(one_line(error.message, 500), error.code, error.data)


def header_value(value: object) -> str:
    """A value as a header can carry it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _PLAIN.fullmatch(text) and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="
