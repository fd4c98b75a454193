"""Checks an order before anything runs: which agent, with which tools, how deep, and not in a circle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cowork.agents import Agents
from cowork.config.sections import Subagent as Settings
from cowork.core.errors import ToolError, ToolErrorCode
from cowork.core.frozen import frozen
from cowork.core.later import later
from cowork.core.ports import AgentDef, Ask, Decision, Effect, Permit, TaskOrder
from cowork.core.transcript import Transcript
from cowork.engine.budget import Ledger, Slot
from cowork.engine.loop import Agent
from cowork.tools.toolset import ToolSet

with later(__name__):
    from cowork.tools.json_schema import schema_problems

GENERAL_PURPOSE = "general-purpose"


@dataclass(slots=True, eq=False)
class Delegator:
    """An agent with what its children inherit and may not exceed."""

    agent: Agent
    permit: Permit
    ask: Ask
    slot: Slot
    tier: str = "main"
    depth: int = 0
    chain: tuple[tuple[str, str], ...] = ()  # (key, name) of every agent above and of this one
    modes: tuple[str, ...] = ()  # permission modes from the top down to this agent
    kept_tools: tuple[str, ...] = ()  # that it never hands on

    @property
    def path(self) -> str:
        return self.agent.path

    @property
    def rights(self) -> Rights:
        tools = self.agent.runner.tools.only(refused=self.kept_tools)
        return Rights(self.path, tools, self.permit, self.depth)

    @property
    def ledger(self) -> Ledger:
        return self.agent.ledger


@frozen
class Assignment:
    """An order that passed its checks: who does it, and with what."""

    order: TaskOrder
    parent: Delegator
    definition: AgentDef
    tools: ToolSet
    matched_from: str = ""  # the name that was asked for, where it was not this agent's
    past: Transcript | None = None  # the conversation to go on with

    @property
    def key(self) -> str:
        """What makes two delegations the same: the agent; for general-purpose the prompt too."""
        name = self.definition.name
        return f"{name}\0{self.order.prompt}" if name == GENERAL_PURPOSE else name

    @property
    def lost_tools(self) -> tuple[str, ...]:
        """Tools the agent's file names and that it does not get here."""
        return () if self.order.allowed_tools is not None else lost_tools(self.definition, self.tools)


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
        forbidden = [name for name, tool in tools.items() if self.permit.forbids(tool)]
        refused = (*definition.disallowed_tools, *forbidden)
        tools = tools.only(wanted, refused=refused)
        if definition.servers is not None or definition.server_words:
            tools = tools.reaching(definition.server_words, exact=definition.servers is not None).only(refused=refused)
        return tools if settings.allow_nesting else tools.without("delegate")

    def decide(self, definition: AgentDef) -> Decision:
        """What rules say of sending out this agent."""
        tool = next(tool for tool in self.tools.values() if tool.family == "delegate")
        name = definition.name
        return self.permit.judge(self.path, tool, {"subagent_type": name}, [Effect("delegate", name)])

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


def lost_tools(definition: AgentDef, tools: ToolSet) -> tuple[str, ...]:
    """Tools an agent's file names that are not among these; Task aside, which is never meant for children."""
    lost = (word for word in definition.tools or () if word != "*" and not tools.named(word))
    return tuple(word for word in lost if not any(tool.family == "delegate" for tool in tools.all.named(word)))


class OrderCheck:
    """The checks of one order, each of which raises the refusal its parent is told."""

    def __init__(self, order: TaskOrder, parent: Delegator, settings: Settings) -> None:
        self.order, self.parent, self.settings = order, parent, settings

    def select(self, agents: Agents) -> tuple[AgentDef, str]:
        """The agent that is meant, and the name it was matched from when that is not its own."""
        if not agents:
            raise self.refusal("NOT_FOUND", "No subagents available for delegation")
        wanted = self.order.subagent_type
        if found := agents.find(wanted):
            return found, ""
        unknown = f"Subagent '{wanted}' not found. Available: {', '.join(sorted(agents))}"
        if self.settings.match != "similar":
            near = agents.nearest(wanted)
            raise self.refusal("INVALID_PARAM", unknown + (f". Nearest: {_names(near)}" if near else ""))
        near = agents.nearest(wanted, self.order.description)
        fit = self._no_wider(near)
        if len(fit) != 1:
            raise self.refusal("INVALID_PARAM", unknown + (f". It could be {_names(near)}: name one" if near else ""))
        return fit[0], wanted

    def _no_wider(self, near: Sequence[AgentDef]) -> list[AgentDef]:
        """Of agents whose names fit as well, never one with more tools than another; more than one is a tie."""
        tools = {agent.name: set(self.parent.rights.tools_of(agent, self.settings)) for agent in near}
        return [one for one in near if not any(tools[other.name] < tools[one.name] for other in near)]

    def check_rules(self, definition: AgentDef) -> None:
        """Rules were asked about the name as it was spelled; the agent found under it may be called otherwise."""
        name, decision = definition.name, self.parent.rights.decide(definition)
        if name != self.order.subagent_type and decision.verdict != "allow":
            message = f"Task was denied: {decision.reason}. It would be {name}; ask for it by that name."
            raise self.refusal("PERMISSION_DENIED", message)

    def check_schema(self) -> None:
        schema = self.order.output_schema
        if schema is not None and (wrong := schema_problems(schema)):
            raise self.refusal("INVALID_PARAM", f"output_schema is not a JSON Schema: {'; '.join(wrong[:3])}")

    def check_depth(self) -> None:
        depth, limit = self.parent.depth, self.settings.max_depth
        if depth >= limit:
            message = f"Maximum subagent recursion depth ({limit}) exceeded. Current depth: {depth}."
            raise self.refusal("CONFLICT", f"{message} Cannot spawn nested subagent.")

    def check_circles(self, assignment: Assignment) -> None:
        """The same agent must not be at work above."""
        chain = self.parent.chain
        if any(above == assignment.key for above, _ in chain):
            names = " -> ".join([*(name for _, name in chain), assignment.definition.name])
            raise self.refusal("CONFLICT", f"Circular delegation prevented: {names}")

    def tools_for(self, definition: AgentDef) -> ToolSet:
        """The agent's tools, narrowed by the order."""
        tools = self.parent.rights.tools_of(definition, self.settings)
        if definition.tools and not tools and (lost := lost_tools(definition, tools)):
            raise self._lacks(lost)
        allowed = self.order.allowed_tools
        if allowed is None:
            return tools
        for word in allowed:
            named = tools.all.named(word)
            if named and not self.settings.allow_nesting and all(tool.family == "delegate" for tool in named):
                raise self.refusal("INVALID_PARAM", f"Tool '{word}' cannot be used by subagents")
            if not named:
                raise self.refusal("INVALID_PARAM", f"Unknown tool in allowed_tools: {word}")
        if lacking := [word for word in allowed if not tools.named(word)]:
            raise self._lacks(lacking)
        return tools.only(allowed)

    def _lacks(self, tools: Sequence[str]) -> ToolError:
        return self.refusal("PERMISSION_DENIED", f"Subagent lacks permission for required tools: {', '.join(tools)}")

    def refusal(self, code: ToolErrorCode, message: str) -> ToolError:
        """What the parent is told of a delegation that never started."""
        return ToolError(
            code,
            message,
            status="error",
            short_result="Task delegation failed",
            subagent_type=self.order.subagent_type,
            metadata={
                "subagent_label": self.order.description,
                "recursion_depth": str(self.parent.depth + 1),
            },
        )


def _names(agents: Sequence[AgentDef]) -> str:
    return " or ".join(sorted(agent.name for agent in agents))
