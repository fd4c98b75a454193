"""The channel to a server that runs on this machine: a JSON message a line on its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from cowork.core.blocks import Json
from cowork.mcp import protocol
from cowork.mcp.protocol import McpError, OnMessage, ServerGone

_MOST_GARBAGE = 20  # lines that are no message, before the server is given up


class ServerProcess(Protocol):
    """A server's process; whoever starts it sees to it that it dies with us."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader

    def last_words(self) -> str: ...  # of its stderr, in one line
    async def stop(self) -> None: ...  # closes its input, waits, then ends it with all it started


class StdioChannel:
    """Messages over the pipes of a process."""

    remote = False

    def __init__(self, launch: Callable[[], Awaitable[ServerProcess]]) -> None:
        self.on_message: OnMessage = lambda message: None
        self.on_close: Callable[[ServerGone], None] = lambda gone: None
        self.version = ""
        self._launch = launch
        self._process: ServerProcess | None = None
        self._reading: asyncio.Task[None] | None = None
        self._pending: dict[int, asyncio.Future[Json]] = {}
        self._gone: ServerGone | None = None

    async def open(self) -> None:
        self._process = await self._launch()
        self._reading = asyncio.create_task(self._read(self._process))

    async def request(self, message: Json, headers: Mapping[str, str]) -> Json:
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[message["id"]] = answer
        try:
            await self.notify(message)
            return await answer
        finally:
            self._pending.pop(message["id"], None)

    async def notify(self, message: Json) -> None:
        if self._gone or self._process is None:
            raise self._gone or ServerGone("is not running")
        try:
            self._process.stdin.write(protocol.encode(message) + b"\n")
            await self._process.stdin.drain()
        except (OSError, RuntimeError) as error:
            raise ServerGone("does not read its input any more") from error

    async def cancel(self, request_id: int) -> None:
        with contextlib.suppress(McpError):
            await self.notify(protocol.notification("notifications/cancelled", {"requestId": request_id}))

    async def aclose(self) -> None:
        self._gone = self._gone or ServerGone("was stopped")
        self.on_close = lambda gone: None
        if self._process:
            await self._process.stop()
        if self._reading:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self, process: ServerProcess) -> None:
        why = "ended"
        garbage = 0
        try:
            while line := await process.stdout.readline():
                try:
                    self._take(line)
                except McpError as problem:
                    garbage += bool(line.strip())
                    why = str(problem)
                    if garbage > _MOST_GARBAGE:
                        break
        except ValueError:  # the reader's word for a line that is longer than its limit
            why = f"sent a message longer than {protocol.MOST_BYTES >> 20} MB"
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        await asyncio.sleep(0.05)  # in which its last words arrive
        said = process.last_words()
        self._gone = ServerGone(f"{why}{f' (it said: {said})' if said else ''}")
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(self._gone)
        self.on_close(self._gone)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        message = protocol.decode(line)
        if "method" in message:
            self.on_message(message)
            return
        id = message.get("id")
        answer = self._pending.get(id) if isinstance(id, int) else None
        if answer and not answer.done():  # an answer to what was cancelled comes too late
            answer.set_result(message)
