"""A tool context on a temporary workspace, and eyes for processes that should not be there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cowork.core.ports import ToolRecord
from cowork.core.workspace import Workspace
from cowork.tools.arguments import check
from cowork.tools.base import AgentState, Tool, ToolContext, TreeState
from cowork.tools.shell import jobs
from tests.fakes.record_rules import problems

GONE = 5.0  # seconds after which nothing of a command is left, as promised
_LAP = 0.02


@dataclass
class Desk:
    """A workspace, a context and a mark that every process of its commands carries."""

    root: Path
    ctx: ToolContext
    mark: str
    heard: list[str] = field(default_factory=list)  # live output

    async def call(self, tool: Tool, **args: Any) -> ToolRecord:
        """Call a tool and hold its record against the rules of all records."""
        self.ctx.resolved.clear()
        record = await tool(self.ctx, check(tool.schema, args))
        finished = record.to_dict() | {"stats": {"time_ms": 1}, "context": {"cwd": ".", "params_input": args}}
        assert problems(finished) == []
        assert not set(record.text) & {chr(i) for i in (*range(9), *range(11, 32), *range(127, 160))}
        return record

    def write(self, path: str, content: str | bytes = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def git(self, *args: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", *args]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout

    def survivors(self) -> list[str]:
        return survivors(self.mark)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = make_desk(tmp_path)
    yield made
    await jobs.close(made.ctx.tree)


def make_desk(folder: Path) -> Desk:
    root = folder / "work"
    root.mkdir(parents=True)
    mark = f"mark{os.urandom(6).hex()}"
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "MARK": mark, "LANG": "C.UTF-8"}
    workspace = Workspace(root)
    tree = TreeState(folder / "scratch", environ)
    ctx = ToolContext("main", "call_1", workspace, AgentState(workspace.root), tree, lambda event: None)
    made = Desk(workspace.root, ctx, mark)
    ctx.output = made.heard.append
    return made


def survivors(mark: str) -> list[str]:
    """Living processes, other than this one, with the mark in their environment or arguments."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
            environ = Path(f"/proc/{name}/environ").read_bytes()
            state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and mark.encode() in line + b"\0" + environ:
            found.append(f"{name} {line.replace(bytes(1), b' ').decode(errors='replace')}")
    return found


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether it comes true in so many seconds of a machine that is all ours.

    What is counted is the time we asked to sleep and the time we worked: waiting for our turn is the machine's affair,
    and those we watch wait for theirs as well. Never more than the clock on the wall says.
    """
    slept, worked = 0.0, time.process_time()
    while not condition():
        if slept + time.process_time() - worked > seconds:
            return False
        await asyncio.sleep(_LAP)
        slept += _LAP
    return True


async def soon(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether something we only wait for comes true at all."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True
