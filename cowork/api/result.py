"""The result of one answer, and the exceptions where an answer or a task fails."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Generic, TypeVar

from cowork.core.blocks import Json, Usage
from cowork.core.errors import CoworkError
from cowork.core.frozen import frozen
from cowork.core.ports import ToolRecord

T = TypeVar("T")


@frozen
class Result(Generic[T]):
    """One answer: its text, its value under a schema, and what it took. `str(result)` is the text."""

    text: str
    value: T
    reason: str = "completed"  # why it ended, as `terminal_reason` of `--output json`
    session_id: str = ""
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None  # None: a price is not known
    error: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


class RunFailed(CoworkError):
    """An answer did not come about; `result` holds what there is."""

    def __init__(self, result: Result[Any]) -> None:
        super().__init__(str(result.error.get("message") or f"The run ended: {result.reason}."))
        self.result = result


class AuthFailed(RunFailed):
    """No key, or one that the service refuses."""


class LimitReached(RunFailed):
    """The budget, the tokens or the turns are used up."""


class ActionDenied(RunFailed):
    """The run ended on an action that was denied."""


class TimedOut(RunFailed):
    """The time is up."""


class Cancelled(RunFailed):
    """Somebody called `cancel`."""


class InvalidAnswer(RunFailed):
    """The answer is not valid under the schema, after two repairs."""


class ServiceFailed(RunFailed):
    """The model's service failed or cannot be reached."""


class TaskFailed(CoworkError):
    """A subagent ended without a result that can be used; `record` is what its parent would be told."""

    def __init__(self, record: ToolRecord) -> None:
        message = record.error["message"] if record.error else record.data.get("short_result", record.text)
        super().__init__(str(message))
        self.record = record


def data_of(record: ToolRecord, *, structured: bool) -> Json:
    """What a task gave; raises TaskFailed where that is not what was asked for.

    At its limit of turns an agent reports what it has, and that counts; no other end short of the whole does, such as
    one on a denied call.
    """
    usable = record.status == "success" or (record.status == "partial" and at_turn_limit(record.data))
    if not usable or (structured and "structured_output" not in record.data):
        raise TaskFailed(record)
    return record.data


def at_turn_limit(data: Json) -> bool:
    """Whether a task ended at its limit of turns, by the data of its record."""
    return bool((data.get("metadata") or {}).get("max_turns_reached") == "true")


_BY_REASON: dict[str, type[RunFailed]] = {
    "auth": AuthFailed,
    "max_turns": LimitReached,
    "budget": LimitReached,
    "denied": ActionDenied,
    "timeout": TimedOut,
    "interrupted": Cancelled,
    "schema": InvalidAnswer,
    "api_error": ServiceFailed,
    "unavailable": ServiceFailed,
}


def failure(result: Result[Any]) -> RunFailed:
    """The exception for a result that is none."""
    return _BY_REASON.get(result.reason, RunFailed)(result)
