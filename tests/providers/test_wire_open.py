"""Opening providers: what is known of models, what is imported, where requests go."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cowork.core.blocks import Message, Text, Thinking, ToolResult, ToolUse
from cowork.core.errors import ProviderError, UserError
from cowork.core.ports import ModelSpec, Request
from cowork.providers.catalog import default_output, facts_of
from cowork.providers.open import open_provider
from tests.wire.encode import signature
from tests.wire.server import FORMATS, Server, broken, call, say, status, think, turn
from tests.wire.talk import TOOLS, ask, asking, provider_for, text_of


@pytest.mark.parametrize(
    ("model", "window", "thinking"),
    [
        ("claude-haiku-4-5-20251001", 200_000, "budget"),
        ("claude-sonnet-5-5", 1_000_000, "adaptive"),
        ("anthropic/claude-opus-4-1", 200_000, "budget"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, "budget"),
        ("claude-opus-5-5", 1_000_000, "always"),
        ("claude-3-5-haiku-latest", 200_000, "none"),
        ("gpt-5.1-codex", 400_000, "effort"),
        ("gpt-6.1-sol", 1_050_000, "effort"),
        ("gpt-4o-mini", 128_000, "none"),
        ("openai/gpt-4.1", 1_047_576, "none"),
        ("o4-mini", 200_000, "effort"),
        ("llama3.2:3b", 128_000, "none"),
        ("no-such-model", 128_000, "none"),
    ],
)
def test_models_are_known_by_the_start_of_their_names(model: str, window: int, thinking: str) -> None:
    assert (facts_of(model).window, facts_of(model).thinking) == (window, thinking)
    assert 0 < default_output(model) <= min(facts_of(model).output, 32_000)


def test_the_configuration_wins_over_what_is_known() -> None:
    given = ModelSpec("anthropic", "claude-haiku-4-5", context_window=50_000, max_output_tokens=1_234, api_key="k")
    provider = open_provider(given)
    assert (provider.context_window, provider.max_output_tokens) == (50_000, 1_234)
    assert (provider.name, provider.model) == ("anthropic", "claude-haiku-4-5")
    unknown = open_provider(ModelSpec("openai-chat", "my-model", api_key="k"))
    assert (unknown.context_window, unknown.max_output_tokens) == (128_000, 8_192)


@pytest.mark.parametrize("provider", ["antropic", "", "openai_chat"])
def test_an_unknown_provider_is_told_with_the_known_ones(provider: str) -> None:
    with pytest.raises(UserError) as caught:
        open_provider(ModelSpec(provider, "m"))
    assert "openai-chat" in caught.value.hint


def test_a_missing_model_is_told() -> None:
    with pytest.raises(UserError):
        open_provider(ModelSpec("openai", ""))


def test_an_address_that_is_none_is_told_without_what_stands_there() -> None:
    with pytest.raises(UserError, match="not an address") as caught:
        open_provider(ModelSpec("openai-chat", "m", base_url="sk-sesame", api_key="k"))
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("client", ["bedrock", "vertex", "nonsense"])
def test_a_client_that_cannot_be_made_is_told_in_a_line(client: str) -> None:
    spec = ModelSpec("anthropic", "m", transport="sdk", options={"client": client, "no_such_option": 1})
    with pytest.raises(UserError):
        open_provider(spec)


def test_clients_of_clouds_can_be_made() -> None:
    azure = {"client": "azure", "api_version": "2025-04-01-preview"}
    spec = ModelSpec("openai-chat", "m", "https://x.openai.azure.com", "k", transport="sdk", options=azure)
    assert type(open_provider(spec)._transport._client).__name__ == "AsyncAzureOpenAI"  # type: ignore[attr-defined]
    vertex = {"client": "vertex", "region": "us-east5", "project_id": "p"}
    spec = ModelSpec("anthropic", "m", "", "token", transport="sdk", options=vertex)
    assert type(open_provider(spec)._transport._client).__name__ == "AsyncAnthropicVertex"  # type: ignore[attr-defined]


def test_a_package_a_cloud_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for client in ("bedrock", "vertex"):
        options = {"client": client, "aws_region": "eu-west-1"}
        with pytest.raises(UserError) as caught:
            open_provider(ModelSpec("anthropic", "m", transport="sdk", options=options))
        assert caught.value.hint == f"pip install 'anthropic[{client}]'"


BINARY_FAULTS = [
    (broken("truncated", "middle"), "broken_stream"),
    (broken("malformed", "middle"), "broken_stream"),
    (broken("reset", "middle"), "broken_stream"),
    (broken("error", "middle"), "overloaded"),
    (status(529), "overloaded"),
]


async def test_a_cloud_whose_frames_only_its_client_can_read_gives_the_same_answer() -> None:
    script = [turn(think("hm"), "Text ☃.", call("Read", id="a", file_path="x")), *(each for each, _ in BINARY_FAULTS)]
    with Server(script) as server:
        async with provider_for(server, "anthropic", transport="sdk", thinking="low") as provider:
            provider._transport._kind = "bedrock"  # type: ignore[attr-defined]
            deltas, reply = await ask(provider)
            assert text_of(deltas) == reply.text == "Text ☃."
            assert reply.calls == (ToolUse("a", "Read", {"file_path": "x"}),)
            assert isinstance(reply.content[0], Thinking)
            assert reply.content[0].wire == {"type": "thinking", "thinking": "hm", "signature": signature("hm")}
            for _, kind in BINARY_FAULTS:
                with pytest.raises(ProviderError) as caught:
                    await ask(provider)
                assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("format", "suffix"),
    [
        ("anthropic", ""),
        ("anthropic", "/"),
        ("anthropic", "/v1"),
        ("anthropic", "/v1/messages"),
        ("openai", "/v1"),
        ("openai", "/v1/"),
        ("openai-chat", "/v1/chat/completions"),
    ],
)
async def test_a_base_url_may_be_written_in_several_ways(format: str, suffix: str) -> None:
    with Server([say("ok")]) as server:
        async with provider_for(server, format, base_url=f"http://127.0.0.1:{server.port}{suffix}") as provider:
            _, reply = await ask(provider)
    assert reply.text == "ok"


async def test_headers_of_the_configuration_are_sent_and_may_replace_the_key() -> None:
    with Server([say("ok")], key="other") as server:
        async with provider_for(
            server, "anthropic", headers={"Authorization": "Bearer other", "X-Team": "blue"}
        ) as provider:
            await ask(provider)
    headers = server.requests[0].headers
    assert headers["x-team"] == "blue"
    assert "x-api-key" not in headers
    assert headers["user-agent"].startswith("cowork/")


@pytest.mark.parametrize("format", FORMATS)
async def test_a_request_can_ask_for_less_output_than_the_model_gives(format: str) -> None:
    with Server([say("ok")]) as server:
        async with provider_for(server, format) as provider:
            await ask(provider, asking(max_output_tokens=99))
    names = {"anthropic": "max_tokens", "openai": "max_output_tokens", "openai-chat": "max_tokens"}
    assert server.bodies[0][names[format]] == 99


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["functions.Read", "two words", "ü" * 200, "x" * 100])
async def test_a_tool_name_a_model_made_up_does_not_brick_the_conversation(format: str, name: str) -> None:
    messages = (
        Message("user", (Text("Go"),)),
        Message("assistant", (ToolUse("a", name, {}),)),
        Message("user", (ToolResult("a", "There is no such tool.", is_error=True),)),
    )
    with Server([say("ok")]) as server:
        async with provider_for(server, format) as provider:
            await ask(provider, Request("", messages, TOOLS))
    assert server.violations == []


PROBE = """
import asyncio, json, sys
from cowork.core.blocks import Message, Text
from cowork.core.ports import ModelSpec, Request
from cowork.providers.open import open_provider
before = set(sys.modules)
async def main():
    provider = open_provider(ModelSpec(sys.argv[1], "m", base_url=sys.argv[2], api_key="k"))
    async for last in provider.stream(Request("", (Message("user", (Text("hi"),)),))):
        pass
    await provider.aclose()
    return last.text
text = asyncio.run(main())
print(json.dumps([text, sorted(before), sorted(sys.modules)]))
"""


@pytest.mark.parametrize("format", FORMATS)
def test_the_direct_transport_loads_no_client_library(format: str) -> None:
    with Server([say("ok")]) as server:
        done = subprocess.run(
            [sys.executable, "-c", PROBE, format, server.url(format)], capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    text, before, after = json.loads(done.stdout)
    assert text == "ok"
    heavy = {"anthropic", "openai", "httpx2", "httpcore2", "anyio", "h11", "pydantic", "yaml", "rich"}
    assert not heavy & {name.partition(".")[0] for name in after}
    assert "asyncio" in after
    wire = {"wire", "direct", "anthropic", "openai", "openai_chat", "sdk"}
    assert not {f"cowork.providers.{name}" for name in wire} & set(before)
