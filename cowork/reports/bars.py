"""An overview as lines of text, with bars and a curve of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from cowork.core import format
from cowork.reports.overview import Overview
from cowork.sessions.cost import Spending, TaskRow
from cowork.sessions.cost_report import CostRow

_BLOCKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
_NAME, _BAR, _ROWS = 24, 24, 6


def report_lines(found: Overview) -> Iterator[str]:
    """The overview for a terminal of 80 columns."""
    stretch = f"{found.first_day or 'the first session'} to {found.last_day}"
    head = [
        _usd(found.spent),
        f"{format.tokens(found.spent.usage.total)} tokens",
        format.plural(found.session_count, "session"),
    ]
    yield f"{stretch}: {' · '.join(head)}{_compared(found)}"
    if not found.session_count and not found.tasks.tasks:
        return
    yield f"\nby day    {sparkline([row.spent.known_usd for row in found.days])}  most {_dearest_day(found.days)}"
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


def _compared(found: Overview) -> str:
    if found.before is None or not found.before.known_usd:
        return ""
    change = found.spent.known_usd / found.before.known_usd - 1
    return f" · {'▲' if change > 0 else '▼'} {abs(change):.0%} against the days before"


def _dearest_day(days: Sequence[CostRow]) -> str:
    most = max(days, key=lambda row: row.spent.known_usd)
    return f"{_usd(most.spent)} on {most.name}"


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
