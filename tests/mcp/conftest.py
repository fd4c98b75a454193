"""Servers that really run, and clients of them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cowork.app.mcp.processes import StdioChannel
from cowork.core.blocks import Json
from cowork.mcp.client import McpClient
from cowork.mcp.entries import ServerEntry, entry_of, fill
from cowork.mcp.servers import ListCache, Server, ServerPorts
from cowork.tools.base import TreeState
from cowork.tools.shell import jobs

FAKE = Path(__file__).with_name("fake_server.py")


def raw_entry(**ways: Any) -> Json:
    """The fake server with these manners, as an entry of .mcp.json."""
    return {"command": sys.executable, "args": ["-I", "-S", str(FAKE), json.dumps(ways)]}


async def until(true: Callable[[], bool]) -> None:
    """Wait for what another task will bring about."""
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def need(*paths: Path) -> None:
    """Skip a test of the soak, naming what it has to have and is not there."""
    if missing := [str(path) for path in paths if not path.exists()]:
        pytest.skip(f"{' and '.join(missing)} missing: `make mcp-conformance` installs it")


def children_of(pid: int) -> list[int]:
    """Processes that a process started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Stage:
    """Starts servers and remembers what was said about them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = TreeState(scratch=folder)
        self.environ = {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": "sk-secret-of-ours", "PLAIN": "seen"}
        self.answers: list[Json] = []  # of the person
        self.asked: list[Json] = []
        self.changed: list[str] = []
        self.warnings: list[str] = []
        self.notices: list[str] = []
        self.listed: list[str] = []
        self.open: list[Any] = []

    def channel(self, entry: ServerEntry) -> StdioChannel:
        return StdioChannel(entry, self.tree, self.folder, self.environ)

    async def elicit(self, params: Json) -> Json:
        self.asked.append(params)
        return self.answers.pop(0) if self.answers else {"action": "decline"}

    async def connect(self, known: str = "", silence_s: float = 20, **ways: Any) -> McpClient:
        entry = fill(entry_of("fake", raw_entry(**ways), "user"), self.environ)
        client = McpClient(
            self.channel(entry),
            elicit=self.elicit,
            changed=self.changed.append,
            warn=self.warnings.append,
            silence_s=silence_s,
        )
        self.open.append(client)
        await client.connect(known)
        return client

    def server(self, name: str = "fake", cache: Path | None = None, **ways: Any) -> Server:
        raw = raw_entry(**ways) | {"env": {"FAKE_TRACE": str(self.folder / "trace")}}
        entry = fill(entry_of(name, raw, "user"), self.environ)
        ports = ServerPorts(
            self.channel,
            lambda text, level: self.notices.append(text),
            lambda server: self.listed.append(server.name),
            ListCache(cache or Path(os.devnull, "none"), self.environ),
        )
        server = Server(entry, ports)
        self.open.append(server)
        return server

    def trace(self) -> str:
        file = self.folder / "trace"
        return file.read_text() if file.exists() else ""

    async def close(self) -> None:
        for one in self.open:
            await (one.close() if isinstance(one, Server) else one.aclose())
        await jobs.close(self.tree)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    await stage.close()
