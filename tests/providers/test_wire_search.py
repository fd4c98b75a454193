"""WebSearch by the model service itself: one strict request of its own, and an ordinary call in the conversation."""

from __future__ import annotations

import json

import pytest

from cowork.core.ports import ModelSpec, Source
from cowork.providers.codecs.anthropic import AnthropicCodec
from cowork.providers.codecs.openai_responses import OpenAICodec
from tests.fakes.command import Command
from tests.wire.searching import search_failed, searched
from tests.wire.server import Server, call, say, status, turn
from tests.wire.talk import ask, asking, provider_for

PAGES = (("Guide", "https://a.example/guide", "Version 3 is out."), ("Other", "https://b.example/", ""))
FORMATS = ("anthropic", "openai")
PRICES = "[pricing.test-model]\ninput = 1\noutput = 1\n"


@pytest.mark.parametrize("format", FORMATS)
async def test_a_request_with_searches_gives_the_pages_and_keeps_their_blocks_out_of_the_answer(format: str) -> None:
    with Server([searched(format, "q", "It is out.", *PAGES)]) as server:
        async with provider_for(server, format) as provider:
            _, reply = await ask(provider, asking("q", tools=(), searches=3))
    assert server.violations == []
    assert (reply.text, reply.calls, reply.stop_reason, reply.searches) == ("It is out.", (), "end_turn", 1)
    assert next((s.url, s.title) for s in reply.sources) == ("https://a.example/guide", "Guide")
    assert {s.url for s in reply.sources} == {url for _, url, _ in PAGES}
    if format == "anthropic":
        assert reply.sources[0] == Source("https://a.example/guide", "Guide", "Version 3 is out.")


async def test_a_search_that_failed_is_an_answer_without_pages() -> None:
    with Server([search_failed("q", "max_uses_exceeded", "I could not search.")]) as server:
        async with provider_for(server, "anthropic") as provider:
            _, reply = await ask(provider, asking("q", tools=(), searches=3))
    assert (reply.text, reply.sources) == ("I could not search.", ())


def test_without_searches_nothing_of_them_is_sent() -> None:
    for codec in (AnthropicCodec, OpenAICodec):
        body = codec(ModelSpec("x", "claude-haiku-4-5", max_output_tokens=9_000), "h").encode(asking())
        assert b"web_search" not in body
        assert b"max_tool_calls" not in body


@pytest.mark.parametrize("format", FORMATS)
def test_the_command_searches_counts_it_and_can_be_resumed(command: Command, format: str) -> None:
    command.configure(f'{PRICES}[web]\nsearch = "model"\n')
    talk = [turn(call("WebSearch", query="newest version")), say("Version 3.")]
    with Server(talk, routes={"Search the web": [searched(format, "q", "It is out.", *PAGES)]}) as server:
        ended = command.stream("--allow", "WebSearch", env=server.env(format))
        assert ended.code == 0, ended.err
        server.add(say("and so on"))
        again = command.stream("--continue", prompt="more", env=server.env(format))
    assert again.code == 0, again.err
    assert server.violations == []
    record = ended.record("WebSearch")
    assert record["status"] == "success"
    assert [r["url"] for r in record["data"]["results"]] == ["https://a.example/guide", "https://b.example/"]
    assert "It is out." in record["text"]
    assert "data from the web" in record["text"]
    search = next(seen for seen in server.requests if "Search the web" in seen.opening)
    assert [t.get("name") or t["type"] for t in search.body["tools"]] == ["web_search"]
    main = [seen for seen in server.requests if seen is not search]
    assert all(b"web_search_tool_result" not in seen.raw for seen in main)
    assert "https://a.example/guide" in json.dumps(main[-1].body)
    spent = record["data"]["request"]
    assert spent["usage"]["output_tokens"] == 200
    assert spent["cost_usd"] == pytest.approx(0.01 + 1_200e-6)  # the search itself, and its tokens
    total = ended.result["total_cost_usd"]
    assert total == pytest.approx(0.01 + 1_200e-6 + 2 * 120e-6)
    cost = json.loads(command.cowork("cost", "--json").out)
    assert cost["periods"]["all"]["cost_usd"] == pytest.approx(total + 120e-6)


@pytest.mark.parametrize("format", FORMATS)
def test_a_recorded_search_is_replayed_with_its_pages_and_its_cost(command: Command, format: str) -> None:
    command.configure(f'{PRICES}[web]\nsearch = "model"\n')
    talk = [turn(call("WebSearch", query="newest version")), say("Version 3.")]
    with Server(talk, routes={"Search the web": [searched(format, "q", "It is out.", *PAGES)]}) as server:
        ended = command.stream("--allow", "WebSearch", "--record", "talk.jsonl", env=server.env(format))
        again = command.stream("--allow", "WebSearch", "--replay", "talk.jsonl", env=server.env(format))
    assert (ended.code, again.code) == (0, 0), ended.err + again.err
    assert again.record("WebSearch")["data"] == ended.record("WebSearch")["data"]
    assert again.result["total_cost_usd"] == ended.result["total_cost_usd"]


def test_rules_and_the_setting_rule_the_search(command: Command) -> None:
    command.configure('[web]\nsearch = "model"\n')
    with Server([turn(call("WebSearch", query="x")), say("ok"), say("ok")]) as server:
        denied = command.stream("--deny", "WebSearch", env=server.env("anthropic"))
        command.run("--tools", "Read", env=server.env("anthropic"))
    assert len(server.requests) == 3  # none of them a search
    assert denied.record("WebSearch")["error"]["code"] == "PERMISSION_DENIED"
    assert [t["name"] for t in server.bodies[-1]["tools"]] == ["Read"]


def test_a_service_that_refuses_to_search_is_told_to_the_model(command: Command) -> None:
    command.configure('[web]\nsearch = "model"\n')
    talk = [turn(call("WebSearch", query="x")), say("done without")]
    with Server(talk, routes={"Search the web": [status(400)]}) as server:
        ended = command.stream("--allow", "WebSearch", env=server.env("anthropic"))
    assert ended.code == 0, ended.err
    assert ended.record("WebSearch")["text"].startswith("The model service did not search: ")


def test_by_itself_only_the_known_services_search(command: Command) -> None:
    for address, there in (("", True), ("https://api.anthropic.com", True), ("http://127.0.0.1:1", False)):
        env = {"LLM_PROVIDER": "anthropic", "LLM_API_KEY": "k", "LLM_MODEL_ID": "claude-haiku-4-5"}
        env |= {"LLM_BASE_URL": address} if address else {}
        assert ("WebSearch" in command.cowork("tools", env=env).out) is there
    off = env | {"LLM_BASE_URL": "https://api.anthropic.com", "COWORK_WEB_SEARCH": "off"}
    assert "WebSearch" not in command.cowork("tools", env=off).out
