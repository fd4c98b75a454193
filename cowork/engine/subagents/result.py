"""What a finished child comes to: the record its parent receives, with receipts, its views, and lines in the log."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from cowork.core.blocks import Json, Tally
from cowork.core.errors import ToolErrorCode
from cowork.core.events import AgentStarted
from cowork.core.format import money
from cowork.core.frozen import frozen
from cowork.core.ports import ToolRecord
from cowork.engine.budget import NOTHING, Cost
from cowork.engine.clip import cut, save

log = logging.getLogger("cowork.subagents")

RESULT_CHARS = 10_000

ChildStatus = Literal["completed", "incomplete", "error", "aborted"]


@frozen
class ChildResult:
    """All that is known of a child when it stops, whatever stopped it."""

    start: AgentStarted  # who it is
    status: ChildStatus
    result: str
    model_requested: str = ""  # where it is not the one it ran on
    turns: int = 0
    max_turns_reached: bool = False
    tally: Tally = field(default_factory=Tally)
    exit_codes: Sequence[int] = ()
    files_changed: Sequence[str] = ()
    spent: Cost = NOTHING
    duration_ms: int = 0
    code: ToolErrorCode | None = None
    reason: str = ""  # the exact message when something stopped it
    structured: Any = None
    still_running: Sequence[str] = ()  # background commands it left
    matched_from: str = ""  # the agent that was asked for, where another one answered
    worktree: Json = field(default_factory=dict)  # what became of the one it worked in
    lost_tools: Sequence[str] = ()  # that its file names and that it did not have


def record_of(end: ChildResult, *, keep_in: Path, max_bytes: int | None = None) -> tuple[ToolRecord, Json]:
    """The parent's record, and what was cut from the result (empty when nothing was)."""
    start, used, done = end.start, end.spent.usage, end.status == "completed"
    failed = "incomplete" if end.status == "incomplete" else "failed"
    result, truncation = shorten(end.result, keep_in=keep_in, max_bytes=max_bytes)
    extras = {
        "usage_estimated": end.spent.estimated or None,
        "structured_output": end.structured,
        "worktree": end.worktree or None,
        "matched_from": end.matched_from or None,
    }
    data: Json = {
        "status": end.status,
        "result": result,
        "short_result": f"Task completed by {start.subagent_type}" if done else f"Task {failed}: {end.reason}",
        "subagent_type": start.subagent_type,
        "subagent_id": start.subagent_id,
        "model_requested": end.model_requested or start.model,
        "model_used": start.model,
        "model_id": start.model_id,
        "tool_summary": end.tally.summary(),
        "usage": {"prompt_tokens": used.prompt_tokens, "completion_tokens": used.output_tokens},
        "total_cost_usd": end.spent.cost_usd,
        "duration_ms": end.duration_ms,
        "truncated": bool(truncation),
        "files_changed": list(end.files_changed),
        "metadata": {
            "subagent_label": start.description,
            "recursion_depth": str(start.depth),
            "completion_status": "complete" if done else "incomplete",
            "turns_used": str(end.turns),
            "max_turns_reached": "true" if end.max_turns_reached else "false",
            "tokens_consumed": str(used.total),
        },
    } | {name: value for name, value in extras.items() if value is not None}
    record = ToolRecord(
        "error" if end.code is not None else "partial" if end.status == "incomplete" else "success",
        _text(end, result),
        data,
        error=None if end.code is None else {"code": end.code, "message": end.reason},
        stats={"time_ms": end.duration_ms, "tool_calls": end.tally.total("run"), "model": start.model},
        display={"kind": "task", "summary": receipts(end), "status": end.status, "text": result},
    )
    return record, truncation


def shorten(result: str, *, keep_in: Path, max_bytes: int | None) -> tuple[str, Json]:
    """The result within its size, cut on a character boundary; the whole goes to a file."""
    head = result[:RESULT_CHARS] if max_bytes is None else cut(result, max_bytes)
    if len(head) == len(result):
        return result, {}
    where = save(result, keep_in)
    notice = f"...\n\n[Result truncated - {len(result)} chars total]\n[Output truncated]"
    if where:
        notice += f"\n[The whole result is in {where}, which you may Read]"
    sizes = (len(text.encode("utf-8", "replace")) for text in (result, head))
    return head + notice, dict(zip(("original_size", "truncated_size"), sizes, strict=True))


