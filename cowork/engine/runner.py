"""One call at a time: validate, permit, run, clip, record. Whatever happens, the call gets its result."""

from __future__ import annotations

import asyncio
import difflib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from uuid import uuid4

from cowork.core.blocks import Json, Tally, ToolUse, outcome_of
from cowork.core.errors import ToolError
from cowork.core.events import QuestionAnswered, QuestionAsked, ToolEnded, ToolOutput, ToolStarted
from cowork.core.frozen import frozen
from cowork.core.hooks import HookEvent, Hooks, HookVerdict
from cowork.core.later import later
from cowork.core.ports import Answer, Ask, Decision, Effect, Permit, Question, ToolRecord, error_record
from cowork.engine.clip import clip, file_name
from cowork.engine.hook_points import HookPoints, apply_verdict
from cowork.tools.arguments import check
from cowork.tools.base import Interrupted, Tool, ToolContext, call_line, flat
from cowork.tools.toolset import ToolSet

with later(__name__):
    from cowork.engine.changed_files import ChangedFiles

log = logging.getLogger("cowork.engine")

AT_ONCE = 16  # calls of one agent; children stand in a line of their own
_LEAVING = {"network": "Let this command use the network?", "outside": "Let this command run outside the box?"}
SAME_FAILURES = 3  # after so many equal failures in a row the call is refused


@frozen
class JudgedCall:
    """A call with its tool, arguments, effects and permission decision."""

    call: ToolUse
    tool: Tool
    ctx: ToolContext
    args: Json
    effects: list[Effect]
    decision: Decision


