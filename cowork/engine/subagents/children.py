"""Children: sent out, queued, watched, stopped and booked. Every end, good or bad, is a result."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cowork.agents import Agents
from cowork.core.blocks import Json
from cowork.core.errors import CoworkError, ToolError
from cowork.core.events import AgentEnded
from cowork.core.ports import AgentDef, ToolRecord
from cowork.core.transcript import Transcript
from cowork.engine.budget import BudgetExceeded, Ledger, Limits
from cowork.engine.clip import file_name
from cowork.engine.loop import Prompt
from cowork.engine.runner import Denial, Interrupted
from cowork.engine.slots import SlotPool
from cowork.engine.subagents.accounts import Accounts
from cowork.engine.subagents.child import Child, bounded, delivered
from cowork.engine.subagents.order import (
    Parent,
    Settings,
    refusal,
    refuse_circles,
    refuse_denied,
    refuse_depth,
    refuse_schema,
    select,
    tools_for,
)
from cowork.engine.subagents.result import ChildEnd, record_of
from cowork.engine.subagents.spawn import Plan, World, make
from cowork.engine.subagents.telemetry import Telemetry
from cowork.tools.base import Spawn, ToolContext

log = logging.getLogger("cowork.engine")

KEPT_TRANSCRIPTS = 8  # of finished children, so that the latest can be resumed without the log


class Subagents:
    """All children of a run."""

    def __init__(self, world: World, agents: Agents, settings: Settings, ledger: Ledger, first_number: int = 1) -> None:
        self.world = world
        self.agents = agents
        self.settings = settings
        self.running: dict[str, Child] = {}
        self.accounts = Accounts()
        self.slots = SlotPool(settings.max_concurrent)
        self._number = first_number
        self._telemetry = Telemetry(settings.telemetry_enabled)
        self._finished: OrderedDict[str, Transcript] = OrderedDict()  # path -> conversation
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
        order = {**order, "depth": parent.depth + 1}
        definition, matched_from, past = self._check(parent, order)
        try:
            self._ledger.check()
            child = self._made(parent, ctx, definition, order, past)
            self._ledger.start_execution()
        except BudgetExceeded as limit:
            self._telemetry.quota_exceeded(order["description"], limit.message)
            raise refusal("QUOTA_EXCEEDED", f"Resource quota exceeded: {limit.message}", order) from limit
        except ToolError:  # a refusal with words of its own
            raise
        except (CoworkError, OSError, ValueError) as error:
            self._telemetry.error(order["description"], parent.depth + 1, str(error))
            raise refusal("INTERNAL_ERROR", f"Failed to initialize subagent: {error}", order) from error
        self._announce(parent, ctx, child, order)
        child.task = asyncio.create_task(self._live(child, order), name=child.path)
        if child.stop:  # by whoever heard of it first
            child.task.cancel()
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
        """Ask a running child to report now; one still in line has nothing to report."""
        child = self.running.get(subagent_id)
        if child is None:
            return False
        if child.status == "waiting":
            return self.kill(subagent_id, "it was asked to finish before it began")
        child.agent.finish()
        return True

    def kill(self, subagent_id: str, why: str = "stopped by the user") -> bool:
        """End a running child and all below it at once; none of them makes a request after this."""
        child = self.running.get(subagent_id)
        if child is None:
            return False
        for other in list(self.running.values()):
            if f"{other.path}/".startswith(f"{child.path}/"):
                other.stop = other.stop or why
                if other.task:
                    other.task.cancel()
        return True

    def kill_all(self, why: str = "stopped by the user") -> None:
        """End every child at once."""
        for subagent_id in list(self.running):
            self.kill(subagent_id, why)

    async def wait_background(self, path: str) -> bool:
        """Wait for one background child of an agent; False when it has none."""
        mine = [task for task, owner in self._background.items() if owner == path]
        if mine:
            await asyncio.wait(mine, return_when=asyncio.FIRST_COMPLETED)
        return bool(mine)

    async def stop_all(self, why: str = "stopped by the user") -> None:
        """End every child, background ones too, and wait until they have."""
        self.kill_all(why)
        if self._background:
            await asyncio.wait(list(self._background))

    @property
    def denials(self) -> list[Denial]:
        return self.accounts.denials

    def tasks(self) -> list[Json]:
        """The four-field view of every Task that ended."""
        return self.accounts.tasks()

    def cost_by_type(self) -> Json:
        return self.accounts.cost_by_type()

    # ------------------------------------------------------------ before it runs

    def _check(self, parent: Parent, order: Json) -> tuple[AgentDef, str, Transcript | None]:
        """(agent, what it was matched from, the conversation to go on with)."""
        refuse_schema(order)
        if subagent_id := order.get("resume"):
            definition, past = self._resumed(parent, subagent_id, order)
            self._judge(parent, definition, order)
            return definition, "", past
        definition, matched_from = select(self.agents, order, similar=self.settings.match == "similar")
        self._judge(parent, definition, order)
        try:
            refuse_depth(parent, self.settings.max_depth, order)
        except ToolError:
            self._telemetry.depth_limit(order["description"], parent.depth, self.settings.max_depth)
            raise
        refuse_circles(parent, definition, order)
        return definition, matched_from, None

    def _judge(self, parent: Parent, definition: AgentDef, order: Json) -> None:
        """Rules were asked about the name as it was spelled; the agent found under it may be called otherwise."""
        if definition.name != order["subagent_type"]:
            refuse_denied(parent, self.world.permit_for(parent.modes), definition, order)

    def _resumed(self, parent: Parent, subagent_id: str, order: Json) -> tuple[AgentDef, Transcript]:
        if subagent_id in self.running:
            raise refusal("CONFLICT", f"Subagent '{subagent_id}' is still running", order)
        path = f"{parent.path}/{subagent_id}"  # an agent takes up children of its own only
        past = self._finished.get(path) or self.world.recall(path)
        definition = self.agents.find(subagent_id.rpartition("-")[0])
        if past is None or definition is None or not past.history():
            raise refusal("NOT_FOUND", f"There is no subagent '{subagent_id}' to resume. Start a new one.", order)
        if self.agents.find(order["subagent_type"]) is not definition:  # rules were asked about that one
            message = f"Subagent '{subagent_id}' is of type {definition.name}, not {order['subagent_type']}"
            raise refusal("INVALID_PARAM", message, order)
        return definition, past

    def _made(
        self, parent: Parent, ctx: ToolContext, definition: AgentDef, order: Json, past: Transcript | None
    ) -> Child:
        tools = tools_for(parent, definition, order, self.settings)
        ledger = Ledger(parent=parent.ledger if parent.depth else self._ledger)
        id = order.get("resume") or f"{definition.name}-{self._number}"
        plan = Plan(id, parent, definition, order, tools, past, ctx.state.cwd, ledger)
        child = make(self.world, self.settings, plan, self.spawner, self._acted)
        child.agent.more = lambda: self._more(child.as_parent)
        return child

    def _announce(self, parent: Parent, ctx: ToolContext, child: Child, order: Json) -> None:
        child.as_parent.placed = self.slots.try_take()
        child.status = "active" if child.as_parent.placed else "waiting"
        self.running[child.id] = child
        self.accounts.enter(child)
        if not order.get("resume"):
            self._number += 1
        self.world.emitter.publish(child.sent_out(parent.path, ctx.tool_use_id, order), child.path)
        self._telemetry.spawn(child.label, child.depth, child.agent.max_turns, tuple(child.runner.tools))

    # ------------------------------------------------------------ while it runs

    def _leave_running(self, parent: Parent, child: Child, order: Json, matched_from: str) -> ToolRecord:
        watcher = asyncio.create_task(self._deliver(parent, child, order, matched_from))
        self._background[watcher] = parent.path
        watcher.add_done_callback(lambda done: self._background.pop(done, None))
        return child.left_running()

    async def _deliver(self, parent: Parent, child: Child, order: Json, matched_from: str) -> None:
        record = await self._result(child, order, matched_from)
        if parent.agent:
            parent.agent.tell(delivered(child.id, record.data["status"], record.text))

    async def _result(self, child: Child, order: Json, matched_from: str) -> ToolRecord:
        """Wait for the child and book what it came to. A cancelled parent takes its child along."""
        task = child.task
        assert task is not None
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                self.kill(child.id, "the parent was interrupted")
                cancelled = error
        # A task that was cancelled before its first step never saw it coming.
        end = self._aborted(child) if task.cancelled() else task.result()
        record = self._book(child, end, order, matched_from)
        if cancelled:
            raise Interrupted(record) from cancelled
        return record

    async def _live(self, child: Child, order: Json) -> ChildEnd:
        """Wait in line, run, and turn whatever happens into an end; one that was stopped leaves no process."""
        end = await self._lived(child, order)
        if end.status in ("error", "aborted") and (jobs := child.jobs()):
            await asyncio.wait([asyncio.ensure_future(job.kill()) for job in jobs])
        return end

    async def _lived(self, child: Child, order: Json) -> ChildEnd:
        transcript = child.agent.transcript
        self.world.emitter.add(transcript.apply)
        try:
            if not child.as_parent.placed:
                await self.slots.take()
                child.as_parent.placed = True
            child.status, child.started = "active", time.monotonic()
            child.since = self.world.emitter.next_id
            self.world.emitter.publish(child.update(), child.path)
            return await bounded(child, order)
        except asyncio.CancelledError:
            return self._aborted(child)
        except Exception as error:
            log.exception("subagent %s failed", child.path)
            reason = f"Subagent execution failed: {type(error).__name__}: {error}"
            return child.end("error", child.salvage(), "INTERNAL_ERROR", reason)
        finally:
            for other in [o for o in self.running.values() if o.path.startswith(f"{child.path}/")]:
                self.kill(other.id, "its parent ended")
            self.world.emitter.remove(transcript.apply)

    async def _more(self, parent: Parent) -> bool:
        """Wait for a background child of a child."""
        if parent.path not in self._background.values():
            return False
        async with self._lent(parent):
            return await self.wait_background(parent.path)

    @asynccontextmanager
    async def _lent(self, parent: Parent) -> AsyncIterator[None]:
        """While a child waits for children of its own, others may have its place."""
        parent.waits += 1
        if parent.placed:
            parent.placed = False
            self.slots.release()
        try:
            yield
        finally:
            parent.waits -= 1
        # Not when it was stopped: who is to end need not stand in line for it.
        if parent.depth and not parent.waits:
            await self.slots.take()
            parent.placed = True

    def _aborted(self, child: Child) -> ChildEnd:
        why = child.stop or "it was cancelled"
        return child.end("aborted", child.salvage(), "ABORTED", f"Subagent was aborted: {why}")

    def _acted(self, child: Child, action: str) -> None:
        child.action = action
        self.world.emitter.publish(child.update(), child.path)

    # ------------------------------------------------------------ after it ran

    def _book(self, child: Child, end: ChildEnd, order: Json, matched_from: str) -> ToolRecord:
        """Count it, tell everybody, give the parent's record."""
        self.running.pop(child.id, None)
        self._finished[child.path] = child.agent.transcript
        self._finished.move_to_end(child.path)
        while len(self._finished) > KEPT_TRANSCRIPTS:
            self._finished.popitem(last=False)
        record, truncation = record_of(
            end,
            keep_in=self.world.tree.scratch / file_name(f"result-{child.id}"),
            max_bytes=self.settings.output_max_size or None,
            alias=bool(order.get("alias")),
        )
        if matched_from:
            record.data["matched_from"] = matched_from
        self._telemetry.ended(end, child.agent.max_turns, truncation)
        self.accounts.close(child, end, record)
        child.status = end.status
        self.world.emitter.publish(child.update(), child.path)
        self.world.emitter.publish(AgentEnded(child.id, end.status, record.to_dict()), child.path)
        if child.as_parent.placed:
            child.as_parent.placed = False
            self.slots.release()
        return record
