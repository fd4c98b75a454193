"""Many sessions in figures: what they cost by day, agent, model and folder, and which tasks stand out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import get_args

from cowork.core.blocks import Json
from cowork.core.frozen import frozen
from cowork.sessions.cost import INTERRUPTED, Spending, TaskFigures, TaskRow, day_of, figures
from cowork.sessions.cost_report import DAY, By, CostRow, cost_report
from cowork.sessions.index import SessionEntry

SHOWN = 10  # tasks and sessions in a list of the most this or that
MOST_DAYS = 92  # in the picture of days


@frozen
class Overview:
    """Sessions of a stretch of days; every list has the greatest first, days are in order."""

    first_day: str
    last_day: str
    spent: Spending
    before: Spending | None  # in the stretch before; None where there is none
    rows: dict[By, tuple[CostRow, ...]]
    days: tuple[CostRow, ...]  # each of them, also those without a session
    tasks: TaskFigures
    sessions: tuple[SessionEntry, ...]  # the dearest
    session_count: int
    slowest: tuple[TaskRow, ...]
    dearest: tuple[TaskRow, ...]
    failed: tuple[TaskRow, ...]  # newest first

    def session_ids(self) -> list[str]:
        """The sessions that are named in it."""
        tasks = (*self.slowest, *self.dearest, *self.failed)
        return list(dict.fromkeys([*(entry.id for entry in self.sessions), *(task.session_id for task in tasks)]))

    def to_dict(self) -> Json:
        return {
            "since": self.first_day or None,
            "until": self.last_day,
            "spent": self.spent.to_dict(),
            "before": self.before.to_dict() if self.before else None,
            "sessions": self.session_count,
            "tasks": self.tasks.to_dict(),
            "days": [{"day": row.name, **row.to_dict()} for row in self.days],
            **{f"by_{by}": [{"name": r.name, **r.to_dict()} for r in rows] for by, rows in self.rows.items()},
            "dearest_sessions": [_session_dict(entry) for entry in self.sessions],
            "slowest_tasks": [task.to_dict() for task in self.slowest],
            "dearest_tasks": [task.to_dict() for task in self.dearest],
            "failed_tasks": [task.to_dict() for task in self.failed],
        }


def overview(entries: Sequence[SessionEntry], days: int | None, now: float | None = None) -> Overview:
    """Figures of these sessions over the last `days` days; None counts all of them."""
    moment = time.time() if now is None else now
    reports = {by: cost_report(entries, by, days, moment) for by in get_args(By)}
    first = reports["day"].first_day
    used = [e for e in entries if e.prompts and day_of(e.last_used) >= first]
    tasks = [task for e in entries for task in e.tasks() if day_of(task.started) >= first]
    ended = [task for task in tasks if task.status != INTERRUPTED]
    spent, before = Spending(), Spending()
    for row in reports["model"].rows:
        spent += row.spent
        before += row.before or Spending()
    by_session = {row.name: row.spent.known_usd for row in reports["session"].rows}
    return Overview(
        first_day=first,
        last_day=day_of(moment),
        spent=spent,
        before=before if days else None,
        rows={by: reports[by].rows for by in ("agent", "model", "repo")},
        days=_every_day(reports["day"].rows, first, moment),
        tasks=figures(tasks),
        sessions=tuple(sorted(used, key=lambda e: -by_session.get(e.id, 0.0))[:SHOWN]),
        session_count=len(used),
        slowest=tuple(sorted(ended, key=lambda t: -t.duration_ms)[:SHOWN]),
        dearest=tuple(t for t in sorted(tasks, key=lambda t: -(t.cost_usd or 0))[:SHOWN] if t.cost_usd),
        failed=tuple(sorted((t for t in tasks if t.failed), key=lambda t: -t.started)[:SHOWN]),
    )


def _every_day(rows: Sequence[CostRow], first: str, now: float) -> tuple[CostRow, ...]:
    """The days up to today, gaps filled, the last of them if there are too many to draw."""
    known = {row.name: row for row in rows}
    start = first or min([*known, day_of(now)])  # a session of tomorrow has a clock that was set back since
    names: list[str] = []
    noon = time.mktime((*time.localtime(now)[:3], 12, 0, 0, 0, 0, -1))
    while len(names) < MOST_DAYS and (name := day_of(noon - len(names) * DAY)) >= start:
        names.append(name)
    return tuple(known.get(name, CostRow(name)) for name in reversed(names))


def _session_dict(entry: SessionEntry) -> Json:
    names = ("id", "title", "cwd", "model", "turns", "last_used", "cost_usd")
    return {name: getattr(entry, name) for name in names}
