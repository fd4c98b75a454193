"""One row of a contract: what a design asked, and the check that it holds, or why it is different on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

CONTRACTS = {
    "task_api": "The Task tool's API",
    "task_record": "The Task record",
    "usage_and_cost": "Usage and cost",
    "subagent_tool": "The subagent tool",
    "content_blocks": "Content blocks",
}
Check = Callable[[], object] | str  # a string says why it is different on purpose


@dataclass(frozen=True)
class Row:
    contract: str
    number: int
    asks: str
    check: Check

    @property
    def id(self) -> str:
        return f"{self.contract}-{self.number}"

    @property
    def why(self) -> str:
        """Why it is different on purpose; empty where it holds."""
        return self.check if isinstance(self.check, str) else ""

    def holds(self) -> bool:
        return isinstance(self.check, str) or bool(self.check())


def rows(contract: str) -> list[Row]:
    listed = import_module(f"tests.contracts.{contract}").ROWS
    return [Row(contract, number, asks, check) for number, (asks, check) in enumerate(listed, 1)]


def every_row() -> list[Row]:
    return [row for contract in CONTRACTS for row in rows(contract)]
