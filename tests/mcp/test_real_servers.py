"""Servers that people use, listed, called, cancelled, killed and restarted. `make mcp-conformance` installs them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cowork.mcp import servers as module
from cowork.mcp.content import result_content
from cowork.mcp.entries import entry_of, fill
from cowork.mcp.protocol import McpError
from cowork.mcp.servers import Server
from tests.mcp.conftest import Stage, children_of, need, until

INSTALLED = Path(os.environ.get("COWORK_MCP_SERVERS") or Path(__file__).parents[2] / "build" / "mcp")
NODE = INSTALLED / "bin" / "node"
pytestmark = pytest.mark.soak_only


@pytest.fixture(autouse=True)
def installed() -> None:
    """Skip with the name of what is missing."""
    need(NODE, INSTALLED / "node_modules" / "@modelcontextprotocol")


def opened(stage: Stage, name: str, *arguments: str) -> Server:
    """A server of npm, or of PyPI where it has a program."""
    program = INSTALLED / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    own = INSTALLED / "bin" / f"mcp-server-{name}"
    words = [str(own)] if own.exists() else [str(NODE), str(program)]
    env = {"MEMORY_FILE_PATH": str(stage.folder / "m")}
    raw = {"command": words[0], "args": [*words[1:], *arguments], "env": env}
    server = Server(fill(entry_of(name, raw, "user"), stage.environ), stage.server("unused")._ports)
    stage.open.append(server)
    return server


async def text_of(stage: Stage, server: Server, tool: str, heard: list[str] | None = None, **arguments: Any) -> str:
    lines = heard if heard is not None else []
    return result_content(await server.call(tool, arguments, lines.append, stage.elicit)).text


async def test_everything_is_called_with_progress_cancelled_killed_and_started_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BACK_OFF", (0, 1, 2))
    server = opened(stage, "everything", "stdio")
    assert "hi" in await text_of(stage, server, "echo", message="hi")
    names = {str(tool["name"]) for tool in server.tools}
    long = next(name for name in names if "long" in name.lower())
    heard: list[str] = []
    await text_of(stage, server, long, heard, duration=1, steps=2)
    assert len(heard) == 2
    call = asyncio.ensure_future(text_of(stage, server, long, heard, duration=600, steps=2_000))
    await until(lambda: len(heard) > 2)
    call.cancel()
    await asyncio.wait([call])
    assert "again" in await text_of(stage, server, "echo", message="again")
    await killed_and_back(stage, server)
    assert "back" in await text_of(stage, server, "echo", message="back")


async def killed_and_back(stage: Stage, server: Server) -> None:
    """Kill its process and wait until it was started again."""
    (keeper,) = children_of(stage.tree.reaper.process.pid)
    (process,) = children_of(keeper)
    os.kill(process, signal.SIGKILL)
    await until(lambda: bool(stage.notices))
    await until(lambda: server.state == "ready")


@pytest.mark.parametrize("name", ["git", "time"])
async def test_git_and_time_are_listed_called_cancelled_killed_and_started_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(module, "_BACK_OFF", (0, 1, 2))
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "the first"]
    for words in (["git", "init", "-q"], git):
        await asyncio.to_thread(subprocess.run, words, cwd=stage.folder, check=True)
    tool, given, expected = {
        "git": ("git_log", {"repo_path": str(stage.folder)}, "the first"),
        "time": ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "21:00"),
    }[name]
    server = opened(stage, name, *(["--repository", str(stage.folder)] if name == "git" else []))
    assert expected in await text_of(stage, server, tool, **given)
    assert tool in {str(one["name"]) for one in server.tools}
    call = asyncio.ensure_future(text_of(stage, server, tool, **given))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    assert expected in await text_of(stage, server, tool, **given)
    await killed_and_back(stage, server)
    assert expected in await text_of(stage, server, tool, **given)


async def test_filesystem_reads_what_it_may_and_nothing_else(stage: Stage) -> None:
    (stage.folder / "open").mkdir()
    (stage.folder / "open" / "a.txt").write_text("the text")
    (stage.folder / "b.txt").write_text("a secret")
    server = opened(stage, "filesystem", str(stage.folder / "open"))
    assert "the text" in await text_of(stage, server, "read_text_file", path=str(stage.folder / "open" / "a.txt"))
    assert "a secret" not in await text_of(stage, server, "read_text_file", path=str(stage.folder / "b.txt"))


async def test_memory_remembers(stage: Stage) -> None:
    server = opened(stage, "memory")
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
    await text_of(stage, server, "create_entities", entities=[entity])
    assert "wrote programs" in await text_of(stage, server, "search_nodes", query="Ada")
    with pytest.raises(McpError):
        await (await server.connect()).prompt("no such prompt", {})
