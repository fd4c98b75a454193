"""The agents of a run: puts each together, and starts, queues, stops and accounts for children."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cowork import prompts
from cowork.agents import Agents
from cowork.config.sections import Subagent as Settings
from cowork.core.blocks import Json, Usage
from cowork.core.errors import CoworkError, ToolError, UserError
from cowork.core.events import AgentEnded, Event, ToolStarted
from cowork.core.later import later
from cowork.core.ports import Reply, Request, TaskOrder, ToolRecord
from cowork.core.transcript import Transcript
from cowork.engine.assembly import AgentSpec, Isolation, Services
from cowork.engine.budget import NOTHING, BudgetExceeded, Cost, Ledger, Limits
from cowork.engine.clip import file_name
from cowork.engine.loop import REPORT_NOW, Agent, Prompt
from cowork.engine.subagents.order import Assignment
from cowork.tools.base import Interrupted, ToolContext

with later(__name__):
    from cowork.engine.subagents.child import Child, Clock, background_result
    from cowork.engine.subagents.result import ChildResult, lines_at_end, log_line, record_of, view_002

log = logging.getLogger("cowork.engine")

KEPT_TRANSCRIPTS = 8  # of finished children, so that the latest can be resumed without the log


class Subagents:
    """All agents of a run, the main one first."""

    def __init__(
        self, services: Services, agents: Agents, settings: Settings, ledger: Ledger, first_number: int = 1
    ) -> None:
        self.services, self.agents, self.settings = services, agents, settings
        self.known = agents  # those of files: one that a program sends out changes no prompt that is cached
        self.running: dict[str, Child] = {}  # by subagent_id
        self.denials: list[Json] = []  # of those that ended
        self._views: list[Json] = []  # in the order they were sent out; empty while they run
        self._by_type: dict[str, tuple[int, Cost, int]] = {}  # how many ended, what they spent, milliseconds
        self.slots = asyncio.Semaphore(settings.max_concurrent)  # taken in the order they are asked for
        self._number = first_number
        self._agents: dict[str, Agent] = {}  # by path
        self._finished: dict[str, Transcript] = {}  # the latest, by path
        self._background: dict[asyncio.Task[None], str] = {}  # watcher -> path of the parent
        tokens, cost, seconds = settings.max_total_tokens, settings.max_total_cost_usd, settings.max_total_time
        self._ledger = Ledger(Limits(tokens, cost, seconds, settings.max_executions), parent=ledger)

    async def consult(self, ctx: ToolContext, request: Request) -> tuple[Reply, Json]:
        """Put a question of a tool to its agent's model; gives the answer, and what it cost as JSON."""
        agent, main = self._agents[ctx.agent], self._agents["main"]
        if request.searches and agent.provider.name != main.provider.name:
            agent = main  # only of its service is it known that it searches
        reply, cost = await agent.ask(request, Usage())
        return reply, {"usage": cost.usage.to_dict(), "cost_usd": cost.cost_usd, "model": agent.provider.model}

    def add(self, spec: AgentSpec) -> Agent:
        """Put an agent together and let it delegate."""
        agent = self._agents[spec.path] = Agent(spec, self.services, self)
        return agent

    async def spawn(self, ctx: ToolContext, order: TaskOrder) -> ToolRecord:
        """Check an order, run the child, give its record. Raises ToolError when it cannot be sent out."""
        parent = self._agents[ctx.agent]
        if parent.task and parent.task.done():  # a program sends it out between prompts
            parent.task = None
        definition = self.agents.find(order.subagent_type)
        if self.services.prepare and definition and definition.named_servers:
            await self.services.prepare(definition)
        try:
            child = self._create(parent, ctx, order)
        except ToolError as refusal:
            label, depth = order.description, str(parent.spec.depth + 1)
            refusal.data |= {"status": "error", "short_result": "Task delegation failed"}
            refusal.data |= {"subagent_type": order.subagent_type}
            refusal.data |= {"metadata": {"subagent_label": label, "recursion_depth": depth}}
            raise
        await self._announce(child, ctx.tool_use_id)
        child.task = asyncio.create_task(self._run(child), name=child.path)
        if child.stop_reason:  # by whoever heard of it first
            child.task.cancel()
        if order.run_in_background:
            return self._leave_running(child)
        # A parent that waits for its child needs no slot of its own, so nesting cannot block the pool.
        async with parent.slot.lend():
            return await self._finish(child)

    # ------------------------------------------------------------ from outside

    def tell(self, subagent_id: str, prompt: Prompt) -> bool:
        """Say something to a child before its next request; False when it has ended."""
        child = self.running.get(subagent_id)
        if child:
            child.agent.tell(prompt)
        return child is not None

    def finish(self, subagent_id: str) -> None:
        """Ask a running child to report now; one that still waits has nothing to report."""
        child = self.running.get(subagent_id)
        if child and child.status == "waiting":
            self.kill(subagent_id, "it was asked to finish before it began")
        elif child:
            child.agent.finish()

    def kill(self, subagent_id: str, why: str = "stopped by the user") -> bool:
        """End a running child and all below it at once; none of them makes a request after this."""
        stopped = [child for child in self.running.values() if subagent_id in child.path.split("/")[1:]]
        for child in stopped:
            child.stop_reason = child.stop_reason or why
            if child.task:
                child.task.cancel()
        return bool(stopped)

    def kill_all(self, why: str = "stopped by the user") -> None:
        """End every child at once."""
        for subagent_id in list(self.running):
            self.kill(subagent_id, why)

    async def stop_all(self, why: str = "stopped by the user") -> None:
        """End every child, background ones too, and wait until they have."""
        self.kill_all(why)
        if self._background:
            await asyncio.wait(list(self._background))

    # ------------------------------------------------------------ what the loop asks

    async def wait(self, path: str) -> bool:
        """Wait for one background child of an agent; False when it has none."""
        mine = [task for task, owner in self._background.items() if owner == path]
        if mine:
            async with self._agents[path].slot.lend():
                await asyncio.wait(mine, return_when=asyncio.FIRST_COMPLETED)
        return bool(mine)

    def pending(self, path: str) -> list[str]:
        """An agent's children at work, a line each."""
        return [f"{c.id}: {c.label}" for c in self.running.values() if c.assignment.parent.path == path]

    def is_stopped(self, path: str) -> bool:
        """Whether an agent above this one was told to stop."""
        names = path.split("/")
        above = (self._agents.get("/".join(names[:depth])) for depth in range(1, len(names)))
        return any(agent.task.cancelling() for agent in above if agent and agent.task)

    def agent(self, path: str) -> Agent:
        """An agent at work."""
        return self._agents[path]

    # ------------------------------------------------------------ before a child runs

    def _create(self, parent: Agent, ctx: ToolContext, order: TaskOrder) -> Child:
        depth, deepest = parent.spec.depth, self.settings.max_depth
        if depth >= deepest and not order.resume:
            self._log("depth_limit", order.description, current_depth=depth, max_depth=deepest)
            message = f"Maximum subagent recursion depth ({deepest}) exceeded. Current depth: {depth}."
            raise ToolError("CONFLICT", f"{message} Cannot spawn nested subagent.")
        assignment = Assignment(order, parent, self.agents, self.settings, self.running, self._recall)
        try:
            self._ledger.check()
            child = self._build(assignment, ctx.state.cwd)
            self._ledger.start_execution()
            return child
        except BudgetExceeded as limit:
            self._log("quota_exceeded", order.description, reason=str(limit))
            raise ToolError("QUOTA_EXCEEDED", f"Resource quota exceeded: {limit}") from limit
        except (CoworkError, OSError, ValueError) as error:
            self._log("error", order.description, depth=depth + 1, error=str(error))
            raise ToolError("INTERNAL_ERROR", f"Failed to initialize subagent: {error}") from error

    def _recall(self, path: str) -> Transcript | None:
        """A finished child's conversation."""
        return self._finished.get(path) or self.services.recall(path)

    def _build(self, assignment: Assignment, cwd: Path) -> Child:
        """The child, ready to run. Raises when its model cannot be had."""
        order, parent, definition = assignment.order, assignment.parent, assignment.definition
        # The call's model, else the file's, else the parent's.
        requested, provider, tier = order.model or definition.model, parent.provider, parent.spec.tier
        if requested == "inherit":
            requested = tier
        else:
            provider, tier = self.services.model(requested)
        ledger = Ledger(parent=parent.ledger if parent.spec.depth else self._ledger)
        if ledger.cost_limited and provider.price(Usage(1, 1)) is None:
            raise UserError(f"a cost limit is set and no prices are known for {provider.model}")
        id = order.resume or f"{definition.name}-{self._number}"
        path = f"{parent.path}/{id}"
        isolation = parent.spec.isolation or self._isolate(assignment, id)
        clock = Clock(definition.timeout or self.settings.timeout, self.settings.idle_timeout, ledger)
        report = f"{REPORT_NOW}\n\n{order.summary_prompt}" if order.summary_prompt else REPORT_NOW
        spec = AgentSpec(
            path,
            provider,
            prompts.child_prompt(definition, order.description),
            assignment.tools,
            ledger,
            assignment.past or Transcript(path),
            isolation.cwd if isolation and isolation is not parent.spec.isolation else cwd,
            session_id=f"{self.services.emitter.session_id}/{id}",
            max_turns=order.max_turns or definition.max_turns or self.settings.default_max_turns,
            report=report,
            on_progress=clock.progress,
            tier=tier,
            modes=(*parent.spec.modes, definition.permission_mode),
            depth=parent.spec.depth + 1,
            chain=(*parent.spec.chain, (assignment.key, definition.name)),
            ask=lambda question: clock.pause_for(parent.runner.ask(question)),
            isolation=isolation,
        )
        return Child(id, assignment, self.add(spec), clock, requested)

    def _isolate(self, assignment: Assignment, id: str) -> Isolation | None:
        """A place of its own for a child, such as a git worktree, where its order or its file asks for one."""
        wanted = assignment.order.isolation or assignment.definition.isolation
        if not wanted:
            return None
        if wanted != "worktree" or self.services.isolate is None:
            raise UserError(f"isolation: {wanted!r} is not known here", "Use worktree.")
        return self.services.isolate(self.services, id)

    async def _announce(self, child: Child, tool_use_id: str) -> None:
        if self.slots.locked():
            child.status = "waiting"
        else:
            await child.agent.slot.take()
        self.running[child.id] = child
        self._views.append(child.view)
        if not child.assignment.order.resume:
            self._number += 1
        self.services.emitter.publish(child.started_event(tool_use_id), child.path)
        turns, tools = child.agent.spec.max_turns, child.start.tools
        self._log("spawn", child.label, child, depth=child.start.depth, max_turns=turns, allowed_tools=tools)

    def _log(self, event: str, label: str, child: Child | None = None, **fields: Any) -> None:
        if self.settings.telemetry_enabled:
            id, model = (child.id, child.agent.provider.model) if child else ("", "")
            log_line(event, self.services.emitter.session_id, id, model, {"label": label} | fields)

    # ------------------------------------------------------------ while it runs

    def _leave_running(self, child: Child) -> ToolRecord:
        async def deliver() -> None:
            record = await self._finish(child)
            parent.tell(background_result(child.id, record.data["status"], record.text))

        parent = child.assignment.parent
        watcher = asyncio.create_task(deliver())
        self._background[watcher] = parent.path
        watcher.add_done_callback(lambda done: self._background.pop(done, None))
        return child.background_record()

    async def _finish(self, child: Child) -> ToolRecord:
        """Wait for the child and account for it. A cancelled parent takes its child along."""
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
        end = child.abort_result() if task.cancelled() else task.result()
        record = self._close(child, end)
        if cancelled:
            raise Interrupted(record) from cancelled
        return record

    async def _run(self, child: Child) -> ChildResult:
        """Run a child to whatever end; one that was stopped leaves no process."""
        end = await self._run_in_slot(child)
        if end.status in ("error", "aborted") and (jobs := child.jobs()):
            await asyncio.wait([asyncio.ensure_future(job.end()) for job in jobs])
        place, order = child.agent.spec.isolation, child.assignment.order
        if place is None or place is child.assignment.parent.spec.isolation:
            return end
        try:  # merge, keep or remove what it worked in
            worktree = await place.finish(child.label, merge=end.status == "completed", check=order.check)
        except (CoworkError, OSError) as error:
            worktree = {"status": "kept", "line": f"its worktree could not be merged or removed: {error}"}
        return replace(end, worktree=worktree, files_changed=worktree.get("files", end.files_changed))

    async def _run_in_slot(self, child: Child) -> ChildResult:
        emitter, sinks = self.services.emitter, (child.agent.transcript.apply, partial(self._note_action, child))
        for sink in sinks:
            emitter.add(sink, child.path)
        try:
            await child.agent.slot.take()
            child.status, child.started = "active", time.monotonic()
            child.since = emitter.next_id
            emitter.publish(child.updated_event(), child.path)
            return await child.run()
        except asyncio.CancelledError:
            return child.abort_result()
        except Exception as error:
            log.exception("subagent %s failed", child.path)
            return child.failure("INTERNAL_ERROR", f"Subagent execution failed: {type(error).__name__}: {error}")
        finally:
            for other in [o for o in self.running.values() if o.path.startswith(f"{child.path}/")]:
                self.kill(other.id, "its parent ended")
            for sink in sinks:
                emitter.remove(sink)

    def _note_action(self, child: Child, event: Event) -> None:
        """Tell where a child stands with each of its calls."""
        if isinstance(event, ToolStarted):
            child.action = f"{event.name} {event.line}".rstrip()
            self.services.emitter.publish(child.updated_event(), child.path)

    # ------------------------------------------------------------ after it ran

    def _close(self, child: Child, end: ChildResult) -> ToolRecord:
        """Count it, tell everybody, and give the parent's record."""
        self.running.pop(child.id, None)
        self._agents.pop(child.path, None)
        self._finished.pop(child.path, None)
        self._finished[child.path] = child.agent.transcript
        if len(self._finished) > KEPT_TRANSCRIPTS:
            del self._finished[next(iter(self._finished))]
        record, truncation = record_of(
            end,
            keep_in=self.services.tree.scratch / file_name(f"result-{child.id}"),
            max_bytes=self.settings.output_max_size or child.assignment.order.result_bytes or None,
        )
        for event, fields in lines_at_end(end, truncation):
            self._log(event, child.label, child, **fields)
        self._account_for(child, end, record)
        child.status = end.status
        self.services.emitter.publish(child.updated_event(), child.path)
        self.services.emitter.publish(AgentEnded(child.id, end.status, record.to_dict()), child.path)
        child.agent.slot.release()
        return record

    def _account_for(self, child: Child, end: ChildResult, record: ToolRecord) -> None:
        """Count a child that ended: its own spending, for what its own children spent is under their types."""
        self.denials += child.agent.runner.denials
        start = end.start
        names = {"subagent_type": start.subagent_type, "subagent_id": start.subagent_id, "status": end.status}
        names |= {"description": start.description, "model": start.model}
        child.view.update(names | view_002(record.to_dict()))
        tasks, spent, took = self._by_type.get(start.subagent_type, (0, NOTHING, 0))
        self._by_type[start.subagent_type] = tasks + 1, spent + child.agent.spent, took + end.duration_ms

    def tasks(self) -> list[Json]:
        """The four-field view of every Task that ended, with its type and id, in the order they were sent out."""
        return [view for view in self._views if view]

    def cost_by_type(self) -> Json:
        """`{type: {tasks, usage, total_cost_usd, duration_ms}}`"""
        return {
            name: {
                "tasks": tasks,
                "usage": spent.usage.to_dict(),
                "total_cost_usd": spent.cost_usd,
                "duration_ms": took,
            }
            for name, (tasks, spent, took) in self._by_type.items()
        }
