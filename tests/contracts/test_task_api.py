"""Source design 000: specialised subagents from files, chosen by name, isolated, bounded, seen as blocks."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from cowork.engine.loop import Prompt
from cowork.engine.subagents.result import view_000
from cowork.providers.scripted import Scripted
from tests.fakes.command import Command
from tests.fakes.stage import Stage, call, say, turn

REVIEWER = "---\nname: code-reviewer\ndescription: Reviews code for bugs\ntools: Read, Grep\n---\nYou review code.\n"


def task(kind: str = "code-reviewer", prompt: str = "review app.py", **rest: Any) -> dict[str, Any]:
    return call("Task", description="review the app", prompt=prompt, subagent_type=kind, **rest)


@pytest.fixture
def project(command: Command) -> Command:
    command.agent("code-reviewer", REVIEWER)
    (command.folder / "app.py").write_text("print('hi')\n")
    return command


def test_a_project_agent_runs_with_only_its_tools(project: Command) -> None:
    script = {
        "main": [turn(task()), say("Reviewed.")],
        "agents": {
            "code-reviewer": [
                turn(
                    call("Read", file_path="app.py"),
                    call("Bash", command="id"),
                    call("Write", file_path="x", content=""),
                ),
                turn(call("Grep", pattern="hi")),
                say("app.py:1 prints."),
            ]
        },
    }
    ended = project.play(script, "--trust")
    assert ended.code == 0
    (started,) = ended.of("agent.started")
    assert started["tools"] == ["Read", "Grep"]
    codes = {e["name"]: e["record"].get("error", {}).get("code") for e in ended.of("tool.ended", started["agent"])}
    assert codes == {"Read": None, "Grep": None, "Bash": "PERMISSION_DENIED", "Write": "PERMISSION_DENIED"}
    assert view_000(ended.record()) == {
        "success": True,
        "content": "app.py:1 prints.",
        "shortResult": "Task completed by code-reviewer",
    }
    assert not (project.folder / "x").exists()


def test_an_untrusted_project_brings_no_agents(project: Command) -> None:
    ended = project.play([turn(task()), say("ok")])
    assert "Subagent 'code-reviewer' not found. Available: " in ended.record()["error"]["message"]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (
            task("unknown-type"),
            "Subagent 'unknown-type' not found. Available: "
            "bash, code-reviewer, explore, general, general-purpose, plan, summary",
        ),
        (task(allowed_tools=["Read", "Bash"]), "Subagent lacks permission for required tools: Bash"),
        (task(prompt=""), "prompt cannot be empty"),
    ],
)
def test_exact_messages_of_refusals(project: Command, order: dict[str, Any], message: str) -> None:
    ended = project.play([turn(order), say("ok")], "--trust")
    record = ended.record()
    assert record["error"]["message"] == message
    if "short_result" in record["data"]:
        assert view_000(record)["shortResult"] == "Task delegation failed"
    assert ended.of("agent.started") == []


def test_an_agent_whose_model_cannot_be_opened_fails_to_initialize(project: Command) -> None:
    project.agent("broken", "---\nname: broken\ndescription: d\nmodel: no-such-model\n---\nrole")
    project.configure('[models.light]\nprovider = "anthropic"\nmodel = "claude-haiku-4-5"\n')
    ended = project.play([turn(task(model="light")), say("ok")], "--trust")
    message = ended.record()["error"]["message"]
    assert message.startswith("Failed to initialize subagent: ")
    assert "key" in message


def test_a_slow_task_times_out_with_its_milliseconds(project: Command) -> None:
    project.configure("[agent.subagent]\ntimeout = 1\n")
    script = {"main": [turn(task()), say("ok")], "agents": {"code-reviewer": [{**say("never"), "delay_ms": 60_000}]}}
    ended = project.play(script, "--trust")
    assert ended.record()["error"] == {"code": "TIMEOUT", "message": "Subagent task timed out after 1000ms"}


def test_circles_are_refused_with_their_chain(project: Command) -> None:
    for name, other in (("alpha", "beta"), ("beta", "alpha")):
        project.agent(name, f"---\nname: {name}\ndescription: asks {other}\n---\nYou are {name}.")
    project.configure("[agent.subagent]\nallow_nesting = true\n")
    script = {
        "main": [turn(task("alpha", "start")), say("ok")],
        "agents": {
            "alpha": [turn(task("beta", "go on")), say("alpha")],
            "beta": [turn(task("alpha", "round")), say("beta")],
        },
    }
    ended = project.play(script, "--trust")
    refused = [e["record"]["error"]["message"] for e in ended.of("tool.ended") if e["record"]["status"] == "error"]
    assert refused == ["Circular delegation prevented: alpha -> beta -> alpha"]


def test_five_tasks_overlap_in_time(project: Command) -> None:
    orders = [task(prompt=f"part {n}") for n in range(5)]
    script = {"main": [turn(*orders), say("ok")], "agents": {"code-reviewer": [{**say("done"), "delay_ms": 1_000}]}}
    ended = project.play(script, "--trust")
    kinds = [e["type"] for e in ended.events if e["type"] in ("agent.started", "agent.ended")]
    assert kinds == ["agent.started"] * 5 + ["agent.ended"] * 5


def test_similar_matching_when_it_is_switched_on(project: Command) -> None:
    project.configure('[agent.subagent]\nmatch = "similar"\n')
    script = {
        "main": [
            turn(task("bug-reviewer"), call("Task", description="bake", prompt="x", subagent_type="pastry")),
            say("ok"),
        ],
        "agents": {"code-reviewer": [say("seen")]},
    }
    ended = project.play(script, "--trust")
    second, first = (e["record"] for e in ended.of("tool.ended", "main"))  # a refusal is quicker than a child
    assert (first["data"]["subagent_type"], first["data"]["matched_from"]) == ("code-reviewer", "bug-reviewer")
    assert "Subagent 'pastry' not found" in second["error"]["message"]


def test_blocks_are_added_and_updated_in_order(project: Command) -> None:
    script = {
        "main": [turn(task()), say("ok")],
        "agents": {"code-reviewer": [turn(call("Read", file_path="app.py")), say("fine")]},
    }
    ended = project.play(script, "--trust")
    blocks = [e for e in ended.events if e["type"].startswith("agent.")]
    assert blocks[0]["type"] == "agent.started"
    assert {k: blocks[0][k] for k in ("description", "prompt", "subagent_type")} == {
        "description": "review the app",
        "prompt": "review app.py",
        "subagent_type": "code-reviewer",
    }
    updates = [e["status"] for e in blocks if e["type"] == "agent.updated"]
    assert (updates[0], updates[-1]) == ("active", "completed")
    assert blocks[-1]["type"] == "agent.ended"
    assert {e["subagent_id"] for e in blocks} == {"code-reviewer-1"}


async def test_memory_is_back_where_it_was_after_200_tasks(stage: Stage) -> None:
    stage.emitter.remove(stage.events.append)
    order = call("Task", description="d", prompt="p", subagent_type="explore")
    turns = [t for _ in range(40) for t in (turn(*[order] * 5), say("ok"))]
    stage.set_up(Scripted(turns, {"explore": [say("x" * 2_000)]}))
    provider = stage.provider
    assert isinstance(provider, Scripted)
    sizes = []
    for n in range(40):
        await stage.agent.run(Prompt("go"))
        provider.requests.clear()
        if n in (5, 39):
            gc.collect()
            sizes.append(sum(isinstance(o, type(stage.agent)) for o in gc.get_objects()))
    assert stage.subagents.running == {}
    assert len(stage.subagents._finished) <= 8
    assert sizes[1] <= sizes[0]


@pytest.fixture
def stage(tmp_path: Any) -> Stage:
    (tmp_path / "scratch").mkdir()
    return Stage(tmp_path)
