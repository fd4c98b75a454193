"""Tool calls counted by tool and outcome, so that a receipt says what ran and not what was tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from cowork.core.blocks import Json

CallOutcome = Literal["run", "failed", "denied", "unknown"]


def outcome_of(record: Mapping[str, Any]) -> CallOutcome:
    """What became of a call, read from its record."""
    if record.get("status") != "error":
        return "run"
    if (record.get("data") or {}).get("unknown_tool"):
        return "unknown"
    return "denied" if (record.get("error") or {}).get("code") == "PERMISSION_DENIED" else "failed"


class Tally:
    """The calls of one agent."""

    def __init__(self) -> None:
        self.started = 0
        self._by_tool: dict[str, dict[CallOutcome, int]] = {}

    def start(self, tool: str) -> None:
        """Note a call that begins; tools are listed in this order."""
        self.started += 1
        self._by_tool.setdefault(tool, {"run": 0, "failed": 0, "denied": 0, "unknown": 0})

    def end(self, tool: str, outcome: CallOutcome) -> None:
        """Count a call that was started."""
        self._by_tool[tool][outcome] += 1

    def total(self, *outcomes: CallOutcome) -> int:
        """How many calls had one of these outcomes; all calls when none is named."""
        return sum(
            n for counts in self._by_tool.values() for name, n in counts.items() if name in outcomes or not outcomes
        )

    @property
    def nothing_ran(self) -> bool:
        """Whether no call got as far as its tool."""
        return not self.total("run", "failed")

    def summary(self) -> list[Json]:
        """`[{tool, count, failed, denied}]`; `count` is of calls that ran; `unknown` is added where it applies."""
        return [
            {"tool": tool, "count": counts["run"], "failed": counts["failed"], "denied": counts["denied"]}
            | ({"unknown": counts["unknown"]} if counts["unknown"] else {})
            for tool, counts in self._by_tool.items()
        ]

    def line(self) -> str:
        """`3 tool calls (Read 2, Grep 1)`, or `2 tool calls (Read 1; Write 0 run, 1 denied)`."""
        calls = self.total()
        if not calls:
            return "0 tool calls: nothing was looked at"
        parts = [_part(tool, counts) for tool, counts in self._by_tool.items()]
        joined = ("; " if any("," in part for part in parts) else ", ").join(parts)
        warning = ": nothing was looked at" if self.nothing_ran else ""
        return f"{calls} tool call{'s' * (calls != 1)} ({joined}){warning}"


def _part(tool: str, counts: Mapping[CallOutcome, int]) -> str:
    others = [f"{n} {name}" for name, n in counts.items() if name != "run" and n]
    return f"{tool} {counts['run']}" + (f" run, {', '.join(others)}" if others else "")
