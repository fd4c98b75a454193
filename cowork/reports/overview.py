"""Many sessions in figures: what they cost by day, agent, model and folder, and which tasks stand out.

For a terminal they become lines of text, with bars and a curve of blocks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import get_args

from cowork.core import format
from cowork.core.blocks import Json
from cowork.core.frozen import frozen
from cowork.sessions.cost import INTERRUPTED, Spending, TaskFigures, TaskRow, day_of, figures
from cowork.sessions.cost_report import DAY, By, CostRow, cost_report, noon_of
from cowork.sessions.index import SessionEntry

SHOWN = 10  # tasks and sessions in a list of the most this or that
MOST_DAYS = 92  # in the picture of days
_SESSION_FACTS = ("id", "title", "cwd", "model", "turns", "last_used", "cost_usd")
_BLOCKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
_NAME, _BAR, _ROWS = 24, 24, 6


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
            "dearest_sessions": [{name: getattr(entry, name) for name in _SESSION_FACTS} for entry in self.sessions],
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
    by_model = reports["model"].rows
    by_session = {row.name: row.spent.known_usd for row in reports["session"].rows}
    return Overview(
        first_day=first,
        last_day=day_of(moment),
        spent=sum((row.spent for row in by_model), Spending()),
        before=sum((row.before for row in by_model if row.before), Spending()) if days else None,
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
    while len(names) < MOST_DAYS and (name := day_of(noon_of(now) - len(names) * DAY)) >= start:
        names.append(name)
    return tuple(known.get(name, CostRow(name)) for name in reversed(names))


def report_lines(found: Overview) -> Iterator[str]:
    """The overview for a terminal of 80 columns."""
    stretch = f"{found.first_day or 'the first session'} to {found.last_day}"
    head = [
        _usd(found.spent),
        f"{format.tokens(found.spent.usage.total)} tokens",
        format.plural(found.session_count, "session"),
    ]
    if (change := CostRow("", found.spent, found.before).change) is not None:
        head.append(f"{'▲' if change > 0 else '▼'} {abs(change):.0%} against the days before")
    yield f"{stretch}: {' · '.join(head)}"
    if not found.session_count and not found.tasks.tasks:
        return
    most = max(found.days, key=lambda row: row.spent.known_usd)
    curve = sparkline([row.spent.known_usd for row in found.days])
    yield f"\nby day    {curve}  most {_usd(most.spent)} on {most.name}"
    for title, rows in (("agent", found.rows["agent"]), ("model", found.rows["model"]), ("folder", found.rows["repo"])):
        yield f"\nby {title}"
        yield from _bars(rows, folder=title == "folder")
    yield from _tasks(found)


def sparkline(values: Sequence[float]) -> str:
    """A block a value, the greatest the highest; nothing at all is a dot."""
    most = max(values, default=0)
    return "".join("·" if not v else _BLOCKS[min(7, int(8 * v / most))] for v in values)


def bar(value: float, most: float, width: int = _BAR) -> str:
    """A bar as long as the value's part of the greatest, in eighths of a cell."""
    eighths = round(8 * width * value / most) if most > 0 else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8] or ("▏" if value > 0 else "")


def _usd(spent: Spending) -> str:
    return format.money_sum(spent.cost_usd, spent.known_usd)


def _bars(rows: Sequence[CostRow], *, folder: bool) -> Iterator[str]:
    priced = any(row.spent.known_usd for row in rows)
    sizes = [row.spent.known_usd if priced else row.spent.usage.total for row in rows]
    for row, size in list(zip(rows, sizes, strict=True))[:_ROWS]:
        name = (PurePath(row.name).name if folder else row.name) or "unknown"
        facts = [f"{format.tokens(row.spent.usage.total)} tok"]
        if row.tasks.tasks:
            facts.append(format.plural(row.tasks.tasks, "task"))
            facts += [f"{row.tasks.failed} failed"] if row.tasks.failed else []
        line = f"  {format.one_line(name, _NAME):<{_NAME}} {_usd(row.spent):>9}  {bar(size, max(sizes)):<{_BAR}}"
        yield f"{line} {' · '.join(facts)}".rstrip()
    if len(rows) > _ROWS:
        rest = sum((row.spent for row in rows[_ROWS:]), Spending())
        yield f"  {f'{len(rows) - _ROWS} more':<{_NAME}} {_usd(rest):>9}"


def _tasks(found: Overview) -> Iterator[str]:
    tasks = found.tasks
    if not tasks.tasks:
        return
    facts = [f"{tasks.failed} failed ({tasks.failure_rate or 0:.0%})"]
    for name, value in (("p50", tasks.p50_s), ("p95", tasks.p95_s), ("max", tasks.max_s)):
        facts += [f"{name} {format.duration(value)}"] if value is not None else []
    yield f"\n{format.plural(tasks.tasks, 'task')}: {' · '.join(facts)}"
    for title, rows in (("slowest", found.slowest), ("dearest", found.dearest), ("failed last", found.failed)):
        yield from [f"\n{title}", *map(_task_line, rows[:_ROWS])] if rows else ()
    yield "\n`cowork tasks show ID` prints one of them with its conversation."


def _task_line(task: TaskRow) -> str:
    facts = f"{format.duration(task.duration_ms / 1000):>11} {format.money(task.cost_usd):>8}"
    status = "" if task.status == "completed" else task.status
    return f"  {task.id:<30} {facts}  {format.one_line(task.description, 40)} {status}".rstrip()
