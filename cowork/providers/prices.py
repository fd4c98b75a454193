"""What requests use and cost in USD. A model that is not in the small shipped table has no price, never a price of 0.

`benchmarks/refresh_prices.py` writes the table. Names are looked up with `.` and `-` alike, and with routers, vendors,
regions, dates and the like taken off step by step; nothing is guessed from the beginning of a name, since the price of
a family's next member is not known.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cowork.core.blocks import CHARS_A_TOKEN, Block, Usage, estimate_tokens
from cowork.core.ports import Request

Rates = Mapping[str, Any]  # input, output, cache_read, cache_write; `above` maps a prompt size to dearer ones

_ROUTERS = {"openrouter", "bedrock", "vertex_ai", "vertex", "azure", "litellm", "models", "publishers"}
_VENDORS = {
    *("anthropic", "openai", "google", "gemini", "deepseek", "mistral", "mistralai", "moonshotai", "moonshot"),
    *("zai", "z-ai", "x-ai", "xai", "minimax", "cohere", "qwen", "dashscope", "alibaba"),
}
_ROUTES = {"nitro", "floor", "online", "exacto", "thinking", "beta"}  # of OpenRouter: other servers, the same price
_BEDROCK = re.compile(r"(?:[a-z-]+\.)?anthropic\.(.+?)(?:-v\d+)?(?::\d+)?")
_TAIL = re.compile(
    r"(?:[-@](?:\d{4}-\d\d-\d\d|\d\d-\d\d-\d{4}|\d\d-\d{4}|\d\d-\d\d|\d{8}|\d{6}|\d{4}|\d{3})"
    r"|[-@](?:latest|default|thinking|exp|preview|beta)|\[1m\])$"
)
_ONLY_RENTED = re.compile(r"(?:claude|gemini|grok|chatgpt|gpt(?!-oss)|o\d)\b")


def price(model: str, usage: Usage, overrides: Rates | None = None, *, base_url: str = "") -> float | None:
    """The cost of one request; `overrides` are USD per million for input, output, cache_read, cache_write."""
    rates = rates_of(model, base_url) or {}
    if overrides:
        # A new input price says nothing of the old cache prices, so those go with it.
        kept = {"output"} if "input" in overrides else {"input", "output", "cache_read", "cache_write"}
        rates = {name: rate for name, rate in rates.items() if name in kept} | dict(overrides)
    if "input" not in rates or "output" not in rates:
        return None
    for start, dearer in rates.get("above", {}).items():
        if usage.prompt_tokens > int(start):
            rates = dearer
    total = (
        usage.input_tokens * rates["input"]
        + usage.output_tokens * rates["output"]
        + usage.cache_read_tokens * rates.get("cache_read", rates["input"])
        + usage.cache_write_tokens * rates.get("cache_write", rates["input"])
    )
    return float(total / 1_000_000)


@cache
def rates_of(model: str, base_url: str = "") -> Rates | None:
    """USD per million tokens of a model in any of its spellings, or None.

    A server on this machine or network serves weights one has, so only what can be had nowhere else has a price there.
    """
    if base_url and _is_local(base_url) and not any(_ONLY_RENTED.match(name) for name in spellings(model)):
        return None
    return find(model, _table())


def find(model: str, table: Mapping[str, Rates]) -> Rates | None:
    """The entry of the first spelling the table knows."""
    return next((table[name] for name in spellings(model) if name in table), None)


def spellings(model: str) -> Iterator[str]:
    """Names a model may be listed under, the most exact first."""
    name = model.strip().lower()
    if rented := _BEDROCK.fullmatch(name.removeprefix("bedrock/")):
        name = rented[1]
    name = name.replace(".", "-")
    yield name
    base, colon, tag = name.rpartition(":")
    if colon:
        if "/" not in base or tag not in _ROUTES:
            return  # `qwen3:30b` names weights in a local server, `:free` costs nothing we could put a price on
        name = base
    while (first := name.partition("/"))[0] in _ROUTERS and first[1]:
        name = first[2]
    yield from _trim_tails(name)
    vendor, slash, rest = name.partition("/")
    if slash and vendor in _VENDORS:
        yield from _trim_tails(rest.removeprefix("models/"))


def _trim_tails(name: str) -> Iterator[str]:
    """The name, and it again with each thing at its end taken off."""
    yield name
    while (cut := _TAIL.sub("", name)) != name:
        name = cut
        yield name


def _is_local(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan", ".localhost"))
    return address.is_private or address.is_loopback


@cache
def _table() -> dict[str, Rates]:
    raw = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="utf-8"))
    return dict(raw["models"])


# ---------------------------------------------------------------- tokens by length, where a service does not count them


def fill_usage(usage: Usage, request: Request, content: Iterable[Block] = ()) -> Usage:
    """The usage with what the service did not tell estimated, and marked as such."""
    if not usage.prompt_tokens:
        usage = replace(usage, input_tokens=request_tokens(request), estimated=True)
    if not usage.output_tokens and (said := estimate_tokens(*content)):
        usage = replace(usage, output_tokens=said, estimated=True)
    return usage


def request_tokens(request: Request) -> int:
    """About what a request counts, roughly as the wire would carry it."""
    fixed = len(request.system) + sum(tool.size for tool in request.tools)
    return -(-fixed // CHARS_A_TOKEN) + estimate_tokens(*request.messages)
