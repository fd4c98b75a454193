"""What a session used, as pure folds of its events: own requests, children, failed tries and compaction.

A parent's total is its own plus its children's, exactly. A request whose price is unknown makes the sums it is in
unknown (None); what is known of them stays in `known_usd`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal

from cowork.core.blocks import Json, Usage, add_cost
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    Event,
    Notice,
    ReplyAdded,
    RetryScheduled,
    TurnEnded,
)
from cowork.core.frozen import frozen

By = Literal["model", "agent", "day", "session"]
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
    events = list(events)
    own: dict[str, Spending] = {MAIN: Spending()}
    by_model: dict[str, Spending] = {}
    by_agent: dict[str, Spending] = {}
    for charge in charges(events):
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
    tasks: dict[str, int] = {}
    for event in events:
        if isinstance(event, AgentStarted):
            tasks[event.subagent_type] = tasks.get(event.subagent_type, 0) + 1
    return Totals(own, total, by_model, by_agent, tasks)


def charges(events: Iterable[Event]) -> list[Charge]:
    """Every request in order; a child whose conversation was not kept counts by what its end says."""
    out: list[Charge] = []
    kinds: dict[str, AgentStarted] = {}
    kept: set[str] = set()  # agents whose requests are in the log
    below: dict[str, Spending] = {}  # what was charged to descendants
    for event in events:
        match event:
            case AgentStarted():
                kinds[event.agent] = event
                kept.discard(event.agent)  # a child that was taken up again tells of each stretch by itself
                below.pop(event.agent, None)
            case ReplyAdded() | RetryScheduled() | ContextCompacted():
                if isinstance(event, ContextCompacted) and not event.usage.total and not event.cost_usd:
                    continue  # clearing old results asks no model
                spent = Spending(1, event.usage, event.cost_usd, event.cost_usd or 0.0)
                out.append(Charge(event.at, event.agent, _kind(event.agent, kinds), event.model, spent))
                kept.add(event.agent)
                _charge_above(below, event.agent, spent)
            case (  # requests without a reply
                TurnEnded(cut_off={"usage": usage, "cost_usd": cost, "model": model})
                | Notice(code="request.cut_off", data={"usage": usage, "cost_usd": cost, "model": model})
            ):
                spent = Spending(1, Usage.from_dict(usage), cost, cost or 0.0)
                out.append(Charge(event.at, event.agent, _kind(event.agent, kinds), str(model), spent))
                kept.add(event.agent)
                _charge_above(below, event.agent, spent)
            case AgentEnded() if event.agent not in kept and (reported := _reported(event)):
                started = kinds.get(event.agent)
                model = str(_data(event).get("model_id") or (started.model_id if started else ""))
                own = _less(reported, below.get(event.agent, Spending()))
                out.append(Charge(event.at, event.agent, _kind(event.agent, kinds), model, own))
                _charge_above(below, event.agent, own)
    return out


@frozen
class Slice:
    """What one session spent on one day with one model for one kind of agent: what the index keeps."""

    day: str
    model: str
    kind: str
    spent: Spending


def slices(events: Iterable[Event]) -> list[Slice]:
    """The charges of a session, summed by day, model and kind of agent."""
    sums: dict[tuple[str, str, str], Spending] = {}
    for c in charges(events):
        key = (time.strftime("%Y-%m-%d", time.localtime(c.at)), c.model, c.kind)
        sums[key] = sums.get(key, Spending()) + c.spent
    return [Slice(*key, spent) for key, spent in sums.items()]


def group(parts: Iterable[tuple[str, Slice]], by: By) -> dict[str, Spending]:
    """Slices of many sessions, given as (session id, slice), summed by what is asked for."""
    out: dict[str, Spending] = {}
    for session_id, part in parts:
        key = {"model": part.model, "agent": part.kind, "day": part.day, "session": session_id}[by]
        _add(out, key, part.spent)
    return out


def _add(sums: dict[str, Spending], key: str, spent: Spending) -> None:
    sums[key] = sums.get(key, Spending()) + spent


def _sum(parts: Iterable[Spending]) -> Spending:
    total = Spending()
    for part in parts:
        total += part
    return total


def _charge_above(below: dict[str, Spending], path: str, spent: Spending) -> None:
    for above in _lineage(path)[:-1]:
        _add(below, above, spent)


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


def _kind(path: str, kinds: Mapping[str, AgentStarted]) -> str:
    if path in kinds:
        return kinds[path].subagent_type
    return path.rpartition("/")[2].rpartition("-")[0] if "/" in path else path


def _data(event: AgentEnded) -> Mapping[str, Any]:
    data = event.record.get("data")
    return data if isinstance(data, dict) else {}


def _reported(event: AgentEnded) -> Spending | None:
    data = _data(event)
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
