"""What tokens cost in USD, from a small shipped table; a model that is not in it has no price, never a price of 0."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cowork.core.blocks import Usage


def price(model: str, usage: Usage, overrides: Mapping[str, float] | None = None) -> float | None:
    """The cost of `usage` on `model`; `overrides` holds USD per million for input, output, cache_read, cache_write."""
    rates = rates_of(model)
    if overrides:
        rates = {**(rates or {}), **overrides}
    if rates is None or "input" not in rates or "output" not in rates:
        return None
    read = rates.get("cache_read", rates["input"])
    write = rates.get("cache_write", rates["input"])
    total = (
        usage.input_tokens * rates["input"]
        + usage.output_tokens * rates["output"]
        + usage.cache_read_tokens * read
        + usage.cache_write_tokens * write
    )
    return total / 1_000_000


def rates_of(model: str) -> Mapping[str, float] | None:
    """USD per million tokens of a model in any of its spellings, or None."""
    return _table().get(model)


@cache
def _table() -> dict[str, dict[str, float]]:
    return dict(json.loads(Path(__file__).with_name("prices.json").read_text(encoding="utf-8"))["models"])
