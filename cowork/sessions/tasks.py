"""Delegations as objects one can look up, and figures over many of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from cowork.core.blocks import Json
from cowork.core.events import AgentEnded, AgentStarted
from cowork.core.frozen import frozen
from cowork.sessions.cost import record_data

INTERRUPTED = "interrupted"  # its process ended before it did


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
        names = ("id", "session_id", "agent", "subagent_id", "subagent_type", "description", "model", "status",
                 "started", "duration_ms", "prompt_tokens", "completion_tokens", "cost_usd", "cwd")  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def to_list(self) -> list[Any]:
        """For the index, which holds many."""
        return [self.agent, self.subagent_id, self.subagent_type, self.description, self.model, self.status,
                self.started, self.duration_ms, self.prompt_tokens, self.completion_tokens, self.cost_usd]  # fmt: skip


def started_row(event: AgentStarted, session_id: str) -> TaskRow:
    """A child that was sent out."""
    model = event.model_id or event.model
    return TaskRow(
        session_id, event.agent, event.subagent_id, event.subagent_type, event.description, model, started=event.at
    )


def ended_row(row: TaskRow, event: AgentEnded) -> TaskRow:
    """The same with what it came to."""
    data = record_data(event)
    usage = data.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    cost = data.get("total_cost_usd")
    took = data.get("duration_ms")
    return TaskRow(
        row.session_id,
        row.agent,
        row.subagent_id,
        row.subagent_type,
        row.description,
        str(data.get("model_id") or row.model),
        event.status,
        row.started,
        int(took) if isinstance(took, int | float) else max(0, round(1000 * (event.at - row.started))),
        int(usage.get("prompt_tokens") or 0),
        int(usage.get("completion_tokens") or 0),
        float(cost) if isinstance(cost, int | float) else None,
    )


@frozen
class TaskFigures:
    """Many tasks in numbers; durations in seconds, None where there are no tasks."""

    tasks: int = 0
    failed: int = 0
    cost_per_task: float | None = None
    prompt_tokens_per_task: int | None = None
    mean_s: float | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    max_s: float | None = None

    @property
    def failure_rate(self) -> float | None:
        return self.failed / self.tasks if self.tasks else None

    def to_dict(self) -> Json:
        names = ("tasks", "failed", "failure_rate", "cost_per_task", "prompt_tokens_per_task",
                 "mean_s", "p50_s", "p95_s", "max_s")  # fmt: skip
        return {name: getattr(self, name) for name in names}


def figures(rows: Iterable[TaskRow]) -> TaskFigures:
    """What tasks came to; a task without a price makes the price of a task unknown."""
    many = list(rows)
    if not many:
        return TaskFigures()
    costs = [row.cost_usd for row in many]
    known = [cost for cost in costs if cost is not None]
    took = sorted(row.duration_ms / 1000 for row in many if row.status != INTERRUPTED)
    return TaskFigures(
        len(many),
        sum(row.failed for row in many),
        sum(known) / len(many) if len(known) == len(many) else None,
        round(sum(row.prompt_tokens for row in many) / len(many)),
        sum(took) / len(took) if took else None,
        _percentile(took, 50),
        _percentile(took, 95),
        took[-1] if took else None,
    )


def _percentile(ordered: Sequence[float], percent: int) -> float | None:
    """The smallest value that so many per cent are not above."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else None
