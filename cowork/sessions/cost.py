"""What a session used, as pure folds of its events: own requests, children, failed tries and compaction.

A parent's total is its own plus its children's, exactly. A request whose price is unknown makes the sums it is in
unknown (None); what is known of them stays in `known_usd`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cowork.core.blocks import Json, Usage, add_cost
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    Event,
    Notice,
    ReplyAdded,
    RetryScheduled,
    ToolEnded,
    TurnEnded,
)
from cowork.core.frozen import frozen

MAIN = "main"


@frozen
class Spending:
    """Tokens and money of some requests."""

    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    known_usd: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.requests + other.requests,
            self.usage + other.usage,
            add_cost(self.cost_usd, other.cost_usd),
            self.known_usd + other.known_usd,
        )

    def to_dict(self) -> Json:
        return {
            "requests": self.requests,
            **self.usage.to_dict(),
            "cost_usd": self.cost_usd,
            "known_usd": self.known_usd,
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Spending:
        cost = raw.get("cost_usd")
        return cls(
            int(raw.get("requests") or 0),
            Usage.from_dict(raw),
            None if cost is None else float(cost),
            float(raw.get("known_usd") or 0.0),
        )


@frozen
class Charge:
    """One thing that was paid for: when, by whom, with which model."""

    at: float
    agent: str  # path
    kind: str  # subagent_type, or main
    model: str
    spent: Spending


@frozen
class Totals:
    """The tree of a session: `own` and `total` by agent path, and sums by model and by agent type."""

    own: dict[str, Spending]
    total: dict[str, Spending]
    by_model: dict[str, Spending]
    by_agent: dict[str, Spending]
    tasks: dict[str, int]  # agent type -> how many were sent out

    @property
    def whole(self) -> Spending:
        """Everything."""
        return _sum(self.total[path] for path in self.total if "/" not in path)


def totals(events: Iterable[Event]) -> Totals:
    """Who used what, over the whole tree."""
    own: dict[str, Spending] = {MAIN: Spending()}
    by_model: dict[str, Spending] = {}
    by_agent: dict[str, Spending] = {}
    tasks: dict[str, int] = {}
    meter = Meter()
    for event in events:
        if isinstance(event, AgentStarted):
            tasks[event.subagent_type] = tasks.get(event.subagent_type, 0) + 1
        if charge := meter.apply(event):
            for path in _lineage(charge.agent):
                own.setdefault(path, Spending())
            own[charge.agent] += charge.spent
            _add(by_model, charge.model, charge.spent)
            _add(by_agent, charge.kind, charge.spent)
    total = dict(own)
    for path in sorted(own, key=lambda p: p.count("/"), reverse=True):  # leaves first
        parent = path.rpartition("/")[0]
        if parent:
            total[parent] += total[path]
    return Totals(own, total, by_model, by_agent, tasks)


def charges(events: Iterable[Event]) -> list[Charge]:
    """Every request in order; a child whose conversation was not kept counts by what its end says."""
    meter = Meter()
    return [charge for event in events if (charge := meter.apply(event))]


@dataclass(slots=True)
class Meter:
    """Finds what each event of a log cost."""

    agents: dict[str, Json] = field(default_factory=dict)  # what is known of those at work, as JSON

    def apply(self, event: Event) -> Charge | None:
        match event:
            case AgentStarted():  # a child that was taken up again tells of each stretch by itself
                self.agents[event.agent] = {"kind": event.subagent_type, "model": event.model_id}
            case ReplyAdded() | RetryScheduled() | ContextCompacted():
                if isinstance(event, ContextCompacted) and not event.usage.total and not event.cost_usd:
                    return None  # clearing old results asks no model
                return self._charge(event, event.model, Spending(1, event.usage, event.cost_usd, event.cost_usd or 0.0))
            case (  # requests without a reply, and those of a tool
                ToolEnded(record={"data": {"request": {"usage": usage, "cost_usd": cost, "model": model}}})
                | TurnEnded(cut_off={"usage": usage, "cost_usd": cost, "model": model})
                | Notice(code="request.cut_off", data={"usage": usage, "cost_usd": cost, "model": model})
            ):
                return self._charge(event, str(model), Spending(1, Usage.from_dict(usage), cost, cost or 0.0))
            case AgentEnded():
                known = self.agents.pop(event.agent, {})
                if not known.get("kept") and (reported := _reported(event)):
                    self.agents[event.agent] = known  # for its kind
                    model = str(record_data(event).get("model_id") or known.get("model") or "")
                    own = _less(reported, Spending.from_dict(known.get("below") or {}))
                    charge = self._charge(event, model, own)
                    del self.agents[event.agent]
                    return charge
        return None

    def _charge(self, event: Event, model: str, spent: Spending) -> Charge:
        path = event.agent
        known = self.agents.get(path)
        if known is not None:
            known["kept"] = True
        for above in _lineage(path)[:-1]:
            if (over := self.agents.get(above)) is not None:
                over["below"] = (Spending.from_dict(over.get("below") or {}) + spent).to_dict()
        named = path.rpartition("/")[2].rpartition("-")[0] if "/" in path else path
        kind = str((known or {}).get("kind") or named)  # the start of a log may be lost
        return Charge(event.at, path, kind, model, spent)


@frozen
class Slice:
    """What one session spent on one day with one model for one kind of agent: what the index keeps."""

    day: str
    model: str
    kind: str
    spent: Spending


def day_of(at: float) -> str:
    """The day of a moment, as in 2026-11-16."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def _add(sums: dict[str, Spending], key: str, spent: Spending) -> None:
    sums[key] = sums.get(key, Spending()) + spent


def _sum(parts: Iterable[Spending]) -> Spending:
    total = Spending()
    for part in parts:
        total += part
    return total


def _less(whole: Spending, part: Spending) -> Spending:
    """What is left of a sum; its requests are its own already."""
    prompt = max(0, whole.usage.prompt_tokens - part.usage.prompt_tokens)  # reports do not tell cached ones apart
    usage = Usage(prompt, max(0, whole.usage.output_tokens - part.usage.output_tokens))
    cost = None if whole.cost_usd is None else max(0.0, round(whole.cost_usd - part.known_usd, 9))
    return Spending(whole.requests, usage, cost, max(0.0, round(whole.known_usd - part.known_usd, 9)))


def _lineage(path: str) -> list[str]:
    """The path and everything above it."""
    parts = path.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def record_data(event: AgentEnded) -> Mapping[str, Any]:
    """The data of the record a child ended with."""
    data = event.record.get("data")
    return data if isinstance(data, dict) else {}


def _reported(event: AgentEnded) -> Spending | None:
    data = record_data(event)
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return None
    tokens = Usage(int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0))
    cost = data.get("total_cost_usd")
    if not tokens.total and not cost:
        return None
    cost = float(cost) if isinstance(cost, int | float) else None
    metadata = data.get("metadata")
    turns = str(metadata.get("turns_used", "")) if isinstance(metadata, dict) else ""
    return Spending(int(turns) if turns.isdigit() else 1, tokens, cost, cost or 0.0)
