"""What particular servers do: they count no tokens, repeat themselves, refuse null, or answer like a router."""

from __future__ import annotations

import json

import pytest

from cowork.core.blocks import Json, Message, Text, ToolResult, ToolUse, Usage
from cowork.core.errors import ProviderError
from cowork.core.ports import ModelSpec, Request
from cowork.providers.codecs.openai_chat import ChatCodec, ThinkTags
from cowork.providers.codecs.openai_responses import OpenAICodec
from tests.fakes.command import Command
from tests.wire.network import RawServer, answer, replying
from tests.wire.server import FORMATS, Server, broken, call, say, turn
from tests.wire.talk import ask, asking, converse, provider_for

# ---------------------------------------------------------------- servers that leave thoughts in the text


@pytest.mark.parametrize(
    ("said", "thoughts", "text"),
    [
        ('<think>\nhmm </th\n</think>\n\n{"a": 1}', "\nhmm </th\n", '{"a": 1}'),
        ("<think></think>\n\nyes", "", "yes"),
        ("\n<think>a</think>\n<think>b</think> c", "ab", "c"),
        ("<think>never ends", "never ends", ""),
        ("  two blanks, and a <think> inside</think>", "", "  two blanks, and a <think> inside</think>"),
        ("<thin", "", "<thin"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_thoughts_in_tags_are_told_from_the_text(said: str, thoughts: str, text: str, size: int) -> None:
    tags = ThinkTags()
    found = [piece for at in range(0, len(said), size) for piece in tags.feed(said[at : at + size])] + tags.close()
    assert "".join(part for kind, part in found if kind == "thinking") == thoughts
    assert "".join(part for kind, part in found if kind == "text") == text


def test_thoughts_in_tags_do_not_spoil_a_typed_answer(command: Command) -> None:
    (command.folder / "schema.json").write_text('{"type": "object", "required": ["a"]}')
    with Server([say('<think>\nhmm\n</think>\n\n{"a": 1}')]) as server:
        done = command.stream("--output-schema", "schema.json", env=server.env("openai-chat"))
    assert done.of("run.ended")[0]["structured_output"] == {"a": 1}
    assert len(server.bodies) == 1


# ---------------------------------------------------------------- servers that count nothing


@pytest.mark.parametrize("format", ["openai", "openai-chat"])
async def test_usage_that_is_not_told_is_estimated_and_says_so(format: str) -> None:
    with Server([say("word " * 400, send_usage=False)]) as server:
        async with provider_for(server, format) as provider:
            _, reply = await ask(provider, asking("x" * 4_000))
            cost = provider.price(reply.usage)
    assert reply.usage.estimated
    assert 1_000 < reply.usage.input_tokens < 1_200
    assert reply.usage.output_tokens == 500
    assert (cost is None) == (format == "openai-chat")  # nobody knows what a model of one's own costs


async def test_only_what_is_missing_is_estimated() -> None:
    with Server([say("word " * 400, usage=Usage(0, 7))]) as server:
        async with provider_for(server, "openai-chat") as provider:
            _, reply = await ask(provider)
    assert (reply.usage.output_tokens, reply.usage.estimated) == (7, True)
    assert reply.usage.input_tokens > 0


async def test_usage_that_is_told_is_taken_at_its_word() -> None:
    with Server([say("hi", usage=Usage(50, 9, 40))]) as server:
        async with provider_for(server, "openai-chat") as provider:
            _, reply = await ask(provider)
    assert reply.usage == Usage(50, 9, 40)


@pytest.mark.parametrize("where", ["middle", "last"])
@pytest.mark.parametrize("format", FORMATS)
async def test_what_broke_off_has_cost_its_prompt(format: str, where: str) -> None:
    cut = broken("reset", where, turn(call("Read", file_path="a" * 60)))  # type: ignore[arg-type]
    with Server([cut]) as server:
        async with provider_for(server, format) as provider:
            with pytest.raises(ProviderError) as caught:
                await ask(provider)
    assert caught.value.usage.prompt_tokens > 0
    assert caught.value.usage.estimated == (format != "anthropic")


def test_limits_hold_on_estimates(command: Command) -> None:
    reads = [turn(call("Read", file_path="a.txt"), send_usage=False) for _ in range(9)]
    (command.folder / "a.txt").write_text("words\n" * 400)
    with Server(reads) as server:
        ended = command.run("--output", "json", "--max-tokens", "9000", env=server.env("openai-chat"))
    assert ended.code == 4
    assert len(server.requests) < 9
    assert ended.result["terminal_reason"] == "budget"
    assert ended.result["usage"]["input_tokens"] > 5_000
    assert ended.result["usage_estimated"] is True
    assert ended.result["total_cost_usd"] is None


def test_a_cost_limit_holds_on_estimates(command: Command) -> None:
    command.configure("[pricing.test-model]\ninput = 100\noutput = 100\n")
    (command.folder / "a.txt").write_text("words\n" * 400)
    reads = [turn(call("Read", file_path="a.txt"), send_usage=False) for _ in range(9)]
    with Server(reads) as server:
        ended = command.run("--output", "json", "--max-cost", "0.9", env=server.env("openai-chat"))
    assert ended.code == 4
    assert len(server.requests) < 9
    assert ended.result["total_cost_usd"] > 0.5
    assert ended.result["usage_estimated"] is True


# ---------------------------------------------------------------- llama-cpp-python


async def test_llama_cpp_python_repeats_itself_and_refuses_null() -> None:
    turns = [
        turn(call("Read", file_path="a.py"), call("Grep", pattern="x"), shape="repeated", send_usage=False),
        turn(call("Read", file_path="b.py"), shape="repeated", send_usage=False),
        say("Done.", send_usage=False),
    ]
    asked: list[ToolUse] = []

    def run(use: ToolUse) -> Json:
        asked.append(use)
        return {"status": "success", "text": "fine", "data": {}}

    with Server(turns, refuse_null=True) as server:
        async with provider_for(server, "openai-chat") as provider:
            transcript = await converse(provider, "go", run)
    assert [(use.name, use.input) for use in asked] == [
        ("Read", {"file_path": "a.py"}),
        ("Grep", {"pattern": "x"}),
        ("Read", {"file_path": "b.py"}),
    ]
    assert transcript.messages()[-1].text == "Done."
    assert len(server.requests) == 4  # one of them was refused, and the server was believed from then on
    assert server.violations == []


# ---------------------------------------------------------------- LiteLLM


def router_chunks(*deltas: Json) -> bytes:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "claude", "usage": None}
    rows = [base | {"choices": [{"index": 0, "finish_reason": None, "delta": delta}]} for delta in deltas]
    rows.append(base | {"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"content": None}}]})
    counted = {"prompt_tokens": 30, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20}}
    rows.append(base | {"choices": [{"index": 0, "delta": {}}], "usage": counted})
    return b"".join(b"data: " + json.dumps(row).encode() + b"\n\n" for row in rows) + b"data: [DONE]\n\n"


async def test_a_router_fills_every_field_with_null() -> None:
    nothing = {"role": "assistant", "content": "", "tool_calls": None, "function_call": None, "audio": None}
    body = router_chunks(
        nothing | {"provider_specific_fields": None, "refusal": None},
        {
            "tool_calls": [
                {"index": 0, "id": "call_1", "type": "function", "function": {"name": "Read", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 0, "id": None, "type": "function", "function": {"name": None, "arguments": '{"fi'}}]},
        {"tool_calls": [{"index": 0, "id": None, "function": {"name": None, "arguments": 'le_path": "a"}'}}]},
    )
    with RawServer(replying(answer(body, "content-type: text/event-stream"))) as server:
        async with provider_for(server, "openai-chat") as provider:  # type: ignore[arg-type]
            _, reply = await ask(provider)
    assert reply.calls == (ToolUse("call_1", "Read", {"file_path": "a"}),)
    assert (reply.stop_reason, reply.usage) == ("tool_use", Usage(10, 5, 20))


async def test_a_router_puts_the_status_into_the_stream() -> None:
    error = {"error": {"message": "litellm.RateLimitError: slow down", "type": "None", "param": "None", "code": "429"}}
    body = b"data: " + json.dumps(error).encode() + b"\n\n"
    with RawServer(replying(answer(body, "content-type: text/event-stream"))) as server:
        async with provider_for(server, "openai-chat") as provider:  # type: ignore[arg-type]
            with pytest.raises(ProviderError) as caught:
                await ask(provider)
    assert caught.value.kind == "rate_limit"
    assert caught.value.usage == Usage()


# ---------------------------------------------------------------- failed results


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a.py does not exist", "Error: a.py does not exist"),
        ("Error: no such file", "Error: no such file"),
        ("", "Error: (no output)"),
        ((Text("it broke"),), "Error: it broke"),
    ],
)
@pytest.mark.parametrize("codec", [ChatCodec, OpenAICodec])
def test_a_failed_result_says_so_where_the_format_has_no_field(
    codec: type[ChatCodec | OpenAICodec], content: str | tuple[Text, ...], said: str
) -> None:
    made = codec(ModelSpec("openai", "m", max_output_tokens=100), "h")
    use = Message("assistant", (ToolUse("t1", "Read", {}),))

    def sent(is_error: bool) -> str:
        result = Message("user", (ToolResult("t1", content, is_error),))
        body = json.loads(made.encode(Request("", (Message("user", (Text("go"),)), use, result))))
        last = (body.get("messages") or body["input"])[-1]
        text = last.get("content") or last["output"]
        return text if isinstance(text, str) else "".join(part["text"] for part in text)

    assert sent(is_error=True) == said
    assert sent(is_error=False) == said.removeprefix("Error: ") or said == content
