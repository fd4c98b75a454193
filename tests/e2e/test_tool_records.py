"""Every tool and every error code through the installed command: one shape of record, whatever the outcome."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from cowork.core.errors import ToolErrorCode
from tests.fakes.command import Command
from tests.fakes.record_rules import problems

BYPASS = ("--permission-mode", "bypass")
TASK = {"description": "look around", "prompt": "look"}

# (tool, arguments, "success", "partial" or the code of the error); in this order, in one conversation
STORY: list[tuple[str, dict[str, Any], str]] = [
    ("Read", {"file_path": "a.txt"}, "success"),
    ("Read", {"file_path": "long.txt"}, "partial"),
    ("Read", {"file_path": "b.txt"}, "NOT_FOUND"),
    ("Read", {"file_path": "folder"}, "IS_DIRECTORY"),
    ("Read", {"file_path": "data.bin"}, "BINARY_FILE"),
    ("Read", {"file_path": "pipe"}, "ACCESS_DENIED"),
    ("Read", {"file_path": "/etc/passwd"}, "PERMISSION_DENIED"),
    ("Read", {"file_path": "bad.pdf"}, "EXECUTION_ERROR"),
    ("Read", {"file_path": "a.txt", "limit": "none"}, "INVALID_PARAM"),
    ("Write", {"file_path": "new/file.txt", "content": "one\n"}, "success"),
    ("Write", {"file_path": "other.txt", "content": "one\n"}, "CONFLICT"),
    ("Edit", {"file_path": "a.txt", "old_string": "hello", "new_string": "hi"}, "success"),
    ("Edit", {"file_path": "a.txt", "old_string": "hello", "new_string": "hi"}, "NOT_FOUND"),
    ("MultiEdit", {"file_path": "a.txt", "edits": [{"old_string": "hi", "new_string": "hey"}]}, "success"),
    ("MultiEdit", {"file_path": "a.txt", "edits": []}, "INVALID_PARAM"),
    ("Grep", {"pattern": "hey"}, "success"),
    ("Grep", {"pattern": "line", "output_mode": "content", "head_limit": 1}, "partial"),
    ("Grep", {"pattern": "("}, "INVALID_PARAM"),
    ("Glob", {"pattern": "*.txt"}, "success"),
    ("Glob", {"pattern": "*", "path": "nowhere"}, "NOT_FOUND"),
    ("LS", {}, "success"),
    ("LS", {"path": "a.txt"}, "INVALID_PARAM"),
    ("Bash", {"command": "echo hi"}, "success"),
    ("Bash", {"command": "exit 3"}, "partial"),
    ("Bash", {"command": "sleep 30", "timeout": 200}, "TIMEOUT"),
    ("Bash", {"command": "sleep 30", "run_in_background": True}, "success"),
    ("BashOutput", {"bash_id": "bash_1"}, "success"),
    ("BashOutput", {"bash_id": "bash_9"}, "NOT_FOUND"),
    ("KillBash", {"shell_id": "bash_1"}, "success"),
    ("KillBash", {"shell_id": "bash_9"}, "NOT_FOUND"),
    ("TodoWrite", {"todos": [{"content": "a", "status": "pending", "activeForm": "A"}]}, "success"),
    ("TodoWrite", {"todos": [{"content": "a", "status": "done", "activeForm": "A"}]}, "INVALID_PARAM"),
    ("Task", TASK | {"subagent_type": "explore"}, "success"),
    ("Task", TASK | {"subagent_type": "nobody", "prompt": "nothing"}, "INVALID_PARAM"),
    ("Task", TASK | {"subagent_type": "plan", "prompt": "plan it"}, "INTERNAL_ERROR"),
    ("Task", TASK | {"subagent_type": "explore", "prompt": "again"}, "QUOTA_EXCEEDED"),
    ("Raed", {"file_path": "a.txt"}, "NOT_FOUND"),
    *[("Read", {"file_path": "gone.txt"}, "NOT_FOUND")] * 3,
    ("Read", {"file_path": "gone.txt"}, "CIRCUIT_OPEN"),
]
ELSEWHERE = {"ABORTED"}  # needs somebody who interrupts: its own test below


@pytest.fixture
def cowork(tmp_path: Path) -> Command:
    folder = tmp_path / "work"
    (folder / "folder").mkdir(parents=True)
    (folder / "a.txt").write_text("hello\nline one\nline two\n")
    (folder / "other.txt").write_text("other\n")
    (folder / "long.txt").write_text("x" * 5_000)
    (folder / "data.bin").write_bytes(bytes(range(256)))
    (folder / "bad.pdf").write_bytes(b"%PDF-1.4\nnothing of the kind\n")
    os.mkfifo(folder / "pipe")
    command = Command(folder, tmp_path / "home")
    command.configure("[agent.subagent]\nmax_executions = 2\n[retry]\nmax_attempts = 1\n")
    return command


def outcomes(records: list[dict[str, Any]]) -> Iterator[str]:
    for record in records:
        yield record["error"]["code"] if record["status"] == "error" else record["status"]


def test_every_outcome_of_every_tool_is_a_record_as_promised(cowork: Command) -> None:
    script = {
        "main": [*({"calls": [{"name": name, "input": given}]} for name, given, _ in STORY), {"say": "done"}],
        "agents": {"explore": [{"say": "a.txt"}], "plan": [{"fault": {"status": 400}}]},
    }
    ended = cowork.play(script, *BYPASS)
    records = [event["record"] for event in ended.of("tool.ended", "main")]
    assert ended.code == 0, ended.err
    assert list(outcomes(records)) == [wanted for _, _, wanted in STORY]
    for record, (_, given, _) in zip(records, STORY, strict=True):
        assert problems(record) == []
        assert record["context"]["params_input"] == given
    codes = {code for _, _, code in STORY if code.isupper()}
    assert codes | ELSEWHERE == set(get_args(ToolErrorCode))


def test_a_call_cut_off_by_the_clock_is_a_record_too(cowork: Command) -> None:
    ended = cowork.play([{"call": {"Bash": {"command": "sleep 30"}}}, "never said"], *BYPASS, "--timeout", "1")
    record = ended.record("Bash")
    assert (ended.code, list(outcomes([record])), problems(record)) == (124, ["ABORTED"], [])
    assert "by the user" not in record["text"]  # nobody did it
