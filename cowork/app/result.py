"""How a run ended, as the object of `--output json` and as an exit code."""

from __future__ import annotations

from collections.abc import Sequence

from cowork.core.blocks import Json

EXIT_CODES = {
    "completed": 0,
    "max_turns": 4,
    "budget": 4,
    "denied": 5,
    "schema": 1,
    "timeout": 124,
    "interrupted": 130,
    "terminated": 143,
    "auth": 3,
    "api_error": 1,
    "unavailable": 75,
    "internal_error": 1,
    "usage": 2,
}
PIPE_CLOSED = 141


def result_object(
    *,
    reason: str,
    text: str = "",
    session_id: str = "",
    turns: int = 0,
    duration_ms: int = 0,
    usage: Json,
    cost_usd: float | None,
    estimated: bool = False,
    model: str = "",
    tasks: Sequence[Json] = (),
    cost_by_type: Json | None = None,
    denials: Sequence[Json] = (),
    warnings: Sequence[str] = (),
    structured: object = None,
    error: Json | None,
) -> Json:
    """SPEC's result; its keys are always all there, and `usage_estimated` where a request was cut off."""
    result = {
        "type": "result",
        "status": "success" if EXIT_CODES.get(reason, 1) == 0 else "error",
        "result": text,
        "terminal_reason": reason,
        "session_id": session_id,
        "num_turns": turns,
        "duration_ms": duration_ms,
        "usage": usage,
        "total_cost_usd": cost_usd,
        "model": model,
        "tasks": list(tasks),
        "cost_by_subagent_type": cost_by_type or {},
        "denials": list(denials),
        "warnings": list(warnings),
        "structured_output": structured,
        "error": error,
    }
    return result | {"usage_estimated": True} if estimated else result
