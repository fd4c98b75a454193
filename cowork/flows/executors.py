"""Runs the tasks of a flow as jobs elsewhere, and tells of them as of children of the flow's session."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from cowork.api.session import Session
from cowork.config.options import RunOptions
from cowork.core.blocks import Json, Usage, add_cost, cost_since
from cowork.core.errors import UserError
from cowork.core.events import AgentEnded, AgentStarted, AgentUpdated, Event, ReplyAdded, from_dict
from cowork.core.ports import ToolRecord
from cowork.engine.budget import BudgetExceeded
from cowork.engine.subagents.result import ChildResult, record_of
from cowork.flows.flow import Executor, FlowTask, InSession
from cowork.flows.jobs import job_of
from cowork.flows.places import Place, open_place
from cowork.tools.base import Interrupted


async def open_executor(on: str, session: Session, options: RunOptions, jobs: int) -> Executor:
    """The executor for `here`, `local[:N]` or `dask:ADDRESS`."""
    return InSession(session) if on == "here" else JobExecutor(session, options, await open_place(on, jobs))


class JobExecutor:
    """One process a task, with a session of its own; its events and costs come back while it runs."""

    def __init__(self, session: Session, options: RunOptions, place: Place) -> None:
        self._session, self._place = session, place
        self._options = replace(options, cwd=session.run.root)
        self._number = 0
        self._running: set[asyncio.Task[Json]] = set()

    async def run(self, task: FlowTask) -> ToolRecord:
        if not isinstance(task.agent, str) or task.isolation:
            what = "isolation" if task.isolation else "an AgentDef"
            raise UserError(f"A task with {what} runs only here.", "Leave --on out, or use an agent file.")
        self._number += 1
        child = RemoteChild(self._session, task, f"{task.agent}-{self._number}")
        ledger = self._session.run.ledger
        limit = ledger.limits.cost_usd
        left = None if limit is None else max(0.000001, limit - (ledger.cost_usd or 0.0))
        job = job_of(child.id, task.prompt, replace(self._options, model=task.model or self._options.model),
                     agent=task.agent, schema=task.schema, max_cost=left)  # fmt: skip
        try:
            ledger.check()
            work = asyncio.ensure_future(self._place.run(job, child.hear))
            self._running.add(work)
            try:
                child.on_over = self._stop_all
                return child.ended(await work)
            finally:
                self._running.discard(work)
        except BudgetExceeded as over:
            return child.failed("QUOTA_EXCEEDED", over.message)
        except asyncio.CancelledError:
            if child.over:
                return child.failed("QUOTA_EXCEEDED", child.over)
            raise Interrupted(child.failed("ABORTED", "It was interrupted.")) from None

    async def aclose(self) -> None:
        for work in self._running:
            work.cancel()
        if self._running:
            await asyncio.wait(list(self._running))
        await self._place.aclose()

    def _stop_all(self) -> None:
        for work in self._running:
            work.cancel()


class RemoteChild:
    """A task that runs elsewhere, as the flow's session knows it."""

    def __init__(self, session: Session, task: FlowTask, id: str) -> None:
        self.id, self.over = id, ""
        self.on_over: Any = lambda: None
        self._run, self._sinks, self._task = session.run, session.sinks, task
        self._path = f"main/{id}"
        self._usage, self._cost, self._turns = Usage(), 0.0, 0
        started = AgentStarted(id, description=task.description or task.key or task.prompt[:60], prompt=task.prompt,
                               subagent_type=task.agent_name, model=task.model or "main")  # fmt: skip
        self._run.emitter.publish(started, self._path)

    def hear(self, line: str) -> None:
        """Follow what its process tells: events for who watches, costs for the budget."""
        try:
            raw = json.loads(line)
        except ValueError:
            return
        if raw.get("type") == "job.started":  # once more where a worker was lost: receipts are of the last try
            self._usage, self._cost, self._turns = Usage(), 0.0, 0
        event = from_dict(raw)
        if event is None:
            return
        if isinstance(event, ReplyAdded):
            self._turns += 1
            self._book(event.usage, event.cost_usd)
            self._run.emitter.publish(
                AgentUpdated(self.id, "active", self._turns, 0, self._usage, self._cost), self._path
            )
        self._show(event)

    def ended(self, result: Json) -> ToolRecord:
        """The record of its end."""
        usage, cost = Usage.from_dict(result.get("usage") or {}), result.get("total_cost_usd")
        self._book(usage - self._usage, cost_since(cost, self._cost))
        error = result.get("error") or {}
        done = result.get("status") == "success"
        end = self._result("completed" if done else "error", str(result.get("result") or ""))
        end = replace(
            end,
            turns=int(result.get("num_turns") or 0),
            usage=usage,
            cost_usd=cost,
            duration_ms=int(result.get("duration_ms") or 0),
            model_id=str(result.get("model") or ""),
            structured=result.get("structured_output"),
            code=None if done else "EXECUTION_ERROR",
            reason=str(error.get("message") or ""),
        )
        return self._close(end)

    def failed(self, code: Any, message: str) -> ToolRecord:
        end = replace(self._result("error", ""), code=code, reason=message, usage=self._usage, cost_usd=self._cost)
        return self._close(end)

    def _result(self, status: Any, text: str) -> ChildResult:
        model = self._task.model or "main"
        return ChildResult(status, text, self._task.agent_name, self.id, self._task.description or self._task.key,
                           1, model, model, "")  # fmt: skip

    def _close(self, end: ChildResult) -> ToolRecord:
        record, _ = record_of(end, keep_in=self._run.tree.scratch / f"result-{self.id}", max_bytes=1 << 30)
        self._run.emitter.publish(AgentEnded(self.id, end.status, record.to_dict()), self._path)
        return record

    def _book(self, usage: Usage, cost: float | None) -> None:
        ledger = self._run.ledger
        ledger.book(usage, cost)
        self._usage = self._usage + usage
        self._cost = add_cost(self._cost, cost) or self._cost
        try:
            ledger.check()
        except BudgetExceeded as over:
            self.over = self.over or over.message
            self.on_over()

    def _show(self, event: Event) -> None:
        """Draw it below the flow; the log of this session holds only that it was sent out and how it ended."""
        inner = self._path + event.agent.removeprefix("main")
        for sink in self._sinks:
            if event.type not in ("session.started", "run.ended"):
                sink(replace(event, agent=inner))
