"""Holds tool records against the rules every one of them keeps, whatever the tool and the outcome."""

from __future__ import annotations

import json
from typing import get_args

from cowork.core.blocks import Json
from cowork.core.errors import ToolErrorCode
from cowork.core.ports import Status

_KEYS = {"status", "data", "text", "error", "stats", "context"}
_CODES = get_args(ToolErrorCode)


def problems(record: Json) -> list[str]:
    """What breaks the rules in a finished record (`ToolRecord.to_dict()`); empty when all is well."""
    found = [f"unknown key {key!r}" for key in record if key not in _KEYS]
    status = record.get("status")
    if status not in get_args(Status):
        found.append(f"status is {status!r}")
    if not isinstance(record.get("data"), dict):
        found.append("data is not an object")
    text = record.get("text")
    if not isinstance(text, str) or not text.strip():
        found.append("text is empty")
    if ("error" in record) != (status == "error"):
        found.append("error is there exactly when status is error")
    if "error" in record:
        found += _error_problems(record["error"])
    found += _stats_problems(record.get("stats")) + _context_problems(record.get("context"))
    try:
        json.dumps(record, allow_nan=False)
    except (TypeError, ValueError) as error:
        found.append(f"not JSON: {error}")
    return found


def _error_problems(error: object) -> list[str]:
    if not isinstance(error, dict) or set(error) != {"code", "message"}:
        return ["error is not {code, message}"]
    found = [] if error["code"] in _CODES else [f"unknown code {error['code']!r}"]
    if not isinstance(error["message"], str) or not error["message"].strip():
        found.append("error.message is empty")
    return found


def _stats_problems(stats: object) -> list[str]:
    if not isinstance(stats, dict):
        return ["stats is not an object"]
    time_ms = stats.get("time_ms")
    if isinstance(time_ms, bool) or not isinstance(time_ms, int | float) or time_ms < 0:
        return [f"stats.time_ms is {time_ms!r}"]
    return []


def _context_problems(context: object) -> list[str]:
    if not isinstance(context, dict):
        return ["context is not an object"]
    found = [] if isinstance(context.get("cwd"), str) and context["cwd"] else ["context.cwd is missing"]
    if not isinstance(context.get("params_input"), dict):
        found.append("context.params_input is not an object")
    return found
