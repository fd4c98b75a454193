"""cowork: a terminal coding agent whose subagents you can see, price, trust and stop.

Programs use it too: `cowork.run("…")`, `async with cowork.Session() as s`, `@cowork.tool`. docs/api.md has examples.
"""

from __future__ import annotations

__version__ = "0.2.0"

TYPE_CHECKING = False  # type checkers take it for true; `typing` itself would cost most of the import
if TYPE_CHECKING:
    from typing import Any

    from cowork.api.result import ActionDenied as ActionDenied
    from cowork.api.result import AuthFailed as AuthFailed
    from cowork.api.result import Cancelled as Cancelled
    from cowork.api.result import InvalidAnswer as InvalidAnswer
    from cowork.api.result import LimitReached as LimitReached
    from cowork.api.result import Result as Result
    from cowork.api.result import RunFailed as RunFailed
    from cowork.api.result import ServiceFailed as ServiceFailed
    from cowork.api.result import TaskFailed as TaskFailed
    from cowork.api.result import TimedOut as TimedOut
    from cowork.api.session import Session as Session
    from cowork.api.session import run as run
    from cowork.api.tools import tool as tool
    from cowork.core.errors import CoworkError as CoworkError
    from cowork.core.errors import UserError as UserError
    from cowork.core.hooks import HookCall as HookCall
    from cowork.core.hooks import HookVerdict as HookVerdict
    from cowork.core.ports import AgentDef as AgentDef
    from cowork.core.ports import Answer as Answer
    from cowork.core.ports import Question as Question
    from cowork.flows.flow import Flow as Flow

# Where the public names are; one is loaded when it is first used.
_ERRORS = "ActionDenied AuthFailed Cancelled InvalidAnswer LimitReached RunFailed ServiceFailed TaskFailed TimedOut"
_HOMES = {
    "api.result": f"{_ERRORS} Result",
    "api.session": "Session run",
    "api.tools": "tool",
    "flows.flow": "Flow",
    "core.errors": "CoworkError UserError",
    "core.hooks": "HookCall HookVerdict",
    "core.ports": "AgentDef Answer Question",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'cowork' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"cowork.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
