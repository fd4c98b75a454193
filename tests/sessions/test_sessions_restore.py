from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cowork.core.blocks import Text, ToolUse, Usage
from cowork.core.errors import UserError
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    Event,
    Notice,
    PromptAdded,
    ReplyAdded,
    SessionRewound,
    SessionStarted,
    TodoUpdated,
    ToolEnded,
    ToolStarted,
)
from cowork.core.transcript import fold
from cowork.sessions.cost import Spending, add_up, charges, totals
from cowork.sessions.index import list_sessions
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import SessionLog, fork
from cowork.sessions.resume_state import find_interrupted, restore, rewind_points


def ended(name: str, path: str, digest: str = "", status: str = "success", cwd: str = ".", **more: object) -> ToolEnded:
    data = {"path": path, **({"hash": digest} if digest else {}), **more}
    return ToolEnded("1", name, {"status": status, "data": data, "text": "x", "context": {"cwd": cwd}})


def test_todo_mode_and_model_are_those_of_the_end(stamp):
    state = restore(
        stamp(
            [
                SessionStarted("/p", "first", "x", "ask"),
                TodoUpdated(({"content": "a"},)),
                Notice(code="mode.changed", data={"mode": "plan"}),
                Notice(code="model.changed", data={"model": "second"}),
                TodoUpdated(({"content": "b"},)),
                TodoUpdated(({"content": "child's"},), agent="main/explore-1"),
            ]
        ),
        Path("/p"),
    )
    assert (state.todos, state.mode, state.model) == (({"content": "b"},), "plan", "second")


def test_a_rewind_takes_the_todo_list_back_but_not_the_persons_choices(stamp):
    state = restore(
        stamp(
            [
                SessionStarted("/p", "first", "x", "ask"),
                TodoUpdated(({"content": "a"},)),
                PromptAdded("p"),
                TodoUpdated(({"content": "b"},)),
                Notice(code="mode.changed", data={"mode": "plan"}),
                ended("Read", "late", "h"),
                AgentStarted("x", agent="main/explore-1"),
                SessionRewound(3),
            ]
        ),
        Path("/p"),
    )
    assert (state.todos, state.mode, state.seen, state.children) == (({"content": "a"},), "plan", {}, ())
    files_only = restore(
        stamp([PromptAdded("p"), TodoUpdated(({},)), SessionRewound(1, conversation=False)]), Path("/p")
    )
    assert files_only.todos == ({},)


def test_the_read_state_is_the_last_hash_of_each_file_of_the_main_agent(stamp):
    events = [
        ended("Read", "a.py", "1"),
        ended("Read", "/elsewhere/b", "2"),
        ended("Edit", "a.py", "3"),
        ended("Write", "src/../c", "4"),
        replace(ended("Read", "child", "5"), agent="main/explore-1"),
        ToolStarted("2", "mcp__files__look", family="other"),
        replace(ended("mcp__files__look", "d", "6"), tool_use_id="2"),
        ended("Read", "no-hash"),
        ToolEnded("1", "Read", {"data": None}),
        ToolEnded("1", "Read", {}),
    ]
    assert restore(stamp(events), Path("/p")).seen == {"/p/a.py": "3", "/elsewhere/b": "2", "/p/c": "4"}


def test_the_working_directory_is_the_last_one_if_it_is_still_there(stamp, tmp_path):
    (tmp_path / "sub").mkdir()
    assert restore(stamp([ended("Bash", "", cwd="sub")]), tmp_path).cwd == str(tmp_path / "sub")
    assert restore(stamp([ended("Bash", "", cwd="gone")]), tmp_path).cwd == ""
    assert restore([], tmp_path).cwd == ""


def test_a_sibling_that_ended_meanwhile_is_no_part_of_an_interrupted_child(stamp):
    first, second = "main/explore-1", "main/explore-2"
    spent = {"usage": {"prompt_tokens": 10, "completion_tokens": 1}, "total_cost_usd": 0.5, "model_id": "small"}
    events = [
        AgentStarted("id1", subagent_type="explore", agent=first),
        AgentStarted("id2", subagent_type="explore", agent=second),
        ReplyAdded((Text("x"),), "end_turn", Usage(10, 1), 0.5, "small", agent=first),
        ReplyAdded((Text("y"),), "end_turn", Usage(20, 2), 0.25, "small", agent=second),
        AgentEnded("id1", "completed", {"status": "success", "data": spent}, agent=first),
    ]
    (found,) = find_interrupted(stamp(events))
    assert (found.start.subagent_id, found.spent.cost_usd) == ("id2", 0.25)


