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
from cowork.sessions.cost import INTERRUPTED, Spending, TaskRow, day_of, figures
from cowork.sessions.cost_report import DAY, By, CostRow, cost_report, noon_of
from cowork.sessions.index import SessionEntry

SHOWN = 10  # tasks and sessions in a list of the most this or that
MOST_DAYS = 92  # in the picture of days
_SESSION_FACTS = ("id", "title", "cwd", "model", "turns", "last_used", "cost_usd")
_BLOCKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
_NAME, _BAR, _ROWS = 24, 24, 6


class Overview:
    """Figures of sessions over the last `days` days, or of all; every list has the greatest first, days in order."""

    def __init__(self, entries: Sequence[SessionEntry], days: int | None, now: float | None = None) -> None:
        moment = time.time() if now is None else now
        reports = {by: cost_report(entries, by, days, moment) for by in get_args(By)}
        first = reports["day"].first_day
        used = [e for e in entries if e.prompts and day_of(e.last_used) >= first]
        tasks = [task for e in entries for task in e.tasks() if day_of(task.started) >= first]
        by_model = reports["model"].rows
        by_session = {row.name: row.spent.known_usd for row in reports["session"].rows}
        self.first_day, self.last_day = first, day_of(moment)
        self.spent = sum((row.spent for row in by_model), Spending())
        # In the stretch before; None where there is none.
        self.before = sum((row.before for row in by_model if row.before), Spending()) if days else None
        self.rows = {by: reports[by].rows for by in ("agent", "model", "repo")}
        self.days = _every_day(reports["day"].rows, first, moment)  # also those without a session
        self.tasks = figures(tasks)
        self.session_count = len(used)
        self.dearest_sessions = sorted(used, key=lambda e: -by_session.get(e.id, 0.0))[:SHOWN]
        self.standouts = {
            "slowest": sorted((t for t in tasks if t.status != INTERRUPTED), key=lambda t: -t.duration_ms)[:SHOWN],
            "dearest": sorted((t for t in tasks if t.cost_usd), key=lambda t: -(t.cost_usd or 0))[:SHOWN],
            "failed": sorted((t for t in tasks if t.failed), key=lambda t: -t.started)[:SHOWN],
        }

    def session_ids(self) -> list[str]:
        """The sessions that are named in it."""
        tasks = (task for rows in self.standouts.values() for task in rows)
        return list(dict.fromkeys([*(e.id for e in self.dearest_sessions), *(task.session_id for task in tasks)]))

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
            "dearest_sessions": [{name: getattr(e, name) for name in _SESSION_FACTS} for e in self.dearest_sessions],
            **{f"{name}_tasks": [task.to_dict() for task in rows] for name, rows in self.standouts.items()},
        }


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
    used = f"{format.tokens(found.spent.usage.total)} tokens"
    head = [_usd(found.spent), used, format.plural(found.session_count, "session")]
    if (change := CostRow("", found.spent, found.before).change) is not None:
        head.append(f"{'▲' if change > 0 else '▼'} {abs(change):.0%} against the days before")
    yield f"{stretch}: {' · '.join(head)}"
    if not found.session_count and not found.tasks.tasks:
        return
    most = max(found.days, key=lambda row: row.spent.known_usd)
    curve = sparkline([row.spent.known_usd for row in found.days])
    yield f"\nby day    {curve}  most {_usd(most.spent)} on {most.name}"
    for by, rows in found.rows.items():
        yield f"\nby {'folder' if by == 'repo' else by}"
        yield from _bars(rows, folder=by == "repo")
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
    for name, rows in found.standouts.items():
        title = "failed last" if name == "failed" else name
        yield from [f"\n{title}", *map(_task_line, rows[:_ROWS])] if rows else ()
    yield "\n`cowork tasks show ID` prints one of them with its conversation."


def _task_line(task: TaskRow) -> str:
    facts = f"{format.duration(task.duration_ms / 1000):>11} {format.money(task.cost_usd):>8}"
    status = "" if task.status == "completed" else task.status
    return f"  {task.id:<30} {facts}  {format.one_line(task.description, 40)} {status}".rstrip()
