"""Servers with bad manners: each ends in a clear line, none hangs, none leaves a process behind."""

from __future__ import annotations

import asyncio
import json

import pytest

from cowork.app.mcp.tools import elicit_by, tools_of
from cowork.core.errors import ToolError
from cowork.core.ports import Answer, Question, ToolRecord
from cowork.core.workspace import Workspace
from cowork.engine.clip import MAX_BYTES
from cowork.mcp.protocol import McpError, ServerGone
from cowork.mcp.servers import Server
from cowork.tools.base import AgentState, ToolContext
from cowork.tools.tool_search import catalogue
from tests.mcp.conftest import Stage
from tests.mcp.fake_server import BAD_LISTS, BAD_RESULTS

NO_START = {
    "exits at once": r"ended \(it said: no licence\)",
    "only rubbish": "sent something that is not JSON: noise",
    "one endless line": "sent a message longer than 16 MB",
    "refuses everything": "speaks no version of MCP that cowork knows",
    "unknown version": "speaks no version of MCP that cowork knows",
    "dies while listing": "ended",
    "no list": "answered tools/list without a list",
}
STARTS = [
    "talks rubbish", "floods stderr", "deep json", "handshake of no kind", "ignores the end", "leaves children",
    "cursor in a circle", "pages without end",
]  # fmt: skip
CALLS = {
    "answers twice": "once",
    "changes its tools in a call": "changed",
    "progress of no kind": "ok",
    "notes of no kind": "ok",
    "floods in a call": "ok",
}
REFUSED = {
    "error of no kind": r"\['a'\]",
    "error with escapes": r"\\x1b\[2Jno way\\u202e",
    "dies in a call": r"ended \(it said: Traceback: the disk is on fire\)",
}
RESULTS = {
    "result of no kind": "answered without a result",
    "a question of no kind": "asks for sampling/createMessage, which cowork does not offer",
    "a question without end": "asked for more 8 times and never answered",
    "a type nobody knows": "answered with later, which means nothing",
    "input of no kind": "answered with input_required, which means nothing",
}


async def called(stage: Stage, server: Server) -> ToolRecord:
    """Call its first tool as an agent does."""
    await server.connect()
    state, workspace = AgentState(stage.folder), Workspace(stage.folder)
    ctx = ToolContext("main", "id", workspace, state, stage.tree, lambda event: None)
    return await tools_of(server)[0](ctx, {"text": "x"})


@pytest.mark.parametrize("evil", NO_START)
async def test_a_server_that_cannot_be_used_says_why(stage: Stage, evil: str) -> None:
    server = stage.server(evil=evil)
    with pytest.raises(McpError, match=NO_START[evil]):
        await server.connect()
    assert server.state == "failed"
    assert "\n" not in server.problem


@pytest.mark.parametrize("evil", STARTS)
async def test_a_server_that_only_makes_noise_is_used(stage: Stage, evil: str) -> None:
    server = stage.server(evil=evil)
    await server.connect()
    assert server.state == "ready"
    assert len(server.tools) <= 10_000
    if evil != "handshake of no kind":  # which says it has no tools
        assert (await called(stage, server)).text.endswith(": x")


@pytest.mark.parametrize("evil", [evil for evil in BAD_LISTS if evil != "no list"])
async def test_a_list_of_bad_tools_leaves_the_good_ones(stage: Stage, evil: str) -> None:
    server = stage.server(evil=evil)
    await server.connect()
    tools = tools_of(server)
    assert tools
    for tool in tools[:50]:
        assert len(tool.name) <= 64
        assert tool.name.replace("_", "").replace("-", "").isalnum()
        assert len(tool.description.encode()) <= 2_048
        assert tool.description.isprintable() or "\n" in tool.description
        assert tool.schema["type"] == "object"
        assert isinstance(tool.schema["properties"], dict)
    assert len(catalogue(tools)) < 1_700
    assert len({tool.name for tool in tools}) == len(tools) <= 10_000


