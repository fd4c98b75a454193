"""The same conversation over every wire format and both transports."""

from __future__ import annotations

import asyncio
import json

import pytest

from cowork.core.blocks import Image, Message, Text, Thinking, ToolResult, ToolUse, Usage
from cowork.core.ports import Request
from tests.wire.server import FORMATS, Server, call, say, think, turn
from tests.wire.talk import TOOLS, ask, asking, converse, plain, provider_for, text_of

TRANSPORTS = ("direct", "sdk")
EVERYWHERE = [(format, transport) for format in FORMATS for transport in TRANSPORTS]

SCRIPT = (
    turn("I look — naïve ☃.", call("Read", id="a1", file_path="a.py"), call("Grep", id="a2", pattern="x.*y")),
    turn(call("Read", id="b1", file_path="missing")),
    say("Done: 3 places.", usage=Usage(11, 7, 90, 0)),
)


def run(call: ToolUse) -> dict[str, object]:
    if call.input.get("file_path") == "missing":
        return {"status": "error", "text": "missing does not exist."}
    return {"status": "success", "text": f"{call.name} of {json.dumps(call.input)}"}


@pytest.mark.parametrize(("format", "transport"), EVERYWHERE)
async def test_a_tool_conversation_has_the_same_transcript_everywhere(format: str, transport: str) -> None:
    with Server(SCRIPT) as server:
        async with provider_for(server, format, transport=transport) as provider:
            transcript = await converse(provider, "Where is x?", run)
    assert server.violations == []
    assert len(server.requests) == 3
    assert transcript.messages() == (
        Message("user", (Text("Where is x?"),)),
        Message(
            "assistant",
            (
                Text("I look — naïve ☃."),
                ToolUse("a1", "Read", {"file_path": "a.py"}),
                ToolUse("a2", "Grep", {"pattern": "x.*y"}),
            ),
        ),
        Message(
            "user",
            (
                ToolResult("a1", 'Read of {"file_path": "a.py"}'),
                ToolResult("a2", 'Grep of {"pattern": "x.*y"}'),
            ),
        ),
        Message("assistant", (ToolUse("b1", "Read", {"file_path": "missing"}),)),
        Message("user", (ToolResult("b1", "missing does not exist.", is_error=True),)),
        Message("assistant", (Text("Done: 3 places."),)),
    )


async def test_two_results_of_one_turn_go_back_in_one_user_message_in_call_order() -> None:
    with Server(SCRIPT) as server:
        async with provider_for(server, "anthropic") as provider:
            await converse(provider, "Where is x?", run)
    message = server.bodies[1]["messages"][2]
    assert message["role"] == "user"
    assert [(block["type"], block["tool_use_id"]) for block in message["content"]] == [
        ("tool_result", "a1"),
        ("tool_result", "a2"),
    ]


@pytest.mark.parametrize(("format", "transport"), EVERYWHERE)
async def test_thinking_is_streamed_kept_and_sent_back_as_the_format_wants(format: str, transport: str) -> None:
    script = (
        turn(think("Let me see."), "Looking.", call("Read", id="a1", file_path="a.py")),
        turn(think("Clear now."), "Found it."),
    )
    with Server(script) as server:
        async with provider_for(server, format, transport=transport, thinking="medium") as provider:
            transcript = await converse(provider, "Where?", run)
    assert server.violations == []
    assert plain(transcript.messages())[1].content == (
        Thinking("Let me see."),
        Text("Looking."),
        ToolUse("a1", "Read", {"file_path": "a.py"}),
    )
    sent = json.dumps(server.bodies[1])
    assert ("Let me see." in sent) == (format != "openai-chat")


@pytest.mark.parametrize(("format", "transport"), EVERYWHERE)
async def test_deltas_say_what_the_reply_says(format: str, transport: str) -> None:
    script = [turn(think("Hm, hm, hm."), "A text of some length.", call("Grep", id="c", pattern="ab"))]
    with Server(script) as server:
        async with provider_for(server, format, transport=transport, thinking="low") as provider:
            deltas, reply = await ask(provider)
    assert text_of(deltas) == reply.text == "A text of some length."
    assert text_of(deltas, "thinking") == "Hm, hm, hm."
    assert text_of(deltas, "tool") == 'Grep{"pattern": "ab"}'
    assert reply.stop_reason == "tool_use"
    assert reply.calls == (ToolUse("c", "Grep", {"pattern": "ab"}),)


