"""The client with a server that behaves, in both eras."""

from __future__ import annotations

import asyncio
import json

import pytest

from cowork.mcp.client import McpClient
from cowork.mcp.content import prompt_text, resource_content, result_content
from cowork.mcp.protocol import LEGACY, MODERN, McpError
from tests.mcp.conftest import Stage

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


def quiet(text: str) -> None:
    """Progress that nobody looks at."""


@pytest.mark.parametrize("version", LEGACY)
async def test_every_legacy_revision_is_spoken(stage: Stage, version: str) -> None:
    client = await stage.connect(version=version, instructions="Be kind.")
    assert (client.facts.version, client.facts.release, client.facts.instructions) == (version, "1.0", "Be kind.")
    assert result_content(await client.call("echo", {"text": "hi"})).text == "echo: hi"


@pytest.mark.parametrize("known", ["", "modern", "legacy"])
@ERAS
async def test_the_era_is_found_whatever_was_known_before(stage: Stage, known: str, era: str) -> None:
    client = await stage.connect(known, era=era)
    assert client.facts.version == (MODERN if era == "modern" else LEGACY[0])
    assert result_content(await client.call("echo", {"text": "hi"})).text == "echo: hi"


@ERAS
async def test_lists_come_whole_in_pages(stage: Stage, era: str) -> None:
    client = await stage.connect(era=era, pages=5)
    assert [tool["name"] for tool in await client.tools()] == [f"page_{n}" for n in range(5)]


@ERAS
async def test_progress_is_heard_while_a_call_runs(stage: Stage, era: str) -> None:
    client = await stage.connect(era=era)
    heard: list[str] = []
    assert result_content(await client.call("slow", {"text": "go"}, heard.append)).text == "slow done"
    assert heard == ["1/3 step 1\n", "2/3 step 2\n", "3/3 step 3\n"]


@ERAS
async def test_a_cancelled_call_is_cancelled_at_the_server(stage: Stage, era: str) -> None:
    server = stage.server(era=era)
    call = asyncio.ensure_future(server.call("slow", {"text": "wait"}, quiet, stage.elicit))
    began = asyncio.Event()
    client = await server.connect()
    call.cancel()
    del began
    heard = asyncio.Event()
    again = asyncio.ensure_future(client.call("slow", {"text": "wait"}, lambda text: heard.set()))
    await heard.wait()
    again.cancel()
    await asyncio.wait([again, call])
    assert result_content(await client.call("echo", {"text": "still there"})).text == "echo: still there"
    assert "cancelled" in stage.trace()


@ERAS
@pytest.mark.parametrize("said", [{"action": "accept", "content": {"colour": "blue"}}, {"action": "decline"}])
async def test_a_question_of_the_server_reaches_the_person_and_its_answer_the_server(
    stage: Stage, era: str, said: dict[str, object]
) -> None:
    client = await stage.connect(era=era)
    stage.answers.append(dict(said))
    heard = json.loads(result_content(await client.call("ask", {})).text)
    assert heard == said | ({"state": "s-1"} if era == "modern" else {})
    assert stage.asked[0]["message"] == "Which colour?"


@ERAS
async def test_pictures_and_structured_content_are_kept(stage: Stage, era: str) -> None:
    client = await stage.connect(era=era)
    said = result_content(await client.call("picture", {}))
    assert ([image.media_type for image in said.images], said.structured) == (["image/png"], {"width": 1})


@ERAS
async def test_prompts_and_resources_are_read(stage: Stage, era: str) -> None:
    client = await stage.connect(era=era, all=True)
    assert [prompt["name"] for prompt in await client.listed("prompts")] == ["greet"]
    assert prompt_text(await client.prompt("greet", {"who": "Ada"})) == "Say hello to Ada."
    assert [one["uri"] for one in await client.listed("resources")] == ["memo://one"]
    assert await client.templates() == []
    assert resource_content(await client.read("memo://one")).text == "[resource memo://one]\nthe memo at memo://one"


async def test_what_a_server_does_not_have_is_not_asked_for(stage: Stage) -> None:
    client = await stage.connect()
    assert (await client.listed("prompts"), await client.listed("resources")) == ([], [])


@ERAS
async def test_a_change_of_its_tools_is_heard(stage: Stage, era: str) -> None:
    client = await stage.connect(era=era)
    await client.follow()
    await client.call("grow", {})
    assert stage.changed == ["tools"]
    assert "grown" in [tool["name"] for tool in await client.tools()]


async def test_a_server_gets_no_key_of_ours_and_what_its_entry_names(stage: Stage) -> None:
    server = stage.server()
    seen = json.loads(result_content(await server.call("environ", {}, quiet, stage.elicit)).text)
    assert "sk-secret-of-ours" not in str(seen)
    assert (seen["PLAIN"], seen["FAKE_TRACE"], seen["cwd"]) == ("seen", str(stage.folder / "trace"), str(stage.folder))


async def test_a_silent_call_ends_and_is_cancelled(stage: Stage) -> None:
    client = await stage.connect(silence_s=0.2, evil="silent call")
    with pytest.raises(McpError, match=r"was silent for 0\.2 s; the request was cancelled"):
        await client.call("echo", {"text": "x"})


async def test_calls_side_by_side_get_their_own_answers(stage: Stage) -> None:
    client: McpClient = await stage.connect()
    said = await asyncio.gather(*(client.call("echo", {"text": str(n)}) for n in range(50)))
    assert [result_content(one).text for one in said] == [f"echo: {n}" for n in range(50)]
