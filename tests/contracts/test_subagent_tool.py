"""Source design 003: the `subagent` tool, its messages, limits, six events and configuration ranges."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cowork.engine.subagents.result import view_003
from tests.fakes.command import Command
from tests.fakes.stage import call, say, turn

ON = "[agent.subagent]\nexpose_subagent_tool = true\n"


@pytest.fixture
def exposed(command: Command) -> Command:
    command.configure(ON)
    return command


def order(**given: Any) -> dict[str, Any]:
    return call("subagent", **({"label": "research", "task_prompt": "Look around"} | given))


def children(*turns: dict[str, Any]) -> dict[str, Any]:
    return {"agents": {"general-purpose": list(turns)}}


def test_the_tool_is_offered_only_when_it_is_switched_on(command: Command) -> None:
    ended = command.play([turn(order()), say("ok")])
    assert "not among your tools" in ended.record("subagent")["text"]


def test_a_label_and_a_prompt_make_a_child_with_a_summary_at_the_end(exposed: Command) -> None:
    script = {"main": [turn(order(max_turns=8)), say("ok")], **children(say("long findings"), say("short"))}
    view = view_003(exposed.play(script).record("subagent"))
    metadata = view["metadata"]
    assert int(metadata.pop("tokens_consumed")) > 0
    assert view == {
        "success": True,
        "output": "short",
        "error": None,
        "metadata": {
            "subagent_label": "research",
            "recursion_depth": "1",
            "completion_status": "complete",
            "turns_used": "2",
            "max_turns_reached": "false",
        },
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"label": None}, "Invalid input: missing field `label`"),
        ({"label": " "}, "Invalid input: missing field `label`"),
        ({"task_prompt": None}, "task_prompt cannot be empty"),
        ({"task_prompt": "  "}, "task_prompt cannot be empty"),
        ({"max_turns": 0}, "max_turns must be between 1 and 50"),
        ({"max_turns": 51}, "max_turns must be between 1 and 50"),
        ({"allowed_tools": ["subagent"]}, "Tool 'subagent' cannot be used by subagents"),
        ({"allowed_tools": ["nonexistent_tool"]}, "Unknown tool in allowed_tools: nonexistent_tool"),
    ],
)
def test_messages_are_verbatim(exposed: Command, given: dict[str, Any], message: str) -> None:
    whole = {k: v for k, v in ({"label": "research", "task_prompt": "Look"} | given).items() if v is not None}
    ended = exposed.play([turn(call("subagent", **whole)), say("ok")])
    view = view_003(ended.record("subagent"))
    assert (view["success"], view["output"], view["error"]) == (False, "", message)


def test_the_turn_limit_is_incomplete_and_still_reports(exposed: Command) -> None:
    look = turn(call("LS", path="."))
    script = {"main": [turn(order(max_turns=2)), say("ok")], **children(look, look, say("half"))}
    view = view_003(exposed.play(script).record("subagent"))
    assert view["output"] == "half", "the report and the summary are one request"
    assert view["metadata"]["completion_status"] == "incomplete"
    assert view["metadata"]["max_turns_reached"] == "true"
    assert view["metadata"]["turns_used"] == "3"


def test_depth_is_limited_with_the_exact_words(exposed: Command) -> None:
    exposed.configure(ON + "allow_nesting = true\nmax_depth = 1\n")
    script = {
        "main": [turn(order()), say("ok")],
        **children(turn(order(label="deeper", task_prompt="Deeper")), say("no"), say("no")),
    }
    ended = exposed.play(script)
    (refused,) = [e["record"] for e in ended.of("tool.ended") if e["agent"] != "main"]
    assert refused["error"]["message"] == (
        "Maximum subagent recursion depth (1) exceeded. Current depth: 1. Cannot spawn nested subagent."
    )


@pytest.mark.parametrize(("extra", "size"), [("", 4096), ("output_max_size = 1024\n", 1024)])
def test_output_is_cut_at_its_size_on_a_character(exposed: Command, extra: str, size: int) -> None:
    exposed.configure(ON + extra)
    script = {"main": [turn(order()), say("ok")], **children(say("x"), say("é" * 6_000))}
    output = view_003(exposed.play(script).record("subagent"))["output"]
    head = output.split("...\n\n[Result truncated - 6000 chars total]\n[Output truncated]")[0]
    assert head == "é" * (size // 2)


def test_the_six_events_are_logged_with_their_fields(exposed: Command) -> None:
    exposed.configure(ON + "allow_nesting = true\nmax_depth = 1\noutput_max_size = 1024\nmax_executions = 3\n")
    look = turn(call("LS", path="."))
    deep = turn(order(label="deep", task_prompt="too deep"))
    script = {
        "main": [
            turn(order(label="one", max_turns=1)),
            turn(order(label="two", task_prompt="Second")),
            turn(order(label="three", task_prompt="Third")),
            turn(order(label="four", task_prompt="Fourth")),
            say("ok"),
        ],
        "agents": {
            "general-purpose": [
                {"match": "# Task\none", "turns": [look, say("half")]},
                {"match": "# Task\ntwo", "turns": [deep, say("y" * 3_000), say("y" * 3_000)]},
                {"match": "# Task\nthree", "turns": [{**say("x"), "fault": {"status": 400}}]},
            ]
        },
    }
    ended = exposed.play(script, env={"COWORK_LOG": "info"})
    stamped = ended.err.splitlines()
    ids = {"one": "general-purpose-1", "deep": '""', "two": "general-purpose-2", "three": "general-purpose-3"}
    lines = [line[line.index("subagent.event=") :] for line in stamped]
    for whole, line in zip(stamped, lines, strict=True):
        label = line.partition("subagent.label=")[2].partition(" ")[0]
        id = ids.get(label, '""')
        model = '""' if id == '""' else "scripted"
        who = f"session={ended.result['session_id']} subagent_id={id} model={model} "
        assert re.fullmatch(rf"time=[\dT:.-]+Z {re.escape(who)}", whole.removesuffix(line)), whole
    looking, changing = ["Grep", "Glob", "LS"], ["Write", "Edit", "MultiEdit"]
    running = ["Bash", "BashOutput", "KillBash"]
    tools = ["Read", *changing, *looking, *running, "TodoWrite", "WebFetch"]  # Task is withheld at the deepest level
    allowed = json.dumps(tools, separators=(",", ":"))
    assert lines[0] == (
        "subagent.event=spawn subagent.label=one subagent.depth=1 subagent.max_turns=1 "
        f"subagent.allowed_tools={allowed} Spawning subagent"
    )
    expected = (
        "subagent.event=max_turns_exceeded subagent.label=one subagent.depth=1 subagent.max_turns=1 "
        "Subagent exceeded max turns",
        "subagent.event=depth_limit subagent.label=deep subagent.current_depth=1 subagent.max_depth=1 "
        "Subagent recursion depth limit enforced",
        "subagent.event=truncation subagent.label=two subagent.original_size=3000 subagent.truncated_size=1024 "
        "Subagent output truncated",
    )
    assert [line for line in expected if line not in lines] == []
    complete = [line for line in lines if "event=complete" in line]
    assert "subagent.label=one" in complete[0]
    assert complete[0].endswith("subagent.status=incomplete Subagent completed")
    (failed,) = [line for line in lines if "event=error subagent.label=three" in line]
    assert failed.endswith("Subagent execution failed")
    assert any("event=quota_exceeded subagent.label=four" in line for line in lines)


def test_filters_choose_and_off_is_silent(exposed: Command) -> None:
    script = {"main": [turn(order()), say("ok")], **children(say("a"), say("b"))}
    assert "subagent.event=spawn" in exposed.play(script, env={"COWORK_LOG": "cowork.subagents=debug"}).err
    assert exposed.play(script, "--quiet").err == ""
    exposed.configure(ON + "telemetry_enabled = false\n")
    assert "subagent.event" not in exposed.play(script, env={"COWORK_LOG": "info"}).err


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("max_depth = 12", "agent.subagent.max_depth cannot exceed 10 (stack overflow risk)"),
        ("max_depth = 0", "agent.subagent.max_depth must be greater than 0"),
        ("default_max_turns = 0", "agent.subagent.default_max_turns must be greater than 0"),
        ("default_max_turns = 101", "agent.subagent.default_max_turns cannot exceed 100"),
        ("output_max_size = 1023", "agent.subagent.output_max_size must be at least 1024"),
    ],
)
def test_configuration_ranges(command: Command, setting: str, message: str) -> None:
    command.configure(f"[agent.subagent]\n{setting}\n")
    ended = command.play([say("never")])
    assert ended.code == 2
    assert message in ended.err
    assert "config.toml:2" in ended.err


def test_quotas_are_results(exposed: Command) -> None:
    exposed.configure(ON + "max_executions = 1\n")
    script = {
        "main": [turn(order()), turn(order(label="again", task_prompt="Again")), say("ok")],
        **children(say("a"), say("b")),
    }
    last = exposed.play(script).of("tool.ended", "main")[-1]["record"]
    assert last["error"] == {
        "code": "QUOTA_EXCEEDED",
        "message": "Resource quota exceeded: Execution limit reached: 1/1",
    }


def test_a_token_quota_is_not_overshot_by_more_than_one_request(exposed: Command) -> None:
    exposed.configure(ON + "max_total_tokens = 1000\n")
    usage = {"input_tokens": 300, "output_tokens": 1}
    look = turn(call("LS", path="."), usage=usage)
    orders = [order(label=f"n{n}", task_prompt=f"part {n}") for n in range(5)]
    ended = exposed.play({"main": [turn(*orders), say("ok")], **children(*[look] * 6)})
    spent = ended.result["cost_by_subagent_type"]["general-purpose"]["usage"]
    total = spent["input_tokens"] + spent["output_tokens"]
    assert 1000 <= total <= 1000 + 301
    codes = {e["record"]["error"]["code"] for e in ended.of("tool.ended", "main")}
    assert codes == {"QUOTA_EXCEEDED"}
