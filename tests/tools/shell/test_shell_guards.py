"""Commands without a box that make files other programs run or obey: the model and the person are told."""

from __future__ import annotations

from typing import Any

import pytest

from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.watch import Watch
from cowork.tools.shell.bash import bash, bash_output
from tests.tools.shell.conftest import Desk, soon


@pytest.fixture
def told(desk: Desk) -> list[Any]:
    heard: list[Any] = []
    sandbox = Sandbox(workspace=desk.ctx.workspace, mode="off", environ=desk.ctx.tree.environ)
    desk.ctx.tree.hold = Watch(sandbox, desk.ctx.tree.written, lambda text, paths: heard.append(paths)).begin
    return heard


@pytest.mark.parametrize(
    "name", [".envrc", "AGENTS.md", "agents.MD", ".mcp.json", ".vscode/tasks.json", ".cowork/agents", ".husky/pre-push"]
)
async def test_a_protected_file_a_command_made_is_told_once(desk: Desk, told: list[Any], name: str) -> None:
    record = await desk.call(bash, command=f"mkdir -p $(dirname {name}); echo x > {name}")
    assert name in record.text
    (paths,) = told
    assert str(desk.root / name) in paths
    again = await desk.call(bash, command="true")
    assert name not in again.text
    assert len(told) == 1


async def test_what_was_there_before_or_came_by_a_file_tool_is_not_told(desk: Desk, told: list[Any]) -> None:
    desk.write(".vscode/settings.json", "{}")
    desk.write("AGENTS.md", "before")
    await desk.call(bash, command="echo more >> AGENTS.md; touch ordinary.txt")
    desk.ctx.tree.written[str(desk.write(".envrc", "by Write"))] = "hash"
    await desk.call(bash, command="true")
    assert told == []


async def test_what_a_background_command_made_is_told_with_its_output(desk: Desk, told: list[Any]) -> None:
    record = await desk.call(bash, command="sleep 0.4; echo x > .envrc", run_in_background=True)
    assert await soon((desk.root / ".envrc").exists)
    record = await desk.call(bash_output, bash_id=record.data["bash_id"])
    assert ".envrc" in record.text
    assert len(told) == 1
