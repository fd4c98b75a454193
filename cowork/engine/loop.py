"""The agent: ask the model, run what it calls, repeat until it has nothing left to call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from cowork.core.blocks import Block, Image, Json, ToolUse, Usage, outcome_of
from cowork.core.errors import ProviderError
from cowork.core.events import Notice, PromptAdded, ReplyAdded, RetryScheduled, TextDelta, ThinkingDelta, TurnEnded
from cowork.core.frozen import frozen
from cowork.core.ports import Delta, Reply, Request, Retry, ToolSpec, Used
from cowork.engine.assembly import AgentSpec, Services, rights_of, with_agents
from cowork.engine.budget import NOTHING, BudgetExceeded, Cost, RequestMeter, Settle, Slot, upper_bound_tokens
from cowork.engine.runner import Runner
from cowork.tools.base import AgentState, ToolContext

if TYPE_CHECKING:
    from cowork.engine.subagents.children import Subagents

Compact = Callable[["Agent", str], Awaitable[bool]]

EMPTY_NUDGE = "Your last reply was empty. Answer the request, or say what stops you."
REPORT_NOW = "Stop here: you may not call tools any more. Report what you found and what is left undone."
CUT_SHORT = {"max_tokens": "at the output limit", "context_overflow": "because the context window is full"}
CUT_OFF = "it was cut off {}; write less in one call"
REFUSED, REFUSED_IN_PART = "The model refused to answer.", "The model declined to answer in full."
MAX_PAUSES = 8
PEOPLE = ("user", "queue", "steer")  # the sources of prompts that somebody typed


@dataclass(slots=True)
class Prompt:
    """What somebody says to an agent."""

    text: str
    context: str = ""
    images: tuple[Image, ...] = ()
    source: str = "user"
    label: str = ""
    attached: tuple[str, ...] = ()

    def event(self) -> PromptAdded:
        return PromptAdded(self.text, self.context, self.images, self.source, self.label, self.attached)


@frozen
class Outcome:
    """How the answer to one prompt ended; `reason` is SPEC's terminal_reason."""

    reason: str
    text: str
    turns: int
    usage: Usage
    cost_usd: float | None
    error: Json = field(default_factory=dict)
    denied: tuple[str, ...] = ()  # tools that were refused right before the final answer
    early: bool = False  # somebody asked it to finish, so it reported before it was done
    cut: str = ""  # why the answer is not whole


