"""Servers in a run: what the model is offered, what is asked, what a child gets, what the prompt costs."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cowork.app.build import build
from cowork.app.run import Run
from cowork.app.steering import grant
from cowork.config.run_options import RunOptions
from cowork.core.events import AgentEnded, Event, Notice, ToolEnded
from cowork.core.ports import Answer, Question
from cowork.engine.loop import Prompt
from tests.e2e.test_slash_commands import chat
from tests.mcp.conftest import FAKE, raw_entry


class Place:
    """A folder with servers, where runs are played from a script."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "work", folder / "home"
        self.root.mkdir()
        self.home.mkdir()
        self.events: list[Event] = []
        self.asked: list[Question] = []
        self.answers: list[Answer] = []
        self.run: Run | None = None

    def user(self, **servers: Any) -> None:
        (self.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def project(self, **servers: Any) -> None:
        (self.root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def agent(self, name: str, head: str) -> None:
        (self.home / "agents").mkdir(exist_ok=True)
        text = f"---\nname: {name}\ndescription: helps\n{head}\n---\nHelp.\n"
        (self.home / "agents" / f"{name}.md").write_text(text)

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answers.pop(0)

    async def play(
        self, *turns: Any, person: bool = False, agents: Mapping[str, Any] | None = None, **options: Any
    ) -> Run:
        """One prompt, answered by these turns."""
        script = self.home / "script.yaml"
        script.write_text(yaml.safe_dump({"main": list(turns), "agents": agents or {}}))
        given = {"allow": ("mcp__*",), "script": script, "cwd": self.root, "dump_requests": self.home / "requests"}
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "COWORK_HOME": str(self.home)}
        self.run = build(
            RunOptions(**(given | options)),
            environ,
            ask=self.ask if person else None,
            sinks=[self.events.append],
            on_sink_failure=lambda sink, error: None,
        )
        await self.run.ask(Prompt("go"))
        return self.run

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.home / "requests").read_text().splitlines()]

    def results(self, name: str) -> list[str]:
        return [str(e.record["text"]) for e in self.events if isinstance(e, ToolEnded) and e.name == name]

    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice) and event.code == "mcp"]


@pytest.fixture
async def place(tmp_path: Path) -> Any:
    place = Place(tmp_path)
    yield place
    if place.run:
        await place.run.close()


def call(name: str, /, **args: Any) -> dict[str, Any]:
    return {"call": {name: args}}


async def test_a_few_tools_are_offered_as_they_are_and_called(place: Place) -> None:
    place.user(fake=raw_entry(instructions="Mind the gap."))
    run = await place.play(call("mcp__fake__echo", text="hi"), "done", settings={"mcp.wait": 30.0})
    assert place.results("mcp__fake__echo") == ["echo: hi"]
    names = [spec.name for spec in run.agent.specs]
    assert "mcp__fake__slow" in names
    assert "ToolSearch" not in names
    assert "Mind the gap." in str(run.agent.transcript.messages()[0])
    assert run.mcp is not None
    assert run.mcp.tokens("fake")[0] > 100


async def test_many_tools_are_deferred_found_and_called_and_the_prefix_stays(place: Place) -> None:
    place.user(big=raw_entry(tools=1_000))
    turns: list[Any] = []
    for number in range(25):
        turns += [call("ToolSearch", query=f"tool_{number}", limit=2)]
        turns += [call("CallTool", name=f"mcp__big__tool_{number}", arguments={"text": str(number)})]
    run = await place.play(*turns, "done", settings={"mcp.wait": 30.0})
    assert place.results("mcp__big__tool_7") == ["tool_7: 7"]
    assert "mcp__big__tool_24: tool_24 does things." in place.results("ToolSearch")[24]
    requests = place.requests
    assert len(requests) == 51
    for before, after in itertools.pairwise(requests):
        assert json.dumps([after["system"], after["tools"]]) == json.dumps([before["system"], before["tools"]])
        assert json.dumps(after["messages"][: len(before["messages"])]) == json.dumps(before["messages"])
    added = [spec for spec in run.agent.specs if spec.name in ("ToolSearch", "CallTool")]
    assert sum(len(json.dumps([s.name, s.description, s.schema])) for s in added) / 4 <= 600
    assert not any(spec.name.startswith("mcp__") for spec in run.agent.specs)


async def test_a_rule_for_a_server_holds_for_calls_through_calltool(place: Place) -> None:
    place.user(big=raw_entry(tools=1_000))
    turn = call("CallTool", name="mcp__big__echo", arguments={"text": "x"})
    await place.play(turn, "done", allow=(), deny=("mcp__big__echo",), settings={"mcp.wait": 30.0})
    assert "was denied" in place.results("mcp__big__echo")[0]