@pytest.mark.parametrize("evil", [evil for evil in BAD_RESULTS if evil not in RESULTS])
async def test_a_bad_result_is_a_record_all_the_same(stage: Stage, evil: str) -> None:
    record = await called(stage, stage.server(evil=evil))
    assert record.text
    assert (record.status == "error") == evil.startswith("an error")
    assert evil != "huge text" or len(record.text) > MAX_BYTES, "it is cut where all results are"
    assert record.images == ()


@pytest.mark.parametrize("evil", RESULTS)
async def test_a_result_that_is_none_fails_the_call(stage: Stage, evil: str) -> None:
    with pytest.raises(ToolError, match=RESULTS[evil]) as refusal:
        await called(stage, stage.server(evil=evil))
    assert refusal.value.text.startswith("The MCP server fake ")


@pytest.mark.parametrize("evil", CALLS)
async def test_noise_around_an_answer_does_no_harm(stage: Stage, evil: str) -> None:
    assert (await called(stage, stage.server(evil=evil))).text == CALLS[evil]


@pytest.mark.parametrize("evil", REFUSED)
async def test_a_failure_is_told_in_one_line(stage: Stage, evil: str) -> None:
    with pytest.raises(ToolError, match=REFUSED[evil]) as refusal:
        await called(stage, stage.server(evil=evil))
    assert refusal.value.text.isprintable()


async def test_what_a_server_may_not_ask_is_refused_and_a_ping_answered(stage: Stage) -> None:
    said = (await called(stage, stage.server(evil="asks in a call"))).text
    assert said.count('"code":-32601') == 2
    assert '"id":"s3","result":{}' in said


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_facts_of_no_kind_are_none(stage: Stage, era: str) -> None:
    server = stage.server(evil="facts of no kind", era=era)
    client = await server.connect()
    assert (server.state, client.facts.name, client.facts.instructions) == ("ready", "", "")


async def test_progress_of_no_kind_is_told_as_far_as_it_is_one(stage: Stage) -> None:
    client, heard = await stage.connect(evil="progress of no kind"), list[str]()
    await client.call("echo", {"text": "x"}, heard.append)
    assert heard == ["5\n", "far\n"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_form_of_no_kind_is_asked_as_text(stage: Stage, era: str) -> None:
    asked: list[Question] = []

    async def person(question: Question) -> Answer:
        asked.append(question)
        return Answer("once", data={"answers": ["red", "(leave empty)"]})

    server = stage.server(evil="a form of no kind", era=era)
    said = await server.call("ask", {}, lambda text: None, elicit_by(person, "main", "fake"))
    assert json.loads(said["content"][0]["text"])["content"] == {"colour": "red"}
    assert [step["options"] for step in asked[0].input["questions"]] == [["(leave empty)"], ["(leave empty)"]]


async def test_a_server_that_never_answers_is_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cowork.mcp.client.CONNECT_S", 0.3)
    server = stage.server(evil="never answers")
    with pytest.raises(McpError, match=r"did not answer within 0\.3 s"):
        await server.connect()


async def test_a_tool_that_is_gone_says_so(stage: Stage) -> None:
    server = stage.server()
    await server.connect()
    tool = tools_of(server)[0]
    assert server.known is not None
    server.known.tools.clear()
    with pytest.raises(ToolError, match="has no tool 'echo' any more"):
        await tool(ToolContext("main", "id", Workspace(stage.folder), AgentState(stage.folder), stage.tree, print), {})


async def test_a_program_that_is_not_there_is_named(stage: Stage) -> None:
    server = stage.server()
    server.entry = type(server.entry)("fake", "user", {}, command="no-such-program")
    with pytest.raises(McpError, match="no-such-program is not installed"):
        await server.connect()


async def test_calls_under_way_when_a_server_is_closed_fail_and_do_not_hang(stage: Stage) -> None:
    server = stage.server(evil="silent call")
    client = await server.connect()
    call = asyncio.ensure_future(client.call("echo", {"text": "x"}))
    await asyncio.sleep(0)
    await server.close()
    with pytest.raises(ServerGone, match="was stopped"):
        await asyncio.wait_for(call, 10)
