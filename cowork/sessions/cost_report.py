"""What the stored sessions cost in a stretch of days, beside the stretch before it, with figures of their tasks."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import field
from operator import attrgetter
from typing import Literal

from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.sessions.cost import Spending, TaskFigures, TaskRow, add_up, day_of, figures
from cowork.sessions.index import SessionEntry

By = Literal["agent", "model", "day", "repo", "session"]
DAY = 86_400
_WORDS = {"today": 1, "week": 7, "month": 30, "all": None}


@frozen
class CostRow:
    """One agent type, model, day, folder or session."""

    name: str
    spent: Spending = field(default_factory=Spending)
    before: Spending | None = None  # in the stretch before; None where there is none
    tasks: TaskFigures = field(default_factory=TaskFigures)

    @property
    def change(self) -> float | None:
        """How much dearer than before, as a fraction; None where that cannot be said."""
        if self.before is None or not self.before.known_usd:
            return None
        return self.spent.known_usd / self.before.known_usd - 1

    def to_dict(self) -> Json:
        before = self.before.to_dict() if self.before else None
        return {**self.spent.to_dict(), **self.tasks.to_dict(), "before": before, "change": self.change}


@frozen
class CostReport:
    """Rows, dearest first, and sums of today, of seven days and of all."""

    first_day: str  # empty: since the first session
    rows: tuple[CostRow, ...]
    periods: dict[str, Spending]

    def to_dict(self, by: By) -> Json:
        return {
            "since": self.first_day or None,
            "periods": {name: spent.to_dict() for name, spent in self.periods.items()},
            f"by_{by}": {row.name: row.to_dict() for row in self.rows},
        }


def days_of(since: str) -> int | None:
    """How many days, today among them, a word such as `7d`, `week` or `2026-11-01` means; None for `all`."""
    word = since.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    if found := re.fullmatch(r"(\d{1,5})\s*d(?:ays?)?", word):
        return max(1, int(found[1]))
    try:
        start = time.mktime(time.strptime(word, "%Y-%m-%d"))
    except ValueError:
        hint = "Use a number of days (7d), today, week, month, all, or a day (2026-11-01)."
        raise UserError(f"--since does not know {since!r}.", hint) from None
    return max(1, round((noon_of(time.time()) - start) / DAY) + 1)


def cost_report(entries: Sequence[SessionEntry], by: By, days: int | None, now: float | None = None) -> CostReport:
    """What the sessions used, own requests and children, retries and compaction together."""
    today = noon_of(time.time() if now is None else now)
    first = day_of(today - (days - 1) * DAY) if days else ""
    earlier = day_of(today - (2 * days - 1) * DAY) if days else ""
    parts: list[tuple[str, str, Spending]] = []  # day, name, what was spent
    tasks: dict[str, list[TaskRow]] = {}
    for entry in entries:
        summary = entry.summary
        same = {"repo": entry.cwd, "session": entry.id}
        for (day, model, kind), spent in summary.slices.items():
            parts.append((day, {"agent": kind, "model": model, "day": day, **same}[by], spent))
        for row in summary.tasks:
            day = day_of(row.started)
            if day >= first:
                name = {"agent": row.subagent_type, "model": row.model, "day": day, **same}[by]
                tasks.setdefault(name, []).append(row)
    now_spent = add_up((name, spent) for day, name, spent in parts if day >= first)
    before = add_up((name, spent) for day, name, spent in parts if earlier <= day < first)
    compared = days is not None and by != "day"
    rows = [
        CostRow(name, now_spent[name], before[name] if compared else None, figures(tasks.get(name, ())))
        for name in sorted({*now_spent, *tasks})
    ]
    rows.sort(key=attrgetter("name" if by == "day" else "spent.known_usd", "spent.usage.total"), reverse=True)
    starts = {"today": day_of(today), "7 days": day_of(today - 6 * DAY), "all": ""}
    sums = add_up((period, spent) for day, _, spent in parts for period, start in starts.items() if day >= start)
    return CostReport(first, tuple(rows), {period: sums[period] for period in starts})


def noon_of(at: float) -> float:
    """Noon of a day, for only the day counts, and a day may have 23 hours."""
    return time.mktime((*time.localtime(at)[:3], 12, 0, 0, 0, 0, -1))
