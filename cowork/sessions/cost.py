"""What sessions used, as pure folds of their events: own requests, children, failed tries and compaction.

A parent's total is its own plus its children's, exactly. A request whose price is unknown makes the sums it is in
unknown (None); what is known of them stays in `known_usd`.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cowork.core import events
from cowork.core.blocks import Json, Usage, add_cost, as_object
from cowork.core.frozen import frozen

INTERRUPTED = "interrupted"  # the process of a task ended before it did


@frozen
class Spending:
    """Tokens and money of some requests."""

    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    known_usd: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        cost, known = add_cost(self.cost_usd, other.cost_usd), round(self.known_usd + other.known_usd, 9)
        return Spending(self.requests + other.requests, self.usage + other.usage, cost, known)

    def to_dict(self) -> Json:
        money = {"cost_usd": self.cost_usd, "known_usd": self.known_usd}
        return {"requests": self.requests, **self.usage.to_dict(), **money}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Spending:
        cost = raw.get("cost_usd")
        cost = None if cost is None else float(cost)
        return cls(int(raw.get("requests") or 0), Usage.from_dict(raw), cost, float(raw.get("known_usd") or 0.0))


@frozen
class Charge:
    """One thing that was paid for: when, by whom, with which model."""

    at: float
    agent: str  # path
    kind: str  # subagent_type, or main
    model: str
    spent: Spending


def add_up(parts: Iterable[tuple[str, Spending]]) -> dict[str, Spending]:
    """Sums by name; of a name that is not among them, nothing."""
    sums: dict[str, Spending] = defaultdict(Spending)
    for name, spent in parts:
        sums[name] += spent
    return sums


def totals(history: Iterable[events.Event]) -> dict[str, Spending]:
    """What each agent used together with those it sent out, by path; everything is at the empty path."""
    return add_up((path, charge.spent) for charge in charges(history) for path in ("", *_lineage(charge.agent)))


def charges(history: Iterable[events.Event]) -> Iterator[Charge]:
    """Every request in order; a child whose conversation was not kept counts by what its end says."""
    meter = Meter()
    return (charge for event in history if (charge := meter.apply(event)))


@dataclass(slots=True)
class Meter:
    """Finds what each event of a log cost."""

    agents: dict[str, Json] = field(default_factory=dict)  # what is known of those at work, as JSON

    def apply(self, event: events.Event) -> Charge | None:
        match event:
            case events.AgentStarted():  # a child that was taken up again tells of each stretch by itself
                self.agents[event.agent] = {"kind": event.subagent_type, "model": event.model_id}
            case events.ReplyAdded() | events.RetryScheduled() | events.ContextCompacted():
                if isinstance(event, events.ContextCompacted) and not event.usage.total and not event.cost_usd:
                    return None  # clearing old results asks no model
                return self._charge(event, event.model, Spending(1, event.usage, event.cost_usd, event.cost_usd or 0.0))
            case (  # requests without a reply, and those of a tool
                events.ToolEnded(record={"data": {"request": {"usage": usage, "cost_usd": cost, "model": model}}})
                | events.TurnEnded(cut_off={"usage": usage, "cost_usd": cost, "model": model})
                | events.Notice(code="request.cut_off", data={"usage": usage, "cost_usd": cost, "model": model})
            ):
                return self._charge(event, str(model), Spending(1, Usage.from_dict(usage), cost, cost or 0.0))
            case events.AgentEnded():
                known, (data, tokens, cost) = self.agents.pop(event.agent, {}), _report_of(event)
                if not known.get("kept") and (tokens.total or cost):
                    turns = str(as_object(data.get("metadata")).get("turns_used", ""))
                    whole = Spending(int(turns) if turns.isdigit() else 1, tokens, cost, cost or 0.0)
                    below = Spending.from_dict(known.get("below") or {})
                    model = str(data.get("model_id") or known.get("model") or "")
                    return self._charge(event, model, _subtract(whole, below), known)
        return None

    def _charge(self, event: events.Event, model: str, spent: Spending, known: Json | None = None) -> Charge:
        path = event.agent
        known = self.agents.get(path, {}) if known is None else known
        known["kept"] = True
        for above in _lineage(path)[:-1]:
            if (over := self.agents.get(above)) is not None:
                over["below"] = (Spending.from_dict(over.get("below") or {}) + spent).to_dict()
        named = path.rpartition("/")[2].rpartition("-")[0] if "/" in path else path
        kind = str(known.get("kind") or named)  # the start of a log may be lost
        return Charge(event.at, path, kind, model, spent)


@frozen
class TaskRow:
    """One child: who, what for, and what it came to. Its cost holds that of its own children."""

    session_id: str
    agent: str  # path
    subagent_id: str
    subagent_type: str
    description: str
    model: str
    status: str = INTERRUPTED
    started: float = 0.0
    duration_ms: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    cwd: str = ""

    @property
    def id(self) -> str:
        """The name it has among all sessions."""
        return f"{self.session_id}/{self.subagent_id}"

    @property
    def failed(self) -> bool:
        return self.status != "completed"

    def to_dict(self) -> Json:
        return {"id": self.id, **asdict(self)}

    @classmethod
    def of(cls, event: events.AgentStarted, session_id: str) -> TaskRow:
        """A child that was sent out."""
        who = (event.agent, event.subagent_id, event.subagent_type, event.description)
        return cls(session_id, *who, event.model_id or event.model, started=event.at)

    def end(self, event: events.AgentEnded) -> TaskRow:
        """The same with what it came to."""
        data, tokens, cost = _report_of(event)
        took = data.get("duration_ms")
        return replace(
            self,
            model=str(data.get("model_id") or self.model),
            status=event.status,
            duration_ms=int(took) if isinstance(took, int | float) else max(0, round(1000 * (event.at - self.started))),
            prompt_tokens=tokens.input_tokens,
            completion_tokens=tokens.output_tokens,
            cost_usd=cost,
        )


@frozen
class TaskFigures:
    """Many tasks in numbers; durations in seconds, None where there are no tasks."""

    tasks: int = 0
    failed: int = 0
    failure_rate: float | None = None
    cost_per_task: float | None = None
    prompt_tokens_per_task: int | None = None
    mean_s: float | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    max_s: float | None = None

    def to_dict(self) -> Json:
        return asdict(self)


def figures(rows: Iterable[TaskRow]) -> TaskFigures:
    """What tasks came to; a task without a price makes the price of a task unknown."""
    many = list(rows)
    if not many:
        return TaskFigures()
    count, failed = len(many), sum(row.failed for row in many)
    known = [row.cost_usd for row in many if row.cost_usd is not None]
    took = sorted(row.duration_ms / 1000 for row in many if row.status != INTERRUPTED)
    return TaskFigures(
        count,
        failed,
        failed / count,
        sum(known) / count if len(known) == count else None,
        round(sum(row.prompt_tokens for row in many) / count),
        sum(took) / len(took) if took else None,
        *(_percentile(took, percent) for percent in (50, 95, 100)),
    )


def _percentile(ordered: Sequence[float], percent: int) -> float | None:
    """The smallest value that so many per cent are not above."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else None


def day_of(at: float) -> str:
    """The day of a moment, as in 2026-11-16."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def _subtract(whole: Spending, part: Spending) -> Spending:
    """What is left of a sum; its requests are its own already."""
    prompt = max(0, whole.usage.prompt_tokens - part.usage.prompt_tokens)  # reports do not tell cached ones apart
    usage = Usage(prompt, max(0, whole.usage.output_tokens - part.usage.output_tokens))
    cost = None if whole.cost_usd is None else max(0.0, round(whole.cost_usd - part.known_usd, 9))
    return Spending(whole.requests, usage, cost, max(0.0, round(whole.known_usd - part.known_usd, 9)))


def _lineage(path: str) -> list[str]:
    """The path and everything above it."""
    parts = path.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _report_of(event: events.AgentEnded) -> tuple[Json, Usage, float | None]:
    """The data a child's end states, with the tokens and the price, which hold those of its own children."""
    data = as_object(event.record.get("data"))
    usage, cost = as_object(data.get("usage")), data.get("total_cost_usd")
    tokens = Usage(int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0))
    return data, tokens, float(cost) if isinstance(cost, int | float) else None
