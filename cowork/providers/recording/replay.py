"""Plays a recording back as a model: the same items, the same failures, at once.

A request finds its exchange by content, whatever the order in which parallel children ask. Two runs of the same work
differ in facts that do not matter: where the workspace lies, the session's id, dates, durations, temporary paths,
commits. `settle` puts their names in their place before anything is compared, and the recording's paths become those of
this run. A request that was never recorded is an error which shows where it differs from the nearest one.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json, Usage, blocks_from_list
from cowork.core.errors import ProviderError, UserError
from cowork.core.ports import Delta, OnRequest, Provider, Reply, Request, Retry, Source, Used
from cowork.core.workspace import parse_json, read_whole
from cowork.providers.prices import price
from cowork.providers.recording.record import (
    ERROR_FIELDS,
    FORMAT_VERSION,
    HIDDEN,
    RETRY_FIELDS,
    Facts,
    map_parts,
    map_strings,
    request_bytes,
    request_to_dict,
)

_MOST_BYTES = 256 << 20
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


@dataclass(slots=True)
class _Exchange:
    number: int
    request: Json  # as recorded, with this run's facts
    plain: Json  # settled
    items: list[Json]
    error: ProviderError | None
    played: bool = False


class Replay:
    """A recording, played back."""

    def __init__(
        self, path: str | Path, *, facts: Facts | None = None, secrets: Iterable[str] = (), on_request: OnRequest = None
    ) -> None:
        self.path = str(path)
        self._facts = dict(facts or {})
        self._recorded_facts: Facts = {}
        self._secrets = {str(i): secret for i, secret in enumerate(secrets) if secret}
        self._on_request = on_request
        self._models: dict[str, Json] = {}
        self._parts: dict[str, Any] = {}
        # Conversations repeat their parts, so each is settled once.
        self._settle_json = cache(lambda part: settle(json.loads(part), self._facts))
        self._exchanges: dict[str, list[_Exchange]] = {}  # by role
        self._costs: dict[tuple[str, Usage], float] = {}  # what exactly a usage cost then
        for number, line in enumerate(self._read_lines(), 1):
            try:
                self._load(parse_json(line), is_head=number == 1)
            except (ValueError, KeyError, TypeError) as e:
                what = "is not a recording of this version" if number == 1 else f"is damaged in line {number}"
                raise UserError(f"{self.path} {what}", "Record it again with --record.") from e

    def open(self, role: str = "main") -> Provider:
        """The recorded model of a role, or of the main one when that role was never recorded."""
        model = self._models.get(role) or self._models.get("main") or next(iter(self._models.values()), None)
        if model is None:
            raise UserError(f"{self.path} holds no exchange to replay")
        return _Replayed(self, model)

    def take(self, role: str, request: Request) -> _Exchange:
        """What was answered to a request like this one; each exchange is given once."""
        if self._on_request:
            self._on_request(request_bytes(request))
        body = move(request_to_dict(request), self._secrets, dict.fromkeys(self._secrets, HIDDEN))
        plain = self._settle(body)
        alike = [e for e in self._exchanges.get(role, ()) if e.plain == plain]
        waiting = [e for e in alike if not e.played]
        if not waiting:
            raise ProviderError("script", f"{self.path}: {self._mismatch(role, plain, alike)}")
        exchange = next((e for e in waiting if e.request == body), waiting[0])
        exchange.played = True
        return exchange

    def cost_of(self, role: str, usage: Usage) -> float | None:
        """The cost of a usage: as it was recorded, else by the recorded rates."""
        recorded = self._costs.get((role, usage))
        return price("", usage, self._models[role]["rates"]) if recorded is None else recorded

    def _read_lines(self) -> list[str]:
        """Whole lines; what a killed recorder left of its last one is not one."""
        try:
            return read_whole(Path(self.path), _MOST_BYTES).decode().split("\n")[:-1]
        except OSError as e:
            raise UserError(f"Cannot read the recording {self.path}: {e.strerror}") from e
        except UnicodeDecodeError as e:
            raise UserError(f"{self.path} is not a recording") from e

    def _load(self, raw: Json, *, is_head: bool) -> None:
        if is_head and (raw["type"], raw["version"]) != ("recording", FORMAT_VERSION):
            raise KeyError("version")
        match raw["type"]:
            case "recording":
                self._recorded_facts = raw["facts"]
            case "model":
                self._models[raw["role"]] = raw
            case "part":
                self._parts[raw["id"]] = move(raw["value"], self._recorded_facts, self._facts)
            case "exchange":
                self._add(raw)

    def _add(self, raw: Json) -> None:
        body = map_parts(raw["request"], self._parts.__getitem__)
        items = move(raw["items"], self._recorded_facts, self._facts)
        for spent in [raw.get("error"), *(item.get("retry") or item.get("reply") for item in items)]:
            if spent and spent["cost"] is not None:
                self._costs[raw["role"], Usage.from_dict(spent["usage"])] = spent["cost"]
        error = None
        if failure := raw.get("error"):
            fields = {name: failure[name] for name in ERROR_FIELDS}
            error = ProviderError(**fields, usage=Usage.from_dict(failure["usage"]))
        elif raw["end"] == "cut":
            error = ProviderError("script", f"{self.path}: this reply was interrupted when it was recorded")
        number = sum(map(len, self._exchanges.values())) + 1
        exchange = _Exchange(number, body, self._settle(body), items, error)
        self._exchanges.setdefault(raw["role"], []).append(exchange)

    def _settle(self, body: Json) -> Json:
        """The body without what does not count."""
        return map_parts(body, lambda part: self._settle_json(json.dumps(part)))

    def _mismatch(self, role: str, plain: Json, alike: list[_Exchange]) -> str:
        recorded = self._exchanges.get(role, [])
        left = [e for e in recorded if not e.played]
        if not left:
            return f"all {len(recorded)} recorded requests were played, and one more was made"
        if alike:
            return f"request number {alike[0].number} of the recording is made once more than it was recorded"
        now = json.dumps(plain)
        # The system prompt comes first and the messages follow in order: what begins alike longest is nearest.
        nearest = max(left, key=lambda e: _first_difference(json.dumps(e.plain), now))
        where = difference(nearest.plain, plain)
        return f"no recorded request is like this one; nearest is number {nearest.number}: {where}"


class _Replayed:
    """A recorded model: same name, same window, same price."""

    def __init__(self, recording: Replay, model: Json) -> None:
        self._recording = recording
        self._role = str(model["role"])
        self.name = str(model["name"])
        self.model = str(model["model"])
        self.context_window = int(model["context_window"])
        self.max_output_tokens = int(model["max_output_tokens"])

    async def stream(self, request: Request) -> AsyncIterator[Delta | Used | Retry | Reply]:
        """The recorded items, at once; then the recorded failure, if there was one."""
        exchange = self._recording.take(self._role, request)
        for item in exchange.items:
            yield item_from_dict(item)
        if exchange.error is not None:
            raise exchange.error

    def price(self, usage: Usage) -> float | None:
        return self._recording.cost_of(self._role, usage)

    async def aclose(self) -> None:
        """Nothing to close."""


def item_from_dict(raw: Json) -> Delta | Used | Retry | Reply:
    [(kind, value)] = raw.items()
    if kind in ("text", "thinking", "tool"):
        return Delta(kind, value)  # type: ignore[arg-type]
    if kind == "used":
        return Used(Usage.from_dict(value))
    usage = Usage.from_dict(value["usage"])
    if kind == "retry":
        return Retry(**{name: value[name] for name in RETRY_FIELDS}, usage=usage)
    content, sources = blocks_from_list(value["content"]), tuple(Source(**page) for page in value.get("sources", ()))
    return Reply(content, value["stop_reason"], usage, value["model"], value.get("searches", 0), sources)


def move(value: Any, old: Facts, new: Facts) -> Any:
    """Replace every old fact by the new one of the same name, in all strings of a JSON value.

    Longest first and only whole names: `/w/main` is not the beginning of `/w/main-old`.
    """
    pairs = {text: new[name] for name, text in old.items() if name in new and len(text) >= _SHORTEST_FACT}
    names = "|".join(re.escape(text) for text in sorted(pairs, key=len, reverse=True) if text != pairs[text])
    pattern = re.compile(f"(?:{names})(?![\\w-])")
    return map_strings(value, lambda text: pattern.sub(lambda found: pairs[found[0]], text)) if names else value


def settle(value: Any, facts: Facts) -> Any:
    """Take out what differs from run to run."""

    def clean(text: str) -> str:
        for pattern, name in _VOLATILE:
            text = pattern.sub(name, text)
        return text

    return map_strings(move(value, facts, {name: f"<{name}>" for name in facts}), clean)


def difference(recorded: Any, now: Any, path: str = "") -> str:
    """Where two JSON values first differ and how, in a line; empty when they are equal."""
    if recorded == now:
        return ""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in {**recorded, **now}:
            name = key if key.isprintable() else json.dumps(key)
            at = f"{path}.{name}" if path else name
            if key not in recorded or key not in now:
                return f"{at}: only in the {'recording' if key in recorded else 'new request'}"
            if recorded[key] != now[key]:
                return difference(recorded[key], now[key], at)
    if isinstance(recorded, list) and isinstance(now, list):
        for i, (a, b) in enumerate(zip(recorded, now, strict=False)):
            if a != b:
                return difference(a, b, f"{path}[{i}]")
        return f"{path}: recorded {len(recorded)} of them, now {len(now)}"
    if isinstance(recorded, str) and isinstance(now, str):
        at = _first_difference(recorded, now)
        return f"{path}: recorded {_around(recorded, at)}, now {_around(now, at)}"
    return f"{path}: recorded {_short(recorded)}, now {_short(now)}"


def _first_difference(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _around(text: str, at: int) -> str:
    """The part of a text where it differs."""
    start, end = max(0, at - 20), at + 60
    return ("…" if start else "") + json.dumps(text[start:end], ensure_ascii=False) + ("…" if end < len(text) else "")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"
