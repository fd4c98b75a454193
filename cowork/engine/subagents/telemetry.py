"""The life of a subagent as logfmt lines on the logger `cowork.subagents`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence

from cowork.core.blocks import Json
from cowork.engine.subagents.child import Child
from cowork.engine.subagents.result import ChildResult

log = logging.getLogger("cowork.subagents")

Value = str | int | Sequence[str]


class Telemetry:
    """Says nothing when switched off. Every line names the session, the subagent and its model."""

    def __init__(self, session_id: str, *, enabled: bool = True) -> None:
        self._session_id = session_id
        self._enabled = enabled

    def spawn(self, child: Child) -> None:
        tools = tuple(spec.name for spec in child.agent.specs)
        self._say_of(child, "spawn", "Spawning subagent", max_turns=child.agent.options.max_turns, allowed_tools=tools)

    def complete(self, child: Child, end: ChildResult) -> None:
        status = "complete" if end.status == "completed" else "incomplete"
        counts = {"turns_used": end.turns, "tokens_consumed": end.usage.total}
        self._say_of(child, "complete", "Subagent completed", **counts, status=status)

    def error(self, label: str, depth: int, error: str, child: Child | None = None) -> None:
        self._say("error", "Subagent execution failed", child, label=label, depth=depth, error=error)

    def max_turns_exceeded(self, child: Child) -> None:
        most = child.agent.options.max_turns
        self._say_of(child, "max_turns_exceeded", "Subagent exceeded max turns", max_turns=most)

    def truncation(self, child: Child, sizes: Json) -> None:
        self._say("truncation", "Subagent output truncated", child, label=child.label, **sizes)

    def depth_limit(self, label: str, current_depth: int, max_depth: int) -> None:
        depths = {"current_depth": current_depth, "max_depth": max_depth}
        self._say("depth_limit", "Subagent recursion depth limit enforced", None, label=label, **depths)

    def quota_exceeded(self, label: str, reason: str, child: Child | None = None) -> None:
        self._say("quota_exceeded", "Subagent quota exceeded", child, label=label, reason=reason)

    def ended(self, child: Child, end: ChildResult, truncation: Json) -> None:
        """The lines of a child's end, whatever it was."""
        if end.max_turns_reached:
            self.max_turns_exceeded(child)
        if truncation:
            self.truncation(child, truncation)
        if end.code == "QUOTA_EXCEEDED":
            self.quota_exceeded(end.label, end.reason, child)
        elif end.code is not None:
            self.error(end.label, end.depth, end.reason, child)
        else:
            self.complete(child, end)

    def _say_of(self, child: Child, event: str, message: str, **fields: Value) -> None:
        self._say(event, message, child, label=child.label, depth=child.delegator.depth, **fields)

    def _say(self, event: str, message: str, child: Child | None, **fields: Value) -> None:
        if not self._enabled or not log.isEnabledFor(logging.INFO):
            return
        pairs = " ".join(f"subagent.{name}={_logfmt(value)}" for name, value in fields.items())
        id, model = (child.id, child.agent.provider.model) if child else ("", "")
        who = f"session={self._session_id} subagent_id={_logfmt(id)} model={_logfmt(model)}"
        log.info("%s subagent.event=%s %s %s", who, event, pairs, message)


def _logfmt(value: Value) -> str:
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        return json.dumps(list(value), separators=(",", ":"))
    return value if re.fullmatch(r"[^\s\"=\\]+", value) and value.isprintable() else json.dumps(value)
