"""What the stored sessions cost in a stretch of days, beside the stretch before it, with figures of their tasks."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Literal

from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.sessions.cost import Spending, day_of
from cowork.sessions.index import SessionEntry
from cowork.sessions.tasks import TaskFigures, TaskRow, figures

By = Literal["agent", "model", "day", "repo", "session"]
DAY = 86_400
_WORDS = {"today": 1, "week": 7, "month": 30}


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
        periods = {name: spent.to_dict() for name, spent in self.periods.items()}
        return {
            "since": self.first_day or None,
            "periods": periods,
            f"by_{by}": {row.name: row.to_dict() for row in self.rows},
        }


def days_of(since: str) -> int | None:
    """How many days, today among them, a word such as `7d`, `week` or `2026-11-01` means; None for `all`."""
    word = since.strip().lower()
    if word == "all":
        return None
    if word in _WORDS:
        return _WORDS[word]
    if found := re.fullmatch(r"(\d{1,5})\s*d(?:ays?)?", word):
        return max(1, int(found[1]))
    try:
        start = time.mktime(time.strptime(word, "%Y-%m-%d"))
    except ValueError:
        hint = "Use a number of days (7d), today, week, month, all, or a day (2026-11-01)."
        raise UserError(f"--since does not know {since!r}.", hint) from None
    return max(1, round((_midnight(time.time()) - start) / DAY) + 1)


def cost_report(entries: Sequence[SessionEntry], by: By, days: int | None, now: float | None = None) -> CostReport:
    """What the sessions used, own requests and children, retries and compaction together."""
    today = _midnight(time.time() if now is None else now)
    first = day_of(today - (days - 1) * DAY) if days else ""
    earlier = day_of(today - (2 * days - 1) * DAY) if days else ""
    spent: dict[str, Spending] = {}
    before: dict[str, Spending] = {}
    tasks: dict[str, list[TaskRow]] = {}
    periods = {"today": Spending(), "7 days": Spending(), "all": Spending()}
    starts = {"today": day_of(today), "7 days": day_of(today - 6 * DAY), "all": ""}
    for entry in entries:
        for part in entry.slices:
            names = {"agent": part.kind, "model": part.model, "day": part.day, "repo": entry.cwd, "session": entry.id}
            for period, start in starts.items():
                if part.day >= start:
                    periods[period] += part.spent
            sums = spent if part.day >= first else before if part.day >= earlier else None
            if sums is not None:
                sums[names[by]] = sums.get(names[by], Spending()) + part.spent
        for row in entry.summary.tasks:
            if not first or day_of(row.started) >= first:
                tasks.setdefault(entry.cwd if by == "repo" else _key(row, by), []).append(row)
    compared = days is not None and by != "day"
    rows = [
        CostRow(
            name,
            spent.get(name, Spending()),
            before.get(name, Spending()) if compared else None,
            figures(tasks.get(name, ())),
        )
        for name in spent.keys() | tasks.keys()
    ]
    return CostReport(first, tuple(_sorted(rows, by)), periods)


def _key(row: TaskRow, by: By) -> str:
    match by:
        case "agent":
            return row.subagent_type
        case "model":
            return row.model
        case "day":
            return day_of(row.started)
    return row.session_id


def _sorted(rows: Iterable[CostRow], by: By) -> list[CostRow]:
    if by == "day":
        return sorted(rows, key=lambda row: row.name, reverse=True)
    return sorted(rows, key=lambda row: (-row.spent.known_usd, -row.spent.usage.total, row.name))


def _midnight(at: float) -> float:
    """Noon would do as well: only the day counts, and a day may have 23 hours."""
    day = time.localtime(at)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 12, 0, 0, 0, 0, -1))
