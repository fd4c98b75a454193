"""Adds up a run's children: the view of each, what each type of agent cost, and what was denied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cowork.core.blocks import Json, Usage, add_cost
from cowork.core.later import later
from cowork.core.ports import ToolRecord
from cowork.engine.runner import Denial

if TYPE_CHECKING:
    from cowork.engine.subagents.child import Child
    from cowork.engine.subagents.result import ChildResult, view_002
else:
    view_002 = later("cowork.engine.subagents.result", "view_002")


class Accounts:
    """Each child is entered when it starts and closed when it ends."""

    def __init__(self) -> None:
        self.denials: list[Denial] = []
        self._views: list[Json] = []  # in the order they were sent out; empty while they run
        self._by_type: dict[str, Json] = {}

    def enter(self, child: Child) -> None:
        self._views.append(child.view)

    def close(self, child: Child, end: ChildResult, record: ToolRecord) -> None:
        """Count a child that ended: its own spending, for what its own children spent is under their types."""
        self.denials += child.runner.denials
        names = {"subagent_type": end.subagent_type, "subagent_id": end.subagent_id, "status": end.status}
        names |= {"description": end.label, "model": end.model_used}
        child.view.update(names | view_002(record.to_dict()))
        empty = {"tasks": 0, "usage": Usage(), "total_cost_usd": 0.0, "duration_ms": 0}
        sums = self._by_type.setdefault(end.subagent_type, empty)
        sums["tasks"] += 1
        sums["usage"] = sums["usage"] + child.agent.usage
        sums["total_cost_usd"] = add_cost(sums["total_cost_usd"], child.agent.cost_usd)
        sums["duration_ms"] += end.duration_ms

    def tasks(self) -> list[Json]:
        """The four-field view of every Task that ended, with its type and id, in the order they were sent out."""
        return [view for view in self._views if view]

    def cost_by_type(self) -> Json:
        """`{type: {tasks, usage, total_cost_usd, duration_ms}}`"""
        return {name: sums | {"usage": sums["usage"].to_dict()} for name, sums in self._by_type.items()}
