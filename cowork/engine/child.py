"""One child at work: its turns, its limits, and how each way of stopping becomes an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolErrorCode
from cowork.core.events import AgentUpdated
from cowork.core.ports import AgentDef
from cowork.core.transcript import Transcript
from cowork.engine.loop import Agent, Outcome, Prompt
from cowork.engine.orders import Parent
from cowork.engine.results import ChildEnd, ChildStatus
from cowork.engine.runner import Runner
from cowork.engine.typed import instruction, typed


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
    started: float = field(default_factory=time.monotonic)
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
        return round((time.monotonic() - self.started) * 1000)

    def update(self) -> AgentUpdated:
        """Where it stands, for those who watch."""
        return AgentUpdated(
            self.id,
            self.status,
            self.agent.turns,
            sum(self.runner.counts.values()),
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
        structured: Any = None,
    ) -> ChildEnd:
        """What it came to, with everything that is known of it."""
        turns = self.agent.turns if turns is None else turns
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
            turns=turns,
            max_turns_reached=status == "incomplete" and turns >= self.agent.max_turns,
            counts=dict(self.runner.counts),
            exit_codes=tuple(self.runner.exit_codes),
            files_changed=tuple(self.runner.files_changed),
            usage=self.agent.ledger.usage,
            cost_usd=self.agent.ledger.cost_usd,
            duration_ms=self.elapsed_ms,
            code=code,
            reason=reason,
            structured=structured,
        )


async def bounded(child: Child, order: Json, *, total: float | None, idle: float | None) -> ChildEnd:
    """Its work under two limits: in all, and of silence while its model should speak."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    end = started + total if total else None
    try:
        async with asyncio.timeout_at(end) as limit:

            def progress(waiting: bool) -> None:
                quiet = loop.time() + idle if idle and waiting else None
                if not limit.expired():
                    limit.reschedule(min((t for t in (end, quiet) if t is not None), default=None))

            child.agent.on_progress = progress
            return await work(child, order)
    except TimeoutError:
        hit = total if end is not None and loop.time() >= end else idle
        reason = f"Subagent task timed out after {round((hit or 0) * 1000)}ms"
        return child.end("error", salvage(child.agent.transcript), "TIMEOUT", reason)


async def work(child: Child, order: Json) -> ChildEnd:
    """Answer the prompt; then the summary and the typed result, where they were asked for."""
    agent, schema, structured = child.agent, order.get("output_schema"), None
    prompt = order["prompt"] if schema is None else f"{order['prompt']}\n\n{instruction(schema)}"
    outcome = await agent.run(Prompt(prompt, source="agent"))
    turns = outcome.turns - outcome.reported  # the report is beyond the limit
    if order.get("summary_prompt") and outcome.reason in ("completed", "max_turns"):
        summary = await agent.run(Prompt(order["summary_prompt"], source="system"), tools=False)
        outcome = replace(outcome, text=summary.text or outcome.text)
    if schema is not None and outcome.reason in ("completed", "max_turns"):
        structured, last = await typed(agent, outcome, schema)
        outcome = replace(outcome, text=last.text)
    return _end_of(child, outcome, turns, structured)


def _end_of(child: Child, outcome: Outcome, turns: int, structured: Any) -> ChildEnd:
    text, message = outcome.text.strip(), outcome.error.get("message", "")
    kept = text or salvage(child.agent.transcript)
    match outcome.reason:
        case "completed":
            return child.end("completed", text, turns=turns, structured=structured)
        case "max_turns":
            reason = f"It reached its limit of {child.agent.max_turns} turns."
            return child.end("incomplete", kept, reason=reason, turns=turns, structured=structured)
        case "budget":
            return child.end("incomplete", kept, "QUOTA_EXCEEDED", f"Resource quota exceeded: {message}", turns=turns)
        case _ if outcome.error.get("code") == "empty":
            return child.end("incomplete", kept, reason="It ended without a report.", turns=turns)
        case _:
            return child.end("error", kept, "INTERNAL_ERROR", f"Subagent execution failed: {message}", turns=turns)


def salvage(transcript: Transcript) -> str:
    """What can be told of a child that never reported: its last words, else its last result."""
    if text := transcript.last_text():
        return text
    results = [result for message in transcript.messages() for result in message.results]
    if not results:
        return ""
    last = results[-1].content
    shown = last if isinstance(last, str) else "".join(getattr(block, "text", "") for block in last)
    return f"It made {len(results)} tool calls and gave no report. The last result was:\n{shown[:2000]}"


def brief(name: str, args: Mapping[str, Any]) -> str:
    """A call in a few words: `Read cowork/app.py`, `Bash pytest -q`."""
    for key in ("command", "file_path", "pattern", "path", "description", "label"):
        if value := args.get(key):
            return f"{name} {' '.join(str(value).split())[:120]}"
    return name
