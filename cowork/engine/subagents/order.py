"""An order to send out a child, checked before anything runs: which agent, which tools, and not in a circle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cowork.agents import Agents
from cowork.core.blocks import Json
from cowork.core.errors import ToolError, ToolErrorCode
from cowork.core.ports import AgentDef, Ask, Effect, Permit
from cowork.engine.budget import Ledger
from cowork.engine.loop import Agent
from cowork.engine.runner import ALIASES
from cowork.tools.arguments import schema_problems
from cowork.tools.base import Tool
from cowork.tools.builtin import DELEGATES, READ_ONLY, TOOLS


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
    tools: Mapping[str, Tool]
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
    decision = permit.judge(parent.path, "Task", {"subagent_type": name}, [Effect("delegate", name)])
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


def tools_for(parent: Parent, definition: AgentDef, order: Json, settings: Settings) -> dict[str, Tool]:
    """The agent's own tools, narrowed by the order, never wider than the parent's."""
    default = READ_ONLY if settings.default_tools == "read-only" else parent.tools
    own = canonical(definition.tools if definition.tools is not None else default)
    own -= canonical(definition.disallowed_tools)
    if not settings.allow_nesting:
        own -= DELEGATES
    allowed = order.get("allowed_tools")
    if allowed is not None:
        own &= _checked(allowed, own & set(parent.tools), order, nesting=settings.allow_nesting)
    return {name: tool for name, tool in parent.tools.items() if name in own}


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


def _checked(allowed: list[str], available: set[str], order: Json, *, nesting: bool) -> set[str]:
    for name in allowed:
        tool = ALIASES.get(name, name)
        if tool in DELEGATES and not nesting:
            raise refusal("INVALID_PARAM", f"Tool '{name}' cannot be used by subagents", order)
        if tool not in TOOLS:
            raise refusal("INVALID_PARAM", f"Unknown tool in allowed_tools: {name}", order)
    lacking = [name for name in allowed if ALIASES.get(name, name) not in available]
    if lacking:
        message = f"Subagent lacks permission for required tools: {', '.join(lacking)}"
        raise refusal("PERMISSION_DENIED", message, order)
    return canonical(allowed)


def canonical(names: Iterable[str]) -> set[str]:
    """Tools by their own names."""
    return {ALIASES.get(name, name) for name in names}
