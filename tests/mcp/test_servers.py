"""Servers as a run has them: started when needed, brought back, remembered, and never left behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cowork.core.blocks import Json
from cowork.core.workspace import Workspace
from cowork.mcp import servers as module
from cowork.mcp.content import result_content
from cowork.mcp.entries import entry_of, fill
from cowork.mcp.protocol import McpError, ServerFacts, ServerGone
from cowork.mcp.servers import ListCache, Server
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.carriers import BARE
from tests.mcp.conftest import FAKE, Stage, children_of, raw_entry, until


def quiet(text: str) -> None:
    """Progress that nobody looks at."""


async def echo(stage: Stage, server: Server, text: str) -> str:
    return result_content(await server.call("echo", {"text": text}, quiet, stage.elicit)).text


async def test_nothing_starts_before_it_is_needed_and_then_once(stage: Stage) -> None:
    server = stage.server()
    assert (server.state, stage.trace()) == ("idle", "")
    said = await asyncio.gather(*(echo(stage, server, str(n)) for n in range(5)))
    assert said == [f"echo: {n}" for n in range(5)]
    assert (server.state, stage.trace().count("started"), server.calls) == ("ready", 1, 5)


async def test_its_lists_are_remembered_for_the_next_start(stage: Stage, tmp_path: Path) -> None:
    first = stage.server(cache=tmp_path / "cache")
    await first.connect()
    again = stage.server(cache=tmp_path / "cache")
    assert (again.state, [tool["name"] for tool in again.tools][:2]) == ("idle", ["echo", "slow"])
    assert stage.server(cache=tmp_path / "cache", tools=3).known is None, "another entry has a memory of its own"
    assert stat_of(next((tmp_path / "cache").iterdir())) == "600"


def stat_of(path: Path) -> str:
    return f"{path.stat().st_mode & 0o777:o}"


async def test_a_crash_fails_its_calls_and_brings_the_server_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BACK_OFF", (0, 0, 0))
    server = stage.server()
    with pytest.raises(ServerGone, match=r"ended \(it said: Traceback: the disk is on fire\)"):
        await server.call("die", {}, quiet, stage.elicit)
    assert server.state == "lost"
    await until(lambda: server.state == "ready")
    assert await echo(stage, server, "back") == "echo: back"
    assert "It is started again." in stage.notices[0]
    assert stage.notices[1:] == ["MCP server fake runs again."]


async def test_a_server_switched_off_says_so_and_comes_back(stage: Stage) -> None:
    server = stage.server()
    await server.connect()
    await server.switch(on=False)
    with pytest.raises(McpError, match="is switched off"):
        await echo(stage, server, "x")
    await server.switch(on=True)
    assert await echo(stage, server, "on") == "echo: on"


async def test_new_tools_are_told_to_the_run(stage: Stage) -> None:
    server = stage.server()
    await server.call("grow", {}, quiet, stage.elicit)
    await until(lambda: "grown" in [tool["name"] for tool in server.tools])
    assert stage.listed == ["fake", "fake"]


async def test_closing_ends_a_server_that_will_not_go_and_all_it_started(stage: Stage) -> None:
    stubborn = stage.server(evil="ignores the end")
    parent = stage.server("other", evil="leaves children")
    await asyncio.gather(stubborn.connect(), parent.connect())
    pids = [int(line.split()[1]) for line in stage.trace().splitlines()]
    below = [child for pid in pids for child in children_of(pid)]
    assert below
    await asyncio.gather(stubborn.close(), parent.close())
    assert [pid for pid in (*pids, *below) if alive(pid)] == []


HOST = """
import asyncio, sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from cowork.app.mcp.processes import start_server
from cowork.mcp.entries import entry_of, fill
from cowork.tools.base import TreeState
async def main():
    raw = {"command": sys.executable, "args": ["-I", "-S", sys.argv[1], '{"evil": "leaves children"}'],
           "env": {"FAKE_TRACE": sys.argv[2]}}
    tree = TreeState(scratch=Path("/tmp"))
    server = await start_server(fill(entry_of("x", raw, "user"), {}), tree, Path("/"), {"PATH": "/usr/bin:/bin"})
    server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}\\n')
    await server.stdout.readline()
    print("up", flush=True)
    await asyncio.sleep(100)
