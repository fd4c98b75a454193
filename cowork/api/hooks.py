"""Functions of a program as hooks: `{"PreToolUse:Bash": function}`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping

from cowork.core.errors import UserError
from cowork.core.hooks import HOOK_EVENTS, HookCall, HookEvent, HookVerdict, joined

HookFunction = Callable[[HookCall], HookVerdict | Awaitable[HookVerdict | None] | None]


class FunctionHooks:
    """Calls functions at the moments they are named for; after a colon, a pattern for the tool or agent it is about."""

    def __init__(self, functions: Mapping[str, HookFunction]) -> None:
        self._functions: list[tuple[str, re.Pattern[str], HookFunction]] = []
        for name, function in functions.items():
            event, _, pattern = name.partition(":")
            if event not in HOOK_EVENTS:
                raise UserError(f"There is no hook event {event!r}.", f"The events are {', '.join(HOOK_EVENTS)}.")
            try:
                self._functions.append((event, re.compile(pattern or ".*"), function))
            except re.error as error:
                raise UserError(f"The hook {name!r} has a bad pattern: {error}.") from error

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return bool(self._chosen(event, subject))

    async def fire(self, call: HookCall) -> HookVerdict:
        verdicts = []
        for function in self._chosen(call.event, call.subject):
            said = function(call)
            verdicts.append((await said if inspect.isawaitable(said) else said) or HookVerdict())
        return joined(verdicts)

    async def aclose(self) -> None:
        return None

    def _chosen(self, event: str, subject: str) -> list[HookFunction]:
        return [f for name, pattern, f in self._functions if name == event and pattern.fullmatch(subject)]
