"""Orders: what a child inherits, how it is taken up again, and what is refused before anything runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cowork.agents import Agents
from cowork.core.events import AgentUpdated, ToolEnded, TurnEnded
from cowork.core.transcript import fold
from cowork.engine.loop import Prompt
from cowork.engine.subagents.result import view_000, view_002, view_003
from cowork.providers.scripted import Scripted
from tests.fakes.record_rules import problems
from tests.fakes.stage import Stage, agent_def, call, say, turn

CHILD = "\n\n# Task\n"
NEVER = {**say("never"), "delay_ms": 60_000}


def task(kind: str = "explore", prompt: str = "find it", **rest: Any) -> dict[str, Any]:
    return call("Task", description="find the thing", prompt=prompt, subagent_type=kind, **rest)


def records(stage: Stage) -> list[dict[str, Any]]:
    return [e.record for e in stage.events if isinstance(e, ToolEnded) and e.name == "Task" and e.agent == "main"]


async def test_a_child_begins_where_its_parent_is(stage: Stage) -> None:
    stage.policy.allow_all = True
    (stage.workspace.root / "sub").mkdir()
    (stage.workspace.root / "sub" / "inner.txt").write_text("here\n")
    script = [turn(call("Bash", command="cd sub")), turn(task()), say("ok")]
    story = await stage.play("go", script, {"explore": [turn(call("Read", file_path="inner.txt")), say("read")]})
    (read,) = [e for e in story.of(ToolEnded) if e.name == "Read"]
    assert read.record["status"] == "success"
    assert stage.runner.state.cwd.name == "sub"


async def test_a_child_is_resumed_again_and_again(stage: Stage) -> None:
    again = [turn(task(prompt=f"round {n}", resume="explore-1")) for n in (2, 3)]
    children = {"explore": [say("first"), say("second"), say("third")]}
    story = await stage.play("go", [turn(task()), *again, say("ok")], children)
    texts = [m.text for m in story.asked(CHILD)[-1].messages]
    assert texts == ["find it", "first", "round 2", "second", "round 3"]
    assert [r["data"]["metadata"]["turns_used"] for r in records(stage)] == ["1", "1", "1"]


async def test_a_child_of_another_parent_is_not_resumed(stage: Stage) -> None:
    stage.settings.allow_nesting = True
    stage.agents = Agents([agent_def("alpha"), agent_def("beta")])
    children = {"alpha": [turn(task("beta", "deeper")), say("alpha done")], "beta": [say("deep")]}
    script = [turn(task("alpha", "start")), turn(task("beta", "more", resume="beta-2")), say("ok")]
    await stage.play("go", script, children)
    assert records(stage)[1]["error"] == {
        "code": "NOT_FOUND",
        "message": "There is no subagent 'beta-2' to resume. Start a new one.",
    }


async def test_a_child_is_taken_up_from_the_log(stage: Stage) -> None:
    children = {"explore": [say("first"), say("second")]}
    stage.set_up(Scripted([turn(task(prompt="and then?", resume="explore-1")), say("ok")], children))
    stage.set_up(Scripted([turn(task()), say("ok")], children))
    await stage.agent.run(Prompt("go"))
    past = list(stage.events)
    stage.recall = lambda path: fold(past, path)
    stage.set_up(Scripted([turn(task(prompt="and then?", resume="explore-1")), say("ok")], children))
    await stage.agent.run(Prompt("go on"))
    asked = [r for r in stage.provider.requests if CHILD in r.system]  # type: ignore[attr-defined]
    assert [m.text for m in asked[-1].messages] == ["find it", "first", "and then?"]


async def test_words_of_an_earlier_round_are_not_given_as_the_result_of_this_one(stage: Stage) -> None:
    script = [turn(task()), turn(task(prompt="and then?", resume="explore-1")), say("ok")]
    stage.set_up(Scripted(script, {"explore": [say("first"), NEVER]}))
    running = asyncio.create_task(stage.agent.run(Prompt("go")))
    await stage.until("agent.ended", "main/explore-1")
    await stage.until("prompt.added", "main/explore-1")
    stage.subagents.kill("explore-1")
    await running
    assert [(r["data"]["status"], r["data"]["result"]) for r in records(stage)] == [
        ("completed", "first"),
        ("aborted", ""),
    ]


async def test_a_failed_answer_does_not_repeat_the_one_before(stage: Stage) -> None:
    stage.set_up(Scripted([say("the first answer"), {**say("x"), "fault": {"status": 400}}]))
    await stage.agent.run(Prompt("one"))
    outcome = await stage.agent.run(Prompt("two"))
    assert (outcome.reason, outcome.text) == ("api_error", "")
    assert [e.text for e in stage.events if isinstance(e, TurnEnded)] == ["the first answer", ""]


@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"properties": []}, {"type": "string", "pattern": "("}])
async def test_a_schema_that_is_none_is_refused_before_anything_runs(stage: Stage, schema: dict[str, Any]) -> None:
    story = await stage.play("go", [turn(task(output_schema=schema)), say("ok")])
    (record,) = records(stage)
    assert record["error"]["code"] == "INVALID_PARAM"
    assert record["error"]["message"].startswith("output_schema is not a JSON Schema: ")
    assert story.kinds("agent") == []


async def test_every_record_has_all_four_views(stage: Stage) -> None:
    script = [
        turn(task(run_in_background=True)),
        turn(task("nobody"), task("plan"), task("summary", max_turns=1), call("Task", prompt="x")),
        say("waiting"),
        say("ok"),
    ]
    look = turn(call("LS", path="."))
    children = {
        "explore": [say("found")],
        "plan": [{**say("x"), "fault": {"status": 400}}],
        "summary": [look, say("half")],
    }
    await stage.play("go", script, children)
    all_records = records(stage)
    assert len(all_records) == 5
    for record in all_records:
        assert problems(record) == []
        good = record["status"] != "error"
        assert view_000(record)["success"] is good
        assert set(view_000(record)) == {"success", "content", "shortResult"} | (set() if good else {"error"})
        assert set(view_002(record)) == {"result", "usage", "total_cost_usd", "duration_ms"}
        assert set(view_003(record)) == {"success", "output", "error", "metadata"}
        assert all(isinstance(value, str) for value in view_003(record)["metadata"].values())


async def test_a_panel_can_follow_a_child_from_the_line_to_its_end(stage: Stage) -> None:
    stage.settings.max_concurrent = 1
    children = {
        "explore": [
            turn(call("Read", file_path="nowhere.py"), usage={"input_tokens": 40, "output_tokens": 2}),
            say("done"),
        ]
    }
    story = await stage.play("go", [turn(task(), task(prompt="two")), say("ok")], children)
    mine = [e for e in story.events if e.agent == "main/explore-2"]
    kinds = [e.type if not isinstance(e, AgentUpdated) else f"{e.type} {e.status}" for e in mine]
    assert kinds[0] == "agent.started"
    assert kinds[1] == "agent.updated active"
    assert kinds[-2:] == ["agent.updated completed", "agent.ended"]
    acted = next(e for e in mine if isinstance(e, AgentUpdated) and e.action)
    assert (acted.action, acted.turns, acted.tool_calls, acted.usage.total) == ("Read nowhere.py", 1, 1, 42)


async def test_a_child_that_looked_at_nothing_says_so(stage: Stage) -> None:
    await stage.play("go", [turn(task()), say("ok")], {"explore": [say("I am sure.")]})
    assert "0 tool calls: nothing was looked at" in records(stage)[0]["text"]


async def test_a_report_that_was_cut_off_is_not_called_complete(stage: Stage) -> None:
    half = say("The first of three", stop_reason="max_tokens")
    await stage.play("go", [turn(task()), say("ok")], {"explore": [half]})
    (record,) = records(stage)
    assert (record["status"], record["data"]["status"]) == ("partial", "incomplete")
    assert "Its report was cut off at the output limit." in record["text"]
    assert record["data"]["result"] == "The first of three"


async def test_the_name_agent_is_task(stage: Stage) -> None:
    order = task()
    order["name"] = "Agent"
    story = await stage.play("go", [turn(order), say("ok")], {"explore": [say("found")]})
    (ended,) = [e for e in story.of(ToolEnded) if e.agent == "main"]
    assert (ended.name, ended.record["data"]["result"]) == ("Agent", "found")


async def test_a_nested_child_is_never_looser_than_the_one_above_it(stage: Stage) -> None:
    stage.settings.allow_nesting = True
    stage.agents = Agents([agent_def("alpha", permission_mode="plan"), agent_def("beta", permission_mode="bypass")])
    children = {"alpha": [turn(task("beta", "deeper")), say("alpha done")], "beta": [say("deep")]}
    await stage.play("go", [turn(task("alpha", "start")), say("ok")], children)
    assert stage.modes_asked == [("plan",), ("plan", "bypass")]


async def test_two_children_of_one_reply_cannot_both_take_up_the_same_one(stage: Stage) -> None:
    both = turn(task(prompt="a", resume="explore-1"), task(prompt="b", resume="explore-1"))
    children = {"explore": [say("first"), {**say("second"), "delay_ms": 10}]}
    await stage.play("go", [turn(task()), both, say("ok")], children)
    by_status = sorted((r["status"], r.get("error", {}).get("message", "")) for r in records(stage))
    assert by_status[0] == ("error", "Subagent 'explore-1' is still running")
    assert [status for status, _ in by_status] == ["error", "success", "success"]


async def test_a_model_named_by_its_id_is_used_as_named(stage: Stage) -> None:
    stage.agents = Agents([agent_def("alpha", model="gpt-x")])
    await stage.play("go", [turn(task("alpha")), say("ok")], {"alpha": [say("done")]})
    data = records(stage)[0]["data"]
    assert (data["model_requested"], data["model_used"]) == ("gpt-x", "gpt-x")
    assert "not configured" not in records(stage)[0]["text"]


async def test_a_child_is_resumed_only_as_what_it_is(stage: Stage) -> None:
    children = {"bash": [say("first")]}
    script = [turn(task("bash")), turn(task("explore", "and then?", resume="bash-1")), say("ok")]
    story = await stage.play("go", script, children)
    assert records(stage)[1]["error"] == {
        "code": "INVALID_PARAM",
        "message": "Subagent 'bash-1' is of type bash, not explore",
    }
    assert len(story.asked(CHILD)) == 1


async def test_a_rule_against_an_agent_holds_when_it_was_found_by_likeness(stage: Stage) -> None:
    stage.settings.match = "similar"
    stage.policy.deny_agents = frozenset({"bash"})
    story = await stage.play("go", [turn(task("shell commands runner")), say("ok")], {"bash": [say("never")]})
    assert records(stage)[0]["error"]["code"] == "PERMISSION_DENIED"
    assert story.asked(CHILD) == []


async def test_an_agent_that_inherits_runs_on_the_model_its_parent_was_switched_to(stage: Stage) -> None:
    stage.agents = Agents([agent_def("alpha")])
    stage.set_up(Scripted([say("never")]))
    other = Scripted([turn(task("alpha")), say("ok")], {"alpha": [say("done")]}, model="other")
    stage.agent.provider = other
    await stage.agent.run(Prompt("go"))
    assert records(stage)[0]["data"]["model_id"] == "other"
    assert len(other.requests) == 3


async def test_a_refusal_names_the_label_and_the_depth(stage: Stage) -> None:
    await stage.play("go", [turn(task("nobody")), say("ok")])
    assert view_003(records(stage)[0])["metadata"] == {"subagent_label": "find the thing", "recursion_depth": "1"}
