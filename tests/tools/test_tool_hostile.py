"""Whatever string a model puts wherever, every tool answers with a record, in words, and goes on working."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cowork.core.blocks import ToolUse
from cowork.core.ports import Answer, Question
from cowork.core.workspace import Workspace
from cowork.engine.runner import Runner
from cowork.permissions import Permissions
from cowork.tools.base import AgentState, ToolContext, TreeState
from cowork.tools.shell import jobs
from tests.fakes.calls import TOOLS
from tests.fakes.record_rules import problems

STRINGS = {
    "half a character": "\ud800",
    "a byte that is no UTF-8": "a\udcff",
    "NUL": "a\0b",
    "escapes": "\x1b[31mred\x1b]0;t\x07",
    "lines": "two\nlines\r\n",
    "more than a program can be given": "x" * 200_000,
    "a deep path": "a/" * 3_000 + "b",
    "a long name": "é" * 300,
    "an open group": "(",
    "an open bracket": "[",
    "an open brace": "{a,",
    "stars": "*" * 40,
    "a backslash": "\\",
    "an option": "--help",
    "nobody's home": "~nosuch/x",
    "another host": "file://host/x",
    "a Windows path": "C:\\x\\y.txt",
    "above": "../../..",
    "a device": "/dev/zero",
    "secrets": "/proc/self/environ",
    "nothing": "",
    "blanks": "  ",
    "right to left": "\u202e",
}

CALLS: dict[str, dict[str, Any]] = {
    "Read": {"file_path": "a.txt"},
    "Write": {"file_path": "new/w.txt", "content": "x\n"},
    "Edit": {"file_path": "a.txt", "old_string": "hello", "new_string": "hi"},
    "MultiEdit": {"file_path": "a.txt", "edits": [{"old_string": "hello", "new_string": "hi"}]},
    "Grep": {"pattern": "hello", "path": ".", "glob": "*.txt", "type": "py", "output_mode": "content"},
    "Glob": {"pattern": "*", "path": "."},
    "LS": {"path": ".", "ignore": ["*.x"]},
    "Bash": {"command": "true", "description": "nothing"},
    "BashOutput": {"bash_id": "bash_1", "filter": "h"},
    "KillBash": {"shell_id": "bash_9"},
    "TodoWrite": {"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]},
    "AskUser": {"questions": [{"question": "a", "options": ["b"]}]},
    "WebFetch": {"url": "http://127.0.0.1:1/"},
}


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[Runner]:
    async def ask(question: Question) -> Answer:
        assert question.kind == "questions"  # nobody is there for anything else
        return Answer("once", data={"answers": ["d"]})

    (tmp_path / "work").mkdir()
    workspace = Workspace(tmp_path / "work")
    tree = TreeState(tmp_path / "scratch", {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    permit = Permissions(workspace=workspace, mode="bypass", trusted=True)
    ctx = ToolContext("main", "", workspace, AgentState(workspace.root), tree, lambda event: None)
    yield Runner(ctx, TOOLS, ask, permit)
    await jobs.close(tree)


def test_every_tool_is_attacked() -> None:
    assert CALLS.keys() == {name for name, tool in TOOLS.items() if tool.family != "delegate"}


@pytest.mark.parametrize("name", CALLS)
async def test_no_string_anywhere_breaks_a_tool(name: str, runner: Runner, tmp_path: Path) -> None:
    start = {"command": "echo hello; sleep 600", "run_in_background": True}
    if name == "BashOutput":
        await runner.run([ToolUse("start", "Bash", start)])
    for place in _strings(CALLS[name]):
        for what, hostile in STRINGS.items():
            (tmp_path / "work" / "a.txt").write_text("hello\nworld\n")
            given = _with(CALLS[name], place, hostile)
            calls = [ToolUse("read", "Read", {"file_path": "a.txt"}), ToolUse("call", name, given)]
            record = (await runner.run(calls))[1].to_dict()
            why = (what, place, ascii(record["text"][:300]))
            assert problems(record) == [], why
            assert record.get("error", {}).get("code") != "INTERNAL_ERROR", why
            assert "failed inside" not in record["text"], why
            record["text"].encode("utf-8")
            assert record["status"] != "error" or len(record["text"]) < 6_000, why


def _strings(value: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the strings of a call are."""
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _strings(inner, (*place, key))


def _with(value: Any, place: tuple[str | int, ...], hostile: str) -> Any:
    if not place:
        return hostile
    copy = value.copy()
    copy[place[0]] = _with(value[place[0]], place[1:], hostile)
    return copy
