"""What configured MCP servers cost: the first request with ten of them and with none, and memory for each idle one."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.run import COWORK, line, until_request
from cowork.app.mcp.processes import StdioChannel
from cowork.mcp.client import McpClient
from cowork.mcp.entries import entry_of, fill
from cowork.tools.base import TreeState
from cowork.tools.shell import jobs
from tests.wire.server import Server, say

SERVERS, ROUNDS, IDLE = 10, 15, 20
FAKE = Path(__file__).parents[1] / "tests" / "mcp" / "fake_server.py"
RAW = {"command": sys.executable, "args": ["-I", "-S", str(FAKE)]}


def first_request(rounds: int = ROUNDS) -> None:
    """When the first request arrives: with ten servers whose tools are known, with ten nobody knows, with none."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        servers = {f"s{n}": RAW for n in range(SERVERS)}
        (root / "ten.json").write_text(json.dumps({"mcpServers": servers}))
        words = ["env", f"COWORK_HOME={root}/home", COWORK, "run", "say hi", "--non-interactive", "--no-session"]
        ten = [*words, "--mcp-config", str(root / "ten.json")]

        def arrives(command: list[str]) -> float:
            with Server([say("hi")], check=False) as server:
                return until_request(server, 1, command, [], [])

        cold = arrives(ten)
        arrives(ten)  # whatever was late the first time is known now
        pairs = [(arrives(words), arrives(ten)) for _ in range(rounds)]
        line(f"first request, {SERVERS} servers", min(b for _, b in pairs), min(a for a, _ in pairs), "none", 1.1)
        print(f"  the first time, when nobody knows their tools: {cold * 1000:.0f} ms")


async def memory(count: int = IDLE) -> tuple[float, float]:
    """MB that an idle server takes: in this process, and in the keeper that would end it."""

    async def elicit(params: object) -> dict[str, object]:
        return {"action": "decline"}

    tree, clients = TreeState(Path("/tmp")), []
    environ = {"PATH": os.environ["PATH"]}
    entry = fill(entry_of("s", RAW, "user"), environ)

    async def connect() -> None:
        client = McpClient(StdioChannel(entry, tree, Path("/"), environ), elicit=elicit)
        await client.connect()
        await client.tools()
        clients.append(client)

    await connect()
    before = _rss(os.getpid())
    for _ in range(count):
        await connect()
    ours = (_rss(os.getpid()) - before) / count
    keepers = [_private(pid) for pid in _children(jobs.prepare(tree).process.pid)]
    await asyncio.gather(*(client.aclose() for client in clients))
    await jobs.close(tree)
    return ours, statistics.mean(keepers)


def _rss(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _private(pid: int) -> float:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(row.split()[1]) for row in rows if row.startswith("Private_")) / 1e3


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def main() -> None:
    first_request()
    ours, keeper = asyncio.run(memory())
    print(f"  an idle server: {ours:.2f} MB in cowork, {keeper:.2f} MB in its keeper")


if __name__ == "__main__":
    main()
