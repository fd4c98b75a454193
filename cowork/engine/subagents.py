"""Children: sent out, queued, watched, stopped and booked. Every end, good or bad, is a result."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cowork.agents import Agents
from cowork.core.blocks import Json, Usage, add_cost
from cowork.core.errors import CoworkError, ToolError
from cowork.core.events import AgentEnded, AgentStarted
from cowork.core.ports import AgentDef, Ask, Permit, Provider, ToolRecord, ToolSpec, ok
from cowork.core.transcript import Transcript
from cowork.core.workspace import Workspace
from cowork.engine.budget import BudgetExceeded, Ledger, Limits
from cowork.engine.child import Child, bounded, brief, salvage
from cowork.engine.clip import file_name
from cowork.engine.emitter import Emitter
from cowork.engine.line import Line
from cowork.engine.loop import Agent, Compact, Prompt
from cowork.engine.orders import Parent, Settings, chain_key, refusal, refuse_circles, refuse_depth, select, tools_for
from cowork.engine.results import ChildEnd, record_of, view_002
from cowork.engine.runner import Denial, Runner
from cowork.engine.telemetry import Telemetry
from cowork.engine.typed import SchemaFailed
from cowork.tools.base import AgentState, Spawn, Tool, ToolContext, TreeState
from cowork.tools.registry import TOOLS

log = logging.getLogger("cowork.engine")

KEPT_TRANSCRIPTS = 8  # of finished children, so that the latest can be resumed without the log


@dataclass(frozen=True, slots=True)
class World:
    """What children share with the main agent."""

    emitter: Emitter
    ask: Ask
    workspace: Workspace
    tree: TreeState
    permit_for: Callable[[AgentDef], Permit]
    model: Callable[[str], tuple[Provider, str]]  # main | light | ID -> provider and the tier really used
    specs: Callable[[Mapping[str, Tool]], tuple[ToolSpec, ...]]
    system: Callable[[AgentDef, str], str]
    compact: Compact | None = None
    recall: Callable[[str], Transcript | None] = lambda path: None  # a finished child's conversation, from the log


class Subagents:
    """All children of a run."""

    def __init__(self, world: World, agents: Agents, settings: Settings, ledger: Ledger, first_number: int = 1) -> None:
        self.world = world
        self.agents = agents
        self.settings = settings
        self.running: dict[str, Child] = {}
        self._tasks: list[Json] = []  # in the order they were sent out; empty while they run
        self.denials: list[Denial] = []
        self.line = Line(settings.max_concurrent)
        self._by_type: dict[str, Json] = {}
        self._number = first_number
        self._telemetry = Telemetry(settings.telemetry_enabled)
        self._finished: OrderedDict[str, tuple[str, Transcript]] = OrderedDict()  # id -> (agent name, conversation)
        self._background: dict[asyncio.Task[None], str] = {}  # task -> path of the parent
        self._ledger = Ledger(
            Limits(
                settings.max_total_tokens or None,
                settings.max_total_cost_usd or None,
                settings.max_total_time or None,
                settings.max_executions or None,
            ),
            parent=ledger,
        )

    def spawner(self, parent: Parent) -> Spawn:
        """The `ctx.spawn` of one agent."""
        return lambda ctx, order: self.spawn(parent, ctx, order)

    async def spawn(self, parent: Parent, ctx: ToolContext, order: Json) -> ToolRecord:
        """Check an order, run the child, give its record. Raises ToolError when it cannot be sent out."""
        definition, matched_from, past = self._check(parent, order)
        tools = tools_for(parent, definition, order, self.settings)
        try:
            self._ledger.check()
            self._ledger.start_execution()
        except BudgetExceeded as limit:
            self._telemetry.quota_exceeded(order["description"], limit.message)
            raise refusal("QUOTA_EXCEEDED", f"Resource quota exceeded: {limit.message}", order) from limit
        try:
            child = self._make(parent, definition, tools, order, past)
        except (CoworkError, OSError, ValueError) as error:
            self._telemetry.error(order["description"], parent.depth + 1, str(error))
            raise refusal("INTERNAL_ERROR", f"Failed to initialize subagent: {error}", order) from error
        self._announce(parent, ctx, child, order)
        child.task = asyncio.create_task(self._live(child, order), name=child.path)
        if order.get("run_in_background"):
            return self._leave_running(parent, child, order, matched_from)
        # A parent that waits for its child needs no place of its own, so nesting cannot block the line.
        async with self._lent(parent):
            return await self._result(child, order, matched_from)

    def tell(self, subagent_id: str, text: str) -> bool:
        """Say something to a running child before its next request."""
        child = self.running.get(subagent_id)
        if child:
            child.agent.tell(Prompt(text, source="steer"))
        return child is not None

    def finish(self, subagent_id: str) -> bool:
        """Ask a running child to report now."""
        child = self.running.get(subagent_id)
        if child:
            child.agent.finish()
        return child is not None

    def kill(self, subagent_id: str, why: str = "stopped by the user") -> bool:
        """End a running child at once; it makes no request after this."""
        child = self.running.get(subagent_id)
        if child and child.task:
            child.stop = child.stop or why
            child.task.cancel()
        return child is not None

    async def wait_background(self, path: str) -> bool:
        """Wait for one background child of an agent; False when it has none."""
        mine = [task for task, owner in self._background.items() if owner == path]
        if mine:
            await asyncio.wait(mine, return_when=asyncio.FIRST_COMPLETED)
        return bool(mine)

    async def stop_all(self) -> None:
        """End every child, background ones too."""
        for subagent_id in list(self.running):
            self.kill(subagent_id)
        if self._background:
            await asyncio.wait(list(self._background))

    def tasks(self) -> list[Json]:
        """The four-field view of every Task that ended, with its type and id, in the order they were sent out."""
        return [view for view in self._tasks if view]

    def cost_by_type(self) -> Json:
        """`{type: {tasks, usage, total_cost_usd, duration_ms}}`"""
        return {name: sums | {"usage": sums["usage"].to_dict()} for name, sums in self._by_type.items()}

    # ------------------------------------------------------------ before it runs

    def _check(self, parent: Parent, order: Json) -> tuple[AgentDef, str, Transcript | None]:
        """(agent, what it was matched from, the conversation to go on with)."""
        if subagent_id := order.get("resume"):
            definition, past = self._resumed(parent, subagent_id, order)
            return definition, "", past
        definition, matched_from = select(self.agents, order, similar=self.settings.match == "similar")
        try:
            refuse_depth(parent, self.settings.max_depth, order)
        except ToolError:
            self._telemetry.depth_limit(order["description"], parent.depth, self.settings.max_depth)
            raise
        refuse_circles(parent, definition, order)
        return definition, matched_from, None

    def _resumed(self, parent: Parent, subagent_id: str, order: Json) -> tuple[AgentDef, Transcript]:
        if subagent_id in self.running:
            raise refusal("CONFLICT", f"Subagent '{subagent_id}' is still running", order)
        name, past = self._finished.get(subagent_id) or (
            subagent_id.rpartition("-")[0],
            self.world.recall(f"{parent.path}/{subagent_id}"),
        )
        definition = self.agents.find(name)
        if past is None or definition is None or not past.history():
            raise refusal("NOT_FOUND", f"There is no subagent '{subagent_id}' to resume. Start a new one.", order)
        return definition, past

    def _make(
        self, parent: Parent, definition: AgentDef, tools: dict[str, Tool], order: Json, past: Transcript | None
    ) -> Child:
        """The child, ready to run but not running."""
        world = self.world
        subagent_id = order.get("resume") or f"{definition.name}-{self._number}"
        path = f"{parent.path}/{subagent_id}"
        wanted = order.get("model") or (definition.model if definition.model != "inherit" else parent.tier)
        provider, tier = world.model(wanted)
        ledger = Ledger(parent=parent.ledger if parent.depth else self._ledger)
        chain = (*parent.chain, (chain_key(definition, order), definition.name))
        as_parent = Parent(path, tools, tier, ledger, parent.depth + 1, chain)
        emit = world.emitter.bind(path)
        runner = Runner(
            agent=path,
            tools=tools,
            emit=emit,
            ask=world.ask,
            permit=world.permit_for(definition),
            workspace=world.workspace,
            state=AgentState(cwd=world.workspace.root),
            tree=world.tree,
            spawn=self.spawner(as_parent),
            known_tools=tuple(TOOLS),
            on_action=lambda name, args: self._acted(child, name, args),
        )
        agent = Agent(
            path=path,
            provider=provider,
            system=world.system(definition, order["description"]),
            specs=world.specs(tools),
            runner=runner,
            transcript=past or Transcript(path),
            emit=emit,
            ledger=ledger,
            max_turns=order.get("max_turns") or definition.max_turns or self.settings.default_max_turns,
            report_at_limit=True,
            compact=world.compact,
            session_id=f"{world.emitter.session_id}/{subagent_id}",
        )
        agent.more = lambda: self.wait_background(path)
        as_parent.agent = agent
        child = Child(subagent_id, definition, order["description"], wanted, agent, runner, as_parent)
        if not order.get("resume"):
            self._number += 1
        return child

    def _announce(self, parent: Parent, ctx: ToolContext, child: Child, order: Json) -> None:
        child.as_parent.placed = self.line.take()
        child.status = "active" if child.as_parent.placed else "waiting"
        self.running[child.id] = child
        self._tasks.append(child.view)
        event = AgentStarted(
            subagent_id=child.id,
            parent=parent.path,
            tool_use_id=ctx.tool_use_id,
            description=child.label,
            prompt=order["prompt"],
            subagent_type=child.definition.name,
            model=child.as_parent.tier,
            model_id=child.agent.provider.model,
            tools=tuple(child.runner.tools),
            max_turns=child.agent.max_turns,
            depth=child.depth,
            color=child.definition.color,
            background=bool(order.get("run_in_background")),
            status=child.status,
        )
        self.world.emitter.publish(event, child.path)
        self._telemetry.spawn(child.label, child.depth, child.agent.max_turns, tuple(child.runner.tools))

    # ------------------------------------------------------------ while it runs

    def _leave_running(self, parent: Parent, child: Child, order: Json, matched_from: str) -> ToolRecord:
        watcher = asyncio.create_task(self._deliver(parent, child, order, matched_from))
        self._background[watcher] = parent.path
        watcher.add_done_callback(lambda done: self._background.pop(done, None))
        text = (
            f"Subagent ({child.definition.name}, {child.as_parent.tier}) started in the background as {child.id}. "
            "Its result will come by itself; go on with other work."
        )
        return ok(text, status="active", subagent_id=child.id, subagent_type=child.definition.name)

    async def _deliver(self, parent: Parent, child: Child, order: Json, matched_from: str) -> None:
        record = await self._result(child, order, matched_from)
        if parent.agent:
            label = f"{child.id} ended: {record.data['status']}"
            parent.agent.tell(Prompt(f"Background subagent {child.id}:\n{record.text}", source="agent", label=label))

    async def _result(self, child: Child, order: Json, matched_from: str) -> ToolRecord:
        """Wait for the child and book what it came to. A cancelled parent takes its child along."""
        task = child.task
        assert task is not None
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                child.stop = child.stop or "the parent was interrupted"
                task.cancel()
                cancelled = error
        # A task that was cancelled before its first step never saw it coming.
        end = self._aborted(child) if task.cancelled() else task.result()
        record = self._book(child, end, order, matched_from)
        if cancelled:
            raise cancelled
        return record

    async def _live(self, child: Child, order: Json) -> ChildEnd:
        """Wait in line, run, and turn whatever happens into an end."""
        transcript = child.agent.transcript
        self.world.emitter.add(transcript.apply)
        try:
            if not child.as_parent.placed:
                await self.line.enter()
                child.as_parent.placed = True
            child.status, child.started = "active", time.monotonic()
            self.world.emitter.publish(child.update(), child.path)
            total = child.definition.timeout or self.settings.timeout
            return await bounded(child, order, total=total, idle=self.settings.idle_timeout)
        except asyncio.CancelledError:
            return self._aborted(child)
        except SchemaFailed as failure:
            return child.end("error", failure.outcome.text, "EXECUTION_ERROR", failure.message)
        except Exception as error:
            log.exception("subagent %s failed", child.path)
            reason = f"Subagent execution failed: {type(error).__name__}: {error}"
            return child.end("error", salvage(transcript), "INTERNAL_ERROR", reason)
        finally:
            for other in list(self.running.values()):
                if other.path.startswith(child.path + "/"):
                    self.kill(other.id, "its parent ended")
            self.world.emitter.remove(transcript.apply)

    @asynccontextmanager
    async def _lent(self, parent: Parent) -> AsyncIterator[None]:
        """While a child waits for children of its own, others may have its place."""
        parent.waits += 1
        if parent.placed:
            parent.placed = False
            self.line.leave()
        try:
            yield
        finally:
            parent.waits -= 1
            if parent.depth and not parent.waits:
                await self.line.enter()
                parent.placed = True

    def _aborted(self, child: Child) -> ChildEnd:
        return child.end("aborted", salvage(child.agent.transcript), "ABORTED", f"Subagent was aborted: {child.stop}")

    def _acted(self, child: Child, name: str, args: Json) -> None:
        child.action = brief(name, args)
        self.world.emitter.publish(child.update(), child.path)

    # ------------------------------------------------------------ after it ran

    def _book(self, child: Child, end: ChildEnd, order: Json, matched_from: str) -> ToolRecord:
        """Count it, tell everybody, give the parent's record."""
        self.running.pop(child.id, None)
        self._finished[child.id] = (child.definition.name, child.agent.transcript)
        while len(self._finished) > KEPT_TRANSCRIPTS:
            self._finished.popitem(last=False)
        self._ledger.spend_time(end.duration_ms / 1000)
        self.denials += child.runner.denials
        record, truncation = record_of(
            end,
            keep_in=self.world.tree.scratch / file_name(f"result-{child.id}"),
            max_bytes=self.settings.output_max_size or None,
            alias=bool(order.get("alias")),
        )
        if matched_from:
            record.data["matched_from"] = matched_from
        self._report(child, end, truncation)
        self._count(child, end, record)
        child.status = "completed" if end.status == "incomplete" else end.status
        self.world.emitter.publish(child.update(), child.path)
        self.world.emitter.publish(AgentEnded(child.id, end.status, record.to_dict()), child.path)
        if child.as_parent.placed:
            child.as_parent.placed = False
            self.line.leave()
        return record

    def _report(self, child: Child, end: ChildEnd, truncation: Json) -> None:
        if end.max_turns_reached:
            self._telemetry.max_turns_exceeded(child.label, child.depth, child.agent.max_turns)
        if truncation:
            self._telemetry.truncation(child.label, truncation["original_size"], truncation["truncated_size"])
        if end.code == "QUOTA_EXCEEDED":
            self._telemetry.quota_exceeded(child.label, end.reason)
        elif end.code is not None:
            self._telemetry.error(child.label, child.depth, end.reason)
        else:
            status = "complete" if end.status == "completed" else "incomplete"
            self._telemetry.complete(child.label, child.depth, end.turns, end.usage.total, status)

    def _count(self, child: Child, end: ChildEnd, record: ToolRecord) -> None:
        names = {"subagent_type": end.subagent_type, "subagent_id": end.subagent_id, "status": end.status}
        child.view.update(names | view_002(record.to_dict()))
        empty = {"tasks": 0, "usage": Usage(), "total_cost_usd": 0.0, "duration_ms": 0}
        sums = self._by_type.setdefault(end.subagent_type, empty)
        # A child's own spending: what its own children spent is counted under their types.
        sums["tasks"] += 1
        sums["usage"] = sums["usage"] + child.agent.usage
        sums["total_cost_usd"] = add_cost(sums["total_cost_usd"], child.agent.cost_usd)
        sums["duration_ms"] += end.duration_ms
