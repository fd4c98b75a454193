"""One child: runs its order within its limits, and turns whatever happens into a result."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolErrorCode
from cowork.core.events import AgentStarted, AgentUpdated, ToolEnded
from cowork.core.ports import ToolRecord, ok
from cowork.engine.exchange import Outcome, Prompt
from cowork.engine.loop import Agent
from cowork.engine.output_schema import SchemaFailed, instruction, typed
from cowork.engine.runner import Runner
from cowork.engine.subagents.clock import Clock
from cowork.engine.subagents.order import Assignment, Delegator
from cowork.engine.subagents.result import ChildResult, ChildStatus
from cowork.tools.base import Job


@dataclass(slots=True, eq=False)
class Child:
    """A child that waits or runs."""

    id: str
    assignment: Assignment
    delegator: Delegator  # the child itself, as a parent of others
    clock: Clock
    model_requested: str
    started: float = 0.0  # 0: it still waits for a slot
    since: int = 0  # id of its first event; what it said before it was resumed is not its result now
    task: asyncio.Task[ChildResult] | None = None
    status: str = "active"
    stop_reason: str = ""  # why somebody stopped it
    action: str = ""  # its latest call, in a line
    view: Json = field(default_factory=dict)  # what programs are told of it once it ended

    @property
    def agent(self) -> Agent:
        return self.delegator.agent

    @property
    def runner(self) -> Runner:
        return self.agent.runner

    @property
    def path(self) -> str:
        return self.agent.path

    @property
    def label(self) -> str:
        return self.assignment.order.description

    @property
    def elapsed_ms(self) -> int:
        return round((time.monotonic() - self.started) * 1000) if self.started else 0

    # ------------------------------------------------------------ what others are told of it

    def started_event(self, tool_use_id: str) -> AgentStarted:
        order, definition = self.assignment.order, self.assignment.definition
        return AgentStarted(
            subagent_id=self.id,
            parent=self.assignment.parent.path,
            tool_use_id=tool_use_id,
            description=self.label,
            prompt=order.prompt,
            subagent_type=definition.name,
            model=self.delegator.tier,
            model_id=self.agent.provider.model,
            tools=tuple(spec.name for spec in self.agent.specs),
            max_turns=self.agent.options.max_turns,
            depth=self.delegator.depth,
            color=definition.color,
            background=order.run_in_background,
            status=self.status,
        )

    def updated_event(self) -> AgentUpdated:
        ledger = self.agent.ledger
        return AgentUpdated(
            self.id,
            self.status,
            self.agent.turns,
            self.runner.tally.started,
            ledger.usage,
            ledger.cost_usd,
            self.elapsed_ms,
            self.action,
        )

    def background_record(self) -> ToolRecord:
        """What its parent gets at once when it does not wait."""
        definition = self.assignment.definition
        return ok(
            f"Subagent ({definition.name}, {self.delegator.tier}) started in the background as {self.id}. "
            "Its result will come by itself; go on with other work.",
            status="active",
            result="",
            short_result=f"Task started in the background as {self.id}",
            subagent_id=self.id,
            subagent_type=definition.name,
            metadata={"subagent_label": self.label, "recursion_depth": str(self.delegator.depth)},
        )

    # ------------------------------------------------------------ its work

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
        known = await self.runner.hooks.begun(self.assignment.definition.name, self.runner.state.cwd)
        outcome = await agent.run(Prompt(prompt, known, source="agent"))
        if order.summary_prompt and outcome.reason == "completed" and not outcome.early:
            summary = await agent.run(Prompt(order.summary_prompt, source="system"), tools=False)
            outcome = replace(outcome, text=summary.text or outcome.text, cut=summary.cut)
        if schema is not None and outcome.reason in ("completed", "max_turns"):
            try:
                structured, last = await typed(agent, outcome, schema)
            except SchemaFailed as failure:
                return self._untyped(failure, outcome)
            outcome = replace(outcome, text=last.text, cut="")
        return self._result_of(outcome, structured)

    def _untyped(self, failure: SchemaFailed, answer: Outcome) -> ChildResult:
        """A result that is not what the schema asks for; or the repair could not be asked for at all."""
        if failure.outcome.reason not in ("completed", "max_turns"):
            return self._result_of(replace(failure.outcome, text=answer.text), None)
        return self.result("error", failure.outcome.text, "EXECUTION_ERROR", failure.message)

    def _result_of(self, outcome: Outcome, structured: Any) -> ChildResult:
        text, message = outcome.text.strip(), outcome.error.get("message", "")
        match outcome.reason:
            case "completed" if reason := self._shortcoming(outcome):
                return self.result("incomplete", text or self.salvage(), reason=reason, structured=structured)
            case "completed":
                return self.result("completed", text, structured=structured)
            case "max_turns":
                reason = f"It reached its limit of {self.agent.options.max_turns} turns."
                end = self.result("incomplete", text or self.salvage(), reason=reason, structured=structured)
                return replace(end, max_turns_reached=True)
            case "budget":
                return self.failure("QUOTA_EXCEEDED", f"Resource quota exceeded: {message}", text)
            case _ if outcome.error.get("code") == "empty":
                return self.result("incomplete", text or self.salvage(), reason="It ended without a report.")
            case _ if outcome.error.get("code") == "refusal":
                return self.result("incomplete", text or self.salvage(), reason=message)
            case _:
                return self.failure("INTERNAL_ERROR", f"Subagent execution failed: {message}", text)

    def _shortcoming(self, outcome: Outcome) -> str:
        """Why an answer cannot be taken for the whole of what was asked; empty when it can."""
        tally = self.runner.tally
        if outcome.early:
            return "It was asked to finish early."
        if outcome.cut:
            return f"Its report was cut off {outcome.cut}."
        if outcome.denied:
            return f"It ended right after a denied call: {', '.join(dict.fromkeys(outcome.denied))}."
        if tally.total() and tally.nothing_ran:
            return f"None of its {tally.total()} tool calls ran."
        return ""

    # ------------------------------------------------------------ its end

    def failure(self, code: ToolErrorCode, reason: str, text: str = "") -> ChildResult:
        """An end in an error, with what it had until then."""
        return self.result("aborted" if code == "ABORTED" else "error", text or self.salvage(), code, reason)

    def result(
        self,
        status: ChildStatus,
        text: str,
        code: ToolErrorCode | None = None,
        reason: str = "",
        structured: Any = None,
    ) -> ChildResult:
        """Everything that is known of it at its end."""
        agent = self.agent
        return ChildResult(
            status=status,
            result=text,
            subagent_type=self.assignment.definition.name,
            subagent_id=self.id,
            label=self.label,
            depth=self.delegator.depth,
            model_requested=self.model_requested,
            model_used=self.delegator.tier,
            model_id=agent.provider.model,
            turns=agent.turns,
            tally=self.runner.tally,
            exit_codes=tuple(self.runner.exit_codes),
            files_changed=self.runner.changed.so_far(),
            usage=agent.ledger.usage,
            cost_usd=agent.ledger.cost_usd,
            estimated=agent.ledger.estimated,
            duration_ms=self.elapsed_ms,
            code=code,
            reason=reason,
            structured=structured,
            still_running=() if status in ("error", "aborted") else [job.id for job in self.jobs()],
            matched_from=self.assignment.matched_from,
            lost_tools=self.assignment.lost_tools,
        )

    def jobs(self) -> list[Job]:
        """Background commands that it or a child of its own started and that still run."""
        tree = self.runner.tree
        own = [id for id, owner in tree.job_owners.items() if f"{owner}/".startswith(f"{self.path}/")]
        return [tree.jobs[id] for id in own if id in tree.jobs and tree.jobs[id].running]

    def salvage(self) -> str:
        """What can be said for it when it never reported: its last words, else its last result."""
        transcript = self.agent.transcript
        if text := transcript.last_text(self.since):
            return text
        results = [e for e in transcript.history() if isinstance(e, ToolEnded) and e.id >= self.since]
        if not results:
            return ""
        shown = str(results[-1].record.get("text", ""))[:2000]
        return f"It made {len(results)} tool calls and gave no report. The last result was:\n{shown}"


def background_result(subagent_id: str, status: str, text: str) -> Prompt:
    """The result of a background child, as its parent is told it."""
    label = f"{subagent_id} ended: {status}"
    return Prompt(f"Background subagent {subagent_id}:\n{text}", source="agent", label=label)
