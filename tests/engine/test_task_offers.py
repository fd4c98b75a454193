"""Agents on offer: Task lists those that can run here, each once with the tools it would have, or is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cowork.agents import Agents
from cowork.core.events import AgentStarted, ToolEnded
from tests.fakes.command import Command
from tests.fakes.stage import Stage, agent_def, call, say, turn
from tests.wire.server import Server
from tests.wire.server import say as answer

LACKS = "Subagent lacks permission for required tools: "


def task(kind: str, prompt: str = "p", **rest: Any) -> dict[str, Any]:
    return call("Task", description="do it", prompt=prompt, subagent_type=kind, **rest)


def described(request: Any) -> str:
    return next((spec.description for spec in request.tools if spec.name == "Task"), "")


async def error_of(stage: Stage, *agents: Any) -> Any:
    stage.agents = Agents(agents)
    story = await stage.play("go", [turn(task(agents[0].name)), say("ok")], {agents[0].name: [say("done")]})
    (ended,) = [e for e in story.of(ToolEnded) if e.agent == "main"]
    return ended.record.get("error")


async def test_an_agent_whose_tools_its_parent_lacks_is_refused(stage: Stage) -> None:
    stage.tools = stage.tools.only(["Read", "Task"])
    assert await error_of(stage, agent_def("runner", tools=("Bash", "Write"))) == {
        "code": "PERMISSION_DENIED",
        "message": LACKS + "Bash, Write",
    }


async def test_an_agent_whose_tools_a_rule_denies_is_refused(stage: Stage) -> None:
    stage.policy.deny = frozenset({"Bash"})
    assert (await error_of(stage, agent_def("runner", tools=("Bash",))))["message"] == LACKS + "Bash"


async def test_an_agent_of_unknown_tools_alone_is_refused(stage: Stage) -> None:
    assert (await error_of(stage, agent_def("flyer", tools=("Fly",))))["message"] == LACKS + "Fly"


async def test_one_that_lost_some_runs_without_them_and_says_so(stage: Stage) -> None:
    stage.agents = Agents([agent_def("half", tools=("Read", "Fly"))])
    story = await stage.play("go", [turn(task("half")), say("ok")], {"half": [say("done")]})
    (ended,) = [e for e in story.of(ToolEnded) if e.agent == "main"]
    assert ended.record["text"].startswith("Subagent (half, main) completed. (It ran without Fly: not available here.)")
    assert [e.tools for e in story.of(AgentStarted)] == [("Read",)]


async def test_only_agents_that_can_run_are_on_offer_with_the_tools_they_would_have(stage: Stage) -> None:
    stage.tools = stage.tools.only(["Read", "Grep", "Task"])
    stage.policy.deny_agents = frozenset({"hidden-one"})
    stage.agents = Agents(
        [
            agent_def("reader", tools=("Read", "Write")),
            agent_def("runner", tools=("Bash",)),
            agent_def("hidden-one", tools=("Read",)),
            agent_def("all"),
        ]
    )
    story = await stage.play("go", [say("ok")])
    listed = [line for line in described(story.requests[0]).splitlines() if line.startswith("- ")]
    assert listed == ["- reader: The reader (Read)", "- all: The all (all but Task)"]
    assert "runner" not in story.requests[0].system
    assert "hidden-one" not in story.requests[0].system


async def test_task_is_gone_where_no_agent_can_be_sent_out(stage: Stage) -> None:
    stage.policy.deny_agents = frozenset(stage.agents)
    story = await stage.play("go", [say("ok")])
    assert "Task" not in [spec.name for spec in story.requests[0].tools]
    assert "Subagents" not in story.requests[0].system


async def test_task_is_withheld_at_the_deepest_level(stage: Stage) -> None:
    stage.settings.allow_nesting, stage.settings.max_depth = True, 2
    stage.agents = Agents([agent_def("alpha"), agent_def("beta")])
    children = {"alpha": [turn(task("beta", "deeper")), say("a")], "beta": [say("b")]}
    story = await stage.play("go", [turn(task("alpha", "start")), say("ok")], children)
    assert ["Task" in e.tools for e in story.of(AgentStarted)] == [True, False]


@pytest.mark.parametrize(("rule", "there"), [("Task", False), ("Task(explore)", True)])
def test_a_rule_removes_the_tool_and_the_guidance_or_that_agent(command: Command, rule: str, there: bool) -> None:
    with Server([answer("ok")]) as server:
        command.run("--deny", rule, env=server.env("anthropic"))
    (body,) = server.bodies
    text = json.dumps(body["system"]) + json.dumps(body["tools"])
    assert ("Task" in [tool["name"] for tool in body["tools"]]) is there
    assert ("Task Tool Usage (Subagents)" in text) is there
    assert "- explore:" not in text
    assert ("- plan:" in text) is there


def test_two_hundred_agents_are_described_once_each(command: Command) -> None:
    for n in range(200):
        command.agent(f"a{n}", f"---\nname: a{n}\ndescription: Looks after part {n} of the system{'.' * 60}\n---\nrole")
    with Server([answer("ok")]) as server:
        command.run("--trust", env=server.env("anthropic"))
    (body,) = server.bodies
    text = json.dumps(body)
    assert [text.count(f"Looks after part {n} of") for n in range(200)] == [1] * 200


def test_an_unknown_tool_of_an_agent_file_is_a_warning_of_the_result(command: Command) -> None:
    command.agent("half", "---\nname: half\ndescription: d\ntools: Read, Fly\n---\nrole")
    with Server([answer("ok")]) as server:
        ended = command.run("--trust", "--output", "json", env=server.env("anthropic"))
    (warning,) = ended.result["warnings"]
    assert warning.endswith("half.md:4 tools: there is no tool 'Fly'")


async def test_the_nearest_agent_is_named_where_names_must_be_exact(stage: Stage) -> None:
    stage.agents = Agents([agent_def("code-reviewer"), agent_def("writer")])
    story = await stage.play("go", [turn(task("reviewer")), say("ok")])
    (ended,) = story.of(ToolEnded)
    message = "Subagent 'reviewer' not found. Available: code-reviewer, writer. Nearest: code-reviewer"
    assert ended.record["error"]["message"] == message


async def test_a_tie_is_refused_with_the_candidates(stage: Stage) -> None:
    stage.settings.match = "similar"
    stage.agents = Agents([agent_def("test-runner"), agent_def("test-writer")])
    story = await stage.play("go", [turn(task("test-fixer")), say("ok")])
    (ended,) = story.of(ToolEnded)
    assert ended.record["error"]["message"].endswith("It could be test-runner or test-writer: name one")


async def test_likeness_never_chooses_the_one_with_more_tools(stage: Stage) -> None:
    stage.settings.match = "similar"
    stage.agents = Agents([agent_def("test-runner", tools=("Read", "Bash")), agent_def("test-reader", tools=("Read",))])
    children = {"test-reader": [say("read")]}
    story = await stage.play("go", [turn(task("test-fixer")), say("ok")], children)
    (ended,) = [e for e in story.of(ToolEnded) if e.agent == "main"]
    assert ended.record["data"]["matched_from"] == "test-fixer"
    assert "(There is no agent 'test-fixer'; test-reader answered.)" in ended.record["text"]
