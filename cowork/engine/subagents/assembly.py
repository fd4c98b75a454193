"""Puts one agent together, the main one and children alike: its runner, its loop, and what it may delegate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cowork.core.blocks import Json
from cowork.core.errors import CoworkError, UserError
from cowork.core.frozen import frozen
from cowork.core.hooks import Hooks, NoHooks
from cowork.core.ports import AgentDef, Ask, Permit, Provider, Reply, Request, TaskOrder, ToolRecord, ToolSpec
from cowork.core.transcript import Transcript
from cowork.core.workspace import Workspace
from cowork.engine.budget import Ledger, Slot, SlotPool
from cowork.engine.emitter import Emitter
from cowork.engine.loop import Agent, AgentOptions, Children, Compact
from cowork.engine.runner import Runner, RunnerPorts
from cowork.engine.subagents.order import Assignment, Delegator
from cowork.tools.base import AgentState, ToolContext, TreeState
from cowork.tools.task import agents_list
from cowork.tools.toolset import ToolSet

if TYPE_CHECKING:
    from cowork.engine.subagents.child import Child
    from cowork.engine.subagents.result import ChildResult


@frozen
class Services:
    """What all agents of a run are built on."""

    emitter: Emitter
    ask: Ask
    workspace: Workspace
    tree: TreeState
    permit_for: Callable[[tuple[str, ...]], Permit]  # permission modes from the top down; each can only tighten
    model: Callable[[str], tuple[Provider, str]]  # main | light | ID -> provider and the tier really used
    compact: Compact | None = None
    isolate: Callable[[Services, str], Isolation] | None = None  # makes a place for the child of that name
    recall: Callable[[str], Transcript | None] = lambda path: None  # a finished child's conversation, from the log
    prepare: Callable[[AgentDef], Awaitable[None]] | None = None  # starts the servers that an agent's file names
    hooks: Hooks = field(default_factory=NoHooks)


class Isolation(Protocol):
    """A place of its own for a child, made with its first call."""

    services: Services
    cwd: Path

    async def begin(self) -> None: ...
    async def finish(self, description: str, *, merge: bool, check: str) -> Json: ...


class AgentTree(Children, Protocol):
    """What an agent needs of the others of its run."""

    slots: SlotPool

    async def spawn(self, ctx: ToolContext, order: TaskOrder) -> ToolRecord: ...
    async def consult(self, ctx: ToolContext, request: Request) -> tuple[Reply, Json]: ...


@frozen
class AgentSpec:
    """What one agent is built from."""

    path: str
    provider: Provider
    system: str
    tools: ToolSet
    ledger: Ledger
    transcript: Transcript
    cwd: Path
    options: AgentOptions = field(default_factory=AgentOptions)
    tier: str = "main"
    modes: tuple[str, ...] = ()
    depth: int = 0
    chain: tuple[tuple[str, str], ...] = ()
    ask: Ask | None = None  # None: as the run does
    kept_tools: tuple[str, ...] = ()  # that it never hands on
    isolation: Isolation | None = None


def build_agent(services: Services, spec: AgentSpec, tree: AgentTree) -> Delegator:
    """An agent, ready for its first prompt."""
    ask = spec.ask or services.ask
    emit, permit = services.emitter.bind(spec.path), services.permit_for(spec.modes)
    runner = Runner(
        agent=spec.path,
        tools=spec.tools,
        ports=RunnerPorts(
            emit,
            ask,
            permit,
            tree.spawn,
            services.hooks,
            prepare=spec.isolation.begin if spec.isolation else None,
            consult=tree.consult,
        ),
        workspace=services.workspace,
        state=AgentState(cwd=spec.cwd),
        tree=services.tree,
    )
    agent = Agent(
        provider=spec.provider,
        system=spec.system,
        runner=runner,
        transcript=spec.transcript,
        emit=emit,
        ledger=spec.ledger,
        options=replace(spec.options, compact=services.compact),
        children=tree,
    )
    slot = Slot(tree.slots)
    return Delegator(agent, permit, ask, slot, spec.tier, spec.depth, spec.chain, spec.modes, spec.kept_tools)


def with_agents(tools: ToolSet, offered: Sequence[tuple[AgentDef, Sequence[str]]]) -> tuple[ToolSpec, ...]:
    """Tools as a model is told of them: Task lists the agents it may send out, and is left out where there are none."""
    most = [name for name, tool in tools.items() if tool.family != "delegate"]
    found = []
    for spec in tools.specs():
        if tools[spec.name].family != "delegate":
            found.append(spec)
        elif offered and "subagent_type" in spec.schema["properties"]:
            found.append(replace(spec, description=f"{spec.description}\n{agents_list(offered, most)}"))
        elif offered:
            found.append(spec)
    return tuple(found)


class IsolatedChildren:
    """The places, such as git worktrees, of children by their paths; children of an isolated one work where it does."""

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
