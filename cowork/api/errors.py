"""How a run or a task of a program fails.

CoworkError
├── UserError            an option, a setting or a file is wrong
├── RunFailed            an answer did not come about; `result` holds what there is
│   ├── AuthFailed       no key, or the service refuses it
│   ├── LimitReached     the budget or the turns are used up
│   ├── ActionDenied     it ended on an action that was denied
│   ├── TimedOut
│   ├── Cancelled        somebody called `cancel`
│   ├── InvalidAnswer    not valid under the schema, after two repairs
│   └── ServiceFailed    the model's service failed or is not there
└── TaskFailed           a subagent failed; `record` is what its parent would be told
"""

from __future__ import annotations

from typing import Any

from cowork.api.result import Result
from cowork.core.errors import CoworkError
from cowork.core.ports import ToolRecord


class RunFailed(CoworkError):
    """An answer did not come about."""

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
    """Somebody stopped it."""


class InvalidAnswer(RunFailed):
    """The answer is not valid under the schema."""


class ServiceFailed(RunFailed):
    """The model's service failed or cannot be reached."""


class TaskFailed(CoworkError):
    """A subagent ended without a result that can be used."""

    def __init__(self, record: ToolRecord) -> None:
        message = record.error["message"] if record.error else record.data.get("short_result", record.text)
        super().__init__(str(message))
        self.record = record


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
