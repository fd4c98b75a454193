"""Requests and stream items as plain JSON, the same for every wire format, and what makes two requests equal.

Two runs of the same work differ in facts that do not matter: where the workspace lies, the session's id, dates,
durations, temporary paths, hashes of commits. `settled` replaces those by their names before anything is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from cowork.core.blocks import Json, Usage, blocks_from_list, blocks_to_list
from cowork.core.errors import ProviderError
from cowork.core.ports import Delta, Reply, Request, Retry, Used

Price = Callable[[Usage], float | None]

_RETRY_FIELDS = ("attempt", "max_attempts", "delay_s", "kind", "message")
_SHORTEST_FACT = 5  # replacing anything shorter would hit ordinary words

_VOLATILE = [
    (re.compile(r"<environment>.*?</environment>", re.DOTALL), "<environment>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z| ?[+-]\d\d:?\d\d)?)?"), "<date>"),
    (re.compile(r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2} +(?:\d\d:\d\d|\d{4})\b"), "<date>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|s|secs?|seconds?|min|minutes?)\b"), "<duration>"),
    (re.compile(r"(?:/private)?(?:/tmp|/var/tmp|/var/folders/[\w+]+/[\w+]+/T)/[\w.+-]+"), "<tmp>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"(?<![A-Za-z0-9])(?=[a-z]*[2-7])[a-z2-7]{12}(?![A-Za-z0-9])"), "<id>"),
    (re.compile(r"(?<![A-Za-z0-9])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![A-Za-z0-9])"), "<hash>"),
    (re.compile(r"(?i)\b(pid)\W{1,2}\d+"), r"\1 <pid>"),
]


def request_to_dict(request: Request) -> Json:
    """All of a request that a model can see."""
    return {
        "system": request.system,
        "tools": [{"name": t.name, "description": t.description, "schema": t.schema} for t in request.tools],
        "messages": [{"role": m.role, "content": blocks_to_list(m.content)} for m in request.messages],
        "tool_choice": request.tool_choice,
        "max_output_tokens": request.max_output_tokens,
        "thinking": request.thinking,
    }


def request_bytes(request: Request) -> bytes:
    """What stands for the wire body where there is no wire."""
    return json.dumps(request_to_dict(request)).encode()


def item_to_dict(item: Delta | Used | Retry | Reply, price: Price) -> Json:
    match item:
        case Delta(kind, text):
            return {kind: text}
        case Used(usage):
            return {"used": usage.to_dict()}
        case Retry():
            fields = {name: getattr(item, name) for name in _RETRY_FIELDS}
            return {"retry": {**fields, **_spent(item.usage, price)}}
        case Reply():
            reply = {"content": blocks_to_list(item.content), "stop_reason": item.stop_reason, "model": item.model}
            return {"reply": {**reply, **_spent(item.usage, price)}}


def item_from_dict(raw: Json) -> Delta | Used | Retry | Reply:
    [(kind, value)] = raw.items()
    if kind in ("text", "thinking", "tool"):
        return Delta(kind, value)  # type: ignore[arg-type]
    if kind == "used":
        return Used(Usage.from_dict(value))
    usage = Usage.from_dict(value["usage"])
    if kind == "retry":
        return Retry(**{name: value[name] for name in _RETRY_FIELDS}, usage=usage)
    return Reply(blocks_from_list(value["content"]), value["stop_reason"], usage, value["model"])


def error_to_dict(error: ProviderError, price: Price) -> Json:
    return {
        "kind": error.kind,
        "message": error.message,
        "status": error.status,
        "retry_after": error.retry_after,
        **_spent(error.usage, price),
    }


def error_from_dict(raw: Json) -> ProviderError:
    return ProviderError(
        raw["kind"],
        raw["message"],
        status=raw["status"],
        retry_after=raw["retry_after"],
        usage=Usage.from_dict(raw["usage"]),
    )


def moved(value: Any, old: Mapping[str, str], new: Mapping[str, str]) -> Any:
    """With every old fact replaced by the new one of the same name, in all strings of a JSON value."""
    pairs = {text: new[name] for name, text in old.items() if name in new and len(text) >= _SHORTEST_FACT}
    pairs = {text: to for text, to in pairs.items() if text != to}
    return _replaced(value, pairs) if pairs else value


def settled(value: Any, facts: Mapping[str, str]) -> Any:
    """Without what differs from run to run."""
    named = moved(value, facts, {name: f"<{name}>" for name in facts})
    return _without_volatile(named)


def difference(recorded: Any, now: Any, path: str = "") -> str:
    """Where two JSON values first differ and how, in a line; empty when they are equal."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in [*recorded, *(k for k in now if k not in recorded)]:
            if key not in recorded or key not in now:
                return f"{_at(path, key)}: only in the {'recording' if key in recorded else 'new request'}"
            if found := difference(recorded[key], now[key], _at(path, key)):
                return found
        return ""
    if isinstance(recorded, list) and isinstance(now, list):
        for i, (a, b) in enumerate(zip(recorded, now, strict=False)):
            if found := difference(a, b, f"{path}[{i}]"):
                return found
        return "" if len(recorded) == len(now) else f"{path}: recorded {len(recorded)} of them, now {len(now)}"
    if recorded == now:
        return ""
    if isinstance(recorded, str) and isinstance(now, str):
        return f"{path}: recorded {_around(recorded, now)}, now {_around(now, recorded)}"
    return f"{path}: recorded {_short(recorded)}, now {_short(now)}"


def _spent(usage: Usage, price: Price) -> Json:
    """What was used and what that cost, since a long prompt may cost more than the rates say."""
    return {"usage": usage.to_dict(), "cost": price(usage)}


def _at(path: str, key: str) -> str:
    name = key if key.isprintable() else json.dumps(key)
    return f"{path}.{name}" if path else name


def _replaced(value: Any, pairs: Mapping[str, str]) -> Any:
    """Longest first and only whole names: `/w/main` is not the beginning of `/w/main-old`."""
    names = "|".join(re.escape(text) for text in sorted(pairs, key=len, reverse=True))
    pattern = re.compile(f"(?:{names})(?![\\w-])")
    return _mapped(value, lambda text: pattern.sub(lambda found: pairs[found[0]], text))


def _without_volatile(value: Any) -> Any:
    def clean(text: str) -> str:
        for pattern, name in _VOLATILE:
            text = pattern.sub(name, text)
        return text

    return _mapped(value, clean)


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return value


def _around(text: str, other: str, before: int = 20, after: int = 60) -> str:
    """The part of `text` where it first differs from `other`."""
    at = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start, end = max(0, at - before), at + after
    return ("…" if start else "") + json.dumps(text[start:end], ensure_ascii=False) + ("…" if end < len(text) else "")


def _short(value: Any, limit: int = 80) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[:limit]}…"