class Runner:
    """Runs the calls of one agent with exactly the tools it was given."""

    def __init__(
        self,
        ctx: ToolContext,  # what its calls may use
        tools: ToolSet,
        ask: Ask,
        permit: Permit,
        hooks: Hooks | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,  # awaited before the first calls
    ) -> None:
        self.agent, self.state, self.tree, self.emit = ctx.agent, ctx.state, ctx.tree, ctx.emit
        self.tools, self.ask, self.permit = tools, ask, permit
        self.hooks = HookPoints(hooks or Hooks(), ctx.agent, ctx.emit, ctx.state)
        self.denials: list[Json] = []  # `{tool, input, reason}`
        self.tally = Tally()
        self.exit_codes: list[int] = []
        self._ctx, self._workspace, self._prepare = ctx, ctx.workspace, prepare
        self._failures: dict[str, int] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    @cached_property
    def changed(self) -> ChangedFiles:
        return ChangedFiles(self.tree, self._workspace.root, self.agent)

    async def run(self, calls: Sequence[ToolUse]) -> list[ToolRecord]:
        """Every call's record, in call order. Readers run side by side, writers one after another."""
        if self._prepare:
            await self._prepare()
            self._prepare = None
        calls = [self.tools.carried_call(call) for call in calls]
        records: list[ToolRecord] = []
        while len(records) < len(calls):
            group: list[tuple[ToolUse, JudgedCall | None]] = []  # those that may start now, side by side
            for call in calls[len(records) :]:  # the others are looked at when their turn comes
                parallel, judged = self._beside(call)
                if parallel or not group:
                    group.append((call, judged))
                if not parallel:
                    break
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(self._in_turn(call, judged)) for call, judged in group]
            records += [task.result() for task in running]
        return records

    async def run_aside(self, name: str, args: Json) -> ToolRecord:
        """Run a call that is no part of the conversation, judged as any other."""
        call = ToolUse(f"aside_{uuid4().hex[:8]}", name, args)
        return self._finish(call, await self._run_guarded(call, None), 0)

    def _beside(self, call: ToolUse) -> tuple[bool, JudgedCall | None]:
        """Whether the call may run beside others, and its judgement where that took one."""
        tool = self.tools.get(call.name)
        if tool is None or call.malformed or tool.reads:
            return True, None
        if self.hooks.listens("PreToolUse", tool.name):
            return False, None  # a hook may make another call of it
        try:
            judged = self._judge(tool, call)
        except ToolError:
            return True, None  # it will be refused, which changes nothing
        except Exception:
            return False, None  # told when it runs
        return judged.decision.read_only, judged

    async def _in_turn(self, call: ToolUse, judged: JudgedCall | None) -> ToolRecord:
        """The call, once there is a place for it: a model may ask for hundreds in one reply."""
        if (tool := self.tools.get(call.name)) and tool.family == "delegate":
            return await self._one(call, judged)
        if self._slots.locked():
            judged = None  # the person may have changed the rules before it is its turn
        async with self._slots:
            return await self._one(call, judged)

    async def _one(self, call: ToolUse, judged: JudgedCall | None) -> ToolRecord:
        """Start, run and end one call; cancelling it ends it too."""
        started = time.monotonic()
        self.tally.start(call.name)
        tool = self.tools.get(call.name) or self.tools.all.get(call.name)
        line = tool.line(call.input, str(self._workspace.root)) if tool else flat(call_line(call.input))
        self.emit(ToolStarted(call.id, call.name, call.input, tool.family if tool else "other", line))
        record = error_record("ABORTED", "Interrupted before it finished. Its effects may be partly done.")
        try:
            record = await self._run_guarded(call, judged)
        except Interrupted as stop:
            record = stop.record
            raise
        finally:
            record = self._finish(call, record, time.monotonic() - started)
            outcome = outcome_of(record.to_dict())
            self.tally.end(call.name, outcome)
            if outcome == "denied":
                reason = str(record.data.get("reason") or record.text)
                self.denials.append({"tool": call.name, "input": call.input, "reason": reason})
            self.emit(ToolEnded(call.id, call.name, record.to_dict(), record.display, record.images))
        return record

    async def _run_guarded(self, call: ToolUse, judged: JudgedCall | None) -> ToolRecord:
        key = f"{call.name}\0{call.input!r}"
        if self._failures.get(key, 0) >= SAME_FAILURES:
            self._failures[key] = 0
            return error_record(
                "CIRCUIT_OPEN",
                f"This exact {call.name} call failed {SAME_FAILURES} times in a row and was not run again. "
                "Change the arguments or take another way.",
            )
        try:
            record = await self._run_checked(call, judged)
        except ToolError as error:
            record = error_record(error.code, error.text, **error.data)
        except Exception as error:
            log.exception("tool %s failed", call.name)
            record = error_record("INTERNAL_ERROR", f"{call.name} failed inside: {type(error).__name__}: {error}")
        self._failures[key] = self._failures.get(key, 0) + 1 if record.status == "error" else 0
        return record

    async def _run_checked(self, call: ToolUse, judged: JudgedCall | None) -> ToolRecord:
        tool = self._find(call)
        if call.malformed:
            raise ToolError("INVALID_PARAM", f"The arguments were not run: {call.malformed}. Send the call again.")
        judged, verdict = await self._ask_hooks("PreToolUse", judged or self._judge(tool, call))
        judged = await self._permit_or_refuse(judged)
        async with self._watch(judged):
            record = await tool(judged.ctx, judged.args)
        if judged.ctx.refused:
            record = await self._run_wider(judged, record)
        for effect in judged.effects:  # what was seen of a file, so that a resumed session knows it too
            if effect.target in self.state.seen:
                record.data.setdefault("hash", self.state.seen[effect.target])
        if record.status != "error":
            self.changed.note(self._workspace.show(Path(e.target)) for e in judged.effects if e.kind == "write")
        return await self.hooks.after_tool(tool.name, self._args_for_hooks(judged), call.id, record, verdict)

    async def _ask_hooks(self, event: HookEvent, judged: JudgedCall) -> tuple[JudgedCall, HookVerdict]:
        """The call as hooks decide it; their arguments are checked and judged as if the model had sent them."""
        tool, call = judged.tool, judged.call
        if not self.hooks.listens(event, tool.name):
            return judged, HookVerdict()
        verdict = await self.hooks.on_call(event, tool.name, self._args_for_hooks(judged), call.id)
        if verdict.updated_input is not None:
            judged = self._judge(tool, replace(call, input=verdict.updated_input))
        return replace(judged, decision=apply_verdict(judged.decision, verdict)), verdict

    def _args_for_hooks(self, judged: JudgedCall) -> Json:
        """Its arguments with the real path of a file, so that no spelling of it gets past a hook."""
        path = judged.args.get("file_path")
        return judged.args if not isinstance(path, str) else {**judged.args, "file_path": str(judged.ctx.resolve(path))}

    async def _run_wider(self, first: JudgedCall, record: ToolRecord) -> ToolRecord:
        """Run a command where it may write, after the read box made it fail and the rules or the person allow that."""
        why, ctx = first.ctx.refused, self.context(first.call.id)
        effects = [replace(effect, needs="write") for effect in first.effects]
        decision = self.permit.judge(self.agent, first.tool, first.args, effects)
        if decision.verdict == "ask":
            decision = replace(decision, reason=f"{decision.reason}: {why}")
        ctx.box = decision.box or ctx.box
        judged = replace(first, ctx=ctx, effects=effects, decision=decision)
        try:
            judged = await self._permit_or_refuse(judged)
            refused = "the mode is read-only" if judged.decision.read_only else ""
        except ToolError as refusal:
            refused = refusal.data.get("reason", refusal.text)
        if refused:
            note = f"It ran read-only and may not run where it can write: {refused}."
            return replace(record, text=f"{record.text}\n\n{note}")
        async with self._watch(judged):
            wider = await judged.tool(judged.ctx, judged.args)
        return replace(wider, text=f"{wider.text}\n\n(Run again where it may write: read-only it failed. {why})")

    def _watch(self, judged: JudgedCall) -> AbstractAsyncContextManager[None]:
        """A child answers for the files its commands change, so the workspace is looked at around each of them."""
        runs = any(effect.kind == "exec" for effect in judged.effects)
        if not runs or "/" not in self.agent or judged.decision.read_only:
            return nullcontext()
        return self.changed.around_command(background=bool(judged.args.get("run_in_background")))

    def _find(self, call: ToolUse) -> Tool:
        if tool := self.tools.get(call.name):
            return tool
        offered = ", ".join(spec.name for spec in self.tools.specs())
        if call.name in self.tools.all:
            raise ToolError("PERMISSION_DENIED", f"{call.name} is not among your tools. You have: {offered}.")
        near = difflib.get_close_matches(call.name, self.tools, n=3, cutoff=0.5)
        hint = f"Nearest: {', '.join(near)}." if near else f"You have: {offered}."
        raise ToolError("NOT_FOUND", f"There is no tool {call.name!r}. {hint}", unknown_tool=True)

    def _judge(self, tool: Tool, call: ToolUse) -> JudgedCall:
        """What the call would do and whether it may; raises what the model is told of arguments that do not fit."""
        if tool.precheck:
            tool.precheck(call.input)
        args, ctx = check(tool.schema, call.input), self.context(call.id)
        effects = list(tool.effects(ctx, args))
        decision = self.permit.judge(self.agent, tool, args, effects)
        ctx.reads = decision.read_only
        ctx.box = decision.box or ctx.box
        return JudgedCall(call, tool, ctx, args, effects, decision)

    async def _permit_or_refuse(self, judged: JudgedCall) -> JudgedCall:
        """The call that may run; else raises what the model is told."""
        if judged.decision.verdict == "ask":  # hooks may answer in place of the person
            judged, _ = await self._ask_hooks("PermissionRequest", judged)
        decision, tool = judged.decision, judged.tool
        if decision.verdict == "allow":
            return judged
        reason = decision.reason
        if decision.verdict == "ask":
            # A call that could not succeed fails here, so nobody is asked about an edit that cannot happen.
            display = tool.preview(judged.ctx, judged.args) if tool.preview else decision.display
            answer = await self._ask_person(judged, display)
            if answer.granted:
                return judged
            reason = answer.note or "the user said no"
        text = f"{judged.call.name} was denied: {reason}. Do not try to get around this."
        raise ToolError("PERMISSION_DENIED", text, reason=reason)

    async def _ask_person(self, judged: JudgedCall, display: Json) -> Answer:
        """The person's answer; a grant that comes with it is remembered."""
        decision, tool = judged.decision, judged.tool
        edits = bool(decision.rule) and all(effect.kind == "write" for effect in judged.effects)
        question = Question(
            "permission",
            _LEAVING.get(decision.box, f"Allow {tool.name}?"),
            agent=self.agent,
            tool=tool.name,
            input=judged.args,
            reason=decision.reason,
            rule=decision.rule,
            session_rule=decision.session_rule,
            display=display or decision.display,
            family=tool.family,
            line=tool.line(judged.args, str(self._workspace.root)),
            mode="accept-edits" if edits else "",
            box=decision.box,
            tool_use_id=judged.ctx.tool_use_id,
        )
        answer = await self.put(question)
        if answer.choice in ("session", "always"):
            rule = decision.rule if answer.choice == "always" else decision.session_rule or decision.rule
            self.permit.grant(self.agent, rule, forever=answer.choice == "always")
        return answer

    async def put(self, question: Question) -> Answer:
        """Ask the person; the question and its answer are events, whatever happens."""
        question_id = uuid4().hex[:12]
        self.emit(QuestionAsked(question_id, question.to_dict()))
        answer = Answer("no", "withdrawn: the call was stopped")
        try:
            await self.hooks.on_question(question)
            answer = await self.ask(question)
        finally:
            self.emit(QuestionAnswered(question_id, answer.choice, question.rule, answer.note))
        return answer

    def context(self, tool_use_id: str = "") -> ToolContext:
        """What a call may use; without an id, what a program that calls for the agent may."""
        return replace(
            self._ctx,
            tool_use_id=tool_use_id,
            output=lambda text: self.emit(ToolOutput(tool_use_id, text)),
            deferred=lambda: self.tools.deferred,
            ask=self.put,
            resolved={},
        )

    def _finish(self, call: ToolUse, record: ToolRecord, seconds: float) -> ToolRecord:
        """The record with its stats and context, its text within bounds and its traces noted."""
        text, was_cut = clip(record.text or "(no output)", keep_in=self.tree.scratch / file_name(call.id, self.agent))
        self.changed.note(record.data.get("files_changed", ()))  # a child's
        if isinstance(exit_code := record.data.get("exit_code"), int):
            self.exit_codes.append(exit_code)
        status = "partial" if was_cut and record.status == "success" else record.status
        cwd = self._workspace.show(self.state.cwd)
        return replace(
            record,
            status=status,
            text=text,
            stats={"time_ms": round(seconds * 1000)} | record.stats,
            context={"cwd": cwd, "params_input": call.input} | record.context,
        )