def receipts(end: ChildResult) -> str:
    """Turns, tools, tokens, cost, time and traces in one line; work of which no tool call ran is flagged."""
    about, cost = "about " * end.spent.estimated, end.spent.cost_usd
    parts = [
        f"{end.turns} turn{'s' * (end.turns != 1)}",
        end.tally.line(),
        f"{about}{end.spent.usage.total:,} tokens",
        "cost unknown" if cost is None else about + money(cost),
        f"{end.duration_ms / 1000:.1f} s",
    ]
    if end.exit_codes:
        parts.append("exit codes " + " ".join(map(str, end.exit_codes[-10:])))
    changed = list(end.files_changed)
    if changed:
        more = f" and {len(changed) - 8} more" if len(changed) > 8 else ""
        parts.append("files changed: " + ", ".join(changed[:8]) + more)
    if end.still_running:
        parts.append("still running: " + ", ".join(end.still_running))
    parts.append(f"subagent_id {end.start.subagent_id}")
    return " · ".join(parts)


def _text(end: ChildResult, result: str) -> str:
    kind, model = end.start.subagent_type, end.start.model
    head = f"Subagent ({kind}, {model}) {end.status}."
    if end.model_requested and end.model_requested != model:
        head += f" ({end.model_requested} is not configured, so it ran on {model}.)"
    if end.matched_from:
        head += f" (There is no agent {end.matched_from!r}; {kind} answered.)"
    if end.lost_tools:
        head += f" (It ran without {', '.join(end.lost_tools)}: not available here.)"
    parts = [head]
    if end.code is not None:
        parts.append(end.reason)
        if result:
            parts.append(f"What it had until then:\n{result}")
    elif end.status == "incomplete":
        parts += [f"{end.reason or 'It stopped before it was done.'} What it reported:", result]
    else:
        parts.append(result)
    if end.worktree:
        parts.append(f"[Worktree: {end.worktree['line']}]")
    return "\n\n".join(parts) + f"\n\n[{receipts(end)}]"


def view_000(record: Mapping[str, Any]) -> Json:
    """`{success, content, shortResult, error?}`"""
    data = record["data"]
    if record["status"] == "error":
        short = data.get("short_result", "Task delegation failed")
        return {"success": False, "content": "", "error": record["error"]["message"], "shortResult": short}
    return {"success": True, "content": data["result"], "shortResult": data["short_result"]}


def view_002(record: Mapping[str, Any]) -> Json:
    """`{result, usage, total_cost_usd, duration_ms}`"""
    data = record["data"]
    return {
        "result": data.get("result") or record.get("error", {}).get("message", ""),
        "usage": data.get("usage", {"prompt_tokens": 0, "completion_tokens": 0}),
        "total_cost_usd": data.get("total_cost_usd", 0.0),
        "duration_ms": data.get("duration_ms", 0),
    }


def view_003(record: Mapping[str, Any]) -> Json:
    """`{success, output, error, metadata}`"""
    data = record["data"]
    if record["status"] == "error":
        kept = {k: v for k, v in data.get("metadata", {}).items() if k in ("subagent_label", "recursion_depth")}
        return {"success": False, "output": "", "error": record["error"]["message"], "metadata": kept}
    return {"success": True, "output": data["result"], "error": None, "metadata": data["metadata"]}


LOG_MESSAGES = {
    "spawn": "Spawning subagent",
    "complete": "Subagent completed",
    "error": "Subagent execution failed",
    "max_turns_exceeded": "Subagent exceeded max turns",
    "truncation": "Subagent output truncated",
    "depth_limit": "Subagent recursion depth limit enforced",
    "quota_exceeded": "Subagent quota exceeded",
}


def log_line(event: str, session_id: str, subagent_id: str, model: str, fields: Mapping[str, Any]) -> None:
    """Write one line about a child; every line names the session, the subagent and its model."""
    if log.isEnabledFor(logging.INFO):
        pairs = " ".join(f"subagent.{name}={_logfmt(value)}" for name, value in fields.items())
        who = f"session={session_id} subagent_id={_logfmt(subagent_id)} model={_logfmt(model)}"
        log.info("%s subagent.event=%s %s %s", who, event, pairs, LOG_MESSAGES[event])


def lines_at_end(end: ChildResult, truncation: Json) -> Iterator[tuple[str, Json]]:
    """(event, fields) of the lines about a child's end, whatever it was."""
    depth = end.start.depth
    if end.max_turns_reached:
        yield "max_turns_exceeded", {"depth": depth, "max_turns": end.start.max_turns}
    if truncation:
        yield "truncation", truncation
    if end.code == "QUOTA_EXCEEDED":
        yield "quota_exceeded", {"reason": end.reason}
    elif end.code is not None:
        yield "error", {"depth": depth, "error": end.reason}
    else:
        status = "complete" if end.status == "completed" else "incomplete"
        counts = {"turns_used": end.turns, "tokens_consumed": end.spent.usage.total}
        yield "complete", {"depth": depth, **counts, "status": status}


def _logfmt(value: str | int | Sequence[str]) -> str:
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        return json.dumps(list(value), separators=(",", ":"))
    return value if re.fullmatch(r"[^\s\"=\\]+", value) and value.isprintable() else json.dumps(value)
