"""cowork as a server, seen by our own client and by the reference one, over real streams."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cowork.mcp.client import McpClient
from cowork.mcp.content import result_content
from cowork.mcp.entries import entry_of, fill
from cowork.mcp.protocol import LEGACY, MODERN, McpError
from tests.fakes.command import COWORK, Command
from tests.mcp.conftest import Stage, need

SCRIPT = """
main: []
agents:
  explore:
    - call: {Grep: {pattern: needle}}
    - say: The needle is in hay.txt.
"""


REFERENCE = Path(os.environ.get("COWORK_MCP_SERVERS") or Path(__file__).parents[2] / "build" / "mcp")


def set_up(tmp_path: Path) -> dict[str, Any]:
    """The entry of `cowork mcp serve`, in a folder with one file."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "hay.txt").write_text("a needle\n")
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "config.toml").write_text(
        f'[models.main]\nprovider = "scripted"\nscript = "{tmp_path / "script.yaml"}"\n'
    )
    words = ["-m", "cowork", "mcp", "serve", "--cwd", str(tmp_path / "work")]
    return {"command": sys.executable, "args": words, "env": {"COWORK_HOME": str(tmp_path)}}


@pytest.fixture
async def served(stage: Stage, tmp_path: Path) -> AsyncIterator[McpClient]:
    """A client of it."""
    entry = fill(entry_of("cowork", set_up(tmp_path), "user"), stage.environ)
    client = McpClient(stage.channel(entry), elicit=stage.elicit)
    await client.connect()
    yield client
    await client.aclose()


async def test_it_offers_task_and_reading_tools_and_nothing_that_writes(served: McpClient) -> None:
    assert (served.facts.version, served.facts.name) == (LEGACY[0], "cowork")
    assert {tool["name"] for tool in await served.tools()} == {"Read", "Grep", "Glob", "LS", "Task"}


async def test_calls_are_answered_side_by_side_and_refused_with_words(served: McpClient) -> None:
    read, found = await asyncio.gather(
        served.call("Read", {"file_path": "hay.txt"}), served.call("Grep", {"pattern": "needle"})
    )
    assert "a needle" in result_content(read).text
    assert "hay.txt" in result_content(found).text
    assert result_content(await served.call("Read", {"file_path": "absent"})).failed
    with pytest.raises(McpError, match="There is no tool 'Bash'"):
        await served.call("Bash", {"command": "true"})
    with pytest.raises(McpError, match="`arguments` must be an object"):
        await served._ask("tools/call", {"name": "LS", "arguments": 5})


async def test_task_sends_out_a_child_and_tells_its_progress(served: McpClient) -> None:
    heard: list[str] = []
    order = {"description": "find it", "prompt": "Where is the needle?", "subagent_type": "explore"}
    said = result_content(await served.call("Task", order, heard.append))
    assert "The needle is in hay.txt." in said.text
    assert any("explore-1: Grep" in line for line in heard)


async def test_each_call_hears_of_its_own_child_alone(served: McpClient) -> None:
    heard: tuple[list[str], list[str]] = ([], [])
    order = {"description": "find it", "prompt": "Where is the needle?", "subagent_type": "explore"}
    await asyncio.gather(*(served.call("Task", order, lines.append) for lines in heard))
    children = [{line.partition(":")[0].rpartition(" ")[2] for line in lines} for lines in heard]
    assert sorted(map(len, children)) == [1, 1]
    assert children[0] != children[1]


def test_a_server_says_nothing_beside_and_ends_when_nobody_hears_it(command: Command) -> None:
    hello = {"protocolVersion": 1, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
    env = {"PATH": os.environ["PATH"], "HOME": str(command.home)}
    pipe = subprocess.PIPE
    for words in (("mcp", "serve"), ("acp",)):
        with subprocess.Popen(
            [COWORK, *words], cwd=command.folder, env=env, stdin=pipe, stdout=pipe, stderr=pipe
        ) as server:
            assert server.stdin
            assert server.stdout
            assert server.stderr
            server.stdin.write(request)
            server.stdin.flush()
            assert json.loads(server.stdout.readline())["id"] == 1
            server.stdout.close()  # its input stays open
            assert server.wait(timeout=60) == 0
            assert server.stderr.read() == b""


def test_streams_that_are_no_pipes_are_said_in_a_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("{}")
    for words, file in ((("mcp", "serve"), tmp_path / "in"), (("acp",), Path(os.devnull))):
        with file.open() as given:
            env = {"PATH": os.environ["PATH"], "HOME": str(command.home)}
            done = subprocess.run([COWORK, *words], stdin=given, env=env, capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr.startswith("cowork: This command speaks to a program, not to a person or a file.\n")


async def test_a_client_of_the_stateless_revision_is_served_too(stage: Stage, served: McpClient) -> None:
    served._channel.version = MODERN
    facts = await served._discover()
    assert facts.version == MODERN
    assert result_content(await served.call("Grep", {"pattern": "needle"})).text


# Run by the Python that has the reference client; prints what it saw as JSON.
CLIENT = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters
entry, mode = json.loads(sys.argv[1]), sys.argv[2]
async def main():
    heard = []
    async def progress(done, total, message):
        heard.append(message)
    async with Client(StdioServerParameters(**entry), mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        order = {"description": "find it", "prompt": "Where is the needle?", "subagent_type": "explore"}
        said = await client.call_tool("Task", order, progress_callback=progress)
        absent = await client.call_tool("Read", {"file_path": "absent"})
    print(json.dumps([sorted(tools), said.content[0].text, heard, said.is_error, absent.is_error]))
asyncio.run(main())
"""


@pytest.mark.soak_only
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_reference_client_sends_out_a_child_and_hears_its_progress(tmp_path: Path, mode: str) -> None:
    need(REFERENCE / "bin/python")
    entry = set_up(tmp_path)
    entry["env"] |= {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    words = [str(REFERENCE / "bin/python"), "-c", CLIENT, json.dumps(entry), mode]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    tools, said, heard, failed, refused = json.loads(done.stdout)
    assert (tools, failed, refused) == (["Glob", "Grep", "LS", "Read", "Task"], False, True)
    assert "The needle is in hay.txt." in said
    assert any("explore-1: Grep" in line for line in heard)
