"""How often a person is asked in a whole piece of work: find the bug, fix it, run the tests, commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cowork.core.blocks import ToolUse
from cowork.core.hygiene import clean_environ
from cowork.core.ports import Answer, Question
from cowork.core.workspace import Workspace
from cowork.engine.runner import Runner
from cowork.permissions import Permissions
from cowork.permissions.rules import RuleBook, Rules
from cowork.permissions.sandbox.box import Sandbox
from cowork.tools.base import AgentState, ToolContext, TreeState
from cowork.tools.shell import jobs
from tests.fakes.calls import TOOLS


def make_project(root: Path) -> None:
    """A repository with a bug, a test that shows it, and a test runner of its own."""
    (root / ".venv/bin").mkdir(parents=True)
    (root / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    runner = root / ".venv/bin/pytest"
    runner.write_text("#!/bin/sh\npython3 -c 'import calc; assert calc.add(1, 2) == 3' && echo 1 passed\n")
    runner.chmod(0o755)
    (root / ".gitignore").write_text(".venv\n__pycache__\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    for words in ("init -q -b main", "config user.email a@b", "config user.name a", "add -A", "commit -q -m first"):
        subprocess.run(["git", *words.split()], cwd=root, env=environ, check=True, timeout=30)


def steps(old: str, new: str) -> list[ToolUse]:
    change = {"file_path": "calc.py", "old_string": old, "new_string": new}
    return [
        ToolUse("1", "Bash", {"command": "git log --oneline | head -3; grep -rn 'def add' ."}),
        ToolUse("2", "Read", {"file_path": "calc.py"}),
        ToolUse("3", "Edit", change),
        ToolUse("4", "Bash", {"command": ".venv/bin/pytest -q 2>&1 | tail -20"}),
        ToolUse("5", "Bash", {"command": "git diff && git add -A && git commit -q -m fix"}),
    ]


async def work(root: Path, store: Path, mode: str, old: str, new: str) -> list[str]:
    """What was asked; every question is answered with "always", where that is offered."""
    space, asked = Workspace(root), list[str]()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(root.parent)}
    book = RuleBook(space, Rules(), store)
    sandbox = Sandbox(workspace=space, environ=environ, rules=book.all)
    if sandbox.boxes != "both":
        pytest.skip(f"no sandbox here: {sandbox.status()}")

    async def yes(question: Question) -> Answer:
        asked.append(question.tool)
        return Answer("always")

    tree = TreeState(scratch=root.parent, environ=clean_environ(environ), wrap=sandbox.wrap, explain=sandbox.explain)
    permit = Permissions(workspace=space, mode=mode, book=book, trusted=True, sandbox=sandbox)
    ctx = ToolContext("main", "", space, AgentState(root), tree, lambda event: None)
    runner = Runner(ctx, TOOLS, yes, permit)
    try:
        for step in steps(old, new):
            (record,) = await runner.run([step])
            assert record.status == "success", record.text
    finally:
        await jobs.close(tree)
    return asked


@pytest.mark.parametrize(
    ("mode", "first", "again"),
    [("ask", ["Edit", "Bash"], []), ("accept-edits", ["Bash"], []), ("auto", [], [])],
)
async def test_a_fix_from_start_to_commit(mode: str, first: list[str], again: list[str], tmp_path: Path) -> None:
    root, store = tmp_path / "shop", tmp_path / "rules.json"
    make_project(root)
    assert await work(root, store, mode, "a - b", "a + b") == first
    assert await work(root, store, mode, "a + b", "b + a") == again
