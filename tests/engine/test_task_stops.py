"""Stopping children: at any moment, from any side, and what is left of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cowork.agents import Agents
from cowork.core.events import AgentEnded, Event, QuestionAnswered, QuestionAsked, ToolEnded
from cowork.core.ports import TaskOrder
from cowork.engine.budget import NOTHING
from cowork.engine.compaction import Compaction
from cowork.engine.loop import Prompt
from cowork.frontends.repl.input.dialogs import Dialogs
from cowork.providers.scripted import Scripted
from cowork.tools.shell import jobs
from tests.fakes.record_rules import problems
from tests.fakes.stage import Stage, agent_def, call, say, turn
from tests.fakes.wire_rules import violations

CHILD = "\n\n# Task\n"
NEVER = {**say("never"), "delay_ms": 60_000}


def task(kind: str = "explore", prompt: str = "find it", **rest: Any) -> dict[str, Any]:
    return call("Task", description="find the thing", prompt=prompt, subagent_type=kind, **rest)


def ended(stage: Stage, subagent_id: str) -> dict[str, Any]:
    (event,) = [e for e in stage.events if isinstance(e, AgentEnded) and e.subagent_id == subagent_id]
    return dict(event.record)


def task_records(stage: Stage) -> list[dict[str, Any]]:
    return [e.record for e in stage.events if isinstance(e, ToolEnded) and e.name == "Task" and e.agent == "main"]


def in_the_stage(stage: Stage) -> asyncio.Task[Any]:
    return asyncio.create_task(stage.agent.run(Prompt("go")))


async def test_an_interrupt_leaves_the_parent_what_each_child_had(stage: Stage) -> None:
    children = {"explore": [turn(call("LS", path="."), say="half of it"), NEVER]}
    stage.set_up(Scripted([turn(task(), task(prompt="the rest"))], children))
    running = in_the_stage(stage)
    await stage.until("tool.ended", "main/explore-2")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    records = sorted(task_records(stage), key=lambda record: str(record["data"]["subagent_id"]))
    assert [problems(record) for record in records] == [[], []]
    assert [record["data"]["subagent_id"] for record in records] == ["explore-1", "explore-2"]
    assert [(r["data"]["status"], r["data"]["result"]) for r in records] == [("aborted", "half of it")] * 2
    shown = str(stage.agent.transcript.messages()[-1])
    assert "half of it" in shown
    assert "subagent_id explore-1" in shown


async def test_the_question_of_a_killed_child_is_withdrawn_and_the_next_one_comes_up(stage: Stage) -> None:
    now = [0.0]
    dialogs = Dialogs(on_change=lambda: None, clock=lambda: now[0])
    stage._ask = dialogs.ask  # type: ignore[method-assign]
    children = {"general-purpose": [turn(call("Write", file_path="a", content="b")), say("done")]}
    stage.set_up(Scripted([turn(task("general-purpose"), task("general-purpose", "more")), say("ok")], children))
    running = in_the_stage(stage)
    await stage.until("question.asked", "main/general-purpose-2")
    assert dialogs.current is not None
    assert dialogs.current.question.agent == "main/general-purpose-1"
    stage.subagents.kill("general-purpose-1")
    await stage.until("agent.ended", "main/general-purpose-1")
    assert dialogs.current.question.agent == "main/general-purpose-2"
    assert dialogs.waiting() == []
    now[0] += 10  # it has been read
    dialogs.type("y")
    now[0] += 10  # and nothing follows
    dialogs.tick()
    await running
    asked = [e.question_id for e in stage.events if isinstance(e, QuestionAsked)]
    answered = {e.question_id: (e.choice, e.note) for e in stage.events if isinstance(e, QuestionAnswered)}
    assert list(answered) == asked
    assert answered[asked[0]] == ("no", "withdrawn: the call was stopped")
    assert [e["data"]["status"] for e in task_records(stage)] == ["aborted", "completed"]


async def test_a_kill_by_whoever_hears_of_the_start_is_obeyed(stage: Stage) -> None:
    stage.set_up(Scripted([turn(task()), say("ok")], {"explore": [say("never")]}))

    def kill(event: Event) -> None:
        if event.type == "agent.started":
            stage.subagents.kill("explore-1")

    stage.emitter.add(kill)
    story = stage.story(await stage.agent.run(Prompt("go")))
    assert [r["data"]["status"] for r in task_records(stage)] == ["aborted"]
    assert story.asked(CHILD) == []


async def test_a_kill_that_the_model_swallows_still_stops_the_next_request(stage: Stage) -> None:
    async def deaf(seconds: float) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return  # as a wait does whose result came in the same moment

    look = {**turn(call("LS", path=".")), "delay_ms": 1}
    stage.set_up(Scripted([turn(task()), say("ok")], {"explore": [look, say("never")]}, sleep=deaf))
    running = in_the_stage(stage)
    await stage.until("agent.updated", "main/explore-1")
    await asyncio.sleep(0)
    stage.subagents.kill("explore-1")
    story = stage.story(await running)
    assert len(story.asked(CHILD)) == 1
    assert [r["data"]["status"] for r in task_records(stage)] == ["aborted"]


async def test_killing_twice_ends_it_once(stage: Stage) -> None:
    stage.policy.allow_all = True
    children = {"bash": [turn(call("Bash", command="trap '' TERM; sleep 60"))]}
    stage.set_up(Scripted([turn(task("bash")), say("ok")], children))
    running = in_the_stage(stage)
    await stage.until("tool.started", "main/bash-1")
    assert stage.subagents.kill("bash-1")
    await asyncio.sleep(0)
    assert stage.subagents.kill("bash-1")
    await running
    assert not stage.subagents.kill("bash-1")
    assert [e.status for e in stage.events if isinstance(e, AgentEnded)] == ["aborted"]
    await jobs.close(stage.tree)


async def test_a_killed_child_takes_its_background_commands_along(stage: Stage) -> None:
    stage.policy.allow_all = True
    start = turn(call("Bash", command="sleep 300", run_in_background=True))
    children = {"bash": [start, NEVER]}
    stage.set_up(Scripted([turn(task("bash")), say("ok")], children))
    running = in_the_stage(stage)
    await stage.until("tool.ended", "main/bash-1")
    (job,) = stage.tree.jobs.values()
    assert job.running
    stage.subagents.kill("bash-1")
    await running
    assert not job.running
    await jobs.close(stage.tree)


async def test_a_background_command_a_finished_child_leaves_is_named_in_its_receipts(stage: Stage) -> None:
    stage.policy.allow_all = True
    start = turn(call("Bash", command="sleep 300", run_in_background=True))
    await stage.play("go", [turn(task("bash")), say("ok")], {"bash": [start, say("it serves")]})
    (job,) = stage.tree.jobs.values()
    assert job.running
    assert f"still running: {job.id}" in task_records(stage)[0]["text"]
    await jobs.close(stage.tree)


async def test_a_parent_that_is_killed_does_not_stand_in_line_again(stage: Stage) -> None:
    stage.settings.allow_nesting = True
    stage.settings.max_concurrent = 1
    stage.agents = Agents([agent_def("alpha"), agent_def("beta"), agent_def("gamma")])
    children = {"alpha": [turn(task("beta", "deeper")), say("never")], "beta": [say("never")], "gamma": [NEVER]}
    stage.set_up(Scripted([turn(task("alpha", "one"), task("gamma", "two")), say("ok")], children))
    running = in_the_stage(stage)
    await stage.until("agent.started", "main/alpha-1/beta-3")
    stage.subagents.kill("alpha-1")
    await asyncio.wait_for(stage.until("agent.ended", "main/alpha-1"), 30)
    assert list(stage.subagents.running) == ["gamma-2"]
    stage.subagents.kill("gamma-2")
    await running
    assert stage.all_slots_free


async def test_a_child_that_waits_for_its_background_child_gives_its_place(stage: Stage) -> None:
    stage.settings.allow_nesting = True
    stage.settings.max_concurrent = 1
    stage.agents = Agents([agent_def("alpha"), agent_def("beta")])
    children = {
        "alpha": [turn(task("beta", "deeper", run_in_background=True)), say("waiting"), say("all in")],
        "beta": [say("deep")],
    }
    story = await asyncio.wait_for(stage.play("go", [turn(task("alpha", "one")), say("ok")], children), 10)
    assert story.outcome.text == "ok"
    assert [r["data"]["result"] for r in task_records(stage)] == ["all in"]
    assert stage.all_slots_free


async def test_a_child_killed_in_line_took_no_time_and_spent_nothing(stage: Stage) -> None:
    stage.settings.max_concurrent = 1
    stage.set_up(Scripted([turn(task(), task(prompt="two")), say("ok")], {"explore": [NEVER]}))
    running = in_the_stage(stage)
    await stage.until("agent.started", "main/explore-2")
    await asyncio.sleep(0.02)
    stage.subagents.kill("explore-2")
    await stage.until("agent.ended", "main/explore-2")
    data = ended(stage, "explore-2")["data"]
    assert (data["duration_ms"], data["usage"], data["status"]) == (
        0,
        {"prompt_tokens": 0, "completion_tokens": 0},
        "aborted",
    )
    stage.subagents.kill("explore-1")
    await running
    assert stage.all_slots_free


async def test_asking_a_child_to_finish_is_told_as_an_early_end(stage: Stage) -> None:
    look = turn(call("LS", path="."))
    stage.set_up(Scripted([turn(task()), say("ok")], {"explore": [look, say("so far")]}))
    running = in_the_stage(stage)
    await stage.until("tool.started", "main/explore-1")
    stage.subagents.finish("explore-1")
    await running
    (record,) = task_records(stage)
    assert (record["status"], record["data"]["status"], record["data"]["result"]) == ("partial", "incomplete", "so far")
    assert "asked to finish early" in record["text"]
    assert record["data"]["metadata"]["max_turns_reached"] == "false"


async def test_a_child_asked_to_finish_before_it_began_does_not_begin(stage: Stage) -> None:
    stage.settings.max_concurrent = 1
    first = [{**say("one"), "delay_ms": 30}]
    stage.set_up(Scripted([turn(task(), task("plan", "two")), say("ok")], {"explore": first, "plan": [say("never")]}))
    running = in_the_stage(stage)
    await stage.until("agent.started", "main/plan-2")
    stage.subagents.finish("plan-2")
    story = stage.story(await running)
    assert ended(stage, "plan-2")["data"]["status"] == "aborted"
    assert len(story.asked(CHILD)) == 1


async def test_a_stopped_tree_leaves_no_reservation_and_no_place(stage: Stage) -> None:
    stage.settings.max_total_tokens = 40_000
    stage.settings.max_concurrent = 2
    children = {"explore": [turn(call("LS", path="."), usage={"input_tokens": 9_000}), NEVER]}
    orders = [task(prompt=f"part {n}") for n in range(4)]
    stage.set_up(Scripted([turn(*orders), say("ok")], children))
    running = in_the_stage(stage)
    await stage.until("tool.ended", "main/explore-1")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stage.all_slots_free
    assert stage.subagents.running == {}
    settle = await asyncio.wait_for(stage.subagents._ledger.reserve(20_000, None), 30)
    settle(NOTHING)
    assert violations(stage.agent.transcript.messages()) == []


async def test_what_was_said_and_not_heard_before_a_stop_is_void(stage: Stage) -> None:
    stage.policy.allow_all = True
    stage.set_up(Scripted([turn(call("Bash", command="sleep 60")), say("ok")]))
    running = in_the_stage(stage)
    await stage.until("tool.started")
    stage.agent.tell(Prompt("faster", source="steer"))
    stage.agent.tell(Prompt("the child found it", source="agent"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await stage.agent.run(Prompt("faster"))
    said = [e.text for e in stage.events if e.type == "prompt.added"]  # type: ignore[attr-defined]
    assert said == ["go", "faster", "the child found it"]
    await jobs.close(stage.tree)


async def test_an_interrupted_prompt_says_nothing_of_what_is_asked_for_after_it(stage: Stage) -> None:
    """`/compact`, and a task that a program sends out between prompts."""
    stage.set_up(Scripted([say("word " * 3_000), NEVER, say("summary")], {"explore": [say("found")]}))
    await stage.agent.run(Prompt("go"))
    running = in_the_stage(stage)
    await stage.until("prompt.added")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    order = TaskOrder("find the thing", "find it", "explore")
    assert (await stage.subagents.spawn(stage.runner.context(), order)).data["result"] == "found"
    assert await Compaction("sum up")(stage.agent, "manual")
