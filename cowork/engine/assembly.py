"""What agents are built from, and what each may hand on to its children."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cowork.agents import Agents
from cowork.config.sections import Subagent as Settings
from cowork.core.blocks import Json
from cowork.core.frozen import frozen
from cowork.core.hooks import Hooks
from cowork.core.ports import AgentDef, Ask, Decision, Effect, Permit, Provider, ToolSpec
from cowork.core.transcript import Transcript
from cowork.core.workspace import Workspace
from cowork.engine.budget import Ledger
from cowork.engine.emitter import Emitter
from cowork.tools.base import TreeState
from cowork.tools.task import agents_list, task
from cowork.tools.toolset import ToolSet

if TYPE_CHECKING:
    from cowork.engine.loop import Agent, Compact


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
    hooks: Hooks = field(default_factory=Hooks)


class Isolation(Protocol):
    """A place of its own for a child, made with its first call."""

    services: Services
    cwd: Path

    async def begin(self) -> None: ...
    async def finish(self, description: str, *, merge: bool, check: str) -> Json: ...


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
    session_id: str = ""
    max_turns: int = 0  # requests for one prompt; 0: no limit
    report: str = ""  # what it is asked at that limit, in one more turn without tools; empty: the limit ends it
    waits: bool = True  # for its background children before it gives its answer
    on_progress: Callable[[bool], None] = lambda waiting: None  # told True while the model should speak
    tier: str = "main"
    modes: tuple[str, ...] = ()  # permission modes from the top down to this agent
    depth: int = 0
    chain: tuple[tuple[str, str], ...] = ()  # (key, name) of every agent above and of this one
    ask: Ask | None = None  # None: as the run does
    kept_tools: tuple[str, ...] = ()  # that it never hands on
    isolation: Isolation | None = None  # where it works, with all its children


def rights_of(agent: Agent) -> Rights:
    """What an agent's children inherit and may not exceed."""
    tools = agent.runner.tools.only(refused=agent.spec.kept_tools)
    return Rights(agent.path, tools, agent.runner.permit, agent.spec.depth)


@frozen
class Rights:
    """What an agent may hand on: its tools, as rules leave them, and how deep it stands."""

    path: str
    tools: ToolSet
    permit: Permit
    depth: int = 0

    def tools_of(self, definition: AgentDef, settings: Settings) -> ToolSet:
        """An agent's own tools as far as its parent has them and no rule denies all use of them."""
        tools, wanted = self.tools, definition.tools
        if wanted is None and settings.default_tools == "read-only":
            readers = (tool for tool in tools.values() if tool.reads and tool.family not in ("delegate", "exec"))
            wanted = tuple(tool.name for tool in readers)
        forbidden = (name for name, tool in tools.items() if self.permit.forbids(tool))
        refused = (*definition.disallowed_tools, *forbidden)
        tools = tools.only(wanted, refused=refused)
        if definition.servers is not None or definition.server_words:
            tools = tools.reaching(definition.server_words, exact=definition.servers is not None).only(refused=refused)
        return tools if settings.allow_nesting else tools.without("delegate")

    def decide(self, definition: AgentDef) -> Decision:
        """What rules say of sending out this agent; a program may do so where the model has no tool for it."""
        name = definition.name
        return self.permit.judge(self.path, task, {"subagent_type": name}, [Effect("delegate", name)])

    def offers(self, agents: Agents, settings: Settings) -> list[tuple[AgentDef, tuple[str, ...]]]:
        """The agents that can be sent out, with the tools each would have."""
        if self.depth >= settings.max_depth or all(tool.family != "delegate" for tool in self.tools.values()):
            return []
        found = ((definition, self.tools_of(definition, settings)) for definition in agents.values())
        return [
            (definition, tuple(tools))
            for definition, tools in found
            if (tools or not definition.tools or definition.server_words) and self.decide(definition).verdict != "deny"
        ]


def with_agents(tools: ToolSet, offered: Sequence[tuple[AgentDef, Sequence[str]]]) -> tuple[ToolSpec, ...]:
    """Tools as a model is told of them: Task lists the agents it may send out, and is left out where there are none."""
    most = [name for name, tool in tools.items() if tool.family != "delegate"]
    found = []
    for spec in tools.specs():
        if offered and "subagent_type" in spec.schema["properties"] and tools[spec.name].family == "delegate":
            spec = replace(spec, description=f"{spec.description}\n{agents_list(offered, most)}")
        if offered or tools[spec.name].family != "delegate":
            found.append(spec)
    return tuple(found)
