"""A call of Task, checked: who does it, with which tools, and which conversation it goes on with."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING

from cowork.agents import Agents
from cowork.config.sections import Subagent as Settings
from cowork.core.errors import ToolError
from cowork.core.later import later
from cowork.core.ports import AgentDef, TaskOrder
from cowork.core.transcript import Transcript
from cowork.engine.assembly import rights_of
from cowork.tools.task import GENERAL_PURPOSE
from cowork.tools.toolset import ToolSet

if TYPE_CHECKING:
    from cowork.engine.loop import Agent

with later(__name__):
    from cowork.tools.json_schema import schema_problems


class Assignment:
    """An order that passed its checks: who does it, and with what. A check raises what its parent is told."""

    def __init__(
        self,
        order: TaskOrder,
        parent: Agent,
        agents: Agents,
        settings: Settings,
        running: Container[str],
        recall: Callable[[str], Transcript | None],  # the conversation of a finished child by its path
    ) -> None:
        self.order, self.parent, self._agents, self._settings = order, parent, agents, settings
        self._rights = rights_of(parent)
        self.matched_from = ""  # the name that was asked for, where it was not this agent's
        self.past: Transcript | None = None  # the conversation to go on with
        schema = order.output_schema
        if schema is not None and (wrong := schema_problems(schema)):
            raise ToolError("INVALID_PARAM", f"output_schema is not a JSON Schema: {'; '.join(wrong[:3])}")
        if order.resume:
            self.definition, self.past = self._resume(running, recall)
        else:
            self.definition, self.matched_from = self._select()
        # Rules were asked about the name as it was spelled, and of what a program sends out not at all; the agent
        # found under the name may be called otherwise.
        name, decision = self.definition.name, self._rights.decide(self.definition)
        renamed = name != order.subagent_type
        if decision.verdict == "deny" or (renamed and decision.verdict == "ask"):
            hint = f" It would be {name}; ask for it by that name." if renamed else ""
            raise ToolError("PERMISSION_DENIED", f"Task was denied: {decision.reason}.{hint}", reason=decision.reason)
        self.tools = self._tools_for(self.definition)
        # What makes two delegations the same: the agent; for general-purpose the prompt too.
        self.key = f"{name}\0{order.prompt}" if name == GENERAL_PURPOSE else name
        if self.past is None and any(above == self.key for above, _ in parent.spec.chain):
            names = " -> ".join([*(above for _, above in parent.spec.chain), name])
            raise ToolError("CONFLICT", f"Circular delegation prevented: {names}")

    @property
    def lost_tools(self) -> tuple[str, ...]:
        """Tools the agent's file names and that it does not get here."""
        return () if self.order.allowed_tools is not None else _lost_tools(self.definition, self.tools)

    def _resume(
        self, running: Container[str], recall: Callable[[str], Transcript | None]
    ) -> tuple[AgentDef, Transcript]:
        """The agent of a finished child and its conversation."""
        subagent_id, wanted = self.order.resume, self.order.subagent_type
        if subagent_id in running:
            raise ToolError("CONFLICT", f"Subagent '{subagent_id}' is still running")
        past = recall(f"{self.parent.path}/{subagent_id}")  # an agent takes up children of its own only
        definition = self._agents.find(subagent_id.rpartition("-")[0])
        if past is None or definition is None or not past.history():
            raise ToolError("NOT_FOUND", f"There is no subagent '{subagent_id}' to resume. Start a new one.")
        if self._agents.find(wanted) is not definition:  # rules were asked about that one
            message = f"Subagent '{subagent_id}' is of type {definition.name}, not {wanted}"
            raise ToolError("INVALID_PARAM", message)
        return definition, past

    def _select(self) -> tuple[AgentDef, str]:
        """The agent that is meant, and the name it was matched from when that is not its own."""
        if not self._agents:
            raise ToolError("NOT_FOUND", "No subagents available for delegation")
        wanted = self.order.subagent_type
        if found := self._agents.find(wanted):
            return found, ""
        unknown = f"Subagent '{wanted}' not found. Available: {', '.join(sorted(self._agents))}"
        similar = self._settings.match == "similar"
        near = self._agents.nearest(wanted, self.order.description if similar else "")
        names = " or ".join(sorted(agent.name for agent in near))
        if not similar:
            raise ToolError("INVALID_PARAM", unknown + (f". Nearest: {names}" if near else ""))
        # Of agents whose names fit as well, never one with more tools than another; more than one is a tie.
        tools = {agent.name: set(self._rights.tools_of(agent, self._settings)) for agent in near}
        fit = [one for one in near if not any(tools[other.name] < tools[one.name] for other in near)]
        if len(fit) != 1:
            raise ToolError("INVALID_PARAM", unknown + (f". It could be {names}: name one" if near else ""))
        return fit[0], wanted

    def _tools_for(self, definition: AgentDef) -> ToolSet:
        """The agent's tools, narrowed by the order."""
        tools = self._rights.tools_of(definition, self._settings)
        if definition.tools and not tools and (lost := _lost_tools(definition, tools)):
            raise _lacks(lost)
        allowed = self.order.allowed_tools
        if allowed is None:
            return tools
        for word in allowed:
            named = tools.all.find_matches(word)
            if named and not self._settings.allow_nesting and all(tool.family == "delegate" for tool in named):
                raise ToolError("INVALID_PARAM", f"Tool '{word}' cannot be used by subagents")
            if not named:
                raise ToolError("INVALID_PARAM", f"Unknown tool in allowed_tools: {word}")
        if lacking := [word for word in allowed if not tools.find_matches(word)]:
            raise _lacks(lacking)
        return tools.only(allowed)


def _lost_tools(definition: AgentDef, tools: ToolSet) -> tuple[str, ...]:
    """Tools an agent's file names that are not among these; Task aside, which is never meant for children."""
    lost = (word for word in definition.tools or () if word != "*" and not tools.find_matches(word))
    return tuple(word for word in lost if not any(tool.family == "delegate" for tool in tools.all.find_matches(word)))


def _lacks(tools: Sequence[str]) -> ToolError:
    return ToolError("PERMISSION_DENIED", f"Subagent lacks permission for required tools: {', '.join(tools)}")
