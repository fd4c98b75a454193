"""Prices: the shipped table, names in all their spellings, and no price where none is known."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.core.blocks import Usage
from cowork.providers.prices import find, price, rates_of

MILLION = Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return dict(json.loads((files("cowork.providers") / "prices.json").read_text())["models"])


@pytest.mark.parametrize(
    ("spelling", "listed"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("Claude-Sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("claude-opus-4-20250514", "claude-opus-4"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5:thinking", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("bedrock/global.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("vertex_ai/claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("openai/gpt-5.1", "gpt-5-1"),
        ("azure/gpt-4.1-mini", "gpt-4-1-mini"),
        ("models/gemini-2.5-pro", "gemini-2-5-pro"),
        ("gemini-2.5-pro-preview-05-06", "gemini-2-5-pro"),
        ("google/gemini-2.5-flash-lite", "gemini-2-5-flash-lite"),
        ("deepseek-chat", "deepseek-chat"),
        ("deepseek/deepseek-r1", "deepseek/deepseek-r1"),
        ("qwen/qwen3-coder:nitro", "qwen/qwen3-coder"),
        ("qwen3-coder-plus", "qwen3-coder-plus"),
        ("mistral-large-latest", "mistral-large"),
        ("kimi-k2-thinking", "kimi-k2-thinking"),
        ("glm-4.6", "glm-4-6"),
    ],
)
def test_a_model_is_found_under_its_spellings(spelling: str, listed: str, table: dict[str, Any]) -> None:
    assert rates_of(spelling) == table[listed]


@pytest.mark.parametrize(
    "model",
    [
        "",
        "scripted",
        "offline",
        "llama3.2",
        "qwen3:30b",
        "gpt-oss:20b",
        "gpt-oss-20b",
        "deepseek-r1:8b",
        "qwen/qwen3-coder:free",
        "claude-sonnet-9",
        "gpt-5-mini-turbo-next",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
        "my-own-model",
        "a/b/c",
    ],
)
def test_a_model_that_is_not_listed_has_no_price(model: str) -> None:
    assert price(model, MILLION) is None


def test_each_kind_of_token_has_its_rate() -> None:
    # Input never includes cached tokens, so nothing is subtracted and nothing is counted twice.
    usage = Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=10_000, cache_write_tokens=2000)
    expected = (1000 * 3 + 100 * 15 + 10_000 * 0.3 + 2000 * 3.75) / 1e6
    assert price("claude-sonnet-4-6", usage) == pytest.approx(expected)
    assert price("claude-sonnet-4-6", Usage()) == 0.0


def test_cached_tokens_cost_as_input_where_no_other_rate_is_listed() -> None:
    assert price("x", Usage(1, 1, 2, 3), {"input": 1e6, "output": 10e6}) == 16.0


def test_a_long_prompt_has_its_dearer_rate() -> None:
    short, long = Usage(100_000, 10, 100_000), Usage(100_000, 10, 100_001)
    assert price("claude-sonnet-4-5", short) == pytest.approx((100_000 * 3 + 10 * 15 + 100_000 * 0.3) / 1e6)
    assert price("claude-sonnet-4-5", long) == pytest.approx((100_000 * 6 + 10 * 22.5 + 100_001 * 0.6) / 1e6)


def test_overrides_win_and_make_an_unknown_model_known() -> None:
    assert price("mine", MILLION, {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4}) == 10.0
    assert price("mine", MILLION, {"output": 2}) is None
    assert price("claude-sonnet-4-6", Usage(output_tokens=1_000_000), {"output": 1}) == 1.0
    assert price("claude-sonnet-4-6", Usage(cache_read_tokens=1_000_000), {"output": 1}) == pytest.approx(0.3)
    # Whoever says what input costs has left the list price, cached or long prompts included.
    assert price("claude-sonnet-4-5", Usage(0, 0, 1_000_000), {"input": 1}) == 1.0


@pytest.mark.parametrize(
    "url",
    ["http://localhost:11434/v1", "http://127.0.0.1:1", "http://[::1]:1", "http://10.0.0.2", "http://gpu.local/v1"],
)
def test_weights_on_a_local_server_have_no_price_but_rented_models_behind_a_local_proxy_do(url: str) -> None:
    assert price("deepseek-r1", MILLION, base_url="https://api.deepseek.com") is not None
    assert price("deepseek-r1", MILLION, base_url=url) is None
    assert price("openai/gpt-oss-20b", MILLION, base_url=url) is None
    assert price("claude-opus-4-5", MILLION, base_url=url) is not None
    assert price("anthropic/claude-opus-4-5", MILLION, base_url=url) is not None
    assert price("deepseek-r1", Usage(1_000_000), {"input": 2, "output": 2}, base_url=url) == 2.0


def test_every_entry_of_the_table_is_found_by_its_own_name_and_is_plausible(table: dict[str, Any]) -> None:
    assert len(table) > 300
    for name, rates in table.items():
        assert find(name, table) == rates
        for part in (rates, *rates.get("above", {}).values()):
            assert 0 < part["input"] <= 200, name
            assert 0 < part["output"] <= 700, name
            assert 0 < part.get("cache_read", part["input"]) <= part["input"], name


@given(st.text(max_size=60))
def test_no_name_breaks_the_lookup_and_no_price_is_zero(name: str) -> None:
    found = price(name, MILLION)
    assert found is None or found > 0


def test_the_table_is_small_enough_to_load_in_a_moment() -> None:
    assert len((files("cowork.providers") / "prices.json").read_bytes()) < 64_000
