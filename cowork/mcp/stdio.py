"""The channel to a server that runs on this machine: a JSON message a line on its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from cowork.core.blocks import Json
from cowork.core.json_rpc import encode
from cowork.mcp import protocol
from cowork.mcp.protocol import Channel, McpError, ServerGone

_MOST_GARBAGE = 20  # lines that are no message, before the server is given up


class ServerProcess(Protocol):
    """A server's process; whoever starts it sees to it that it dies with us."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader

    def last_words(self) -> str: ...  # of its stderr, in one line
    async def stop(self) -> None: ...  # closes its input, waits, then ends it with all it started


class StdioChannel(Channel):
    """Messages over the pipes of a process."""

    def __init__(self, launch: Callable[[], Awaitable[ServerProcess]]) -> None:
        super().__init__(self._write, self._flush)
        self._launch = launch
        self._process: ServerProcess | None = None
        self._reading: asyncio.Task[None] | None = None
        self._gone: ServerGone | None = None

    async def open(self) -> None:
        self._process = await self._launch()
        self._reading = asyncio.create_task(self._read(self._process))

    async def _exchange(self, method: str, params: Json, headers: Mapping[str, str]) -> Any:
        return await self._peer.request(method, params)

    async def notify(self, method: str) -> None:
        self._peer.notify(method, {})
        await self._flush()

    def _write(self, message: Json) -> None:
        if self._process and not self._gone:
            with contextlib.suppress(OSError, RuntimeError):  # `_flush` tells
                self._process.stdin.write(encode(message))

    async def _flush(self) -> None:
        if self._gone or not self._process:
            raise self._gone or ServerGone("is not running")
        try:
            await self._process.stdin.drain()
        except (OSError, RuntimeError) as error:
            raise ServerGone("does not read its input any more") from error

    async def aclose(self) -> None:
        self._gone = self._gone or ServerGone("was stopped")
        self.on_close = lambda gone: None
        self._peer.fail(self._gone)
        await self._peer.stop()
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
                    if line.strip():
                        self._peer.take(protocol.decode(line))
                except McpError as problem:
                    garbage += 1
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
        self._peer.fail(self._gone)
        self.on_close(self._gone)
