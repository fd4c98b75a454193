"""Source design 001: four read-only types, main and light models, one response protocol."""

from __future__ import annotations

from typing import Any

import pytest

from cowork.prompts import data_root
from tests.fakes.agents import load_agents
from tests.fakes.command import Command
from tests.fakes.record_rules import problems
from tests.wire.server import Server, call, say, turn

AGENTS = load_agents(("shipped", data_root()))
FIVE = {"LS", "Glob", "Grep", "Read", "TodoWrite"}


def delegate(kind: str, **rest: Any) -> Any:
    return call("Task", description="look around", prompt="Where is main?", subagent_type=kind, **rest)


@pytest.mark.parametrize("kind", ["general", "explore", "plan", "summary", "Explore"])
def test_each_type_gets_its_exact_prompt_and_just_its_five_tools(command: Command, kind: str) -> None:
    routes = {"look around": [say("In main.py:1.")]}
    with Server([turn(delegate(kind)), say("It is in main.py:1.")], routes=routes) as server:
        ended = command.stream(env=server.env("anthropic"))
    assert ended.code == 0, ended.err
    assert server.violations == []
    (child,) = [b for b in server.bodies if "look around" in str(b["system"])]
    role = AGENTS[kind.lower()].role
    system = child["system"] if isinstance(child["system"], str) else "".join(b["text"] for b in child["system"])
    assert system == f"{role}\n\n# Task\nlook around"
    assert {t["name"] for t in child["tools"]} == FIVE
    first = child["messages"][0]["content"]
    assert (first if isinstance(first, str) else first[0]["text"]) == "Where is main?"
    record = ended.record()
    assert problems(record) == []
    assert record["text"].startswith(f"Subagent ({kind.lower()}, ")
    assert record["stats"]["tool_calls"] == 0
    assert record["context"]["params_input"]["subagent_type"] == kind


def test_light_goes_to_its_own_address_with_its_own_model_and_key(command: Command) -> None:
    with (
        Server([turn(delegate("explore")), say("ok")], key="main-key") as main,
        Server([say("found")], key="light-key") as light,
    ):
        env = main.env("anthropic", "big-model") | {
            "LIGHT_LLM_PROVIDER": "openai-chat",
            "LIGHT_LLM_MODEL_ID": "small-model",
            "LIGHT_LLM_API_KEY": "light-key",
            "LIGHT_LLM_BASE_URL": light.url("openai-chat"),
        }
        ended = command.stream(env=env)
    assert ended.code == 0, ended.err
    assert [b["model"] for b in light.bodies] == ["small-model"]
    assert [b["model"] for b in main.bodies] == ["big-model", "big-model"]
    assert main.violations + light.violations == []
    data = ended.record()["data"]
    assert (data["model_requested"], data["model_used"], data["model_id"]) == ("light", "light", "small-model")


def test_the_call_chooses_the_model_over_the_file_and_says_when_light_is_missing(command: Command) -> None:
    orders = turn(delegate("explore", model="main"), delegate("plan", model="light"))
    with Server([orders, say("ok")], routes={"look around": [say("a"), say("b")]}) as server:
        ended = command.stream(env=server.env("anthropic"))
    records = {e["record"]["data"]["subagent_type"]: e["record"] for e in ended.of("tool.ended", "main")}
    first, second = records["explore"], records["plan"]
    assert (first["data"]["model_requested"], first["data"]["model_used"]) == ("main", "main")
    assert (second["data"]["model_requested"], second["data"]["model_used"]) == ("light", "main")
    assert "light is not configured, so it ran on main" in second["text"]


@pytest.mark.parametrize("kind", ["general", "explore", "plan", "summary"])
def test_writing_tools_and_task_are_refused_at_dispatch(command: Command, kind: str) -> None:
    tries = turn(
        call("Task", description="d", prompt="p", subagent_type="explore"),
        call("Write", file_path="x", content="y"),
        call("Edit", file_path="x", old_string="a", new_string="b"),
        call("MultiEdit", file_path="x", edits=[]),
        call("Bash", command="touch x"),
    )
    with Server([turn(delegate(kind)), say("ok")], routes={"look around": [tries, say("could not")]}) as server:
        ended = command.stream("--permission-mode", "bypass", env=server.env("anthropic"))
    codes = [e["record"]["error"]["code"] for e in ended.of("tool.ended") if e["agent"] != "main"]
    assert codes == ["PERMISSION_DENIED"] * 5
    assert not (command.folder / "x").exists()
    assert server.violations == []
