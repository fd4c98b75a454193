"""Receipts: what a child is said to have done is what ran, and a refused call is never an end in success."""

from __future__ import annotations

from typing import Any

import pytest

from cowork.core.events import AgentEnded, AgentUpdated, ToolEnded
from tests.fakes.stage import Stage, call, say, turn

WRITE = call("Write", file_path="n.txt", content="x")
LOOK = call("LS", path=".")


def task(kind: str = "general-purpose", **rest: Any) -> dict[str, Any]:
    return call("Task", description="write a note", prompt="write n.txt", subagent_type=kind, **rest)


async def played(stage: Stage, *turns: dict[str, Any], kind: str = "general-purpose", **rest: Any) -> dict[str, Any]:
    story = await stage.play("go", [turn(task(kind, **rest)), say("ok")], {kind: list(turns)}, answer="no")
    (ended,) = [e for e in story.of(ToolEnded) if e.name == "Task"]
    return dict(ended.record)


def row(tool: str, count: int = 0, failed: int = 0, denied: int = 0, **rest: int) -> dict[str, Any]:
    return {"tool": tool, "count": count, "failed": failed, "denied": denied, **rest}


async def test_a_denied_write_is_not_called_done(stage: Stage) -> None:
    record = await played(stage, turn(WRITE), say("I wrote n.txt."))
    data = record["data"]
    assert (record["status"], data["status"]) == ("partial", "incomplete")
    assert data["tool_summary"] == [row("Write", denied=1)]
    assert data["short_result"] == "Task incomplete: It ended right after a denied call: Write."
    assert "1 tool call (Write 0 run, 1 denied): nothing was looked at" in record["text"]
    assert "It ended right after a denied call: Write. What it reported:\n\nI wrote n.txt." in record["text"]
    assert record["stats"]["tool_calls"] == 0
    assert data["files_changed"] == []


async def test_block_event_record_and_short_result_use_one_word(stage: Stage) -> None:
    record = await played(stage, turn(WRITE), say("I wrote n.txt."))
    (ended,) = [e for e in stage.events if isinstance(e, AgentEnded)]
    last = [e for e in stage.events if isinstance(e, AgentUpdated)][-1]
    assert {last.status, ended.status, record["data"]["status"]} == {"incomplete"}
    assert record["data"]["short_result"].startswith("Task incomplete: ")


async def test_each_outcome_is_counted_apart(stage: Stage) -> None:
    calls = turn(LOOK, LOOK, call("Read", file_path="nowhere"), call("Fly"), WRITE)
    record = await played(stage, calls, turn(LOOK), say("done"))
    assert record["data"]["status"] == "completed"
    assert record["data"]["tool_summary"] == [
        row("LS", 3),
        row("Read", failed=1),
        row("Fly", unknown=1),
        row("Write", denied=1),
    ]
    receipt = "6 tool calls (LS 3; Read 0 run, 1 failed; Fly 0 run, 1 unknown; Write 0 run, 1 denied)"
    assert receipt in record["text"]
    assert record["stats"]["tool_calls"] == 3


async def test_a_tool_it_was_never_given_is_denied_too(stage: Stage) -> None:
    record = await played(stage, turn(call("Bash", command="id")), say("I ran it."), kind="explore")
    assert record["data"]["status"] == "incomplete"
    assert record["data"]["tool_summary"] == [row("Bash", denied=1)]


async def test_a_child_none_of_whose_calls_ran_is_incomplete_whatever_came_last(stage: Stage) -> None:
    record = await played(stage, turn(WRITE), turn(call("Fly")), say("All is well."))
    assert record["data"]["status"] == "incomplete"
    assert "None of its 2 tool calls ran." in record["text"]


@pytest.mark.parametrize(
    ("words", "message"),
    [("I will not.", "The model declined to answer in full."), (" ", "The model refused to answer.")],
)
async def test_a_child_whose_model_refuses_is_incomplete(stage: Stage, words: str, message: str) -> None:
    record = await played(stage, turn(LOOK), say(words, stop_reason="refusal"))
    assert (record["status"], record["data"]["status"]) == ("partial", "incomplete")
    assert message in record["text"]


async def test_a_denial_that_was_got_over_is_no_blemish(stage: Stage) -> None:
    record = await played(stage, turn(WRITE), turn(LOOK), say("I could not write; here is the list."))
    assert record["data"]["status"] == "completed"
    assert record["data"]["short_result"] == "Task completed by general-purpose"
