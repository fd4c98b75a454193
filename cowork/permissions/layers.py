"""What decisions are made of: the rules of all layers together, the modes, and the scene of a call."""

from __future__ import annotations

from collections.abc import Iterable

from cowork.core.frozen import frozen
from cowork.core.workspace import Workspace
from cowork.permissions.rules import Rule, parse

PLAN = (
    "plan mode is read-only. Look around with the tools that read, then present your plan as text"
    " and let the user leave plan mode"
)


@frozen
class Rules:
    """All rules of a run. Whichever layer a rule came from, deny beats ask and ask beats allow."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = ()) -> Rules:
        """Rules from their texts; UserError for one that is none."""
        return cls(tuple(map(parse, allow)), tuple(map(parse, ask)), tuple(map(parse, deny)))

    def __add__(self, other: Rules) -> Rules:
        return Rules(self.allow + other.allow, self.ask + other.ask, self.deny + other.deny)

    def tighten(self, other: Rules) -> Rules:
        """These rules with the deny and ask rules of a layer that may not loosen, such as a project's."""
        return Rules(self.allow, self.ask + other.ask, self.deny + other.deny)


@frozen
class Scene:
    """Where a call happens: folders, trust, and whether a sandbox holds commands to the workspace."""

    workspace: Workspace
    trusted: bool = False
    sandboxed: bool = False  # commands run in a sandbox and the user lets them run unasked there
    refusal: str = ""  # why no command may run at all
    given: tuple[str, ...] = ()  # paths as the model wrote them, before links were followed
