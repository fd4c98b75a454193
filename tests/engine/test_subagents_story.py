"""Children: what they get, what they give back, and how each of their ends reaches the parent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cowork.agents import Agents
from cowork.core.errors import UserError
from cowork.core.events import AgentEnded, AgentStarted, AgentUpdated, Event, PromptAdded, ToolEnded
from cowork.engine.loop import Prompt
from cowork.engine.subagents.result import view_000, view_002, view_003
from cowork.providers.scripted import Scripted
from tests.fakes.calls import TOOLS
from tests.fakes.record_rules import problems
from tests.fakes.stage import Stage, agent_def, call, say, turn
from tests.fakes.wire_rules import violations

CHILD = "\n\n# Task\n"


def task(kind: str = "explore", prompt: str = "find it", **rest: Any) -> dict[str, Any]:
    return call("Task", description="find the thing", prompt=prompt, subagent_type=kind, **rest)


def record(story: Any, name: str = "Task") -> dict[str, Any]:
    (ended,) = [e for e in story.of(ToolEnded) if e.name == name and e.agent == "main"]
    assert problems(ended.record) == []
    return dict(ended.record)


async def test_a_child_has_its_own_prompt_tools_and_conversation(stage: Stage) -> None:
    (stage.workspace.root / "big.txt").write_text("needle " + "hay " * 50_000)
    children = {"explore": [turn(call("Read", file_path="big.txt")), say("It is in big.txt:1")]}
    story = await stage.play("where?", [turn(task()), say("In big.txt:1.")], children)
    first = story.asked(CHILD)[0]
    role = stage.agents["explore"].role
    assert first.system == f"{role}\n\n# Task\nfind the thing"
    assert [t.name for t in first.tools] == ["Read", "Grep", "Glob", "LS", "TodoWrite"]
    assert first.messages[0].text == "find it"
    given = record(story)
    assert given["text"].startswith("Subagent (explore, main) completed.")
    assert given["data"]["model_requested"] == "light"
    assert "hay hay" not in str(story.requests[-1].messages)
    assert "It is in big.txt:1" in str(story.requests[-1].messages)
    assert view_000(given) == {
        "success": True,
        "content": "It is in big.txt:1",
        "shortResult": "Task completed by explore",
    }
    assert set(view_002(given)) == {"result", "usage", "total_cost_usd", "duration_ms"}
    assert view_003(given)["metadata"]["turns_used"] == "2"


ALL = "bash, explore, general, general-purpose, plan, summary"
LACKS = "Subagent lacks permission for required tools: "


@pytest.mark.parametrize(
    ("order", "code", "message"),
    [
        (task("nobody"), "INVALID_PARAM", "Subagent 'nobody' not found. Available: " + ALL),
        (task(allowed_tools=["Fly"]), "INVALID_PARAM", "Unknown tool in allowed_tools: Fly"),
        (task(allowed_tools=["Task"]), "INVALID_PARAM", "Tool 'Task' cannot be used by subagents"),
        (task(allowed_tools=["Read", "Write", "Bash"]), "PERMISSION_DENIED", LACKS + "Write, Bash"),
        (task(max_turns=51), "INVALID_PARAM", "max_turns must be between 1 and 50"),
        (task(prompt=" "), "INVALID_PARAM", "prompt cannot be empty"),
        (call("Task", description="a", prompt="b"), "INVALID_PARAM", "Invalid input: missing field `subagent_type`"),
        (task(resume="explore-9"), "NOT_FOUND", "There is no subagent 'explore-9' to resume. Start a new one."),
    ],
)  # fmt: skip
async def test_an_order_that_cannot_be_sent_out_says_why(
    stage: Stage, order: dict[str, Any], code: str, message: str
) -> None:
    story = await stage.play("go", [turn(order), say("ok")])
    given = record(story)
    assert given["error"] == {"code": code, "message": message}
    assert story.kinds("agent") == []
    assert len(story.requests) == 2


async def test_without_agents_nothing_can_be_delegated(stage: Stage) -> None:
    stage.agents = Agents()
    story = await stage.play("go", [turn(task()), say("ok")])
    assert record(story)["error"] == {"code": "NOT_FOUND", "message": "No subagents available for delegation"}


async def test_a_model_that_cannot_be_opened_is_an_initialization_failure(stage: Stage) -> None:
    stage.init_error = UserError("no key for light")
    story = await stage.play("go", [turn(task()), say("ok")])
    given = record(story)
    assert given["error"]["message"] == "Failed to initialize subagent: no key for light"
    assert view_000(given)["shortResult"] == "Task delegation failed"


async def test_a_child_that_runs_out_of_turns_reports_once_more_without_tools(stage: Stage) -> None:
    look = turn(call("LS", path="."))
    children = {"explore": [look, look, say("only half")]}
    story = await stage.play("go", [turn(task(max_turns=2)), say("ok")], children)
    given = record(story)
    assert (given["status"], given["data"]["status"]) == ("partial", "incomplete")
    assert given["data"]["result"] == "only half"
    assert given["data"]["metadata"]["max_turns_reached"] == "true"
    assert given["data"]["metadata"]["turns_used"] == "3", "a turn is a request, and the report is one"
    assert [r.tool_choice for r in story.asked(CHILD)] == ["auto", "auto", "none"]


async def test_a_report_that_pauses_is_asked_for_once(stage: Stage) -> None:
    children = {
        "explore": [turn(call("LS", path=".")), {**say("It is"), "stop_reason": "pause_turn"}, say("half done")]
    }
    story = await stage.play("go", [turn(task(max_turns=1)), say("ok")], children)
    assert record(story)["data"]["result"] == "half done"
    assert [r.tool_choice for r in story.asked(CHILD)] == ["auto", "none", "none"]
    said = [event.source for event in story.events if isinstance(event, PromptAdded) and event.agent != "main"]
    assert said == ["agent", "system"]


async def test_a_child_without_words_is_never_an_empty_success(stage: Stage) -> None:
    children = {"explore": [turn(call("LS", path=".")), say(" "), say(" ")]}
    story = await stage.play("go", [turn(task()), say("ok")], children)
    given = record(story)
    assert given["data"]["status"] == "incomplete"
    assert "gave no report" in given["data"]["result"]


async def test_a_service_failure_keeps_what_the_child_had(stage: Stage) -> None:
    children = {
        "explore": [
            turn(call("LS", path="."), say="I found half of it."),
            {**say("x"), "fault": {"status": 400, "at": "before"}},
        ]
    }
    story = await stage.play("go", [turn(task()), say("ok")], children)
    given = record(story)
    assert given["error"]["code"] == "INTERNAL_ERROR"
    assert given["error"]["message"].startswith("Subagent execution failed: ")
    assert "I found half of it." in given["text"]
    assert "subagent_id explore-1" in given["text"]
    assert violations(story.requests[-1].messages) == []


async def test_a_summary_prompt_shapes_what_comes_back(stage: Stage) -> None:
    children = {"explore": [say("long story"), say("short")]}
    story = await stage.play("go", [turn(task(summary_prompt="In one word")), say("ok")], children)
    assert record(story)["data"]["result"] == "short"
    assert story.asked(CHILD)[-1].messages[-1].text == "In one word"


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_typed_result_is_repaired_and_then_given_as_data(stage: Stage) -> None:
    children = {"explore": [say("three"), say('{"n": "x"}'), say('```json\n{"n": 3}\n```')]}
    story = await stage.play("go", [turn(task(output_schema=SCHEMA)), say("ok")], children)
    assert record(story)["data"]["structured_output"] == {"n": 3}


async def test_a_result_that_stays_untyped_is_a_typed_failure(stage: Stage) -> None:
    children = {"explore": [say("three"), say("four"), say("five")]}
    story = await stage.play("go", [turn(task(output_schema=SCHEMA)), say("ok")], children)
    given = record(story)
    assert given["error"]["code"] == "EXECUTION_ERROR"
    assert "not valid under the output schema" in given["error"]["message"]


async def test_five_run_at_once_and_the_sixth_waits_in_line(stage: Stage) -> None:
    stage.settings.max_concurrent = 2
    children = {"explore": [{**say("done"), "delay_ms": 30}]}
    orders = [task(prompt=f"part {n}") for n in range(5)]
    story = await stage.play("go", [turn(*orders), say("ok")], children)
    assert [e.status for e in story.of(AgentStarted)] == ["active"] * 2 + ["waiting"] * 3
    running: set[str] = set()
    most = 0
    for event in story.events:
        if isinstance(event, AgentUpdated) and event.status == "active":
            running.add(event.subagent_id)
        if isinstance(event, AgentEnded):
            running.discard(event.subagent_id)
        most = max(most, len(running))
    assert most == 2
    results = [e.record["data"]["status"] for e in story.of(ToolEnded)]
    assert results == ["completed"] * 5


async def test_a_killed_child_makes_no_more_requests_and_keeps_its_words(stage: Stage) -> None:
    children = {"explore": [turn(call("LS", path="."), say="half"), {**say("never"), "delay_ms": 60_000}]}
    stage.set_up(Scripted([turn(task()), say("ok")], children))
    running = asyncio.create_task(stage.agent.run(Prompt("go")))
    await stage.until("tool.ended", "main/explore-1")
    assert stage.subagents.kill("explore-1")
    outcome = await running
    story = stage.story(outcome)
    given = record(story)
    assert given["error"]["code"] == "ABORTED"
    assert given["data"]["status"] == "aborted"
    assert given["data"]["result"] == "half"
    assert [e.status for e in story.of(AgentEnded)] == ["aborted"]
    assert stage.subagents.running == {}
    assert stage.all_slots_free


async def test_a_child_killed_before_its_first_step_is_aborted_too(stage: Stage) -> None:
    stage.set_up(Scripted([turn(task()), say("ok")], {"explore": [say("never")]}))

    def kill(event: Event) -> None:
        if event.type == "agent.started":
            asyncio.get_running_loop().call_soon(stage.subagents.kill, "explore-1")

    stage.emitter.add(kill)
    story = stage.story(await stage.agent.run(Prompt("go")))
    assert record(story)["data"]["status"] == "aborted"
    assert story.asked(CHILD) == []


async def test_a_child_can_be_told_something_and_asked_to_finish(stage: Stage) -> None:
    look = turn(call("LS", path="."))
    children = {"explore": [look, look, say("as told")]}
    stage.set_up(Scripted([turn(task()), say("ok")], children))
    running = asyncio.create_task(stage.agent.run(Prompt("go")))
    await stage.until("tool.started", "main/explore-1")
    stage.subagents.tell("explore-1", Prompt("only python files", source="steer"))
    await stage.until("tool.started", "main/explore-1")
    stage.subagents.finish("explore-1")
    story = stage.story(await running)
    asked = story.asked(CHILD)
    assert "only python files" in asked[1].messages[-1].text
    assert [r.tool_choice for r in asked] == ["auto", "auto", "none"]
    assert record(story)["data"]["result"] == "as told"


async def test_interrupting_the_parent_takes_every_child_along(stage: Stage) -> None:
    children = {"explore": [{**say("never"), "delay_ms": 60_000}]}
    stage.set_up(Scripted([turn(task(), task(prompt="other"))], children))
    running = asyncio.create_task(stage.agent.run(Prompt("go")))
    await stage.until("agent.updated", "main/explore-2")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    ended = [e for e in stage.events if isinstance(e, AgentEnded)]
    assert [e.status for e in ended] == ["aborted", "aborted"]
    assert violations(stage.agent.transcript.messages()) == []
    assert stage.all_slots_free


async def test_timeouts_say_how_long(stage: Stage) -> None:
    stage.settings.timeout = 0.05
    children = {"explore": [{**say("never"), "delay_ms": 60_000}]}
    story = await stage.play("go", [turn(task()), say("ok")], children)
    assert record(story)["error"] == {"code": "TIMEOUT", "message": "Subagent task timed out after 50ms"}


async def test_silence_is_timed_apart(stage: Stage) -> None:
    stage.settings.idle_timeout = 0.05
    children = {"explore": [{**say("never"), "delay_ms": 60_000}]}
    story = await stage.play("go", [turn(task()), say("ok")], children)
    assert record(story)["error"]["message"] == "Subagent task timed out after 50ms"


async def test_a_background_child_reports_before_the_answer_is_final(stage: Stage) -> None:
    children = {"explore": [{**say("found"), "delay_ms": 20}]}
    script = [turn(task(run_in_background=True)), say("waiting"), say("all in")]
    story = await stage.play("go", script, children)
    assert story.outcome.text == "all in"
    assert "Background subagent explore-1:" in story.requests[-1].messages[-1].text
    assert "found" in story.requests[-1].messages[-1].text


async def test_a_finished_child_goes_on_with_its_context(stage: Stage) -> None:
    children = {"explore": [say("first"), say("second")]}
    script = [turn(task()), turn(task(prompt="and then?", resume="explore-1")), say("ok")]
    story = await stage.play("go", script, children)
    last = story.asked(CHILD)[-1]
    assert [m.text for m in last.messages] == ["find it", "first", "and then?"]
    assert [e.subagent_id for e in story.of(AgentEnded)] == ["explore-1", "explore-1"]


async def test_quotas_are_results(stage: Stage) -> None:
    stage.settings.max_executions = 1
    story = await stage.play("go", [turn(task()), turn(task(prompt="again")), say("ok")], {"explore": [say("one")]})
    last = [e for e in story.of(ToolEnded) if e.agent == "main"][-1]
    assert last.record["error"] == {
        "code": "QUOTA_EXCEEDED",
        "message": "Resource quota exceeded: Execution limit reached: 1/1",
    }


async def test_nesting_stops_at_circles_and_depth(stage: Stage) -> None:
    stage.settings.allow_nesting = True
    stage.settings.max_depth = 2
    stage.agents = Agents([agent_def("alpha"), agent_def("beta"), agent_def("gamma")])
    children = {
        "alpha": [turn(task("beta", "deeper")), say("alpha done")],
        "beta": [turn(task("alpha", "round"), task("gamma", "too deep")), say("beta done")],
    }
    story = await stage.play("go", [turn(task("alpha", "start")), say("ok")], children)
    texts = [e.record["error"]["message"] for e in story.of(ToolEnded) if e.agent.endswith("beta-2")]
    assert (
        texts == ["Maximum subagent recursion depth (2) exceeded. Current depth: 2. Cannot spawn nested subagent."] * 2
    )
    stage.settings.max_depth = 3
    assert record(story)["data"]["result"] == "alpha done"


async def test_a_circle_names_its_chain(stage: Stage) -> None:
    stage.settings.allow_nesting = True
    stage.agents = Agents([agent_def("alpha"), agent_def("beta")])
    children = {
        "alpha": [turn(task("beta", "deeper")), say("alpha done")],
        "beta": [turn(task("alpha", "round")), say("beta done")],
    }
    story = await stage.play("go", [turn(task("alpha", "start")), say("ok")], children)
    (refused,) = [e for e in story.of(ToolEnded) if e.agent.endswith("beta-2")]
    assert refused.record["error"] == {
        "code": "CONFLICT",
        "message": "Circular delegation prevented: alpha -> beta -> alpha",
    }


async def test_the_total_is_own_plus_children_exactly(stage: Stage) -> None:
    usage = {"input_tokens": 1_333, "output_tokens": 77}
    children = {"explore": [{**say("a"), "usage": usage}], "plan": [{**say("b"), "usage": usage}]}
    provider = Scripted(
        [turn(task(), task("plan"), usage=usage), {**say("ok"), "usage": usage}],
        children,
        price={"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75},
    )
    stage.set_up(provider)
    await stage.agent.run(Prompt("go"))
    by_type = stage.subagents.cost_by_type()
    parts = stage.agent.spent.cost_usd + sum(t["total_cost_usd"] for t in by_type.values())
    assert stage.ledger.spent.cost_usd == round(parts, 9)
    assert stage.ledger.spent.usage.total == 4 * (1_333 + 77)
    assert {name: sums["tasks"] for name, sums in by_type.items()} == {"explore": 1, "plan": 1}


async def test_a_forbidden_tool_is_refused_at_dispatch(stage: Stage) -> None:
    children = {"explore": [turn(call("Bash", command="id")), say("could not")]}
    story = await stage.play("go", [turn(task()), say("ok")], children)
    (refused,) = [e for e in story.of(ToolEnded) if e.name == "Bash"]
    assert refused.record["error"]["code"] == "PERMISSION_DENIED"
    assert "not among your tools" in refused.record["text"]


async def test_a_long_result_is_cut_and_kept_whole_in_a_file(stage: Stage) -> None:
    story = await stage.play("go", [turn(task()), say("ok")], {"explore": [say("é" * 12_000)]})
    given = record(story)
    assert given["data"]["truncated"]
    assert given["data"]["result"].startswith(
        "é" * 10_000 + "...\n\n[Result truncated - 12000 chars total]\n[Output truncated]"
    )
    assert (stage.tree.scratch / "result-explore-1.txt").read_text() == "é" * 12_000


async def test_the_subagent_tool_is_the_same_machinery(stage: Stage) -> None:
    stage.tools = TOOLS
    children = {"general-purpose": [say("looked"), say("y" * 5_000)]}
    order = call("subagent", label="research", task_prompt="look around", allowed_tools=["Read"], max_turns=3)
    story = await stage.play("go", [turn(order), say("ok")], children)
    view = view_003(record(story, "subagent"))
    assert view["success"]
    assert view["output"].startswith("y" * 4_096 + "...\n\n[Result truncated")
    assert view["metadata"]["subagent_label"] == "research"
    assert story.asked(CHILD)[-1].messages[-1].text == "Summarize your findings concisely"


async def test_conflicting_writes_name_the_sibling(stage: Stage) -> None:
    stage.policy.allow_all = True
    (stage.workspace.root / "f.txt").write_text("one\n")
    edit = call("Edit", file_path="f.txt", old_string="one", new_string="two")
    children = {"general-purpose": [turn(call("Read", file_path="f.txt")), turn(edit), say("changed it")]}
    script = [
        turn(call("Read", file_path="f.txt")),
        turn(task("general-purpose")),
        turn(call("Edit", file_path="f.txt", old_string="one", new_string="three")),
        say("ok"),
    ]
    story = await stage.play("go", script, children)
    last = [e for e in story.of(ToolEnded) if e.agent == "main"][-1]
    assert last.record["error"]["code"] == "CONFLICT"
    assert "general-purpose-1" in last.record["text"]
    (delegated,) = [e for e in story.of(ToolEnded) if e.name == "Task"]
    assert delegated.record["data"]["files_changed"] == ["f.txt"]
