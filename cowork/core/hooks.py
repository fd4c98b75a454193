"""Hooks: what may look at a run, stop it or change it, at the moments named here. Files and programs implement it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Literal, get_args

from cowork.core.blocks import Json
from cowork.core.frozen import frozen

HookEvent = Literal[
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PermissionRequest",
    "Notification",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
]
HOOK_EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
EndReason = Literal["clear", "resume", "prompt_input_exit", "other"]
"""Why a session ends, as SessionEnd tells it: another one begins or is taken up, the person left, or anything else."""


@frozen
class HookCall:
    """One moment of a run, as hooks are told of it."""

    event: HookEvent
    subject: str = ""  # what a matcher looks at: a tool's name, an agent's type, how a session began
    data: Json = field(default_factory=dict)  # the event's own fields, named as in Claude's contract
    agent: str = "main"  # path of the agent it happens in

    @property
    def agent_id(self) -> str:
        """Which child it happens in; empty for the main agent."""
        return self.agent.rpartition("/")[2] if "/" in self.agent else ""


_DECISIONS = ("", "allow", "ask", "deny")  # the strictest last


@frozen
class HookVerdict:
    """What hooks said. `deny` refuses a call or a prompt, keeps an agent from stopping and a chat from compacting."""

    decision: Literal["", "allow", "ask", "deny"] = ""
    reason: str = ""
    updated_input: Json | None = None  # a call's arguments, to be judged again
    context: str = ""  # for the model
    output: str | None = None  # what the model is told instead of a tool's own result
    stop: str = ""  # why the agent is to end at once

    def __post_init__(self) -> None:
        if self.decision in _DECISIONS:
            return
        word = str(self.decision)  # what nobody understands must let nothing through
        unknown = "" if word == "block" else f"a hook decided {word!r}, which is not allow, ask or deny"
        object.__setattr__(self, "decision", "deny")
        object.__setattr__(self, "reason", "; ".join(filter(None, (self.reason, unknown))))


class Hooks:
    """What a run asks; here nobody listens. Nothing is built or awaited for an event that nobody listens to."""

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return False

    async def fire(self, call: HookCall) -> HookVerdict:
        return HookVerdict()

    async def aclose(self) -> None:
        return None


class HookGroup(Hooks):
    """Several hooks as one, asked side by side."""

    def __init__(self, members: Iterable[Hooks]) -> None:
        self.members = tuple(members)

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return any(member.listens(event, subject) for member in self.members)

    async def fire(self, call: HookCall) -> HookVerdict:
        asked = [member for member in self.members if member.listens(call.event, call.subject)]
        return join_verdicts(await asyncio.gather(*(member.fire(call) for member in asked)))

    async def aclose(self) -> None:
        for member in self.members:
            await member.aclose()


def join_verdicts(verdicts: Sequence[HookVerdict]) -> HookVerdict:
    """One verdict of many: deny wins over ask, ask over allow; all contexts count; of two rewrites the last does."""
    decision = max((v.decision for v in verdicts), key=_DECISIONS.index, default=HookVerdict().decision)
    reasons = dict.fromkeys(v.reason for v in verdicts if v.decision == decision and v.reason)
    inputs = [None, *(v.updated_input for v in verdicts if v.updated_input is not None)]
    outputs = [None, *(v.output for v in verdicts if v.output is not None)]
    contexts, stops = [v.context for v in verdicts if v.context], [v.stop for v in verdicts if v.stop]
    stop = stops[0] if stops else ""
    return HookVerdict(decision, "\n".join(reasons), inputs[-1], "\n\n".join(contexts), outputs[-1], stop)