async def test_a_server_that_is_late_is_told_of_and_its_tools_come_later(place: Place) -> None:
    place.user(fake=raw_entry())
    run = await place.play("first", settings={"mcp.wait": 0.0})
    assert place.notices() == ["MCP server fake is still starting; the first request goes without it."]
    assert run.mcp is not None
    await run.mcp.servers["fake"].connect()
    assert "mcp__fake__echo" in run.agent.runner.tools
    assert "mcp__fake__echo" not in [spec.name for spec in run.agent.specs]


async def test_a_server_of_the_project_waits_for_a_yes_to_its_entry(place: Place) -> None:
    place.project(fake=raw_entry())
    place.answers = [Answer("always"), Answer("no")]
    steps = (call("mcp__fake__echo", text="hi"), "done")
    options: dict[str, Any] = {"person": True, "settings": {"mcp.wait": 30.0}, "trust": False}
    environ = {"COWORK_HOME": str(place.home)}
    grant(place.root, environ)
    await (await place.play(*steps, **options)).close()
    assert [question.title for question in place.asked] == ["Use the MCP server fake of this project?"]
    await (await place.play(*steps, **options)).close()
    assert len(place.asked) == 1, "the yes is remembered"
    place.project(fake=raw_entry(tools=1))
    grant(place.root, environ)
    await place.play(*steps, **options)
    assert len(place.asked) == 2, "another entry asks again"
    assert "There is no tool 'mcp__fake__echo'" in place.results("mcp__fake__echo")[-1]


async def test_a_server_of_the_project_runs_in_the_folder_of_its_file(place: Place) -> None:
    (place.root / ".git").mkdir()
    (place.root / "bin").mkdir()
    started = place.root / "bin/server"
    started.write_text(f'#!/bin/sh\necho "$CLAUDE_PROJECT_DIR" >"$1"\nexec {sys.executable} -I -S {FAKE} {{}}\n')
    started.chmod(0o755)
    place.project(
        near={"command": "./bin/server", "args": ["near"]},
        named={"command": "${CLAUDE_PROJECT_DIR}/bin/server", "args": ["../named"], "cwd": "bin"},
    )
    below = place.root / "sub"
    below.mkdir()
    calls = [call(f"mcp__{name}__echo", text=name) for name in ("near", "named")]
    await place.play(*calls, "done", cwd=below, trust=True, settings={"mcp.wait": 30.0})
    assert (place.notices(), place.results("mcp__near__echo"), place.results("mcp__named__echo")) == (
        [], ["echo: near"], ["echo: named"],
    )  # fmt: skip
    assert [(place.root / name).read_text() for name in ("near", "named")] == [f"{place.root}\n"] * 2


async def test_without_a_person_a_server_of_the_project_is_left_alone(place: Place) -> None:
    place.project(fake=raw_entry())
    grant(place.root, {"COWORK_HOME": str(place.home)})
    await place.play("done")
    assert place.notices() == [
        "MCP server fake of this project is not used before you approve it: `cowork mcp approve fake`."
    ]


async def test_a_server_that_is_away_is_told_in_a_sentence(place: Place) -> None:
    place.user(away={"type": "http", "url": "http://127.0.0.1:1/mcp"})
    await place.play("done", settings={"mcp.wait": 30.0})
    (said,) = place.notices()
    assert said.startswith("MCP server away is not used: No connection to 127.0.0.1")


async def test_an_untrusted_project_starts_nothing(place: Place) -> None:
    place.project(fake=raw_entry())
    assert (await place.play("done")).mcp is None


async def test_a_server_for_an_agent_alone_starts_only_for_it(place: Place) -> None:
    place.user(fake=raw_entry(), other=raw_entry(names=["special"]))
    place.agent("helper", "tools: Read\nmcp: [other]")
    order = call("Task", description="help", prompt="help", subagent_type="helper")
    child = [call("mcp__other__special", text="hi"), "It says special: hi."]
    settings = {"mcp.wait": 30.0, "mcp.only_for_agents": ["other"]}
    run = await place.play(order, "done", agents={"helper": child}, settings=settings)
    assert place.results("mcp__other__special") == ["special: hi"]
    ended = next(event for event in place.events if isinstance(event, AgentEnded))
    assert ended.status == "completed"
    assert not any("other" in spec.name for spec in run.agent.specs)
    started = next(e for e in place.events if type(e).__name__ == "AgentStarted")
    assert set(started.tools) == {"Read"} | {t for t in started.tools if t.startswith("mcp__other__")}  # type: ignore[attr-defined]


