"""A child put together from an order that was checked: its model, tools, limits and conversation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cowork.core.blocks import Json, Usage
from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.core.ports import AgentDef, Ask, Permit, Provider
from cowork.core.transcript import Transcript
from cowork.core.workspace import Workspace
from cowork.engine.budget import Ledger
from cowork.engine.emitter import Emitter
from cowork.engine.loop import Agent, Compact
from cowork.engine.runner import Runner
from cowork.engine.subagents.child import Child, Clock
from cowork.engine.subagents.order import Parent, Settings, chain_key
from cowork.tools.base import AgentState, Spawn, TreeState
from cowork.tools.toolset import ToolSet


@frozen
class World:
    """What children share with the main agent."""

    emitter: Emitter
    ask: Ask
    workspace: Workspace
    tree: TreeState
    permit_for: Callable[[tuple[str, ...]], Permit]  # permission modes from the top down; each can only tighten
    model: Callable[[str], tuple[Provider, str]]  # main | light | ID -> provider and the tier really used
    system: Callable[[AgentDef, str], str]
    compact: Compact | None = None
    recall: Callable[[str], Transcript | None] = lambda path: None  # a finished child's conversation, from the log


@frozen
class Plan:
    """Who is to be sent out, by whom, and with what."""

    id: str
    parent: Parent
    definition: AgentDef
    order: Json
    tools: ToolSet
    past: Transcript | None  # the conversation to go on with
    cwd: Path
    ledger: Ledger

    @property
    def path(self) -> str:
        return f"{self.parent.path}/{self.id}"


def make(
    world: World,
    settings: Settings,
    plan: Plan,
    spawner: Callable[[Parent], Spawn],
    acted: Callable[[Child, str], None],
) -> Child:
    """The child, ready to run but not running. Raises when its model cannot be had."""
    parent, definition, order = plan.parent, plan.definition, plan.order
    wanted, provider, tier = _model(world, plan)
    if plan.ledger.cost_limited and provider.price(Usage(1, 1)) is None:
        raise UserError(f"a cost limit is set and no prices are known for {provider.model}")
    clock = Clock(definition.timeout or settings.timeout, settings.idle_timeout, plan.ledger)
    ask = parent.ask or world.ask
    as_parent = Parent(
        plan.path,
        plan.tools,
        tier,
        plan.ledger,
        parent.depth + 1,
        chain=(*parent.chain, (chain_key(definition, order), definition.name)),
        modes=(*parent.modes, definition.permission_mode),
        ask=lambda question: clock.stopped_for(ask(question)),
    )
    runner = _runner(world, plan, as_parent, spawner(as_parent), lambda action: acted(child, action))
    agent = Agent(
        path=plan.path,
        provider=provider,
        system=world.system(definition, order["description"]),
        runner=runner,
        transcript=plan.past or Transcript(plan.path),
        emit=world.emitter.bind(plan.path),
        ledger=plan.ledger,
        max_turns=order.get("max_turns") or definition.max_turns or settings.default_max_turns,
        report_at_limit=True,
        compact=world.compact,
        session_id=f"{world.emitter.session_id}/{plan.id}",
    )
    agent.above, as_parent.agent = parent.agent, agent
    child = Child(plan.id, definition, order["description"], wanted, agent, runner, as_parent, clock)
    return child


def _model(world: World, plan: Plan) -> tuple[str, Provider, str]:
    """(what was asked for, the model, the tier it really is): the call's, else the agent file's, else the parent's."""
    wanted, parent = plan.order.get("model") or plan.definition.model, plan.parent
    if wanted == "inherit" and parent.agent:
        return parent.tier, parent.agent.provider, parent.tier
    return wanted, *world.model(wanted)


def _runner(world: World, plan: Plan, as_parent: Parent, spawn: Spawn, on_action: Callable[[str], None]) -> Runner:
    return Runner(
        agent=plan.path,
        tools=plan.tools,
        emit=world.emitter.bind(plan.path),
        ask=as_parent.ask or world.ask,
        permit=world.permit_for(as_parent.modes),
        workspace=world.workspace,
        state=AgentState(cwd=plan.cwd),
        tree=world.tree,
        spawn=spawn,
        on_action=on_action,
    )
