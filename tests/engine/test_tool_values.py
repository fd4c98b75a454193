"""A tool is a value: one written here, added while a run goes on, is everywhere a shipped one is.

This is the row "a tool" of docs/architecture.md, followed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import pytest

from cowork import prompts
from cowork.core.events import AgentUpdated, ToolStarted, to_dict
from cowork.core.ports import Answer, Effect, ToolRecord, ok
from cowork.core.workspace import Workspace
from cowork.engine.assembly import with_agents
from cowork.frontends.text import call_text
from cowork.permissions import Permissions
from cowork.permissions.rules import check_tools, parse
from cowork.tools.base import Tool, ToolContext, tool
from cowork.tools.builtin import builtin_tools
from cowork.tools.toolset import ToolSet
from tests.fakes.agents import load_agents
from tests.fakes.stage import Stage, agent_def, call, say, turn

ROOT = Path(__file__).parents[2]


def weather() -> Tool:
    @tool("mcp__sky__weather", family="fetch", line=lambda args, cwd: f"in {args['place']}")
    async def ask_the_sky(ctx: ToolContext, place: Annotated[str, "Where"], days: int = 3) -> ToolRecord:
        """Tells the weather."""
        return ok(f"Sun in {place} for {days} days.")

    return ask_the_sky


def judged(permit: Permissions, added: Tool) -> str:
    return permit.judge("main", added, {}, [Effect("call", added.name)]).verdict


async def test_a_tool_added_while_a_run_goes_on_works_in_main_and_in_a_child(stage: Stage) -> None:
    stage.answer = Answer("session")
    asking = call("mcp__sky__weather", place="Rome")
    task = call("Task", description="look", prompt="the sky", subagent_type="general-purpose")
    script = [turn(call("LS")), turn(asking), turn(task), say("done")]

    def add(event: object) -> None:
        if getattr(event, "type", "") == "tool.started" and "mcp__sky__weather" not in stage.tools:
            stage.tools.add(weather())

    stage.emitter.add(add)
    story = await stage.play("go", script, {"general-purpose": [turn(asking), say("It is sunny.")]})
    assert story.outcome.text == "done"
    started = [e for e in story.of(ToolStarted) if e.name == "mcp__sky__weather"]
    assert [(e.agent, e.family, e.line) for e in started] == [
        ("main", "fetch", "in Rome"),
        ("main/general-purpose-1", "fetch", "in Rome"),
    ]
    assert call_text(started[0]) == "mcp__sky__weather in Rome"
    assert to_dict(started[0])["line"] == "in Rome"
    assert "mcp__sky__weather in Rome" in [e.action for e in story.of(AgentUpdated)]
    assert [q.line for q in stage.questions] == ["in Rome"]
    assert [e.record["text"] for e in story.events if e.type == "tool.ended" and e.name == "mcp__sky__weather"] == [  # type: ignore[attr-defined]
        "Sun in Rome for 3 days."
    ] * 2
    first, *later = [[spec.name for spec in r.tools] for r in story.asked("You are cowork")]
    assert "mcp__sky__weather" not in first
    assert all(names == [*first, "mcp__sky__weather"] for names in later)  # the cached prefix stays as it was


@pytest.mark.parametrize("rule", ["mcp__sky__weather", "mcp__sky", "mcp__sky__*", "MCP__sky__weather"])
def test_rules_speak_of_it_by_name_and_by_server(rule: str, tmp_path: Path) -> None:
    added, space = weather(), Workspace(tmp_path)
    assert judged(Permissions(workspace=space), added) == "ask"
    assert judged(Permissions(workspace=space, mode="plan"), added) == "deny"
    assert judged(Permissions(workspace=space, allow=[rule]), added) == "allow"
    assert judged(Permissions(workspace=space, mode="bypass", deny=[rule]), added) == "deny"
    assert judged(Permissions(workspace=space, allow=["mcp__sk", "mcp__sky__wea"]), added) == "ask"
    check_tools([parse(rule)], builtin_tools(prompts.text_of))


def test_what_is_always_granted_is_a_rule_for_it(tmp_path: Path) -> None:
    permit, added = Permissions(workspace=Workspace(tmp_path)), weather()
    decision = permit.judge("main", added, {}, [Effect("call", added.name)])
    permit.grant("main", decision.rule, forever=False)
    assert judged(permit, added) == "allow"


def test_agent_files_and_lists_of_tools_name_it(tmp_path: Path) -> None:
    text = "---\nname: a\ndescription: d\ntools: [mcp__sky, terminal, Read]\n---\nYou are a."
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/a.md").write_text(text)
    tools = builtin_tools(prompts.text_of)
    agents = load_agents(("user", tmp_path), known_tools=tools)
    assert not agents.problems
    tools.add(weather())
    assert list(tools.only(agents["a"].tools)) == ["Read", "Bash", "BashOutput", "KillBash", "mcp__sky__weather"]
    assert list(tools.only(["fetch"])) == ["WebFetch", "mcp__sky__weather"]
    assert list(tools.only(["file_ops"])) == ["Read", "Write", "Edit", "MultiEdit", "Grep", "Glob", "LS"]
    assert list(tools.only(["Agent"])) == ["Task"]


async def test_allowed_tools_narrows_a_child_to_it(stage: Stage) -> None:
    stage.tools.add(weather())
    stage.answer = Answer("once")
    narrow = {"description": "d", "prompt": "p", "subagent_type": "general-purpose", "allowed_tools": ["fetch"]}
    children = {"general-purpose": [turn(call("mcp__sky__weather", place="Oslo")), say("Sunny.")]}
    story = await stage.play("go", [turn(call("Task", **narrow)), say("ok")], children)
    child = next(r for r in story.requests if r.system.endswith("# Task\nd"))
    assert [spec.name for spec in child.tools] == ["WebFetch", "mcp__sky__weather"]


def test_a_set_grows_at_its_end_and_keeps_to_its_words() -> None:
    tools = builtin_tools(prompts.text_of)
    narrow, wide = tools.only(["Read", "mcp__sky"]), tools.only(refused=["mcp__sky"])
    narrow.add(weather())
    assert list(narrow) == ["Read", "mcp__sky__weather"]
    assert list(tools)[-1] == "mcp__sky__weather"
    assert "mcp__sky__weather" not in wide
    wide.only().add(replaced := tool("mcp__sea__tide")(weather().run))
    assert "mcp__sea__tide" in wide.all
    assert "mcp__sea__tide" not in narrow
    with pytest.raises(ValueError, match="already"):
        tools.add(replaced)


def test_a_line_is_made_of_any_arguments_and_stays_one() -> None:
    for made in ({}, {"place": None}, {"place": "a\nb" * 2000}, {"x": object()}, {"command": 5, "file_path": []}):
        for one in (*builtin_tools(prompts.text_of).values(), weather()):
            line = one.line(made, "/w")  # type: ignore[arg-type]
            assert "\n" not in line
            assert len(line) <= 400


def test_the_page_says_where_a_tool_is_added() -> None:
    row = re.search(r"^\| a tool \|(.*)\|$", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    assert row
    for path in re.findall(r"`([a-z][\w/.<>]+)`", row[1]):
        assert (ROOT / path.replace("<Name>", "Read")).exists(), path


def test_agents_of_a_run_are_listed_by_task() -> None:
    tools = builtin_tools(prompts.text_of)
    listed = {spec.name: spec.description for spec in with_agents(tools, [(agent_def("one"), ("Read",))])}
    assert listed["Task"].endswith("- one: The one (Read)")
    assert isinstance(tools, ToolSet)
