"""One child: runs its order within its limits, and turns whatever happens into a result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolErrorCode
from cowork.core.events import AgentStarted, AgentUpdated, ToolEnded
from cowork.core.format import plural
from cowork.core.ports import Answer, ToolRecord, ok
from cowork.engine.budget import Ledger
from cowork.engine.loop import Agent, Outcome, Prompt
from cowork.engine.output_schema import instruction, parse_answer
from cowork.engine.subagents.order import Assignment
from cowork.engine.subagents.result import ChildResult, ChildStatus

if TYPE_CHECKING:
    from cowork.tools.shell.jobs import RunningCommand


@dataclass(slots=True, eq=False)
class Child:
    """A child that waits or runs."""

    id: str
    assignment: Assignment
    agent: Agent
    clock: Clock
    model_requested: str
    start: AgentStarted = field(default_factory=AgentStarted)  # as everybody was told of it
    started: float = 0.0  # 0: it still waits for a slot
    since: int = 0  # id of its first event; what it said before it was resumed is not its result now
    task: asyncio.Task[ChildResult] | None = None
    status: str = "active"
    stop_reason: str = ""  # why somebody stopped it
    action: str = ""  # its latest call, in a line
    view: Json = field(default_factory=dict)  # what programs are told of it once it ended

    @property
    def path(self) -> str:
        return self.agent.path

    @property
    def label(self) -> str:
        return self.assignment.order.description

    @property
    def elapsed_ms(self) -> int:
        return round((time.monotonic() - self.started) * 1000) if self.started else 0

    def started_event(self, tool_use_id: str) -> AgentStarted:
        order, definition = self.assignment.order, self.assignment.definition
        self.start = AgentStarted(
            subagent_id=self.id,
            parent=self.assignment.parent.path,
            tool_use_id=tool_use_id,
            description=self.label,
            prompt=order.prompt,
            subagent_type=definition.name,
            model=self.agent.spec.tier,
            model_id=self.agent.provider.model,
            tools=tuple(spec.name for spec in self.agent.specs),
            max_turns=self.agent.spec.max_turns,
            depth=self.agent.spec.depth,
            color=definition.color,
            background=order.run_in_background,
            status=self.status,
        )
        return self.start

    def updated_event(self) -> AgentUpdated:
        agent, spent = self.agent, self.agent.ledger.spent
        counts = (agent.turns, agent.runner.tally.started, spent.usage, spent.cost_usd, self.elapsed_ms)
        return AgentUpdated(self.id, self.status, *counts, self.action)

    def background_record(self) -> ToolRecord:
        """What its parent gets at once when it does not wait."""
        definition = self.assignment.definition
        return ok(
            f"Subagent ({definition.name}, {self.agent.spec.tier}) started in the background as {self.id}. "
            "Its result will come by itself; go on with other work.",
            status="active",
            result="",
            short_result=f"Task started in the background as {self.id}",
            subagent_id=self.id,
            subagent_type=definition.name,
            metadata={"subagent_label": self.label, "recursion_depth": str(self.start.depth)},
        )

    async def run(self) -> ChildResult:
        """Do the work within its time limits."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self.clock.start(limit)
                return await self._work()
        except TimeoutError:
            if not limit.expired():
                raise
            return self.failure(*self.clock.hit())
        finally:
            self.clock.stop()

    async def _work(self) -> ChildResult:
        """Answer the prompt; then the summary and the typed result, where they were asked for."""
        agent, order = self.agent, self.assignment.order
        schema, structured = order.output_schema, None
        prompt = order.prompt if schema is None else f"{order.prompt}\n\n{instruction(schema)}"
        known = await self.agent.runner.hooks.on_child_start(self.assignment.definition.name)
        outcome = await agent.run(Prompt(prompt, known, source="agent"))
        if order.summary_prompt and outcome.reason == "completed" and not outcome.early:
            summary = await agent.run(Prompt(order.summary_prompt, source="system"), tools=False)
            outcome = replace(outcome, text=summary.text or outcome.text, cut=summary.cut)
        if schema is not None and outcome.reason in ("completed", "max_turns"):
            structured, last = await parse_answer(agent, outcome, schema, order.accept)
            if last.reason == "schema":
                return self.result("error", last.text, "EXECUTION_ERROR", last.error["message"])
            if last.reason not in ("completed", "max_turns"):  # a repair could not be asked for
                return self._result_of(replace(last, text=outcome.text), None)
            outcome = replace(outcome, text=last.text, cut="")
        return self._result_of(outcome, structured)

    def _result_of(self, outcome: Outcome, structured: Any) -> ChildResult:
        text, message, code = outcome.text.strip(), outcome.error.get("message", ""), outcome.error.get("code")
        if outcome.reason == "completed":
            reason = self._shortcoming(outcome)
        elif outcome.reason == "max_turns":
            reason = f"It reached its limit of {plural(self.agent.spec.max_turns, 'turn')}."
        elif outcome.reason == "budget":
            return self.failure("QUOTA_EXCEEDED", f"Resource quota exceeded: {message}", text)
        elif code in ("empty", "refusal"):
            reason = message if code == "refusal" else "It ended without a report."
        else:
            return self.failure("INTERNAL_ERROR", f"Subagent execution failed: {message}", text)
        if not reason:
            return self.result("completed", text, structured=structured)
        more = {"structured": structured, "max_turns_reached": outcome.reason == "max_turns"}
        return self.result("incomplete", text or self.salvage(), reason=reason, **more)

    def _shortcoming(self, outcome: Outcome) -> str:
        """Why an answer cannot be taken for the whole of what was asked; empty when it can."""
        tally = self.agent.runner.tally
        if outcome.early:
            return "It was asked to finish early."
        if outcome.cut:
            return f"Its report was cut off {outcome.cut}."
        if outcome.denied:
            return f"It ended right after a denied call: {', '.join(dict.fromkeys(outcome.denied))}."
        if tally.total() and tally.nothing_ran:
            return f"None of its {plural(tally.total(), 'tool call')} ran."
        return ""

    def failure(self, code: ToolErrorCode, reason: str, text: str = "") -> ChildResult:
        """An end in an error, with what it had until then."""
        return self.result("aborted" if code == "ABORTED" else "error", text or self.salvage(), code, reason)

    def abort_result(self) -> ChildResult:
        """The end of one that somebody stopped."""
        return self.failure("ABORTED", f"Subagent was aborted: {self.stop_reason or 'it was cancelled'}")

    def result(
        self, status: ChildStatus, text: str, code: ToolErrorCode | None = None, reason: str = "", **more: Any
    ) -> ChildResult:
        """Everything that is known of it at its end; `more` are further fields."""
        agent = self.agent
        return ChildResult(
            self.start,
            status,
            text,
            self.model_requested,
            turns=agent.turns,
            tally=self.agent.runner.tally,
            exit_codes=tuple(self.agent.runner.exit_codes),
            files_changed=self.agent.runner.changed.so_far(),
            spent=agent.ledger.spent,
            duration_ms=self.elapsed_ms,
            code=code,
            reason=reason,
            still_running=() if status in ("error", "aborted") else [job.id for job in self.jobs()],
            matched_from=self.assignment.matched_from,
            lost_tools=self.assignment.lost_tools,
            **more,
        )

    def jobs(self) -> list[RunningCommand]:
        """Background commands that it or a child of its own started and that still run."""
        jobs = self.agent.runner.tree.jobs.values()
        return [job for job in jobs if job.running and f"{job.owner}/".startswith(f"{self.path}/")]

    def salvage(self) -> str:
        """What can be said for it when it never reported: its last words, else its last result."""
        transcript = self.agent.transcript
        if text := transcript.last_text(self.since):
            return text
        results = [e for e in transcript.history() if isinstance(e, ToolEnded) and e.id >= self.since]
        if not results:
            return ""
        shown = str(results[-1].record.get("text", ""))[:2000]
        return f"It made {plural(len(results), 'tool call')} and gave no report. The last result was:\n{shown}"