asyncio.run(main())
"""


def test_servers_die_with_us_on_kill_9(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    host = subprocess.Popen([sys.executable, "-c", HOST, str(FAKE), str(trace)], stdout=subprocess.PIPE)
    assert host.stdout is not None
    assert host.stdout.readline() == b"up\n"
    pid = int(trace.read_text().split()[1])
    family = [pid, *children_of(pid)]
    assert len(family) == 2
    host.send_signal(signal.SIGKILL)
    host.wait()
    deadline = time.monotonic() + 20
    while any(map(alive, family)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [one for one in family if alive(one)] == []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_cache_forgets_what_it_cannot_read(tmp_path: Path) -> None:
    cache, entry = ListCache(tmp_path, {}), entry_of("a", {"url": "http://x"}, "user")
    known = ServerFacts("2025-11-25", "x", "1", "", {}, [{"name": "t"}], [])
    cache.put(entry, known)
    file = next(tmp_path.iterdir())
    assert cache.get(entry) == known
    for bad in ("", "[]", json.dumps({"version": 1}), "{", "[" * 300_000):
        file.write_text(bad)
        assert cache.get(entry) is None
    deep: Json = {}
    for _ in range(300_000):
        deep = {"a": deep}
    cache.put(entry, replace(known, capabilities=deep))
    assert cache.get(entry) is None
    assert cache.get(entry_of("a", {"url": "http://x", "note": deep}, "user")) is None


async def test_a_server_in_a_box_writes_only_where_its_entry_says(stage: Stage) -> None:
    sandbox = Sandbox(workspace=Workspace(stage.folder), environ=stage.environ)
    if sandbox.boxes != "both":
        pytest.skip(f"no box here: {sandbox.status()}")
    stage.tree.wrap_server = sandbox.wrap_server
    allowed, other = stage.folder / "allowed", stage.folder / "other"
    for folder in (allowed, other):
        folder.mkdir()
    for place, works in ((allowed, True), (other, False)):
        raw = {**raw_entry(), "box": True, "writable": [str(allowed)], "env": {"FAKE_TRACE": str(place / "trace")}}
        raw["command"] = "/usr/bin/python3"  # boxes see neither every Python nor every place a clone may lie in
        raw["args"] = ["-I", "-S", shutil.copy(FAKE, stage.folder)]
        server = Server(fill(entry_of("boxed", raw, "user"), stage.environ), stage.server("unused")._ports)
        stage.open.append(server)
        if works:
            assert result_content(await server.call("echo", {"text": "hi"}, quiet, stage.elicit)).text == "echo: hi"
            assert "started" in (place / "trace").read_text()
        else:
            with pytest.raises(McpError, match="Read-only file system"):
                await server.connect()


async def test_a_box_of_a_server_that_could_not_be_made_is_made_again(stage: Stage) -> None:
    sandbox, tried, failing = Sandbox(workspace=Workspace(stage.folder), environ=stage.environ), list[int](), 2
    if sandbox.boxes != "both":
        pytest.skip(f"no box here: {sandbox.status()}")

    def hides_what_is_gone(argv: Sequence[str], cwd: Path, **how: Any) -> list[str]:
        tried.append(1)
        program, *rest = sandbox.wrap_server(argv, cwd, **how)
        gone = ["--ro-bind", os.devnull, "/usr/gone.sock"] if len(tried) <= failing else []
        return [program, *BARE, *gone, *rest[len(BARE) :]]

    def boxed() -> Server:
        raw = {**raw_entry(), "box": True, "command": "/usr/bin/python3"}
        raw["args"] = ["-I", "-S", shutil.copy(FAKE, stage.folder)]
        tried.clear()
        stage.open.append(Server(fill(entry_of("boxed", raw, "user"), stage.environ), stage.server("unused")._ports))
        return stage.open[-1]

    stage.tree.wrap_server = hides_what_is_gone
    assert await echo(stage, boxed(), "hi") == "echo: hi"
    assert len(tried) == 3
    failing = 100
    with pytest.raises(McpError, match=r"Can't create file at /usr/gone\.sock"):
        await boxed().connect()


async def test_lists_that_nobody_needs_any_more_are_dropped(stage: Stage, tmp_path: Path) -> None:
    old = tmp_path / "cache" / "gone-0.json"
    old.parent.mkdir()
    old.write_text("{}")
    os.utime(old, (0, 0))
    await stage.server(cache=old.parent).connect()
    assert [file.name.partition("-")[0] for file in old.parent.iterdir()] == ["fake"]
