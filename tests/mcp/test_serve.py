"""cowork as a server, seen by our own client over real streams."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cowork.mcp.client import McpClient
from cowork.mcp.content import said_in
from cowork.mcp.entries import entry_of, filled
from cowork.mcp.protocol import LEGACY, MODERN, McpError
from tests.mcp.conftest import Stage

SCRIPT = """
main: []
agents:
  explore:
    - call: {Grep: {pattern: needle}}
    - say: The needle is in hay.txt.
"""


@pytest.fixture
async def served(stage: Stage, tmp_path: Path) -> AsyncIterator[McpClient]:
    """A client of `cowork mcp serve`, in a folder with one file."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "hay.txt").write_text("a needle\n")
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "config.toml").write_text(
        f'[models.main]\nprovider = "scripted"\nscript = "{tmp_path / "script.yaml"}"\n'
    )
    raw = {
        "command": sys.executable,
        "args": ["-m", "cowork", "mcp", "serve", "--cwd", str(tmp_path / "work")],
        "env": {"COWORK_HOME": str(tmp_path)},
    }
    entry = filled(entry_of("cowork", raw, "user"), stage.environ)
    client = McpClient(stage.channel(entry), elicit=stage.elicit)
    await client.connect("", 60)
    yield client
    await client.aclose()


async def test_it_offers_task_and_reading_tools_and_nothing_that_writes(served: McpClient) -> None:
    assert (served.facts.version, served.facts.name) == (LEGACY[0], "cowork")
    assert {tool["name"] for tool in await served.tools()} == {"Read", "Grep", "Glob", "LS", "Task"}


async def test_calls_are_answered_side_by_side_and_refused_with_words(served: McpClient) -> None:
    read, found = await asyncio.gather(
        served.call("Read", {"file_path": "hay.txt"}), served.call("Grep", {"pattern": "needle"})
    )
    assert "a needle" in said_in(read).text
    assert "hay.txt" in said_in(found).text
    assert said_in(await served.call("Read", {"file_path": "absent"})).failed
    with pytest.raises(McpError, match="There is no tool 'Bash'"):
        await served.call("Bash", {"command": "true"})


async def test_task_sends_out_a_child_and_tells_its_progress(served: McpClient) -> None:
    heard: list[str] = []
    order = {"description": "find it", "prompt": "Where is the needle?", "subagent_type": "explore"}
    said = said_in(await served.call("Task", order, heard.append))
    assert "The needle is in hay.txt." in said.text
    assert any("explore-1: Grep" in line for line in heard)


async def test_a_client_of_the_stateless_revision_is_served_too(stage: Stage, served: McpClient) -> None:
    served._channel.version = MODERN
    facts = await served._discover()
    assert facts.version == MODERN
    assert said_in(await served.call("Grep", {"pattern": "needle"})).text