def background_result(subagent_id: str, status: str, text: str) -> Prompt:
    """The result of a background child, as its parent is told it."""
    label = f"{subagent_id} ended: {status}"
    return Prompt(f"Background subagent {subagent_id}:\n{text}", source="agent", label=label)


class Clock:
    """The time limits of one child: in all, of silence while the model should speak, and what all children share."""

    def __init__(self, total: float, idle: float, ledger: Ledger) -> None:
        self._seconds = {"total": total, "idle": idle}  # 0 is no limit
        self._ledger = ledger
        self._limit: asyncio.Timeout | None = None
        self._stop_counting: Callable[[], None] = lambda: None
        self._ends: dict[str, float] = {}  # when its own limits are hit
        self._next = "total"  # the limit that will be hit first
        self._questions = 0
        self._asked_at = 0.0

    def start(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._begin("total")
        self._count()

    def progress(self, waiting: bool) -> None:
        """The model has spoken; `waiting` while it should go on."""
        self._ends.pop("idle", None)
        if waiting:
            self._begin("idle")
        self._set()

    async def pause_for(self, answer: Awaitable[Answer]) -> Answer:
        """Wait for a person's answer; no limit comes nearer meanwhile."""
        self._questions += 1
        if self._questions == 1:
            self._asked_at = _now()
            self._pause()
        try:
            return await answer
        finally:
            self._questions -= 1
            if not self._questions and self._limit is not None:
                waited = _now() - self._asked_at
                self._ends = {name: end + waited for name, end in self._ends.items()}
                self._count()

    def stop(self) -> None:
        """Stop counting; no limit is hit after this."""
        self._limit = None
        self._pause()

    def hit(self) -> tuple[ToolErrorCode, str]:
        """Code and message of the limit that was hit."""
        if self._next == "shared":
            return "QUOTA_EXCEEDED", f"Resource quota exceeded: {self._ledger.time_message()}"
        return "TIMEOUT", f"Subagent task timed out after {round(self._seconds[self._next] * 1000)}ms"

    def _begin(self, name: str) -> None:
        if self._seconds[name]:
            self._ends[name] = _now() + self._seconds[name]

    def _count(self) -> None:
        self._stop_counting = self._ledger.start_clock(self._set)
        self._set()

    def _pause(self) -> None:
        self._stop_counting()
        self._stop_counting = lambda: None
        self._set()

    def _set(self) -> None:
        if self._limit is None or self._limit.expired():
            return
        ends, left = self._ends, self._ledger.seconds_left
        if left is not None:
            ends = ends | {"shared": _now() + left}
        self._next = min(ends, key=ends.__getitem__, default="")
        self._limit.reschedule(None if self._questions or not ends else ends[self._next])


def _now() -> float:
    return asyncio.get_running_loop().time()
