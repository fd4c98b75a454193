"""Plays a recording back as a model: the same items, the same failures, at once.

A request finds its exchange by content, whatever the order in which parallel children ask. Facts that differ from run
to run do not count (`canonical`), and the recording's paths become those of this run. A request that was never recorded
is an error which shows where it differs from the nearest one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json, Usage
from cowork.core.errors import ProviderError, UserError
from cowork.core.ports import Delta, Provider, Reply, Request, Retry, Used
from cowork.providers.prices import price
from cowork.providers.recording.canonical import (
    difference,
    error_from_dict,
    item_from_dict,
    moved,
    request_bytes,
    request_to_dict,
    settled,
)
from cowork.providers.recording.record import FORMAT_VERSION, HIDDEN


@dataclass(slots=True)
class _Exchange:
    number: int
    role: str
    request: Json  # as recorded, with this run's facts
    plain: Json  # settled
    items: list[Json]
    end: str
    error: Json | None
    played: bool = False


class Replay:
    """A recording, played back."""

    def __init__(
        self,
        path: str | Path,
        *,
        facts: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
        on_request: Callable[[bytes], None] | None = None,
    ) -> None:
        self.path = str(path)
        self._facts = dict(facts or {})
        self._secrets = {str(i): secret for i, secret in enumerate(secrets) if secret}
        self._on_request = on_request
        self._models: dict[str, Json] = {}
        self._exchanges: list[_Exchange] = []
        self._by_key: dict[tuple[str, str], list[_Exchange]] = {}
        self._costs: dict[tuple[str, Usage], float] = {}
        self._settled_parts: dict[str, Any] = {}
        self._load()

    @property
    def unplayed(self) -> int:
        """Exchanges nobody asked for yet."""
        return sum(not exchange.played for exchange in self._exchanges)

    def open(self, role: str = "main") -> Provider:
        """The recorded model of a role, or of the main one when that role was never recorded."""
        model = self._models.get(role) or self._models.get("main") or next(iter(self._models.values()), None)
        if model is None:
            raise UserError(f"{self.path} holds no exchange to replay")
        return _Replayed(self, str(model["role"]), model)

    def take(self, role: str, request: Request) -> tuple[list[Delta | Used | Retry | Reply], ProviderError | None]:
        """What was answered to a request like this one; each exchange is given once."""
        if self._on_request:
            self._on_request(request_bytes(request))
        body = moved(request_to_dict(request), self._secrets, dict.fromkeys(self._secrets, HIDDEN))
        plain = self._settled(body)
        waiting = [e for e in self._by_key.get((role, _digest(plain)), ()) if not e.played]
        if not waiting:
            raise ProviderError("script", self._mismatch(role, plain))
        exchange = next((e for e in waiting if e.request == body), waiting[0])
        exchange.played = True
        error = error_from_dict(exchange.error) if exchange.error else None
        if exchange.end == "cut":
            error = ProviderError("script", f"{self.path}: this reply was interrupted when it was recorded")
        return [item_from_dict(item) for item in exchange.items], error

    def cost_of(self, role: str, usage: Usage) -> float | None:
        """What exactly this usage cost then, if it was recorded."""
        return self._costs.get((role, usage))

    def _load(self) -> None:
        parts: dict[str, Any] = {}
        recorded_facts: dict[str, str] = {}
        for number, line in enumerate(_read_lines(self.path), 1):
            try:
                raw = json.loads(line)
                kind = raw["type"]
                if number == 1 and (kind != "recording" or raw["version"] != FORMAT_VERSION):
                    raise KeyError("version")
                if kind == "recording":
                    recorded_facts = raw["facts"]
                elif kind == "model":
                    self._models[raw["role"]] = raw
                elif kind == "part":
                    parts[raw["id"]] = moved(raw["value"], recorded_facts, self._facts)
                elif kind == "exchange":
                    self._add(raw, parts, recorded_facts)
            except (ValueError, KeyError, TypeError) as e:
                what = "is not a recording of this version" if number == 1 else f"is damaged in line {number}"
                raise UserError(f"{self.path} {what}", "Record it again with --record.") from e

    def _add(self, raw: Json, parts: Json, recorded_facts: Json) -> None:
        body = dict(raw["request"])
        body["system"] = parts[body["system"]]
        body["tools"] = parts[body["tools"]]
        body["messages"] = [parts[id] for id in body["messages"]]
        plain = self._settled(body)
        items = moved(raw["items"], recorded_facts, self._facts)
        for spent in [raw.get("error"), *(item.get("retry") or item.get("reply") for item in items)]:
            if spent and spent["cost"] is not None:
                self._costs[raw["role"], Usage.from_dict(spent["usage"])] = spent["cost"]
        number = len(self._exchanges) + 1
        exchange = _Exchange(number, raw["role"], body, plain, items, raw["end"], raw.get("error"))
        self._exchanges.append(exchange)
        self._by_key.setdefault((exchange.role, _digest(plain)), []).append(exchange)

    def _settled(self, body: Json) -> Json:
        """The body without what does not count; each part is worked on once, as conversations repeat them."""
        return {
            **body,
            "system": self._settled_part(body["system"]),
            "tools": self._settled_part(body["tools"]),
            "messages": [self._settled_part(message) for message in body["messages"]],
        }

    def _settled_part(self, value: Any) -> Any:
        key = json.dumps(value)
        if key not in self._settled_parts:
            self._settled_parts[key] = settled(value, self._facts)
        return self._settled_parts[key]

    def _mismatch(self, role: str, plain: Json) -> str:
        left = [e for e in self._exchanges if not e.played and e.role == role]
        if not left:
            count = sum(e.role == role for e in self._exchanges)
            return f"{self.path}: all {count} recorded requests were played, and one more was made"
        if again := next((e for e in self._exchanges if e.plain == plain), None):
            return f"{self.path}: request number {again.number} of the recording is made once more than it was recorded"
        nearest = max(left, key=lambda e: (_likeness(e.plain, plain), -e.number))
        where = difference(nearest.plain, plain)
        return f"{self.path}: no recorded request is like this one; nearest is number {nearest.number}: {where}"


class _Replayed:
    """A recorded model: same name, same window, same price."""

    def __init__(self, recording: Replay, role: str, model: Json) -> None:
        self._recording = recording
        self._role = role
        self._rates = model["rates"]
        self.name = str(model["name"])
        self.model = str(model["model"])
        self.context_window = int(model["context_window"])
        self.max_output_tokens = int(model["max_output_tokens"])

    async def stream(self, request: Request) -> AsyncIterator[Delta | Used | Retry | Reply]:
        """The recorded items, at once; then the recorded failure, if there was one."""
        items, error = self._recording.take(self._role, request)
        for item in items:
            yield item
        if error is not None:
            raise error

    def price(self, usage: Usage) -> float | None:
        if (cost := self._recording.cost_of(self._role, usage)) is not None:
            return cost
        return None if self._rates is None else price("", usage, self._rates)

    async def aclose(self) -> None:
        """Nothing to close."""


def _read_lines(path: str) -> list[str]:
    """Whole lines; what a killed recorder left of its last one is not one."""
    try:
        return Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    except OSError as e:
        raise UserError(f"Cannot read the recording {path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise UserError(f"{path} is not a recording") from e


def _digest(plain: Json) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _likeness(recorded: Json, now: Json) -> tuple[bool, int, bool]:
    """How much two requests have in common: the agent, then the number of first messages, then the length."""
    same = 0
    for a, b in zip(recorded["messages"], now["messages"], strict=False):
        if a != b:
            break
        same += 1
    return recorded["system"] == now["system"], same, len(recorded["messages"]) == len(now["messages"])
