"""An order to send out a child, checked before anything runs: which agent, which tools, and not in a circle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cowork.agents import Agents
from cowork.core.blocks import Json
from cowork.core.errors import ToolError, ToolErrorCode
from cowork.core.ports import AgentDef, Ask, Effect, Permit
from cowork.engine.budget import Ledger
from cowork.engine.loop import Agent
from cowork.tools.arguments import schema_problems
from cowork.tools.toolset import ToolSet


class Settings(Protocol):
    """What `[agent.subagent]` of the configuration says; 0 is no limit."""

    @property
    def max_depth(self) -> int: ...
    @property
    def default_max_turns(self) -> int: ...
    @property
    def output_max_size(self) -> int: ...
    @property
    def telemetry_enabled(self) -> bool: ...
    @property
    def max_concurrent(self) -> int: ...
    @property
    def timeout(self) -> float: ...
    @property
    def idle_timeout(self) -> float: ...
    @property
    def match(self) -> str: ...
    @property
    def allow_nesting(self) -> bool: ...
    @property
    def default_tools(self) -> str: ...
    @property
    def max_executions(self) -> int: ...
    @property
    def max_total_tokens(self) -> int: ...
    @property
    def max_total_time(self) -> float: ...
    @property
    def max_total_cost_usd(self) -> float: ...


@dataclass(slots=True)
class Parent:
    """Who delegates: what a child inherits and may not exceed."""

    path: str
    tools: ToolSet
    tier: str
    ledger: Ledger
    depth: int = 0
    chain: tuple[tuple[str, str], ...] = ()  # (key, name) of every agent above
    modes: tuple[str, ...] = ()  # permission modes of every agent from the top down to this one
    ask: Ask | None = None  # as this agent asks; None: as everybody does
    agent: Agent | None = None
    placed: bool = False  # holds a place in the line
    waits: int = 0  # for how many children of its own


def select(agents: Agents, order: Json, *, similar: bool) -> tuple[AgentDef, str]:
    """The agent an order asks for, and what it was matched from when the name was not exact."""
    if not agents:
        raise refusal("NOT_FOUND", "No subagents available for delegation", order)
    wanted = order["subagent_type"]
    if found := agents.find(wanted):
        return found, ""
    near = agents.similar(f"{wanted} {order['description']}") if similar else None
    if near:
        return near, wanted
    raise refusal("INVALID_PARAM", f"Subagent '{wanted}' not found. Available: {', '.join(sorted(agents))}", order)


def refuse_denied(parent: Parent, permit: Permit, definition: AgentDef, order: Json) -> None:
    """Raise when a rule speaks of the agent that was found under another name than the one that was judged."""
    name = definition.name
    tool = next(tool for tool in parent.tools.values() if tool.family == "delegate")
    decision = permit.judge(parent.path, tool, {"subagent_type": name}, [Effect("delegate", name)])
    if decision.verdict != "allow":
        why = f"Task was denied: {decision.reason}. It would be {name}; ask for it by that name."
        raise refusal("PERMISSION_DENIED", why, order)


def refuse_schema(order: Json) -> None:
    """Raise when the result could never be held against what the order gives as its schema."""
    if wrong := schema_problems(order.get("output_schema", {})):
        raise refusal("INVALID_PARAM", f"output_schema is not a JSON Schema: {'; '.join(wrong[:3])}", order)


def refuse_circles(parent: Parent, definition: AgentDef, order: Json) -> None:
    """Raise when the same agent is already at work above."""
    key = chain_key(definition, order)
    if any(above == key for above, _ in parent.chain):
        chain = " -> ".join([*(name for _, name in parent.chain), definition.name])
        raise refusal("CONFLICT", f"Circular delegation prevented: {chain}", order)


def refuse_depth(parent: Parent, limit: int, order: Json) -> None:
    """Raise when a child would be too far down."""
    if parent.depth >= limit:
        raise refusal(
            "CONFLICT",
            f"Maximum subagent recursion depth ({limit}) exceeded. Current depth: {parent.depth}. "
            "Cannot spawn nested subagent.",
            order,
        )


def tools_for(parent: Parent, definition: AgentDef, order: Json, settings: Settings) -> ToolSet:
    """The agent's own tools, narrowed by the order, never wider than the parent's."""
    tools, wanted = parent.tools, definition.tools
    if wanted is None and settings.default_tools == "read-only":
        wanted = tuple(name for name, tool in tools.items() if tool.reads and tool.family not in ("delegate", "exec"))
    tools = tools.only(wanted, refused=definition.disallowed_tools)
    if not settings.allow_nesting:
        tools = tools.without("delegate")
    allowed = order.get("allowed_tools")
    if allowed is None:
        return tools
    _check_allowed(allowed, tools, order, nesting=settings.allow_nesting)
    return tools.only(allowed)


def chain_key(definition: AgentDef, order: Json) -> str:
    """What makes two delegations the same: the agent; for general-purpose the prompt too."""
    return f"{definition.name}\0{order['prompt']}" if definition.name == "general-purpose" else definition.name


def refusal(code: ToolErrorCode, message: str, order: Json) -> ToolError:
    """A delegation that never started."""
    return ToolError(
        code,
        message,
        status="error",
        short_result="Task delegation failed",
        subagent_type=order["subagent_type"],
        metadata={"subagent_label": order["description"], "recursion_depth": str(order["depth"])},
    )


def _check_allowed(allowed: list[str], tools: ToolSet, order: Json, *, nesting: bool) -> None:
    """Raise when a word names no tool, or one that the child cannot have."""
    for word in allowed:
        named = tools.all.named(word)
        if named and not nesting and all(tool.family == "delegate" for tool in named):
            raise refusal("INVALID_PARAM", f"Tool '{word}' cannot be used by subagents", order)
        if not named:
            raise refusal("INVALID_PARAM", f"Unknown tool in allowed_tools: {word}", order)
    lacking = [word for word in allowed if not tools.named(word)]
    if lacking:
        message = f"Subagent lacks permission for required tools: {', '.join(lacking)}"
        raise refusal("PERMISSION_DENIED", message, order)