async def test_a_question_of_a_server_is_put_to_the_person(place: Place) -> None:
    place.user(fake=raw_entry())
    place.answers = [Answer("once", data={"answers": ["blue"]})]
    await place.play(call("mcp__fake__ask", text=""), "done", person=True, settings={"mcp.wait": 30.0})
    assert json.loads(place.results("mcp__fake__ask")[0]) == {"action": "accept", "content": {"colour": "blue"}}
    assert place.asked[0].input["questions"][0]["options"] == ["red", "blue"]


async def test_a_page_to_open_is_shown_whole_and_never_opened(place: Place) -> None:
    place.user(fake=raw_entry(url=True))
    place.answers = [Answer("once", data={"answers": ["Done"]})]
    await place.play(call("mcp__fake__ask", text=""), "done", person=True, settings={"mcp.wait": 30.0})
    assert json.loads(place.results("mcp__fake__ask")[0]) == {"action": "accept"}
    assert "https://example.org/login" in place.asked[0].input["questions"][0]["question"]


async def test_nobody_there_declines(place: Place) -> None:
    place.user(fake=raw_entry())
    await place.play(call("mcp__fake__ask", text=""), "done", settings={"mcp.wait": 30.0})
    assert json.loads(place.results("mcp__fake__ask")[0])["action"] in ("decline", "cancel")


async def test_resources_are_read_by_a_tool_and_by_mention(place: Place) -> None:
    place.user(fake=raw_entry(all=True))
    turns = [call("ListMcpResources"), call("ReadMcpResource", server="fake", uri="memo://one"), "done", "ok"]
    run = await place.play(*turns, allow=("ReadMcpResource",), settings={"mcp.wait": 30.0})
    assert place.results("ListMcpResources") == ["fake memo://one: The first memo"]
    assert "the memo at memo://one" in place.results("ReadMcpResource")[0]
    await run.ask(Prompt("see @fake:memo://one please"))
    assert "the memo at memo://one" in str(run.agent.transcript.messages()[-2])


def test_the_chat_completes_a_resource_and_the_model_gets_it(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/mcp.json").write_text(json.dumps({"mcpServers": {"fake": raw_entry(all=True)}}))
    with chat(tmp_path) as terminal:
        terminal.type("look at @fake:")
        terminal.wait_for("@fake:memo://one  The first memo")
        terminal.type("<Tab>", "<Enter>")
        terminal.wait_for("The first answer.")
        terminal.type("@fak")
        terminal.wait_for("@fake:  resources of an MCP server")
    assert "the memo at memo://one" in (tmp_path / "asked").read_text()


async def test_children_sent_out_at_once_ask_once(place: Place) -> None:
    place.project(fake=raw_entry())
    place.answers = [Answer("once")]
    place.agent("helper", "mcp: [fake]")
    grant(place.root, {"COWORK_HOME": str(place.home)})
    environ = {"PATH": os.environ["PATH"], "HOME": str(place.home), "COWORK_HOME": str(place.home)}
    script = place.home / "script.yaml"
    script.write_text(yaml.safe_dump({"main": [], "agents": {"helper": ["one"]}}))
    options = RunOptions(script=script, cwd=place.root, settings={"mcp.wait": 30.0})
    run = place.run = build(options, environ, ask=place.ask, sinks=[], on_sink_failure=lambda sink, error: None)
    assert run.mcp is not None
    await asyncio.gather(*(run.mcp.ready_for(run.agents["helper"]) for _ in range(3)))
    assert len(place.asked) == 1


@pytest.mark.parametrize("how", [{"mcp.only_for_agents": ["fake"]}, {"tools.disabled": ["mcp__fake"]}])
async def test_reading_resources_starts_no_server_that_nobody_approved(place: Place, how: Any) -> None:
    place.user(mine=raw_entry(all=True))
    place.project(fake=raw_entry(all=True) | {"env": {"FAKE_TRACE": str(place.home / "trace")}})
    grant(place.root, {"COWORK_HOME": str(place.home)})
    turns = [call("ListMcpResources"), call("ReadMcpResource", server="fake", uri="memo://one"), "done", "ok"]
    run = await place.play(*turns, allow=("ReadMcpResource",), settings={"mcp.wait": 30.0, **how})
    await run.ask(Prompt("see @fake:memo://one please"))
    assert not (place.home / "trace").exists()
    assert place.results("ListMcpResources") == ["mine memo://one: The first memo"]
    assert "There is no MCP server 'fake'" in place.results("ReadMcpResource")[0]


async def test_a_run_without_servers_has_none(place: Place) -> None:
    run = await place.play("done")
    assert run.mcp is None
