"""The servers of a run: started when they are needed, listened to, brought back when they crash."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from cowork.core.blocks import Json
from cowork.core.format import one_line
from cowork.core.frozen import frozen
from cowork.core.later import later
from cowork.core.workspace import load_json
from cowork.mcp import protocol
from cowork.mcp.entries import ServerEntry
from cowork.mcp.protocol import MODERN, Background, Channel, Elicit, LoginNeeded, McpError, ServerGone, SessionEnded
from cowork.private_files import write_private

with later(__name__):
    from cowork.mcp.client import McpClient, Progress

State = Literal["idle", "starting", "ready", "lost", "failed", "login", "off"]
_BACK_OFF = (1, 2, 4, 8, 16)  # seconds before each try to bring a server back
_CONNECTS = 3  # tries to reach a remote server
_KEPT_DAYS = 30


@frozen
class ServerPorts:
    """What servers need of the run they serve."""

    channel: Callable[[ServerEntry], Channel]
    notice: Callable[[str, str], None]  # text, level
    listed: Callable[[Server], None]  # its tools became known, or changed
    cache: ListCache


class Server:
    """One configured server and what is known of it."""

    def __init__(self, entry: ServerEntry, ports: ServerPorts) -> None:
        self.entry = entry
        self.state: State = "off" if entry.disabled else "idle"
        self.problem = ""
        self.calls, self.seconds = 0, 0.0
        self.elicits: list[Elicit] = []  # of the calls under way; the latest is asked
        self._ports = ports
        self._client: McpClient | None = None
        self._former: list[McpClient] = []  # whose sessions the server has forgotten
        self._connecting: asyncio.Task[McpClient] | None = None
        self._background = Background()
        self._resources: list[Json] | None = None
        self.known = ports.cache.get(entry)  # from an earlier run, until it is connected

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def tools(self) -> list[Json]:
        return self.known.tools if self.known else []

    async def connect(self) -> McpClient:
        """The client, connected by whoever needs it first."""
        if self.state == "off":
            raise McpError("is switched off")
        if self._client:
            return self._client
        if self._connecting is None or self._connecting.done():
            self._connecting = self._background.start(self._connect())
            self._connecting.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await protocol.unless_stopped(asyncio.shield(self._connecting))

    async def call(self, tool: str, arguments: Json, progress: Progress, elicit: Elicit) -> Json:
        """The result of a tool; a session that the server has forgotten is begun anew, once."""
        return await self._using(lambda client: client.call(tool, arguments, progress), elicit)

    async def read(self, uri: str, elicit: Elicit) -> Json:
        return await self._using(lambda client: client.read(uri), elicit)

    async def resources(self) -> list[Json]:
        """Its resources and templates of them; asked for again when it says that they changed."""
        if self._resources is None:
            client = await self.connect()
            self._resources = [*await client.listed("resources"), *await client.templates()]
        return self._resources

    async def prompt(self, name: str, arguments: Json, elicit: Elicit) -> Json:
        return await self._using(lambda client: client.prompt(name, arguments), elicit)

    async def switch(self, *, on: bool) -> None:
        """Switch it on or off for this run."""
        await self.close()
        self.state = "idle" if on else "off"

    async def close(self) -> None:
        await self._background.stop()
        clients = [*self._former, *([self._client] if self._client else [])]
        self._client, self._former, self._resources = None, [], None
        for client in clients:
            await client.aclose()
        if self.state != "off":
            self.state = "idle"

    async def _using(self, work: Callable[[McpClient], Awaitable[Json]], elicit: Elicit) -> Json:
        started = time.monotonic()
        self.calls += 1
        self.elicits.append(elicit)
        try:
            client = await self.connect()
            try:
                return await work(client)
            except SessionEnded:
                if self._client is client:  # else another call was quicker
                    self._client = None
                    self._former.append(client)  # not closed now: others may wait for an answer of it
                return await work(await self.connect())
        finally:
            self.elicits.remove(elicit)
            self.seconds += time.monotonic() - started

    async def _connect(self) -> McpClient:
        self.state, self.problem = "starting", ""
        tries = _CONNECTS if self.entry.raw.get("url") else 1
        try:
            for attempt in range(1, tries):
                with contextlib.suppress(ServerGone):
                    return await self._connect_once()
                await asyncio.sleep(attempt / 2)
            return await self._connect_once()
        except asyncio.CancelledError:
            self.state = "idle"
            raise
        except McpError as error:
            self.state, self.problem = "login" if isinstance(error, LoginNeeded) else "failed", str(error)
            raise

    async def _connect_once(self) -> McpClient:
        channel = self._ports.channel(self.entry)
        client = McpClient(
            channel,
            elicit=self._ask,
            changed=self._on_change,
            warn=lambda text: self._ports.notice(f"MCP server {self.name}: {text}", "warning"),
            silence_s=self.entry.timeout or 0.0,
        )
        era = "" if self.known is None else "modern" if self.known.version == MODERN else "legacy"
        await client.connect(era)
        try:
            await self._learn(client)
        except BaseException:
            await client.aclose()
            raise
        channel.on_close = self._on_crash
        self._client, self.state = client, "ready"
        await client.follow()
        return client

    async def _learn(self, client: McpClient) -> None:
        found = replace(client.facts, tools=await client.tools(), prompts=await client.listed("prompts"))
        before, self.known = self.known, found
        if before != found:
            self._ports.cache.put(self.entry, found)
            self._ports.listed(self)

    async def _ask(self, params: Json) -> Json:
        return await self.elicits[-1](params) if self.elicits else {"action": "decline"}

    def _on_change(self, what: str) -> None:
        async def learn(client: McpClient) -> None:
            with contextlib.suppress(McpError):  # the next call tells what is wrong
                await self._learn(client)

        self._resources = None
        if what in ("tools", "prompts") and self._client:
            self._background.start(learn(self._client))

    def _on_crash(self, gone: ServerGone) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        self.state, self.problem = "lost", str(gone)
        self._ports.notice(f"MCP server {self.name} {gone}. It is started again.", "warning")
        self._background.start(self._bring_back(client))

    async def _bring_back(self, old: McpClient) -> None:
        await old.aclose()
        for seconds in _BACK_OFF:
            await asyncio.sleep(seconds)
            with contextlib.suppress(McpError):
                await self.connect()
                self._ports.notice(f"MCP server {self.name} runs again.", "info")
                return
        self._ports.notice(f"MCP server {self.name} could not be started again: {self.problem}.", "warning")


async def prepare(servers: Sequence[Server], seconds: float) -> list[Server]:
    """Connect those whose tools nobody knows yet, and wait so long; gives those that are late or failed."""
    wanted = [server for server in servers if server.known is None and server.state in ("idle", "starting")]
    if wanted:
        connecting = asyncio.gather(*(server.connect() for server in wanted), return_exceptions=True)
        await asyncio.wait([connecting], timeout=seconds)
    return [server for server in wanted if server.state != "ready"]


class ListCache:
    """The lists of servers, so that a start offers their tools at once; a file each."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder, self._path = folder, environ.get("PATH", os.defpath)

    def get(self, entry: ServerEntry) -> protocol.ServerFacts | None:
        try:
            file = self._file(entry)
            old = time.time() - file.stat().st_mtime > _KEPT_DAYS * 86_400
            return None if old else protocol.ServerFacts(**load_json(file, protocol.MOST_BYTES))
        except (OSError, ValueError, TypeError, RecursionError):  # the last of an entry nested too deeply
            return None

    def put(self, entry: ServerEntry, known: protocol.ServerFacts) -> None:
        with contextlib.suppress(OSError, RecursionError):
            write_private(self._file(entry), json.dumps(known.__dict__))
            for file in self._folder.iterdir():
                if time.time() - file.stat().st_mtime > _KEPT_DAYS * 86_400:
                    file.unlink()

    def _file(self, entry: ServerEntry) -> Path:
        """Named after the entry and the program it runs: another program may have other tools."""
        version = ""
        if program := shutil.which(str(entry.raw.get("command", "")), path=self._path):
            with contextlib.suppress(OSError):
                status = os.stat(program)
                version = f"{status.st_mtime_ns:x}{status.st_size:x}"
        return self._folder / f"{one_line(entry.name, 80)}-{entry.digest[:16]}{version}.json"