class Agent:
    """A conversation with one model and one set of tools. It knows its ports and nobody else."""

    def __init__(self, spec: AgentSpec, services: Services, children: Subagents) -> None:
        place = spec.isolation
        services = place.services if place else services
        self.spec, self.children = spec, children
        self.path, self.provider, self.system = spec.path, spec.provider, spec.system
        self.transcript, self.ledger = spec.transcript, spec.ledger
        self.emit = services.emitter.bind(spec.path)
        ctx = ToolContext(spec.path, "", services.workspace, AgentState(spec.cwd), services.tree, self.emit)
        ctx.spawn, ctx.consult = children.spawn, children.consult
        ask, permit, begin = spec.ask or services.ask, services.permit_for(spec.modes), place.begin if place else None
        self.runner = Runner(ctx, spec.tools, ask, permit, services.hooks, begin)
        self.slot = Slot(children.slots)
        self.turns = 0
        self.spent = NOTHING  # by this agent alone; the ledger also holds what is below it
        self.since = 0  # event id of the prompt it answers
        self.task: asyncio.Task[Any] | None = None  # in which it answers
        self._told_of: tuple[object, tuple[ToolSpec, ...]] = (None, ())  # what its specs were made from, and they
        self._compact = services.compact
        self._inbox: list[Prompt] = []
        self._denied: tuple[str, ...] = ()  # tools that were refused in its last calls
        self._finishing = False
        self._before = Usage()  # of the last request
        self._full = False  # its answer ended because the window did
        self._lost = NOTHING  # of requests without a reply, in this turn

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What its model is told of its tools, which may grow while it works, and of the agents it may send out."""
        tools, known = self.runner.tools, self.children.known
        if self._told_of[0] != (tools.specs(), known):
            offered = rights_of(self).offers(self.children.agents, self.children.settings)
            self._told_of = ((tools.specs(), known), with_agents(tools, offered))
        return self._told_of[1]

    def tell(self, prompt: Prompt) -> None:
        """Say something before the next request."""
        self._inbox.append(prompt)

    def forget(self, source: str) -> None:
        """Drop what waits to be said by that source."""
        self._inbox = [prompt for prompt in self._inbox if prompt.source != source]

    def finish(self) -> None:
        """Ask for a report in one last tool-less turn."""
        self._finishing = True

    async def run(self, prompt: Prompt, *, tools: bool = True) -> Outcome:
        """Answer one prompt. Limits and failures of the service are outcomes; only cancelling raises."""
        started, turns_before = time.monotonic(), self.turns
        self.task = asyncio.current_task()
        before = self.ledger.spent
        self._finishing = False
        self._denied = ()
        reason, error, text, stop = "interrupted", Json(), "", ""
        self.runner.hooks.stop, heard = "", False
        try:
            if why := await self._block_reason(prompt):
                raise _Stopped("denied", "hook", f"A hook blocked the prompt: {why}")
            self.emit(prompt.event())
            self.since, heard = max((p.id for p in self.transcript.prompts()), default=0), True
            text, stop = await self._answer(turns_before, tools)
            reason = "max_turns" if stop == "limit" else "completed"
        except _Stopped as stopped:
            reason, code, message = stopped.args
            error = {"code": code, "message": message}
        except BudgetExceeded as limit:
            reason, error = "budget", {"code": "budget", "message": str(limit)}
        except ProviderError as failure:
            reason = "auth" if failure.kind == "auth" else "unavailable" if failure.retryable else "api_error"
            more = {"status": failure.status, "hint": failure.hint}
            error = {"code": failure.kind, "message": failure.message} | {k: v for k, v in more.items() if v}
        finally:
            spent = self.ledger.spent - before
            if heard and not text and reason != "completed":
                text = self.transcript.last_text(self.since)
            turns, early, cut = self.turns - turns_before, stop == "early", CUT_SHORT.get(stop, "")
            sums = (reason, text, turns, spent.usage, spent.cost_usd)
            outcome = Outcome(*sums, error, self._denied, early=early, cut=cut)
            self.forget("steer")  # what came too late is said again, or void
            took, cut_off = round((time.monotonic() - started) * 1000), self.cut_off()
            self.emit(TurnEnded(*sums, took, error, cut_off))
        return outcome

    async def _answer(self, turns_before: int, tools: bool) -> tuple[str, str]:
        """(final text, `limit` or `early` when it had to report, else why it stopped)."""
        nudged, told, pauses = False, False, 0
        while True:
            await self._drain()
            most, report = self.spec.max_turns, self.spec.report
            limited = tools and 0 < most <= self.turns - turns_before
            if limited and not report:
                raise _Stopped("max_turns", "max_turns", f"Turn limit reached: {most}")
            if (limited or self._finishing) and not told:  # told already where the report only pauses
                self.emit(PromptAdded(report or REPORT_NOW, source="system"))
                told = True
            last = limited or self._finishing or not tools
            reply = await self._turn(tool_choice="none" if last else "auto")
            if reply.stop_reason == "pause_turn" and pauses < MAX_PAUSES:
                pauses += 1
                continue
            if last:
                stop = "limit" if limited else "early" if self._finishing else ""
                return reply.text or self.transcript.last_text(self.since), stop
            if reply.calls:
                records = await self.runner.run(reply.calls)
                outcomes = zip(reply.calls, (outcome_of(r.to_dict()) for r in records), strict=True)
                self._denied = tuple(call.name for call, outcome in outcomes if outcome == "denied")
                if self.runner.hooks.stop:
                    raise _Stopped("denied", "hook", self.runner.hooks.stop)
                continue
            if self._inbox or (self.spec.waits and await self.children.wait(self.path)):
                continue
            if reply.stop_reason == "refusal":
                raise _Stopped("api_error", "refusal", REFUSED_IN_PART if reply.text.strip() else REFUSED)
            if said := CUT_SHORT.get(reply.stop_reason):
                self.emit(Notice(f"The answer was cut off {said}.", "warning", reply.stop_reason))
            if reply.text.strip():
                if why := await self.runner.hooks.before_stop(reply.text):
                    self.emit(PromptAdded(why, source="system", label="hook"))
                    continue
                return reply.text, reply.stop_reason
            if nudged:
                raise _Stopped("api_error", "empty", "The model gave no answer, twice.")
            nudged = True
            self.emit(PromptAdded(EMPTY_NUDGE, source="system"))

    def cut_off(self) -> Json:
        """What went into requests without a reply since this was last told, as events carry it."""
        lost, self._lost = self._lost, NOTHING
        if not lost.usage.total:
            return {}
        named: Json = {"model": self.provider.model, "estimated": lost.estimated}
        return {"usage": lost.usage.to_dict(), "cost_usd": lost.cost_usd, **named}

    async def _drain(self) -> None:
        inbox, self._inbox = self._inbox, []
        for prompt in inbox:
            if why := await self._block_reason(prompt):
                self.emit(Notice(f"A hook blocked what you said: {why}", "warning", "hook.blocked"))
            else:
                self.emit(prompt.event())

    async def _block_reason(self, prompt: Prompt) -> str:
        """Why hooks forbid what a person says; else the prompt carries what they want the model to know."""
        if prompt.source not in PEOPLE:
            return ""
        verdict = await self.runner.hooks.on_prompt(prompt.text)
        prompt.context = "\n\n".join(part for part in (prompt.context, verdict.context) if part)
        return verdict.stop or (verdict.reason or "it gave no reason" if verdict.decision == "deny" else "")

    async def _turn(self, tool_choice: Literal["auto", "none"]) -> Reply:
        """One request, after making room for it; an overflow of the window is compacted away once."""
        compact = self._compact
        if compact:
            await compact(self, "overflow" if self._full else "auto")
        try:
            return await self._request(tool_choice)
        except ProviderError as failure:
            if failure.kind != "context_overflow" or not compact or not await compact(self, "overflow"):
                raise
        return await self._request(tool_choice)

    async def _request(self, tool_choice: Literal["auto", "none"]) -> Reply:
        messages = self.transcript.messages(self.provider.model)
        request = Request(self.system, messages, self.specs, tool_choice, session_id=self.spec.session_id)
        started = time.monotonic()
        reply, cost = await self.ask(request, self._before, self._say, least=self.transcript.tokens)
        reply = replace(reply, content=self._with_good_ids(reply))
        self.turns += 1
        self._before, self._full = reply.usage, reply.stop_reason == "context_overflow"
        took = round((time.monotonic() - started) * 1000)
        model = self.provider.model
        self.emit(ReplyAdded(reply.content, reply.stop_reason, reply.usage, cost.cost_usd, model, took))
        return reply

    async def ask(
        self, request: Request, before: Usage, say: Callable[[Delta], None] = lambda piece: None, *, least: int = 0
    ) -> tuple[Reply, Cost]:
        """One request of any kind, reserved for and counted with all its tries, and what the whole answer cost."""
        # No request after a stop of this agent or of one above it: a wait that ended in the moment it was cancelled
        # may have swallowed that, and a stop takes a while to come down.
        stopped = self.task and self.task.cancelling() and not self.task.done()  # done: of an earlier prompt
        if stopped or self.children.is_stopped(self.path):
            raise asyncio.CancelledError
        settle = await self._reserve(request, least)
        meter = RequestMeter(self.provider, request, before)
        try:
            self.spec.on_progress(True)
            reply = await self._stream(request, meter, say)
            return reply, meter.count_reply(reply)
        except ProviderError as failure:
            self.add_wasted(meter.count_failure(failure.usage))
            raise
        except asyncio.CancelledError:
            self.add_wasted(meter.count_stop())
            raise
        finally:
            self.spent = self.spent + meter.spent
            settle(meter.spent)
            self.spec.on_progress(False)

    def _say(self, piece: Delta) -> None:
        if piece.kind != "tool":
            self.emit(TextDelta(piece.text) if piece.kind == "text" else ThinkingDelta(piece.text))

    def add_wasted(self, cost: Cost) -> None:
        """Count a request that gave no usable reply, for the event that reports it."""
        if cost.usage.total:
            self._lost = self._lost + cost

    async def _reserve(self, request: Request, least: int) -> Settle:
        """Make room for what the request may use at most; without a limit nobody needs to know."""
        if not self.ledger.limited:
            return await self.ledger.reserve(0, None)
        size, output = max(upper_bound_tokens(request), least), self.provider.max_output_tokens
        prices = (self.provider.price(Usage(size, output)), self.provider.price(Usage(0, output, 0, size)))
        return await self.ledger.reserve(size + output, max((p for p in prices if p is not None), default=None))

    async def _stream(self, request: Request, meter: RequestMeter, say: Callable[[Delta], None]) -> Reply:
        reply: Reply | None = None
        async for item in self.provider.stream(request):
            match item:
                case Delta():
                    meter.hear(item)
                    say(item)
                case Used():
                    meter.hear(item)
                case Retry():
                    cost, model = meter.count_retry(item), self.provider.model
                    told = (item.attempt, item.max_attempts, item.delay_s, item.kind, item.message)
                    self.emit(RetryScheduled(*told, cost.usage, cost.cost_usd, model, cost.estimated))
                case Reply():
                    reply = item
                    meter.hear(Used(item.usage))
            self.spec.on_progress(True)
        if reply is None:
            raise ProviderError("broken_stream", "The model's answer ended before it was complete.")
        return reply

    def _with_good_ids(self, reply: Reply) -> tuple[Block, ...]:
        """Calls get ids of their own where a server sent none or one already used; a call cut off is marked."""
        used, new = self.transcript.ids(), set[str]()
        blocks: list[Block] = []
        for index, block in enumerate(reply.content):
            if isinstance(block, ToolUse):
                if not block.id or block.id in used or block.id in new:
                    # Counted, not random: a replay asks for the same bytes again.
                    names = (f"call_{n}" for n in count(len(used) + len(new)))
                    block = replace(block, id=next(name for name in names if name not in used and name not in new))
                new.add(block.id)
                if reply.stop_reason in CUT_SHORT and index == len(reply.content) - 1:
                    block = replace(block, malformed=block.malformed or CUT_OFF.format(CUT_SHORT[reply.stop_reason]))
            blocks.append(block)
        return tuple(blocks)


class _Stopped(Exception):
    """(reason, code, message): the loop ended without an answer, for a reason that is no exception of anybody else."""
