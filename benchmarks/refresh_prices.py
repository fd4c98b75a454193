"""Writes cowork/providers/prices.json anew from the `genai-prices` package (MIT), which need not stay installed.

    python -m venv /tmp/prices && /tmp/prices/bin/pip install genai-prices
    PYTHONPATH=. /tmp/prices/bin/python benchmarks/refresh_prices.py

Makers' own names come from their own lists; `vendor/name` slugs come from OpenRouter's. Both packages mean USD per
million tokens. genai-prices counts cached tokens as input too and subtracts them when it multiplies; our usage never
includes them, so the rates are taken as they are.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices.data_snapshot import get_snapshot

from cowork.providers.prices import find

TARGET = Path(__file__).parent.parent / "cowork" / "providers" / "prices.json"
MAKERS = ["anthropic", "openai", "google", "deepseek", "mistral", "moonshotai", "zai", "x-ai", "minimax", "cohere"]
SLUGS = {"qwen", "deepseek", "z-ai", "moonshotai", "mistralai", "meta-llama", "minimax", "openai", "xiaomi"}
NOT_CHAT = re.compile(
    r"audio|image|tts|transcribe|realtime|embed|whisper|moderation|dall-e|sora|veo|imagen|voice|ocr|guard|live|"
    r"^(ada|babbage|curie|davinci|ft:)|:(free|batch)$|^~|^text-|legal|banana|\.ft-|computer-use|search|lyria|robotics"
)
OPEN_WEIGHTS = re.compile(r"gpt-oss|gemma|mixtral|open-mi|mistral-7b|c4ai-aya")  # these names are mostly local servers
FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}


def main() -> None:
    makers = {provider.id: provider for provider in get_snapshot().providers}
    listed: dict[str, Any] = {}
    for maker in MAKERS:
        for model in makers[maker].models:
            for name in sorted({model.id, *names_in(model.match)}):
                if not OPEN_WEIGHTS.match(name.lower()):
                    add(listed, name, rates_of(model))
    for model in makers["openrouter"].models:
        vendor, slash, name = model.id.partition("/")
        if slash and vendor in SLUGS:
            add(listed, model.id, rates_of(model))
            if vendor == "qwen" and re.search(r"max|plus|flash|turbo", name):
                add(listed, name, rates_of(model))
    models: dict[str, Any] = {}
    for name in sorted(listed, key=lambda name: (len(name), name)):  # what a shorter name already gives is left out
        if find(name, models) != listed[name]:
            models[name] = listed[name]
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(models[name])}" for name in sorted(models))
    head = json.dumps(f"genai-prices {version('genai-prices')}, {datetime.now(UTC).date()}")
    TARGET.write_text(f'{{\n  "source": {head},\n  "models": {{\n{lines}\n  }}\n}}\n', encoding="utf-8")
    print(f"{len(models)} models, {TARGET.stat().st_size:,} bytes")


def add(listed: dict[str, Any], name: str, rates: dict[str, Any] | None) -> None:
    """Note a name as it is looked up; the first list that has it wins."""
    if rates and not NOT_CHAT.search(name.lower()):
        listed.setdefault(name.lower().replace(".", "-"), rates)


def rates_of(model: Any) -> dict[str, Any] | None:
    """USD per million tokens valid now; None where text in and text out are not both priced."""
    prices = model.prices
    if isinstance(prices, list):
        now = datetime.now(UTC)
        hourly = [p.prices for p in prices if hasattr(p.constraint, "start_time")]
        dated = [p for p in prices if not hasattr(p.constraint, "start_time")]
        valid = [p.prices for p in dated if p.constraint is None or p.constraint.active(now)]
        if not valid:
            return None
        prices = max([valid[-1], *hourly], key=dearness)  # a limit in USD must hold at every hour
    rates: dict[str, Any] = {}
    above: dict[str, dict[str, float]] = {}
    for name, field in FIELDS.items():
        value = getattr(prices, field, None)
        if value is None:
            continue
        rates[name] = number(getattr(value, "base", value))
        for tier in getattr(value, "tiers", ()):
            above.setdefault(str(tier.start), {})[name] = number(tier.price)
    if not rates.get("input") or not rates.get("output"):
        return None
    if above:
        rates["above"] = {start: {**base(rates), **above[start]} for start in sorted(above, key=int)}
    return rates


def names_in(clause: Any) -> set[str]:
    """Other whole names of a model: what it may equal, and what it may start with when that is a name by itself."""
    if hasattr(clause, "or_"):
        return {name for part in clause.or_ for name in names_in(part)}
    name = str(getattr(clause, "equals", "") or getattr(clause, "starts_with", ""))
    return {name} if re.search(r"[A-Za-z0-9]$", name) and "/" not in name else set()


def dearness(prices: Any) -> float:
    value = prices.output_mtok or 0
    return float(getattr(value, "base", value))


def base(rates: dict[str, Any]) -> dict[str, float]:
    return {name: rates[name] for name in FIELDS if name in rates}


def number(value: Any) -> float | int:
    got = float(value)
    return int(got) if got.is_integer() else got


if __name__ == "__main__":
    main()
