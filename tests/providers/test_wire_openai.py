"""What is special about the Responses API: items, encrypted reasoning, incomplete and failed answers."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from cowork.core.blocks import Message, Text, Thinking, ToolResult, ToolUse, Usage
from cowork.core.errors import ProviderError
from cowork.core.ports import ModelSpec, Reply, Request
from cowork.providers.codecs.openai_responses import OpenAICodec, OpenAIDecoder
from tests.wire.encode import signature
from tests.wire.server import FORMATS, Server, call, say, status, think, turn
from tests.wire.talk import TOOLS, ask, asking, converse, provider_for
from tests.wire.validate import validate


def body_of(request: Request, model: str = "gpt-5", **fields: Any) -> dict[str, Any]:
    codec = OpenAICodec(ModelSpec("openai", model, **fields, max_output_tokens=8_000), "h")
    body: dict[str, Any] = json.loads(codec.encode(request))
    assert validate("openai", body) == []
    return body


def decode(*events: dict[str, Any]) -> Reply | None:
    decoder = OpenAIDecoder("m", "host", "")
    decoder.feed([json.dumps(event).encode() for event in events])
    return decoder.reply()


async def test_reasoning_goes_back_encrypted_and_unchanged() -> None:
    script = [turn(think("one"), "Looking.", think("two"), call("Read", id="c1", file_path="a")), say("ok")]
    with Server(script) as server:
        async with provider_for(server, "openai", thinking="high") as provider:
            await converse(provider, "go", lambda c: {"status": "success", "text": "x"})
    assert server.violations == []
    kinds = [item["type"] for item in server.bodies[1]["input"]]
    assert kinds == ["message", "reasoning", "message", "reasoning", "function_call", "function_call_output"]
    assert server.bodies[1]["input"][1] == {
        "id": "rs_000_0",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "one"}],
        "encrypted_content": signature("one"),
    }
    assert server.bodies[0]["reasoning"] == {"effort": "high", "summary": "auto"}


def test_reasoning_without_what_it_led_to_is_left_out() -> None:
    wire = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": signature("")}
    messages = (
        Message("user", (Text("Go"),)),
        Message("assistant", (Text("Hm."), Thinking("", wire, "gpt-5"))),
        Message("user", (Text("On"),)),
    )
    assert [item["type"] for item in body_of(Request("", messages))["input"]] == ["message"] * 3


def test_reasoning_of_another_model_or_format_is_left_out() -> None:
    foreign = Thinking("x", {"type": "thinking", "thinking": "x", "signature": "s"}, "gpt-5")
    other = Thinking("x", {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"}, "gpt-4")
    messages = (
        Message("user", (Text("Go"),)),
        Message("assistant", (foreign, other, Text("Hm."))),
        Message("user", (Text("On"),)),
    )
    assert [item["type"] for item in body_of(Request("", messages))["input"]] == ["message"] * 3


def test_nothing_is_stored_and_the_cache_is_keyed_by_session() -> None:
    body = body_of(asking(session_id="s1"))
    assert body["store"] is False
    assert body["prompt_cache_key"] == "s1"
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["instructions"] == "You are a test."
    assert "include" not in body_of(asking(), "gpt-4o")


@pytest.mark.parametrize("format", ["openai", "openai-chat"])
async def test_the_body_only_grows_at_its_end(format: str) -> None:
    script = [turn("x", call("Read", file_path=f"{n}")) for n in range(5)] + [say("end")]
    with Server(script) as server:
        async with provider_for(server, format) as provider:
            await converse(provider, "go", lambda c: {"status": "success", "text": "some text"})
    sent = [seen.raw for seen in server.requests]
    ends = {"openai": b'],"max_output_tokens"', "openai-chat": b'],"stream"'}
    for before, after in itertools.pairwise(sent):
        kept = before[: before.rindex(ends[format])]
        assert after.startswith(kept + b",")


@pytest.mark.parametrize(
    ("stop", "ours"), [("end_turn", "end_turn"), ("max_tokens", "max_tokens"), ("refusal", "refusal")]
)
async def test_each_reason_to_stop(stop: str, ours: str) -> None:
    with Server([say("text", stop=stop)]) as server:
        async with provider_for(server, "openai") as provider:
            _, reply = await ask(provider)
    assert (reply.stop_reason, reply.text) == (ours, "text")


def test_a_refusal_is_shown_and_said() -> None:
    item = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    end = {"type": "response.completed", "response": {"status": "completed"}}
    assert decode(done, end) == Reply((Text("I will not."),), "refusal", Usage(), "m")


def test_items_only_in_the_last_event_are_found() -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
    end = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
    assert decode(end) == Reply((Text("hi"),), "end_turn", Usage(), "m")


def test_a_call_cut_off_at_the_limit_is_malformed() -> None:
    item = {"type": "function_call", "call_id": "c", "name": "Read", "arguments": '{"a": 1}', "status": "incomplete"}
    response = {
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [item],
    }
    reply = decode({"type": "response.incomplete", "response": response})
    assert reply is not None
    assert reply.stop_reason == "max_tokens"
    assert reply.calls[0].malformed


FAILURES = [
    ({"code": "server_error", "message": "oops"}, "broken_stream"),
    ({"code": "rate_limit_exceeded", "message": "slow down"}, "rate_limit"),
    ({"code": "context_length_exceeded", "message": "too much"}, "context_overflow"),
    ({"code": "insufficient_quota", "message": "pay"}, "spend_limit"),
    ({"code": "invalid_prompt", "message": "no"}, "bad_request"),
    (None, "broken_stream"),
]


@pytest.mark.parametrize(("error", "kind"), FAILURES)
def test_a_failed_answer_is_an_error_of_its_kind(error: Any, kind: str) -> None:
    usage = {"input_tokens": 9, "output_tokens": 2}
    decoder = OpenAIDecoder("m", "host", "")
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error, "usage": usage}}
    with pytest.raises(ProviderError) as caught:
        decoder.feed([json.dumps(failed).encode()])
    assert caught.value.kind == kind
    assert decoder.usage == Usage(9, 2)


def test_an_error_event_is_an_error() -> None:
    with pytest.raises(ProviderError, match="went wrong"):
        decode({"type": "error", "code": None, "message": "went wrong", "param": None})


async def test_a_model_without_reasoning_is_asked_again_without_it() -> None:
    with Server([say("one"), say("two")], refuse=["reasoning"]) as server:
        async with provider_for(server, "openai", model="unknown-model", thinking="low") as provider:
            await ask(provider)
            await ask(provider)
    assert ["reasoning" in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "The encrypted content gAAA could not be verified. Reason: it could not be decrypted or parsed."),
        (404, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
        (400, "Item 'rs_1' of type 'reasoning' was provided without its required following item."),
    ],
)
async def test_reasoning_a_service_no_longer_takes_is_left_out_and_thinking_goes_on(code: int, message: str) -> None:
    refused = status(code, body={"error": {"message": message, "type": "invalid_request_error", "code": None}})
    script = [turn(think("one"), call("Read", id="c1", file_path="a")), refused, say("ok")]
    with Server(script) as server:
        async with provider_for(server, "openai", thinking="low") as provider:
            transcript = await converse(provider, "go", lambda c: {"status": "success", "text": "x"})
    assert transcript.messages()[-1].text == "ok"
    kinds = [[item["type"] for item in body["input"]] for body in server.bodies[1:]]
    assert ["reasoning" in each for each in kinds] == [True, False]
    assert server.bodies[2]["reasoning"] == {"effort": "low", "summary": "auto"}


@pytest.mark.parametrize("format", FORMATS)
async def test_unknown_events_are_ignored(format: str) -> None:
    with Server([say("text", extra=(("odd", '{"type":"odd.event","x":1}'),))]) as server:
        async with provider_for(server, format) as provider:
            _, reply = await ask(provider)
    assert reply.content == (Text("text"),)


def test_results_follow_calls_in_order_before_the_next_message() -> None:
    messages = (
        Message("user", (Text("Go"),)),
        Message("assistant", (ToolUse("a", "Read", {"p": "ü"}), ToolUse("b", "Grep", {}))),
        Message("user", (ToolResult("a", "1"), ToolResult("b", "2", is_error=True), Text("and?"))),
    )
    items = body_of(Request("", messages, TOOLS))["input"]
    assert [item["type"] for item in items] == [
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert items[1]["arguments"] == '{"p":"ü"}'
