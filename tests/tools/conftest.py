"""A workspace, agents in it, and calls that go the way the runner's do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cowork.core.errors import ToolError
from cowork.core.events import Event
from cowork.core.ports import ToolRecord, error_record
from cowork.core.workspace import Workspace
from cowork.tools.arguments import check
from cowork.tools.base import AgentState, Tool, ToolContext, TreeState
from tests.fakes.record_rules import problems


@dataclass
class Agent:
    """One agent of a run: its own state, the tree's shared state, and every event it caused."""

    name: str
    workspace: Workspace
    tree: TreeState
    state: AgentState
    events: list[Event] = field(default_factory=list)

    def context(self) -> ToolContext:
        return ToolContext(self.name, "call-1", self.workspace, self.state, self.tree, self.events.append)

    async def call(self, tool: Tool, **args: Any) -> ToolRecord:
        """Validate, run and record one call; every record must keep the rules of records."""
        started = time.monotonic()
        try:
            record = await tool(self.context(), check(tool.schema, args))
        except ToolError as error:
            record = error_record(error.code, error.text, **error.data)
        finished = replace(
            record,
            stats={"time_ms": round((time.monotonic() - started) * 1000)} | record.stats,
            context={"cwd": ".", "params_input": args},
        )
        assert problems(finished.to_dict()) == []
        record.text.encode("utf-8")
        return finished


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The root of the workspace."""
    root = tmp_path / "work"
    root.mkdir()
    return root


@pytest.fixture
def agents(folder: Path, tmp_path: Path) -> Callable[[str], Agent]:
    """Makes agents that share one tree."""
    tree = TreeState(tmp_path / "scratch")
    workspace = Workspace(folder)
    return lambda name: Agent(name, workspace, tree, AgentState(folder))


@pytest.fixture
def agent(agents: Callable[[str], Agent]) -> Agent:
    return agents("main")
