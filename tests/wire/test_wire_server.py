"""The test service itself: it must refuse what the real services refuse, or the other tests prove nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from cowork.core.blocks import Usage
from tests.wire.encode import signature
from tests.wire.server import Server, call, say, turn
from tests.wire.talk import ask, asking, provider_for
from tests.wire.validate import validate

TOOL = {"name": "Read", "description": "d", "input_schema": {"type": "object"}}
ANTHROPIC: dict[str, Any] = {
    "model": "claude-haiku-4-5",
    "max_tokens": 8000,
    "stream": True,
    "system": [{"type": "text", "text": "s"}],
    "tools": [TOOL],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "Read", "input": {}},
                {"type": "tool_use", "id": "b", "name": "Read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                {"type": "text", "text": "more"},
            ],
        },
    ],
}
MARK = {"type": "ephemeral"}
THINKING = {"type": "thinking", "thinking": "x", "signature": signature("x")}


def put(path: str, value: Any) -> Any:
    """A change that sets the value at a dotted path; a list gets it inserted when the last part ends with +."""

    def change(body: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        at: Any = body
        for part in parents:
            at = at[int(part)] if part.isdigit() else at[part]
        if last.endswith("+"):
            at.insert(int(last[:-1]), value)
        elif value is None:
            del at[int(last) if last.isdigit() else last]
        else:
            at[int(last) if last.isdigit() else last] = value

    return change


ANTHROPIC_MISTAKES = [
    put("temperature", 1),
    put("stream", False),
    put("max_tokens", 0),
    put("model", None),
    put("tools", None),
    put("tools.0.name", "no spaces"),
    put("tools.1+", TOOL),
    put("tools.0.input_schema", {}),
    put("tool_choice", {"type": "maybe"}),
    put("messages", []),
    put("messages.0", None),
    put("messages.0.role", "system"),
    put("messages.0.content", []),
    put("messages.0.content.0.text", "  "),
    put("messages.0.content.0.odd", 1),
    put("messages.1.content.0.id", "b"),
    put("messages.1.content.0.id", "no.dots"),
    put("messages.1.content.0.input", "text"),
    put("messages.2.content.0", None),
    put("messages.2.content.0.tool_use_id", "c"),
    put("messages.2.content.0+", {"type": "text", "text": "first"}),
    put("messages.2.content.0.is_error", False),
    put("messages.2.content.0.content", ""),
    put("messages.2.content.3+", {"type": "tool_result", "tool_use_id": "a", "content": "again"}),
    put("messages.3+", {"role": "user", "content": [{"type": "text", "text": "twice"}]}),
    put("messages.3+", {"role": "assistant", "content": [{"type": "text", "text": "prefill"}]}),
    put("messages.1.content.0+", THINKING),
    put("thinking", {"type": "enabled", "budget_tokens": 8000}),
    put("thinking", {"type": "enabled", "budget_tokens": 100}),
    put("thinking", {"type": "enabled", "budget_tokens": 2000}),
    put("output_config", {"effort": "huge"}),
]


def test_a_valid_request_is_accepted() -> None:
    assert validate("anthropic", ANTHROPIC) == []
    assert validate("openai", OPENAI) == []
    assert validate("openai-chat", CHAT) == []


@pytest.mark.parametrize("number", range(len(ANTHROPIC_MISTAKES)))
def test_mistakes_in_messages_are_refused(number: int) -> None:
    body = copy.deepcopy(ANTHROPIC)
    ANTHROPIC_MISTAKES[number](body)
    assert validate("anthropic", body)


def test_results_out_of_order_are_refused() -> None:
    body = copy.deepcopy(ANTHROPIC)
    content = body["messages"][2]["content"]
    content[0], content[1] = content[1], content[0]
    assert validate("anthropic", body)


def test_a_fifth_cache_mark_is_refused() -> None:
    body = copy.deepcopy(ANTHROPIC)
    body["system"][0]["cache_control"] = body["tools"][0]["cache_control"] = MARK
    for block in body["messages"][2]["content"][:2]:
        block["cache_control"] = MARK
    assert validate("anthropic", body) == []
    body["messages"][2]["content"][2]["cache_control"] = MARK
    assert validate("anthropic", body)


def test_thinking_that_was_touched_is_refused() -> None:
    body = copy.deepcopy(ANTHROPIC) | {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    body["messages"][1]["content"].insert(0, dict(THINKING))
    assert validate("anthropic", body) == []
    body["messages"][1]["content"][0]["thinking"] = "y"
    assert validate("anthropic", body)


OPENAI: dict[str, Any] = {
    "model": "gpt-5",
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "tools": [{"type": "function", "name": "Read", "parameters": {"type": "object"}, "strict": False}],
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": signature("")},
        {"type": "function_call", "call_id": "a", "name": "Read", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "Read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
    ],
}
OPENAI_MISTAKES = [
    put("messages", []),
    put("store", True),
    put("max_output_tokens", 1),
    put("tools", None),
    put("include", None),
    put("input.4", None),
    put("input.5", None),
    put("input.2", None),
    put("input.3.call_id", "a"),
    put("input.3.arguments", "{"),
    put("input.3.arguments", "[]"),
    put("input.4.output", ""),
    put("input.1.encrypted_content", "x"),
    put("input.0.content", "  "),
    put("input.0.content.0.type", "output_text"),
    put("input.4+", {"type": "message", "role": "user", "content": "between"}),
    put("input.6+", {"type": "reasoning", "id": "r2", "summary": [], "encrypted_content": signature("")}),
]

CHAT: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "tools": [{"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}}],
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ],
}
CHAT_MISTAKES = [
    put("input", []),
    put("tools", None),
    put("messages.1", None),
    put("messages.3", None),
    put("messages.4", None),
    put("messages.2", None),
    put("messages.3.content", ""),
    put("messages.3.content", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}}]),
    put("messages.2.tool_calls.0.id", "b"),
    put("messages.2.tool_calls.0.function.arguments", "{"),
    put("messages.4+", {"role": "user", "content": "between"}),
    put("messages.5+", {"role": "system", "content": "late"}),
    put("messages.5+", {"role": "assistant", "content": ""}),
    put("messages.1.name", "x"),
]


@pytest.mark.parametrize("number", range(len(OPENAI_MISTAKES)))
def test_mistakes_in_responses_are_refused(number: int) -> None:
    body = copy.deepcopy(OPENAI)
    OPENAI_MISTAKES[number](body)
    assert validate("openai", body)


@pytest.mark.parametrize("number", range(len(CHAT_MISTAKES)))
def test_mistakes_in_chat_completions_are_refused(number: int) -> None:
    body = copy.deepcopy(CHAT)
    CHAT_MISTAKES[number](body)
    assert validate("openai-chat", body)


async def test_a_script_that_has_run_out_is_a_violation() -> None:
    with Server([say("only one")]) as server:
        async with provider_for(server, "anthropic") as provider:
            await ask(provider)
            with pytest.raises(Exception, match="run out"):
                await ask(provider)
    assert server.violations == ["request 1: the script has run out of turns"]


async def test_routes_answer_by_the_opening_of_a_conversation() -> None:
    with Server([say("main")], routes={"find the needle": [say("child")]}) as server:
        async with provider_for(server, "openai") as provider:
            _, child = await ask(provider, asking("please find the needle"))
            _, main = await ask(provider, asking("something else"))
    assert (child.text, main.text) == ("child", "main")
    assert server.left == 0


async def test_a_wrong_key_is_refused() -> None:
    with Server([say("x")], key="right") as server:
        async with provider_for(server, "openai-chat", api_key="wrong") as provider:
            with pytest.raises(Exception, match="credentials"):
                await ask(provider)


SPOKEN = turn("Hello there.", call("Read", id="c1", file_path="ä"), usage=Usage(7, 5, 3, 0))


async def test_the_vendors_own_clients_read_its_streams() -> None:
    import anthropic  # here, for they take a second or two and only this test needs them
    import openai

    with Server([SPOKEN, SPOKEN, SPOKEN]) as server:
        client = anthropic.AsyncAnthropic(api_key="k", base_url=server.url("anthropic"), max_retries=0)
        async with client.messages.stream(
            model="claude-haiku-4-5", max_tokens=99, messages=[{"role": "user", "content": "hi"}]
        ) as stream:
            message = await stream.get_final_message()
        await client.close()
        assert message.content[0].type == "text"
        assert message.content[0].text == "Hello there."
        assert message.content[1].type == "tool_use"
        assert message.content[1].input == {"file_path": "ä"}
        assert message.stop_reason == "tool_use"

        other = openai.AsyncOpenAI(api_key="k", base_url=server.url("openai"), max_retries=0)
        async with other.responses.stream(
            model="gpt-5", input=[{"role": "user", "content": "hi"}], store=False
        ) as events:
            response = await events.get_final_response()
        assert response.output_text == "Hello there."
        assert response.usage is not None
        assert response.usage.input_tokens == 10

        async with other.chat.completions.stream(model="m", messages=[{"role": "user", "content": "hi"}]) as chunks:
            completion = await chunks.get_final_completion()
        await other.close()
        assert completion.choices[0].message.content == "Hello there."
        assert completion.choices[0].message.tool_calls
    assert server.violations == []
