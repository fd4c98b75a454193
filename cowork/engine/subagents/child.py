"""One child at work: its turns, its limits, and how each way of stopping becomes an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolErrorCode
from cowork.core.events import AgentStarted, AgentUpdated, ToolEnded
from cowork.core.ports import AgentDef, Answer, ToolRecord, ok
from cowork.engine.budget import Ledger
from cowork.engine.loop import Agent, Outcome, Prompt
from cowork.engine.output_schema import SchemaFailed, instruction, typed
from cowork.engine.runner import Runner
from cowork.engine.subagents.order import Parent
from cowork.engine.subagents.result import ChildEnd, ChildStatus
from cowork.tools.base import Job


class Clock:
    """A child's time limits: in all, of silence while its model should speak, and what all children share.

    Asking a person stops every one of them.
    """

    def __init__(self, total: float, idle: float, ledger: Ledger) -> None:
        self.total, self.idle, self.ledger = total, idle, ledger  # seconds; 0 is no limit
        self._limit: asyncio.Timeout | None = None
        self._stop_counting: Callable[[], None] | None = None
        self._end: float | None = None
        self._quiet: float | None = None  # until when the model should speak
        self._next = "total"  # the limit that will be hit first
        self._questions = 0
        self._asked_at = 0.0

    def start(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._end = _now() + self.total if self.total else None
        self._count()

    def progress(self, waiting: bool) -> None:
        """The model gave a sign of life, and should (or need not) give the next."""
        self._quiet = _now() + self.idle if self.idle and waiting else None
        self._set()

    async def stopped_for(self, answer: Awaitable[Answer]) -> Answer:
        """The answer of a person, who may take their time."""
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
                self._end = self._end and self._end + waited
                self._quiet = self._quiet and self._quiet + waited
                self._count()

    def stop(self) -> None:
        """It is over; nothing moves the limits any more."""
        self._limit = None
        self._pause()

    def hit(self) -> tuple[ToolErrorCode, str]:
        """Which limit it was, as SPEC words it."""
        if self._next == "shared":
            return "QUOTA_EXCEEDED", f"Resource quota exceeded: {self.ledger.time_message()}"
        hit = self.total if self._next == "total" else self.idle
        return "TIMEOUT", f"Subagent task timed out after {round(hit * 1000)}ms"

    def _count(self) -> None:
        self._stop_counting = self.ledger.start_clock(self._set)

    def _pause(self) -> None:
        if self._stop_counting:
            self._stop_counting()
        self._stop_counting = None
        self._set()

    def _set(self) -> None:
        if self._limit is None or self._limit.expired():
            return
        left = self.ledger.seconds_left
        ends = {"total": self._end, "idle": self._quiet, "shared": None if left is None else _now() + left}
        known = [] if self._questions else [(end, name) for name, end in ends.items() if end is not None]
        end, self._next = min(known, default=(None, ""))
        self._limit.reschedule(end)


@dataclass(slots=True)
class Child:
    """A child that waits or runs."""

    id: str
    definition: AgentDef
    label: str
    tier_wanted: str
    agent: Agent
    runner: Runner
    as_parent: Parent
    clock: Clock
    started: float = 0.0  # 0: still in line
    since: int = 0  # id of its first event; what it said in an earlier life is not its result now
    task: asyncio.Task[ChildEnd] | None = None
    status: str = "active"
    stop: str = ""  # why somebody stopped it
    action: str = ""
    view: Json = field(default_factory=dict)  # what programs are told of it once it ended

    @property
    def path(self) -> str:
        return self.agent.path

    @property
    def depth(self) -> int:
        return self.as_parent.depth

    @property
    def elapsed_ms(self) -> int:
        return round((time.monotonic() - self.started) * 1000) if self.started else 0

    def sent_out(self, parent: str, tool_use_id: str, order: Json) -> AgentStarted:
        """Who it is and what it is to do, for those who watch."""
        return AgentStarted(
            subagent_id=self.id,
            parent=parent,
            tool_use_id=tool_use_id,
            description=self.label,
            prompt=order["prompt"],
            subagent_type=self.definition.name,
            model=self.as_parent.tier,
            model_id=self.agent.provider.model,
            tools=tuple(self.runner.tools),
            max_turns=self.agent.max_turns,
            depth=self.depth,
            color=self.definition.color,
            background=bool(order.get("run_in_background")),
            status=self.status,
        )

    def left_running(self) -> ToolRecord:
        """What its parent is told at once when it need not wait."""
        text = (
            f"Subagent ({self.definition.name}, {self.as_parent.tier}) started in the background as {self.id}. "
            "Its result will come by itself; go on with other work."
        )
        return ok(
            text,
            status="active",
            result="",
            short_result=f"Task started in the background as {self.id}",
            subagent_id=self.id,
            subagent_type=self.definition.name,
            metadata={"subagent_label": self.label, "recursion_depth": str(self.depth)},
        )

    def update(self) -> AgentUpdated:
        """Where it stands, for those who watch."""
        return AgentUpdated(
            self.id,
            self.status,
            self.agent.turns,
            self.runner.tally.started,
            self.agent.ledger.usage,
            self.agent.ledger.cost_usd,
            self.elapsed_ms,
            self.action,
        )

    def end(
        self,
        status: ChildStatus,
        result: str,
        code: ToolErrorCode | None = None,
        reason: str = "",
        *,
        turns: int | None = None,
        max_turns_reached: bool = False,
        structured: Any = None,
    ) -> ChildEnd:
        """What it came to, with everything that is known of it."""
        return ChildEnd(
            status=status,
            result=result,
            subagent_type=self.definition.name,
            subagent_id=self.id,
            label=self.label,
            depth=self.depth,
            model_requested=self.tier_wanted,
            model_used=self.as_parent.tier,
            model_id=self.agent.provider.model,
            turns=self.agent.turns if turns is None else turns,
            max_turns_reached=max_turns_reached,
            tally=self.runner.tally,
            exit_codes=tuple(self.runner.exit_codes),
            files_changed=self.runner.files_changed(),
            usage=self.agent.ledger.usage,
            cost_usd=self.agent.ledger.cost_usd,
            estimated=self.agent.ledger.estimated,
            duration_ms=self.elapsed_ms,
            code=code,
            reason=reason,
            structured=structured,
            still_running=() if status in ("error", "aborted") else [job.id for job in self.jobs()],
        )

    def jobs(self) -> list[Job]:
        """Background commands that it or a child of its own started and that still run."""
        tree = self.runner.tree
        own = [id for id, owner in tree.job_owners.items() if f"{owner}/".startswith(f"{self.path}/")]
        return [tree.jobs[id] for id in own if id in tree.jobs and tree.jobs[id].running]

    def salvage(self) -> str:
        """What can be told of it when it never reported: its last words, else its last result."""
        transcript = self.agent.transcript
        if text := transcript.last_text(self.since):
            return text
        results = [e for e in transcript.history() if isinstance(e, ToolEnded) and e.id >= self.since]
        if not results:
            return ""
        shown = str(results[-1].record.get("text", ""))[:2000]
        return f"It made {len(results)} tool calls and gave no report. The last result was:\n{shown}"


async def bounded(child: Child, order: Json) -> ChildEnd:
    """Its work within its time limits."""
    limit = asyncio.timeout(None)
    try:
        async with limit:
            child.clock.start(limit)
            child.agent.on_progress = child.clock.progress
            return await work(child, order)
    except TimeoutError:
        if not limit.expired():
            raise
        code, message = child.clock.hit()
        return child.end("error", child.salvage(), code, message)
    finally:
        child.clock.stop()


async def work(child: Child, order: Json) -> ChildEnd:
    """Answer the prompt; then the summary and the typed result, where they were asked for."""
    agent, schema, structured = child.agent, order.get("output_schema"), None
    prompt = order["prompt"] if schema is None else f"{order['prompt']}\n\n{instruction(schema)}"
    outcome = await agent.run(Prompt(prompt, source="agent"))
    turns = outcome.turns - outcome.reported  # the report is beyond the limit
    if order.get("summary_prompt") and outcome.reason in ("completed", "max_turns"):
        summary = await agent.run(Prompt(order["summary_prompt"], source="system"), tools=False)
        outcome = replace(outcome, text=summary.text or outcome.text, cut=summary.cut)
    if schema is not None and outcome.reason in ("completed", "max_turns"):
        try:
            structured, last = await typed(agent, outcome, schema)
        except SchemaFailed as failure:
            return _untyped(child, failure, outcome, turns)
        outcome = replace(outcome, text=last.text, cut="")
    return _end_of(child, outcome, turns, structured)


def _untyped(child: Child, failure: SchemaFailed, answer: Outcome, turns: int) -> ChildEnd:
    """A result that is not what the schema asks for; or the repair could not be asked for at all."""
    if failure.outcome.reason not in ("completed", "max_turns"):
        return _end_of(child, replace(failure.outcome, text=answer.text), turns, None)
    return child.end("error", failure.outcome.text, "EXECUTION_ERROR", failure.message, turns=turns)


def _end_of(child: Child, outcome: Outcome, turns: int, structured: Any) -> ChildEnd:
    text, message = outcome.text.strip(), outcome.error.get("message", "")
    kept = text or child.salvage()
    match outcome.reason:
        case "completed" if outcome.early:
            reason = "It was asked to finish early."
            return child.end("incomplete", kept, reason=reason, turns=turns, structured=structured)
        case "completed" if outcome.cut:
            reason = f"Its report was cut off {outcome.cut}."
            return child.end("incomplete", text, reason=reason, turns=turns, structured=structured)
        case "completed" if reason := _denial(child, outcome):
            return child.end("incomplete", text, reason=reason, turns=turns, structured=structured)
        case "completed":
            return child.end("completed", text, turns=turns, structured=structured)
        case "max_turns":
            reason = f"It reached its limit of {child.agent.max_turns} turns."
            return child.end(
                "incomplete", kept, reason=reason, turns=turns, max_turns_reached=True, structured=structured
            )
        case "budget":
            return child.end("error", kept, "QUOTA_EXCEEDED", f"Resource quota exceeded: {message}", turns=turns)
        case _ if outcome.error.get("code") == "empty":
            return child.end("incomplete", kept, reason="It ended without a report.", turns=turns)
        case _ if outcome.error.get("code") == "refusal":
            return child.end("incomplete", kept, reason=message, turns=turns)
        case _:
            return child.end("error", kept, "INTERNAL_ERROR", f"Subagent execution failed: {message}", turns=turns)


def _denial(child: Child, outcome: Outcome) -> str:
    """Why an answer that followed a refused call cannot be taken for done; empty when it can."""
    tally = child.runner.tally
    if outcome.denied:
        return f"It ended right after a denied call: {', '.join(dict.fromkeys(outcome.denied))}."
    if tally.total() and tally.nothing_ran:
        return f"None of its {tally.total()} tool calls ran."
    return ""


def delivered(subagent_id: str, status: str, text: str) -> Prompt:
    """The result of a background child, as its parent is told it."""
    label = f"{subagent_id} ended: {status}"
    return Prompt(f"Background subagent {subagent_id}:\n{text}", source="agent", label=label)


def _now() -> float:
    return asyncio.get_running_loop().time()
