"""Where an agent asks its hooks: one method an event. A hook that fails is told as a warning and changes nothing."""

from __future__ import annotations

import logging
from dataclasses import replace

from cowork.core.blocks import Json
from cowork.core.events import Notice
from cowork.core.hooks import HookCall, HookEvent, Hooks, HookVerdict
from cowork.core.ports import Decision, Emit, Question, ToolRecord
from cowork.tools.base import AgentState

log = logging.getLogger("cowork.engine")

NOTHING = HookVerdict()
MOST_CONTINUATIONS = 8  # so often in a row a hook may keep an agent from stopping


class HookPoints:
    """The hooks of a run as one agent meets them."""

    def __init__(self, hooks: Hooks, agent: str, emit: Emit, state: AgentState) -> None:
        self.hooks, self.agent = hooks, agent
        self.stop = ""  # why a hook wants this agent to end at once
        self._emit, self._state = emit, state
        self._continued = 0  # times in a row that a hook kept it from stopping

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        """Whether a hook wants to know."""
        return self.hooks.listens(event, subject)

    async def on_call(self, event: HookEvent, tool: str, args: Json, tool_use_id: str) -> HookVerdict:
        """What hooks say of a call: before it runs, or in place of the person who would be asked about it."""
        more = {"tool_use_id": tool_use_id} if event == "PreToolUse" else {}
        return await self._fire(event, tool, {"tool_name": tool, "tool_input": args} | more)

    async def after_tool(
        self, tool: str, args: Json, tool_use_id: str, record: ToolRecord, before: HookVerdict
    ) -> ToolRecord:
        """The record of a call that ran, with what hooks add to it or put in its place."""
        after = NOTHING
        if record.status != "error":
            response = {"success": True, "text": record.text, "data": record.data} | _peer_fields(args, record)
            data = {"tool_name": tool, "tool_input": args, "tool_use_id": tool_use_id, "tool_response": response}
            after = await self._fire("PostToolUse", tool, data)
        text = record.text if after.output is None else after.output
        said = [before.context, f"A hook objects: {after.reason}" if after.decision == "deny" else "", after.context]
        text = "\n\n".join(part for part in (text, *said) if part)
        return record if text == record.text else replace(record, text=text)

    async def on_question(self, question: Question) -> None:
        """Tell that the person is needed."""
        kind = "permission_prompt" if question.kind == "permission" else "elicitation_dialog"
        data = {"message": question.reason or question.title, "title": question.title, "notification_type": kind}
        await self._fire("Notification", kind, data)

    async def on_prompt(self, text: str) -> HookVerdict:
        """What hooks say of a prompt before the model hears it."""
        return await self._fire("UserPromptSubmit", "", {"prompt": text})

    async def on_child_start(self, kind: str) -> str:
        """What hooks want a child to know from the start."""
        return (await self._fire("SubagentStart", kind, {})).context

    async def before_stop(self, answer: str) -> str:
        """Why the agent must go on after what it takes for its answer; empty when it may stop."""
        child = "/" in self.agent
        kind = self.agent.rpartition("/")[2].rpartition("-")[0] if child else ""
        data = {"stop_hook_active": self._continued > 0, "last_assistant_message": answer}
        verdict = await self._fire("SubagentStop" if child else "Stop", kind, data)
        wanted = verdict.reason if verdict.decision == "deny" else verdict.context
        if wanted and not self.stop and self._continued < MOST_CONTINUATIONS:
            self._continued += 1
            return wanted
        self._continued = 0
        return ""

    async def before_compacting(self, trigger: str, hint: str) -> str:
        """Why hooks forbid to compact now; empty when they do not."""
        verdict = await self._fire("PreCompact", trigger, {"trigger": trigger, "custom_instructions": hint})
        return (verdict.reason or "it gave no reason") if verdict.decision == "deny" else ""

    async def _fire(self, event: HookEvent, subject: str, data: Json) -> HookVerdict:
        """What hooks say; nothing where none listens."""
        if not self.listens(event, subject):
            return NOTHING
        try:
            call = HookCall(event, subject, data | {"cwd": str(self._state.cwd)}, self.agent)
            verdict = await self.hooks.fire(call)
        except Exception as error:
            log.exception("a hook of %s failed", event)
            text = f"A hook of {event} failed: {type(error).__name__}: {error}"
            self._emit(Notice(text, "warning", "hook.failed"))
            return NOTHING
        self.stop = self.stop or verdict.stop
        return verdict


def _peer_fields(args: Json, record: ToolRecord) -> Json:
    """What hooks of Claude Code read in a response: the output of a command, the file of a tool for files."""
    if record.display.get("kind") == "terminal":  # one stream holds both outputs
        return {"stdout": record.text, "stderr": "", "interrupted": False}
    return {"filePath": args["file_path"]} if "file_path" in args else {}


def apply_verdict(decision: Decision, verdict: HookVerdict) -> Decision:
    """A decision with what hooks say: they can always tighten it, and allow no more than a lasting grant could."""
    if decision.verdict == "deny":
        return decision
    if verdict.decision == "deny":
        return Decision("deny", verdict.reason or "a hook refused it")
    if verdict.decision == "ask":
        return Decision("ask", verdict.reason or "a hook asks", display=decision.display, box=decision.box)
    if verdict.decision == "allow" and decision.verdict == "ask" and decision.rule:
        return Decision("allow", read_only=decision.read_only, box=decision.box)
    return decision
