"""Tool calls of compatible servers, in every shape they are really sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.core.blocks import Message, Text, Thinking, ToolUse, Usage
from cowork.core.errors import ProviderError
from cowork.core.ports import ModelSpec, Reply, Request
from cowork.providers.codecs.openai_chat import CallPieces, ChatCodec, ChatDecoder
from tests.wire.encode import SHAPES
from tests.wire.server import Server, Turn, call, say, turn
from tests.wire.talk import ask, converse, provider_for

TWO = (call("Read", id="c1", file_path="a.py"), call("Grep", id="c2", pattern="x"))


@pytest.mark.parametrize("transport", ["direct", "sdk"])
@pytest.mark.parametrize("shape", [s for s in SHAPES if s != "legacy"])
async def test_two_calls_in_each_shape_are_the_same_two_calls(shape: str, transport: str) -> None:
    with Server([turn("Looking.", *TWO, shape=shape), say("ok")]) as server:
        async with provider_for(server, "openai-chat", transport=transport) as provider:
            transcript = await converse(provider, "go", lambda c: {"status": "success", "text": f"{c.input}"})
    calls = transcript.messages()[1].calls
    assert [(c.name, c.input, c.malformed) for c in calls] == [
        ("Read", {"file_path": "a.py"}, ""),
        ("Grep", {"pattern": "x"}, ""),
    ]
    assert len({c.id for c in calls}) == 2
    assert all(c.id for c in calls)
    assert server.violations == []


async def test_the_legacy_shape_gives_one_call() -> None:
    with Server([turn(TWO[0], shape="legacy")]) as server:
        async with provider_for(server, "openai-chat") as provider:
            _, reply = await ask(provider)
    assert [(c.name, c.input) for c in reply.calls] == [("Read", {"file_path": "a.py"})]
    assert reply.stop_reason == "tool_use"


def decode(*chunks: dict[str, Any] | str) -> Reply | None:
    decoder = ChatDecoder("m", "host", "", 3)
    for chunk in chunks:
        decoder.feed([(chunk if isinstance(chunk, str) else json.dumps(chunk)).encode()])
    return decoder.reply()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def test_finish_null_and_done_is_an_end() -> None:
    assert decode(delta(content="hi"), "[DONE]") == Reply((Text("hi"),), "end_turn", Usage(), "m")


def test_no_finish_and_no_done_is_no_end() -> None:
    assert decode(delta(content="hi")) is None


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end_turn"),
        ("eos", "end_turn"),
        ("length", "max_tokens"),
        ("max_tokens", "max_tokens"),
        ("content_filter", "refusal"),
    ],
)
def test_reasons_to_stop(finish: str, stop: str) -> None:
    reply = decode(delta(content="x"), delta(finish))
    assert reply is not None
    assert reply.stop_reason == stop


def test_stop_with_calls_means_tool_use() -> None:
    piece = {"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{}"}}
    reply = decode(delta(tool_calls=[piece]), delta("stop"))
    assert reply is not None
    assert reply.stop_reason == "tool_use"


def test_finish_error_is_an_error() -> None:
    with pytest.raises(ProviderError):
        decode(delta(content="x"), delta("error"))


@pytest.mark.parametrize("error", ["out of memory", {"message": "out of memory", "code": 500}])
def test_an_error_chunk_is_an_error(error: Any) -> None:
    with pytest.raises(ProviderError, match="out of memory"):
        decode(delta(content="x"), {"error": error})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"error": {"code": 401, "message": "User not found."}}, "auth"),
        ({"error": {"code": 402, "message": "This needs more credits."}}, "spend_limit"),
        ({"error": {"code": 429, "message": "Provider returned error"}}, "rate_limit"),
        ({"error": {"code": 502, "message": "Provider disconnected"}}, "server"),
        ({"error": {"code": 400, "message": "context length is only 4096 tokens"}}, "context_overflow"),
        ({"object": "error", "message": "no such tool parser", "type": "BadRequestError", "code": 400}, "bad_request"),
        ({"error": {"code": 0, "message": "odd"}}, "broken_stream"),
    ],
)
def test_an_error_chunk_is_of_the_kind_its_number_says(error: Any, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        decode(delta(content="x"), error)
    assert caught.value.kind == kind


async def test_what_a_service_sends_beside_its_reasoning_and_calls_goes_back_to_it() -> None:
    signed = {"google": {"thought_signature": "c2lnbmVk"}}
    pieces = [
        {"type": "reasoning.text", "text": "I look ", "index": 0, "format": "f"},
        {"type": "reasoning.text", "text": "there.", "index": 0, "signature": "s"},
        {"type": "reasoning.encrypted", "data": "AAA", "index": 1},
    ]
    function = {"name": "Read", "arguments": '{"file_path": "a.py"}'}
    chunks = [
        *(delta(reasoning=piece.get("text"), reasoning_details=[piece]) for piece in pieces),
        delta(tool_calls=[{"index": 0, "id": "c1", "function": function, "extra_content": signed}]),
        delta(tool_calls=[{"index": 1, "id": "c2", "function": function}]),
        delta("tool_calls"),
    ]
    raw = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data:[DONE]\n\n"
    with Server([Turn(raw=raw), say("done")]) as server:
        async with provider_for(server, "openai-chat") as provider:
            transcript = await converse(provider, "go", lambda c: {"status": "success", "text": "x"})
    assert server.violations == []
    answer = server.bodies[1]["messages"][2]
    assert answer["reasoning_details"] == [
        {"type": "reasoning.text", "text": "I look there.", "index": 0, "format": "f", "signature": "s"},
        pieces[2],
    ]
    assert [each.get("extra_content") for each in answer["tool_calls"]] == [signed, None]
    assert "reasoning_details" not in json.dumps(_body_for("another-model", transcript.messages()))


def _body_for(model: str, messages: tuple[Message, ...]) -> dict[str, Any]:
    codec = ChatCodec(ModelSpec("openai-chat", model, max_output_tokens=100), "h")
    return dict(json.loads(codec.encode(Request("", messages))))


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_under_either_name_is_thinking(name: str) -> None:
    reply = decode(delta(**{name: "hm"}), delta(content="x"), delta("stop"))
    assert reply is not None
    assert reply.content == (Thinking("hm", {"reasoning_content": "hm"}, "m"), Text("x"))


def test_a_refusal_is_shown_and_said() -> None:
    reply = decode(delta(refusal="I will not."), delta("stop"))
    assert reply == Reply((Text("I will not."),), "refusal", Usage(), "m")


def test_content_as_parts_is_text() -> None:
    reply = decode(delta(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), delta("stop"))
    assert reply is not None
    assert reply.text == "ab"


def test_usage_absent_is_zero_and_the_last_of_many_counts() -> None:
    reply = decode(delta(content="x"), delta("stop"), "[DONE]")
    assert reply is not None
    assert reply.usage == Usage()
    first, second = {"prompt_tokens": 5, "completion_tokens": 1}, {"prompt_tokens": 5, "completion_tokens": 9}
    reply = decode({**delta(content="x"), "usage": first}, {**delta("stop"), "usage": second}, "[DONE]")
    assert reply is not None
    assert reply.usage == Usage(5, 9)


def test_missing_ids_are_made_up_and_differ_from_turn_to_turn() -> None:
    made = []
    for turn_number in (1, 3):
        pieces = CallPieces(turn_number)
        pieces.add({"function": {"name": "LS", "arguments": "{}"}})
        pieces.add({"function": {"name": "LS", "arguments": "{}"}})
        made += [c.id for c in pieces.close()]
    assert len(set(made)) == 4


def test_an_id_used_twice_in_one_answer_is_made_two() -> None:
    pieces = CallPieces(1)
    pieces.add({"index": 0, "id": "same", "function": {"name": "LS", "arguments": "{}"}})
    pieces.add({"index": 1, "id": "same", "function": {"name": "LS", "arguments": "{}"}})
    assert [c.id for c in pieces.close()] == ["same", "same_2"]


@pytest.mark.parametrize("raw", ['{"a": ', "[1]", '"x"', "{'a': 1}", '{"a": NaN}', "nonsense", "{" * 100_000])
def test_arguments_that_cannot_be_read_are_said_to_be(raw: str) -> None:
    pieces = CallPieces(1)
    pieces.add({"index": 0, "id": "a", "function": {"name": "LS", "arguments": raw}})
    (made,) = pieces.close()
    assert made.malformed
    assert made.input == {}


def test_a_call_cut_off_before_its_arguments_is_malformed() -> None:
    piece = {"index": 0, "id": "a", "function": {"name": "LS", "arguments": ""}}
    reply = decode(delta(tool_calls=[piece]), delta("length"))
    assert reply is not None
    assert reply.stop_reason == "max_tokens"
    assert reply.calls[0].malformed


async def test_a_server_that_refuses_an_option_is_asked_again_without_it() -> None:
    with Server([say("one"), say("two")], refuse=["stream_options"]) as server:
        async with provider_for(server, "openai-chat") as provider:
            for text in ("one", "two"):
                _, reply = await ask(provider)
                assert reply.text == text
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


async def test_a_server_that_wants_the_other_name_of_the_limit_gets_it() -> None:
    with Server([say("one"), say("two")], refuse=["max_tokens"]) as server:
        async with provider_for(server, "openai-chat") as provider:
            await ask(provider)
            await ask(provider)
    assert ["max_completion_tokens" in body for body in server.bodies] == [False, True, True]


ARGUMENTS = st.dictionaries(
    st.text(max_size=6), st.one_of(st.text(max_size=12), st.integers(), st.booleans(), st.none()), max_size=4
)
NAMES = st.sampled_from(["Read", "Grep", "Bash", "TodoWrite"])


@given(
    st.lists(st.tuples(NAMES, ARGUMENTS), min_size=1, max_size=5),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_calls_survive_any_cutting(
    calls: list[tuple[str, dict[str, Any]]], size: int, with_index: bool, repeat_id: bool, interleave: bool
) -> None:
    streams = []
    for n, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments)
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        stream: list[dict[str, Any]] = []
        for k, piece in enumerate(pieces):
            made: dict[str, Any] = {"function": {"arguments": piece}}
            if k == 0:
                made["function"]["name"] = name
            if k == 0 or repeat_id or (interleave and not with_index):
                made["id"] = f"id{n}"
            if with_index:
                made["index"] = n
            stream.append(made)
        streams.append(stream)
    order = [piece for stream in streams for piece in stream]
    if interleave:
        rounds = range(max(len(s) for s in streams))
        order = [s[k] for k in rounds for s in streams if k < len(s)]
    pieces_of = CallPieces(1)
    for each in order:
        pieces_of.add(each)
    assert pieces_of.close() == [ToolUse(f"id{n}", name, arguments) for n, (name, arguments) in enumerate(calls)]
