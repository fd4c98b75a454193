"""Which children work in a place of their own, such as a git worktree, and what becomes of it at their end."""

from __future__ import annotations

from dataclasses import replace

from cowork.core.errors import CoworkError, UserError
from cowork.engine.subagents.assembly import AgentSpec, Isolation, Services
from cowork.engine.subagents.child import Child
from cowork.engine.subagents.order import Assignment
from cowork.engine.subagents.result import ChildResult


class IsolatedChildren:
    """The places of children by their paths; children of an isolated one work where it does."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._places: dict[str, Isolation] = {}

    def services_for(self, spec: AgentSpec) -> Services:
        """What an agent is built on: the run's services, or those of its place."""
        place = spec.isolation or self._places.get(spec.path.rpartition("/")[0])
        if place is None:
            return self._services
        self._places[spec.path] = place
        return place.services

    def place_for(self, assignment: Assignment, id: str) -> Isolation | None:
        """A place for the child where its order or its file asks for one and its parent has none."""
        wanted = assignment.order.isolation or assignment.definition.isolation
        if not wanted or assignment.parent.path in self._places:
            return None
        if wanted != "worktree" or self._services.isolate is None:
            raise UserError(f"isolation: {wanted!r} is not known here", "Use worktree.")
        return self._services.isolate(self._services, id)

    async def finish(self, child: Child, end: ChildResult) -> ChildResult:
        """Merge, keep or remove what a child worked in; gives its result with what became of it."""
        place = self._places.pop(child.path, None)
        if place is None or child.assignment.parent.path in self._places:
            return end
        check = child.assignment.order.check
        try:
            worktree = await place.finish(child.label, merge=end.status == "completed", check=check)
        except (CoworkError, OSError) as error:
            worktree = {"status": "kept", "line": f"its worktree could not be merged or removed: {error}"}
        return replace(end, worktree=worktree, files_changed=worktree.get("files", end.files_changed))
