"""How a run ended, as the object of `--output json` and as an exit code."""

from __future__ import annotations

from cowork.core.blocks import Json, Usage

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


def result_object(reason: str, error: Json | None, **values: object) -> Json:
    """SPEC's result; its keys are always all there, also for a run that could not begin."""
    return {
        "type": "result",
        "status": "success" if EXIT_CODES.get(reason, 1) == 0 else "error",
        "result": "",
        "terminal_reason": reason,
        "session_id": "",
        "num_turns": 0,
        "duration_ms": 0,
        "usage": Usage().to_dict(),
        "total_cost_usd": 0.0,
        "model": "",
        "tasks": [],
        "cost_by_subagent_type": {},
        "denials": [],
        "warnings": [],
        "structured_output": None,
        "error": error,
    } | values
