"""Checks an order before anything runs: which agent, with which tools, and not in a circle."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from cowork.agents import Agents
from cowork.config.sections import Subagent as Settings
from cowork.core.errors import ToolError, ToolErrorCode
from cowork.core.frozen import frozen
from cowork.core.later import later
from cowork.core.ports import AgentDef, TaskOrder
from cowork.core.transcript import Transcript
from cowork.engine.assembly import rights_of
from cowork.engine.loop import Agent
from cowork.tools.toolset import ToolSet

with later(__name__):
    from cowork.tools.json_schema import schema_problems

GENERAL_PURPOSE = "general-purpose"


@frozen
class Assignment:
    """An order that passed its checks: who does it, and with what."""

    order: TaskOrder
    parent: Agent
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


def lost_tools(definition: AgentDef, tools: ToolSet) -> tuple[str, ...]:
    """Tools an agent's file names that are not among these; Task aside, which is never meant for children."""
    lost = (word for word in definition.tools or () if word != "*" and not tools.find_matches(word))
    return tuple(word for word in lost if not any(tool.family == "delegate" for tool in tools.all.find_matches(word)))


class OrderCheck:
    """The checks of one order, each of which raises the refusal its parent is told."""

    def __init__(self, order: TaskOrder, parent: Agent, settings: Settings, agents: Agents) -> None:
        self.order, self.parent, self.settings, self.agents = order, parent, settings, agents

    def assign(self, running: Container[str], recall: Callable[[str], Transcript | None]) -> Assignment:
        """Decide who is to do it; `recall` gives the conversation of a finished child by its path."""
        schema = self.order.output_schema
        if schema is not None and (wrong := schema_problems(schema)):
            raise self.refusal("INVALID_PARAM", f"output_schema is not a JSON Schema: {'; '.join(wrong[:3])}")
        matched_from, past = "", None
        if self.order.resume:
            definition, past = self._resume(running, recall)
        else:
            definition, matched_from = self._select()
        self._check_rules(definition)
        tools, chain = self._tools_for(definition), self.parent.spec.chain
        assignment = Assignment(self.order, self.parent, definition, tools, matched_from, past)
        if past is None and any(above == assignment.key for above, _ in chain):
            names = " -> ".join([*(name for _, name in chain), definition.name])
            raise self.refusal("CONFLICT", f"Circular delegation prevented: {names}")
        return assignment

    def _resume(
        self, running: Container[str], recall: Callable[[str], Transcript | None]
    ) -> tuple[AgentDef, Transcript]:
        """The agent of a finished child and its conversation."""
        subagent_id, wanted = self.order.resume, self.order.subagent_type
        if subagent_id in running:
            raise self.refusal("CONFLICT", f"Subagent '{subagent_id}' is still running")
        past = recall(f"{self.parent.path}/{subagent_id}")  # an agent takes up children of its own only
        definition = self.agents.find(subagent_id.rpartition("-")[0])
        if past is None or definition is None or not past.history():
            raise self.refusal("NOT_FOUND", f"There is no subagent '{subagent_id}' to resume. Start a new one.")
        if self.agents.find(wanted) is not definition:  # rules were asked about that one
            message = f"Subagent '{subagent_id}' is of type {definition.name}, not {wanted}"
            raise self.refusal("INVALID_PARAM", message)
        return definition, past

    def _select(self) -> tuple[AgentDef, str]:
        """The agent that is meant, and the name it was matched from when that is not its own."""
        if not self.agents:
            raise self.refusal("NOT_FOUND", "No subagents available for delegation")
        wanted = self.order.subagent_type
        if found := self.agents.find(wanted):
            return found, ""
        unknown = f"Subagent '{wanted}' not found. Available: {', '.join(sorted(self.agents))}"
        similar = self.settings.match == "similar"
        near = self.agents.nearest(wanted, self.order.description if similar else "")
        names = " or ".join(sorted(agent.name for agent in near))
        if not similar:
            raise self.refusal("INVALID_PARAM", unknown + (f". Nearest: {names}" if near else ""))
        # Of agents whose names fit as well, never one with more tools than another; more than one is a tie.
        tools = {agent.name: set(rights_of(self.parent).tools_of(agent, self.settings)) for agent in near}
        fit = [one for one in near if not any(tools[other.name] < tools[one.name] for other in near)]
        if len(fit) != 1:
            raise self.refusal("INVALID_PARAM", unknown + (f". It could be {names}: name one" if near else ""))
        return fit[0], wanted

    def _check_rules(self, definition: AgentDef) -> None:
        """Rules were asked about the name as it was spelled; the agent found under it may be called otherwise."""
        name, decision = definition.name, rights_of(self.parent).decide(definition)
        if name != self.order.subagent_type and decision.verdict != "allow":
            message = f"Task was denied: {decision.reason}. It would be {name}; ask for it by that name."
            raise self.refusal("PERMISSION_DENIED", message)

    def _tools_for(self, definition: AgentDef) -> ToolSet:
        """The agent's tools, narrowed by the order."""
        tools = rights_of(self.parent).tools_of(definition, self.settings)
        if definition.tools and not tools and (lost := lost_tools(definition, tools)):
            raise self._lacks(lost)
        allowed = self.order.allowed_tools
        if allowed is None:
            return tools
        for word in allowed:
            named = tools.all.find_matches(word)
            if named and not self.settings.allow_nesting and all(tool.family == "delegate" for tool in named):
                raise self.refusal("INVALID_PARAM", f"Tool '{word}' cannot be used by subagents")
            if not named:
                raise self.refusal("INVALID_PARAM", f"Unknown tool in allowed_tools: {word}")
        if lacking := [word for word in allowed if not tools.find_matches(word)]:
            raise self._lacks(lacking)
        return tools.only(allowed)

    def _lacks(self, tools: Sequence[str]) -> ToolError:
        return self.refusal("PERMISSION_DENIED", f"Subagent lacks permission for required tools: {', '.join(tools)}")

    def refusal(self, code: ToolErrorCode, message: str) -> ToolError:
        """What the parent is told of a delegation that never started."""
        depth = self.parent.spec.depth + 1
        return ToolError(
            code,
            message,
            status="error",
            short_result="Task delegation failed",
            subagent_type=self.order.subagent_type,
            metadata={"subagent_label": self.order.description, "recursion_depth": str(depth)},
        )