def test_a_child_without_an_end_is_interrupted_with_what_it_had(stamp):
    child, grandchild = "main/explore-1", "main/explore-1/plan-1"

    def of(agent: str, *events: Event) -> list[Event]:
        return [replace(e, agent=agent) for e in events]

    events = [
        AgentStarted("done", subagent_type="plan", agent="main/plan-1"),
        AgentEnded("done", agent="main/plan-1"),
        *of(
            child,
            AgentStarted("id1", "main", "t", "look around", "p", "explore", "light", "small"),
            ReplyAdded((Text("I start."), ToolUse("1", "Edit", {})), "tool_use", Usage(10, 1), 0.5, "small"),
            ToolStarted("1", "Edit"),
            ended("Edit", "a.py", added=1),
            ended("Write", "failed.py", status="error", added=1),
            ReplyAdded((ToolUse("2", "Bash", {}),), "tool_use", Usage(10, 1), 0.25, "small"),
            ToolStarted("2", "Bash"),
        ),
        *of(grandchild, ReplyAdded((Text("x"),), "end_turn", Usage(1), 0.125), ended("Write", "b.py", added=1)),
    ]
    (found,) = find_interrupted(stamp(events))
    start = found.start
    assert (start.agent, start.subagent_id, start.subagent_type, start.model_id) == (child, "id1", "explore", "small")
    assert (found.turns, found.tally.total(), found.text) == (2, 2, "I start.")
    assert found.files_changed == ("a.py", "b.py")
    assert found.duration_ms > 0
    assert found.spent == Spending(3, Usage(21, 2), 0.875, 0.875)
    assert found.line == (
        "explore (look around) was interrupted after 2 turns and 2 tool calls, changed a.py, b.py; "
        "last words: I start. [subagent_id id1]"
    )


def test_rewind_points_are_the_persons_prompts_still_there(stamp):
    events = [
        PromptAdded("one"),
        PromptAdded("machine", source="system"),
        PromptAdded("two", source="queue"),
        PromptAdded("child's", agent="main/explore-1"),
        PromptAdded("three"),
        SessionRewound(5),
        PromptAdded("four", source="steer"),
    ]
    assert [p.text for p in rewind_points(fold(stamp(events)))] == ["one", "two", "four"]


# ---------------------------------------------------------------- fork


def test_a_fork_has_the_same_past_and_a_future_of_its_own(store, turns, stamp, sessions):
    events = stamp(turns(3))
    path = store(events)
    original = path.read_bytes()
    new = fork(sessions, "s1")
    loaded = read(sessions / new / "events.jsonl")
    assert loaded.damage == []
    assert fold(loaded.events).messages() == fold(read(path).events).messages()
    assert loaded.events[-1].data == {"session_id": "s1", "event": len(events)}
    with SessionLog.open(sessions, new) as log:
        log(PromptAdded("other", id=log.loaded.last_id + 1, at=9999.0, session_id=new))
    assert path.read_bytes() == original
    assert [e.id for e in list_sessions(sessions)] == [new, "s1"]


def test_a_fork_costs_nothing_by_itself(store, turns, stamp, sessions):
    store(stamp(turns(2)))
    new = fork(sessions, "s1")
    cost = {e.id: e.cost_usd for e in list_sessions(sessions)}
    assert cost == {"s1": 1.75, new: 0.0}


def test_a_session_in_use_can_be_forked_and_a_missing_one_cannot(store, turns, stamp, sessions):
    store(stamp(turns(1)))
    with SessionLog.open(sessions, "s1"):
        fork(sessions, "s1")
    with pytest.raises(UserError, match="no session"):
        fork(sessions, "nope")
    (sessions / "s1" / "events.jsonl").write_bytes(b"")
    with pytest.raises(UserError, match="nothing to fork"):
        fork(sessions, "s1")


def test_a_damaged_session_is_forked_without_its_damage(store, turns, stamp, sessions):
    path = store(stamp(turns(1)))
    path.write_bytes(path.read_bytes()[:-9])
    assert read(sessions / fork(sessions, "s1") / "events.jsonl").damage == []


def test_totals_of_any_history_add_up(stamp, turns):
    events = list(stamp(turns(7)))
    sums, own = totals(events), add_up((charge.agent, charge.spent) for charge in charges(events))
    assert sums[""] == sums["main"]
    for path in sums.keys() - {""}:
        expected = own[path]
        for child in [p for p in sums if p and p.rpartition("/")[0] == path]:
            expected += sums[child]
        assert sums[path] == expected
