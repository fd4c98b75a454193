"""What is special about the Messages API: cache marks, thinking, stop reasons, odd events."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from cowork.core.blocks import Image, Json, Message, Text, Thinking, ToolResult, ToolUse, Usage
from cowork.core.errors import ProviderError
from cowork.core.ports import ModelSpec, Request
from cowork.providers.codecs.anthropic import AnthropicCodec, AnthropicDecoder
from tests.wire.encode import signature
from tests.wire.server import Server, call, say, status, think, turn
from tests.wire.talk import TOOLS, ask, asking, converse, provider_for
from tests.wire.validate import validate


def body_of(request: Request, model: str = "claude-haiku-4-5", limit: int = 32_000, **fields: Any) -> dict[str, Any]:
    codec = AnthropicCodec(ModelSpec("anthropic", model, **fields, max_output_tokens=limit), "h")
    body: dict[str, Any] = json.loads(codec.encode(request))
    assert validate("anthropic", body) == []
    return body


def marked(body: dict[str, Any]) -> list[str]:
    """Where the cache marks are."""
    places = [f"tool {t['name']}" for t in body.get("tools", []) if "cache_control" in t]
    places += ["system" for block in body.get("system", []) if "cache_control" in block]
    places += [
        f"message {n}.{k}"
        for n, message in enumerate(body["messages"])
        for k, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    return places


def history(turns: int) -> tuple[Message, ...]:
    messages = [Message("user", (Text("Go"),))]
    for n in range(turns):
        messages.append(Message("assistant", (ToolUse(f"t{n}", "Read", {"file_path": f"{n}"}),)))
        messages.append(Message("user", (ToolResult(f"t{n}", f"content {n}"),)))
    return tuple(messages)


def test_cache_marks_are_on_tools_system_and_the_last_two_ends() -> None:
    assert marked(body_of(Request("S", history(3), TOOLS))) == ["tool Grep", "system", "message 4.0", "message 6.0"]
    assert marked(body_of(Request("S", history(0), TOOLS))) == ["tool Grep", "system", "message 0.0"]
    assert marked(body_of(Request("", history(0)))) == ["message 0.0"]


def test_a_mark_goes_to_the_last_block_of_a_message_of_many() -> None:
    two = Message("user", (ToolResult("t0", "a"), Text("and this")))
    messages = (history(0)[0], Message("assistant", (ToolUse("t0", "Read", {}),)), two)
    assert marked(body_of(Request("", messages, TOOLS)))[-1] == "message 2.1"


async def test_only_the_marks_move_and_all_else_is_appended() -> None:
    script = [turn("x", call("Read", file_path=f"{n}")) for n in range(6)] + [say("end")]
    with Server(script) as server:
        async with provider_for(server, "anthropic") as provider:
            await converse(provider, "go", lambda c: {"status": "success", "text": "some text"})
    assert server.violations == []
    mark = b',"cache_control":{"type":"ephemeral"}'
    sent = [seen.raw.replace(mark, b"") for seen in server.requests]
    for before, after in itertools.pairwise(sent):
        kept = before[: before.rindex(b'],"max_tokens"')]
        assert after.startswith(kept)
        assert after[len(kept) : len(kept) + 1] == b","


async def test_thinking_off_and_on_again_does_not_touch_what_was_sent() -> None:
    messages = history(2)
    one = body_of(Request("S", messages, TOOLS, thinking="off"))
    two = body_of(Request("S", messages, TOOLS, thinking="off", tool_choice="none", max_output_tokens=500))
    assert one["messages"] == two["messages"]


@pytest.mark.parametrize(
    ("model", "level", "thinking", "effort"),
    [
        ("claude-haiku-4-5", "off", None, None),
        ("claude-haiku-4-5", "low", {"type": "enabled", "budget_tokens": 4000}, None),
        ("claude-haiku-4-5", 2_000, {"type": "enabled", "budget_tokens": 2000}, None),
        ("claude-haiku-4-5", 10, {"type": "enabled", "budget_tokens": 1024}, None),
        ("claude-sonnet-5-5", "off", {"type": "disabled"}, None),
        ("claude-sonnet-5-5", "high", {"type": "adaptive", "display": "summarized"}, "high"),
        ("claude-sonnet-5-5", 12_000, {"type": "adaptive", "display": "summarized"}, "medium"),
        ("claude-opus-5-5", "off", None, None),
        ("claude-opus-5-5", "low", {"type": "adaptive", "display": "summarized"}, "low"),
        ("some-compatible-model", "high", None, None),
    ],
)
def test_thinking_is_asked_for_as_the_model_takes_it(model: str, level: Any, thinking: Any, effort: Any) -> None:
    body = body_of(asking(), model, thinking=level)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort


@pytest.mark.parametrize("level", ["low", "medium", "high", 1, 5_000, 60_000, 1_000_000])
@pytest.mark.parametrize("limit", [1_000, 2_048, 2_100, 8_000, 32_000, 64_000])
def test_a_budget_always_fits_the_output_limit(level: Any, limit: int) -> None:
    body = body_of(asking(), thinking=level, limit=limit)  # validates
    assert body["max_tokens"] <= max(limit, 64_000)


def own(text: str, model: str = "claude-haiku-4-5") -> Thinking:
    return Thinking(text, {"type": "thinking", "thinking": text, "signature": signature(text)}, model)


def loop_of(*first: Any) -> tuple[Message, ...]:
    return (
        Message("user", (Text("Go"),)),
        Message("assistant", (*first, ToolUse("a", "Read", {}))),
        Message("user", (ToolResult("a", "x"),)),
    )


def test_a_tool_loop_that_began_without_thinking_goes_on_without() -> None:
    assert "thinking" in body_of(Request("", loop_of(own("hm")), TOOLS, thinking="low"))
    assert "thinking" not in body_of(Request("", loop_of(), TOOLS, thinking="low"))
    assert "thinking" not in body_of(Request("", loop_of(own("hm", "other-model")), TOOLS, thinking="low"))
    ended = (*loop_of(), Message("assistant", (Text("Done"),)), Message("user", (Text("More"),)))
    assert "thinking" in body_of(Request("", ended, TOOLS, thinking="low"))


def test_a_longer_loop_needs_thinking_only_at_its_beginning() -> None:
    more = (Message("assistant", (ToolUse("b", "Read", {}),)), Message("user", (ToolResult("b", "x"),)))
    body = body_of(Request("", (*loop_of(own("hm")), *more), TOOLS, thinking="low"))
    assert body["thinking"]["type"] == "enabled"
    assert body["messages"][1]["content"][0]["type"] == "thinking"


def test_thinking_of_another_model_is_dropped_and_none_is_sent_when_off() -> None:
    messages = loop_of(own("mine"), own("theirs", "claude-opus-4-1"))
    sent = body_of(Request("", messages, TOOLS, thinking="low"))["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "tool_use"]
    sent = body_of(Request("", messages, TOOLS, thinking="off"))["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["tool_use"]


async def test_redacted_thinking_comes_back_as_it_was() -> None:
    script = [turn(think("opaque", redacted=True), think("plain"), call("Read", file_path="a")), say("ok")]
    with Server(script) as server:
        async with provider_for(server, "anthropic", thinking="low") as provider:
            await converse(provider, "go", lambda c: {"status": "success", "text": "x"})
    assert server.violations == []
    assert server.bodies[1]["messages"][1]["content"][:2] == [
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "thinking", "thinking": "plain", "signature": signature("plain")},
    ]


@pytest.mark.parametrize(
    ("model", "level", "asked"),
    [
        ("claude-next", 5_000, ["none"]),
        ("claude-opus-4-9", "low", ["enabled", "adaptive"]),
    ],
)
async def test_a_model_that_wants_to_think_in_another_way_is_asked_in_that_way(
    model: str, level: Any, asked: list[str]
) -> None:
    def answer(seen: Any) -> Any:
        kind = seen.body.get("thinking", {}).get("type", "none")
        if kind == "enabled":
            message = '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'
            return status(400, body={"type": "error", "error": {"type": "invalid_request_error", "message": message}})
        return say("ok")

    with Server(answer) as server:
        async with provider_for(server, "anthropic", model=model, thinking=level) as provider:
            await ask(provider)
            await ask(provider)
    kinds = [body.get("thinking", {}).get("type", "none") for body in server.bodies]
    assert kinds == [*asked, asked[-1]]


STOPS = [
    ("end_turn", "end_turn"),
    ("stop_sequence", "end_turn"),
    ("max_tokens", "max_tokens"),
    ("pause_turn", "pause_turn"),
    ("refusal", "refusal"),
    ("context_overflow", "context_overflow"),
    ("some_new_reason", "end_turn"),
]


@pytest.mark.parametrize(("wire", "ours"), STOPS)
async def test_each_reason_to_stop(wire: str, ours: str) -> None:
    with Server([say("text", stop=wire)]) as server:
        async with provider_for(server, "anthropic") as provider:
            _, reply = await ask(provider)
    assert (reply.stop_reason, reply.text) == (ours, "text")


async def test_a_paused_turn_can_be_sent_back_as_it_is() -> None:
    with Server([say("I go on", stop="pause_turn"), say("and end.")]) as server:
        async with provider_for(server, "anthropic") as provider:
            _, reply = await ask(provider)
            paused = (*asking().messages, Message("assistant", reply.content))
            await ask(provider, Request("", paused, TOOLS))
    assert server.violations == []


async def test_unknown_events_blocks_and_deltas_are_ignored() -> None:
    start = {"type": "content_block_start", "index": 7, "content_block": {"type": "server_tool_use", "id": "x"}}
    odd = {"type": "content_block_delta", "index": 7, "delta": {"type": "odd_delta", "odd": 1}}
    stray = {"type": "content_block_delta", "index": 99, "delta": {"type": "text_delta", "text": "stray"}}
    extra = [(e["type"], json.dumps(e)) for e in (start, odd, stray, {"type": "new_event", "x": [1]})]
    with Server([say("text", extra=tuple(extra))]) as server:
        async with provider_for(server, "anthropic") as provider:
            _, reply = await ask(provider)
    assert reply.content == (Text("text"),)


@pytest.mark.parametrize("raw", ['{"file_path": "a', "[]", "nope"])
async def test_arguments_that_cannot_be_read_are_kept_as_malformed(raw: str) -> None:
    with Server([turn(call("Read", raw=raw))]) as server:
        async with provider_for(server, "anthropic") as provider:
            _, reply = await ask(provider)
    assert reply.calls[0].malformed
    assert reply.calls[0].input == {}
    answered = Message("user", (ToolResult(reply.calls[0].id, "bad", is_error=True),))
    body_of(Request("", (*asking().messages, Message("assistant", reply.content), answered), TOOLS))  # validates


async def test_a_call_cut_off_before_its_arguments_is_malformed() -> None:
    with Server([turn(call("Read", raw=""), stop="max_tokens"), turn(call("Read", raw=""))]) as server:
        async with provider_for(server, "anthropic") as provider:
            _, cut = await ask(provider)
            _, whole = await ask(provider)
    assert cut.calls[0].malformed
    assert not whole.calls[0].malformed


def test_readable_json_of_the_wrong_shape_is_a_broken_stream() -> None:
    decoder = AnthropicDecoder("m", "h", "")
    for payload in (b"[]", b"1", b"null", b'{"type": "content_block_stop"}'):
        assert decoder.feed([payload]) == []
    with pytest.raises(ProviderError):
        decoder.feed([b"{"])


async def test_wrong_shapes_never_leave_as_anything_but_a_provider_error() -> None:
    bad = [
        b'data: {"type":"content_block_delta","index":[],"delta":{"type":"text_delta"}}\n\n',
        b'data: {"type":"message_start","message":[1]}\n\n',
        b'data: {"type":"content_block_start","index":0,"content_block":"x"}\n\n',
    ]
    with Server([turn(raw=each) for each in bad]) as server:
        async with provider_for(server, "anthropic") as provider:
            for _ in bad:
                with pytest.raises(ProviderError) as caught:
                    await ask(provider)
                assert caught.value.kind == "broken_stream"


def test_error_results_carry_no_images_and_empty_ones_say_so() -> None:
    image = Image("image/png", "aaaa")
    messages = (
        Message("user", (Text("Go"),)),
        Message("assistant", tuple(ToolUse(id, "Read", {}) for id in "abc")),
        Message(
            "user",
            (ToolResult("a", (Text("no"), image), is_error=True), ToolResult("b", ""), ToolResult("c", (Text(" "),))),
        ),
    )
    content = body_of(Request("", messages, TOOLS))["messages"][2]["content"]
    assert [block["content"] for block in content] == [[{"type": "text", "text": "no"}], "(no output)", "(no output)"]
    assert [block.get("is_error") for block in content] == [True, None, None]


def test_a_long_conversation_is_encoded_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = AnthropicCodec(ModelSpec("anthropic", "m", max_output_tokens=100), "h")
    messages = history(200)
    first = codec.encode(Request("S", messages, TOOLS))
    calls = 0
    real = codec._items

    def counting(message: Message, variant: Any) -> list[Json]:
        nonlocal calls
        calls += 1
        return real(message, variant)

    monkeypatch.setattr(codec, "_items", counting)
    anew = tuple(Message(m.role, m.content) for m in messages)  # as a transcript makes them: new, of the same blocks
    assert codec.encode(Request("S", anew, TOOLS)) == first
    assert calls == 0
    codec.encode(Request("S", (*anew, Message("assistant", (Text("new"),))), TOOLS))
    assert calls == 1


def test_usage_counts_are_totals_of_which_the_last_is_true() -> None:
    decoder = AnthropicDecoder("m", "h", "")
    usage = {"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": None, "output_tokens": 1}
    decoder.feed([json.dumps({"type": "message_start", "message": {"usage": usage}}).encode()])
    decoder.feed([b'{"type":"message_delta","delta":{},"usage":{"output_tokens":20,"input_tokens":12}}'])
    assert decoder.usage == Usage(12, 20, 4, 0)


@pytest.mark.parametrize(
    ("refused", "sent"),
    [
        ("adaptive thinking is not supported on this model", {"thinking": {"type": "enabled", "budget_tokens": 4000}}),
        (
            "output_config.effort is not supported on this model",
            {"thinking": {"type": "adaptive", "display": "summarized"}},
        ),
        ("thinking is not supported on this model", {}),
    ],
)
def test_a_refusal_teaches_how_the_model_thinks_once(refused: str, sent: dict[str, Any]) -> None:
    codec = AnthropicCodec(ModelSpec("anthropic", "claude-opus-5", thinking="low"), "h")
    error = ProviderError("bad_request", refused)
    assert (codec.adapt(error), codec.adapt(error)) == (True, False)
    body = json.loads(codec.encode(asking()))
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == sent