@pytest.mark.parametrize(("format", "transport"), EVERYWHERE)
async def test_usage_leaves_cached_tokens_out_of_the_input(format: str, transport: str) -> None:
    with Server([say("ok", usage=Usage(10, 5, 90, 0))]) as server:
        async with provider_for(server, format, transport=transport) as provider:
            _, reply = await ask(provider)
    assert reply.usage == Usage(10, 5, 90, 0)


@pytest.mark.parametrize("format", ["anthropic", "openai"])
async def test_tokens_written_to_the_cache_are_counted(format: str) -> None:
    with Server([say("ok", usage=Usage(10, 5, 90, 30))]) as server:
        async with provider_for(server, format) as provider:
            _, reply = await ask(provider)
    assert reply.usage == Usage(10, 5, 90, 30)


@pytest.mark.parametrize(("format", "transport"), EVERYWHERE)
async def test_images_of_people_and_of_tools_are_sent(format: str, transport: str) -> None:
    image = Image("image/png", "iVBORw0KGgo=")
    messages = (
        Message("user", (Text("What is this?"), image)),
        Message("assistant", (ToolUse("a1", "Read", {"file_path": "b.png"}),)),
        Message("user", (ToolResult("a1", (Text("An image"), image)), Text("And now?"))),
    )
    with Server([say("A cat.")]) as server:
        async with provider_for(server, format, transport=transport) as provider:
            await ask(provider, Request("", messages, TOOLS))
    assert server.violations == []
    assert json.dumps(server.bodies[0]).count("iVBORw0KGgo=") == 2


@pytest.mark.parametrize(("format", "transport"), EVERYWHERE)
async def test_tools_can_be_kept_but_forbidden(format: str, transport: str) -> None:
    with Server([say("Summary.")]) as server:
        async with provider_for(server, format, transport=transport) as provider:
            await ask(provider, asking(tool_choice="none"))
    assert server.violations == []
    body = server.bodies[0]
    assert len(body["tools"]) == 2
    assert body["tool_choice"] == ({"type": "none"} if format == "anthropic" else "none")


@pytest.mark.parametrize("format", FORMATS)
async def test_one_connection_serves_a_whole_conversation(format: str) -> None:
    with Server(SCRIPT) as server:
        async with provider_for(server, format) as provider:
            await converse(provider, "Where is x?", run)
    assert server.connections == 1


@pytest.mark.parametrize("format", FORMATS)
async def test_ids_of_other_services_are_made_acceptable_and_stay_paired(format: str) -> None:
    wild = "functions.Read:0" + "x" * 80
    messages = (
        Message("user", (Text("Go"),)),
        Message("assistant", (ToolUse(wild, "Read", {"file_path": "a"}),)),
        Message("user", (ToolResult(wild, "content"),)),
    )
    with Server([say("ok")]) as server:
        async with provider_for(server, format) as provider:
            await ask(provider, Request("", messages, TOOLS))
    assert server.violations == []


@pytest.mark.parametrize("format", FORMATS)
async def test_text_that_is_no_unicode_does_not_stop_a_request(format: str) -> None:
    with Server([say("ok")]) as server:
        async with provider_for(server, format) as provider:
            await ask(provider, asking("a lone surrogate \udc80 here"))
    assert server.violations == []


@pytest.mark.parametrize("format", FORMATS)
async def test_parallel_requests_do_not_wait_for_each_other(format: str) -> None:
    with Server([say(f"answer {n}") for n in range(8)]) as server:
        async with provider_for(server, format) as provider:
            found = await asyncio.gather(*(ask(provider) for _ in range(8)))
    assert {reply.text for _, reply in found} == {f"answer {n}" for n in range(8)}
