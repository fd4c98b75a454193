"""The life of a subagent as logfmt lines on the logger `cowork.subagents`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence

from cowork.core.blocks import Json
from cowork.engine.subagents.result import ChildEnd

log = logging.getLogger("cowork.subagents")

Value = str | int | Sequence[str]


class Telemetry:
    """Says nothing when switched off."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled

    def spawn(self, label: str, depth: int, max_turns: int, allowed_tools: Sequence[str]) -> None:
        self._say(
            "spawn", "Spawning subagent", label=label, depth=depth, max_turns=max_turns, allowed_tools=allowed_tools
        )

    def complete(self, label: str, depth: int, turns_used: int, tokens_consumed: int, status: str) -> None:
        self._say(
            "complete",
            "Subagent completed",
            label=label,
            depth=depth,
            turns_used=turns_used,
            tokens_consumed=tokens_consumed,
            status=status,
        )

    def error(self, label: str, depth: int, error: str) -> None:
        self._say("error", "Subagent execution failed", label=label, depth=depth, error=error)

    def max_turns_exceeded(self, label: str, depth: int, max_turns: int) -> None:
        self._say("max_turns_exceeded", "Subagent exceeded max turns", label=label, depth=depth, max_turns=max_turns)

    def truncation(self, label: str, original_size: int, truncated_size: int) -> None:
        self._say(
            "truncation",
            "Subagent output truncated",
            label=label,
            original_size=original_size,
            truncated_size=truncated_size,
        )

    def depth_limit(self, label: str, current_depth: int, max_depth: int) -> None:
        self._say(
            "depth_limit",
            "Subagent recursion depth limit enforced",
            label=label,
            current_depth=current_depth,
            max_depth=max_depth,
        )

    def quota_exceeded(self, label: str, reason: str) -> None:
        self._say("quota_exceeded", "Subagent quota exceeded", label=label, reason=reason)

    def ended(self, end: ChildEnd, max_turns: int, truncation: Json) -> None:
        """The lines of a child's end, whatever it was."""
        if end.max_turns_reached:
            self.max_turns_exceeded(end.label, end.depth, max_turns)
        if truncation:
            self.truncation(end.label, truncation["original_size"], truncation["truncated_size"])
        if end.code == "QUOTA_EXCEEDED":
            self.quota_exceeded(end.label, end.reason)
        elif end.code is not None:
            self.error(end.label, end.depth, end.reason)
        else:
            status = "complete" if end.status == "completed" else "incomplete"
            self.complete(end.label, end.depth, end.turns, end.usage.total, status)

    def _say(self, event: str, message: str, **fields: Value) -> None:
        if not self._enabled or not log.isEnabledFor(logging.INFO):
            return
        pairs = " ".join(f"subagent.{name}={_logfmt(value)}" for name, value in fields.items())
        log.info("subagent.event=%s %s %s", event, pairs, message)


def _logfmt(value: Value) -> str:
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        return json.dumps(list(value), separators=(",", ":"))
    return value if re.fullmatch(r"[^\s\"=\\]+", value) and value.isprintable() else json.dumps(value)
