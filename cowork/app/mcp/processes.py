"""Servers on this machine: a JSON message a line on their standard streams.

They run in the reaper, so that none of their processes outlives cowork, even on kill -9.
"""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from cowork.core.blocks import Json
from cowork.core.errors import ToolError, UserError
from cowork.core.format import one_line
from cowork.core.hygiene import clean_environ
from cowork.core.json_rpc import encode
from cowork.mcp.entries import ServerEntry
from cowork.mcp.protocol import MOST_BYTES, Channel, McpError, ServerGone, decode
from cowork.tools.base import TreeState
from cowork.tools.shell import jobs
from cowork.tools.shell import reaper as script

_PATIENCE = 1.0  # seconds for a server to end by itself once its input is closed
_LAST_WORDS = 4_096
_MOST_GARBAGE = 20  # lines that are no message, before the server is given up
# Says in the box that the box is there, before the server has a word.
_BEGAN = b"cowork: the box is made\n"
_SHIM = ("/bin/sh", "-c", f"echo '{_BEGAN.decode().strip()}' >&2; exec \"$@\"", "sh")


class StdioChannel(Channel):
    """Messages over the pipes of a process."""

    def __init__(self, entry: ServerEntry, tree: TreeState, root: Path, environ: Mapping[str, str]) -> None:
        self._given = entry, tree, root, environ
        self._process: LocalServer | None = None
        self._reading: asyncio.Task[None] | None = None
        self._gone: ServerGone | None = None

    async def open(self) -> None:
        self._process = await start_server(*self._given)
        self._reading = asyncio.create_task(self._read(self._process))

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

    async def _read(self, process: LocalServer) -> None:
        why, garbage = "ended", 0
        try:
            while line := await process.stdout.readline():
                try:
                    if line.strip():
                        self._peer.take(decode(line))
                except McpError as problem:
                    why, garbage = str(problem), garbage + 1
                    if garbage > _MOST_GARBAGE:
                        break
        except ValueError:  # the reader's word for a line that is longer than its limit
            why = f"sent a message longer than {MOST_BYTES >> 20} MB"
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        await asyncio.sleep(0.05)  # in which its last words arrive
        said = process.last_words()
        self._gone = ServerGone(f"{why}{f' (it said: {said})' if said else ''}")
        self._peer.fail(self._gone)
        self.on_close(self._gone)


class LocalServer:
    """A server's process, its pipes, and the keeper that ends it with all it started."""

    def __init__(self, control: asyncio.StreamReader, order: asyncio.StreamWriter) -> None:
        self.stdin: asyncio.StreamWriter
        self.stdout = asyncio.StreamReader(limit=MOST_BYTES)
        self._control, self._order = control, order
        self._said = bytearray()
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self._heard = asyncio.Event()

    async def attach(self, stdin: int, stdout: int, stderr: int) -> None:
        """Connect the pipes."""
        loop = asyncio.get_running_loop()
        into, flow = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(stdin, "wb", 0)
        )
        self.stdin = asyncio.StreamWriter(into, flow, None, loop)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self.stdout), os.fdopen(stdout, "rb", 0))
        complaints = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(complaints), os.fdopen(stderr, "rb", 0))
        self._tasks = [asyncio.create_task(self._hear(complaints)), asyncio.create_task(self._watch())]

    async def began(self) -> bool:
        """Whether its box could be made: what a box hides may go away before it is mounted, and then nothing ran."""
        while not self._said.startswith(_BEGAN):
            if self._ended.is_set() or len(self._said) >= len(_BEGAN):
                return False
            self._heard.clear()
            await self._heard.wait()
        del self._said[: len(_BEGAN)]
        return True

    def last_words(self) -> str:
        lines = [line for line in bytes(self._said).decode("utf-8", "replace").splitlines() if line.strip()]
        return one_line(lines[-1], 200) if lines else ""

    async def stop(self) -> None:
        """Close its input and wait; what is left then is ended, politely first."""
        with contextlib.suppress(OSError, RuntimeError):
            self.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), _PATIENCE)
        if not self._ended.is_set():
            with contextlib.suppress(OSError):
                self._order.write(b"T")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), script.TERM_GRACE + script.KILL_TIME)
        self._order.transport.abort()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _hear(self, complaints: asyncio.StreamReader) -> None:
        """Keep the end of what it complains of; a flood of it is read and dropped."""
        while data := await complaints.read(1 << 16):
            self._said += data
            del self._said[:-_LAST_WORDS]
            self._heard.set()

    async def _watch(self) -> None:
        """Wait for the keeper's last report: that it is over, or why it never began."""
        with contextlib.suppress(OSError):
            told = (await self._control.read())[script.REPORT_AT :]
            if told and "error" in (report := marshal.loads(told)):
                self._said += f"\n{report['error']}".encode()
        self._ended.set()
        self._heard.set()


async def start_server(entry: ServerEntry, tree: TreeState, root: Path, environ: Mapping[str, str]) -> LocalServer:
    """Start a server with an environment of its own: nothing that looks like a key, and what its entry names."""
    own = clean_environ(environ) | {"CLAUDE_PROJECT_DIR": str(root)} | dict(entry.env)
    cwd = Path(os.path.realpath(root / Path(entry.cwd or ".").expanduser()))
    if not cwd.is_dir():
        raise McpError(f"has the folder {cwd}, which is not there")
    named = os.path.expanduser(entry.command)
    program = shutil.which(os.path.join(cwd, named) if "/" in named else named, path=own.get("PATH", os.defpath))
    if program is None:
        raise McpError(f"cannot be started: {one_line(entry.command, 100)} is not installed")
    for _ in range(jobs.TRIES + 1):
        try:
            argv = [program, *entry.args]
            if entry.box and tree.wrap_server is None:
                raise McpError("cannot be started: there is no box here")
            if entry.box and tree.wrap_server:
                folders = [Path(os.path.realpath(root / Path(folder).expanduser())) for folder in entry.writable]
                argv = [*tree.wrap_server([*_SHIM, *argv], cwd, writable=folders, network=entry.network)]
            request = {"argv": argv, "cwd": str(cwd), "env": own, "wrapped": entry.box}
            control, streams = jobs.open_control(tree, request, server=True)
        except (UserError, ToolError, OSError) as error:
            raise McpError(f"cannot be started: {one_line(str(error), 500)}") from error
        server = LocalServer(*await asyncio.open_connection(sock=control))
        await server.attach(*streams)
        if not entry.box or await server.began():
            return server
        await server.stop()
    raise McpError(f"cannot be started: {server.last_words()}")
