"""The tools that a skill or command forbids while an agent works on it (`disallowed-tools`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cowork.core.frozen import frozen
from cowork.core.hooks import HookCall, HookEvent, HookVerdict, NoHooks
from cowork.core.later import later

if TYPE_CHECKING:
    from cowork.extensions.hook_files import holds
else:
    holds = later("cowork.extensions.hook_files", "holds")


@frozen
class _Ban:
    recipe: str
    rules: tuple[str, ...]  # as Bash or Bash(git push *)
    agent: str  # it is for this one and all below it
    is_over: Callable[[], bool]


class WithheldTools(NoHooks):
    """Denies calls as a hook does, so that nothing can allow them."""

    def __init__(self) -> None:
        self._bans: list[_Ban] = []

    def withhold(
        self, recipe: str, rules: Sequence[str], agent: str, is_over: Callable[[], bool] = lambda: False
    ) -> _Ban:
        """Refuse such calls of an agent until `is_over` says so."""
        self._bans = [ban for ban in self._bans if not ban.is_over()]
        ban = _Ban(recipe, tuple(rules), agent, is_over)
        if rules:
            self._bans.append(ban)
        return ban

    @contextmanager
    def withheld(self, recipe: str, rules: Sequence[str], agent: str) -> Iterator[None]:
        """Refuse such calls of an agent in the block."""
        ban = self.withhold(recipe, rules, agent)
        try:
            yield
        finally:
            self._bans = [other for other in self._bans if other is not ban]

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return event == "PreToolUse" and bool(self._bans)

    async def fire(self, call: HookCall) -> HookVerdict:
        for ban in self._bans:
            concerned = f"{call.agent}/".startswith(f"{ban.agent}/") and not ban.is_over()
            if concerned and any(holds(rule, call.subject, call.data) for rule in ban.rules):
                return HookVerdict("deny", f"/{ban.recipe} forbids it")
        return HookVerdict()
