"""Costs and tasks as lines of text."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cowork.core import format

if TYPE_CHECKING:
    from cowork.sessions.cost_report import CostReport, CostRow
    from cowork.sessions.tasks import TaskRow

_NAME = 26
_MARKS = {"completed": "✓", "active": "·", "interrupted": "·"}


def lines(report: CostReport, by: str, days: int | None) -> list[str]:
    """A heading and a line a row; what is not known of a row stays blank."""
    stretch = "all" if days is None else "today" if days == 1 else f"last {days} days"
    heading = f"by {by}, {stretch}"
    columns = ("cost", "change", "tasks", "$/task", "mean", "p50", "p95", "max", "prompt", "failed")
    widths = (10, 7, 6, 8, 7, 7, 7, 7, 7, 7)
    head = f"{heading:<{_NAME}}" + "".join(f"{name:>{width}}" for name, width in zip(columns, widths, strict=True))
    found = ["", head]
    for row in report.rows:
        cells = _cells(row)
        name = format.one_line(row.name or "unknown", _NAME - 1)
        line = f"{name:<{_NAME}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        found.append(line.rstrip())
    return found if report.rows else ["", f"{heading}: nothing"]


def task_line(task: TaskRow) -> str:
    """One task: when, who, what for, and what it came to."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(task.started))
    facts = [
        task.status,
        task.model,
        format.duration(task.duration_ms / 1000),
        f"{format.tokens(task.prompt_tokens + task.completion_tokens)} tok",
        format.money(task.cost_usd, "price unknown"),
    ]
    mark = _MARKS.get(task.status, "✗")
    what = format.one_line(task.description, 40)
    return f"{mark} {task.id:<28} {when}  {what:<40}  {' · '.join(fact for fact in facts if fact)}"


def _cells(row: CostRow) -> list[str]:
    tasks = row.tasks
    rate = tasks.failure_rate
    return [
        format.money_sum(row.spent.cost_usd, row.spent.known_usd),
        "" if row.change is None else _arrow(row.change),
        str(tasks.tasks or ""),
        "" if tasks.cost_per_task is None else format.money(tasks.cost_per_task),
        *(_shown(value, _seconds) for value in (tasks.mean_s, tasks.p50_s, tasks.p95_s, tasks.max_s)),
        _shown(tasks.prompt_tokens_per_task, lambda count: format.tokens(round(count))),
        _shown(rate, lambda part: f"{part:.0%}"),
    ]


def _shown(value: float | None, show: Callable[[float], str]) -> str:
    return "" if value is None else show(value)


def _seconds(value: float) -> str:
    return format.duration(value) if value < 120 else format.clock(value)


def _arrow(change: float) -> str:
    """`▲ 12%`, `▼ 5%`, `=`."""
    if abs(change) < 0.005:
        return "="
    size = f"{abs(change):.0%}" if abs(change) < 10 else f"{1 + change:.0f}×"
    return f"{'▲' if change > 0 else '▼'} {size}"
