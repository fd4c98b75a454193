"""What may run: rules, shell commands, paths, trust and the boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

from cowork.core.frozen import frozen
from cowork.core.modes import mode_of, tighter
from cowork.core.ports import Decision, Effect, Family, ToolFacts
from cowork.core.workspace import Workspace
from cowork.permissions.policy import Situation, decide
from cowork.permissions.rulebook import RuleBook
from cowork.permissions.rules import Rules


class Box(Protocol):
    """What permissions ask of a sandbox."""

    network: bool

    @property
    def boxes(self) -> Literal["both", "read", ""]: ...
    @property
    def refusal(self) -> str: ...
    def hides_git(self, cwd: Path) -> str: ...


@frozen
class _Reader:
    """The facts of any tool that reads a file."""

    name: str = ""
    family: Family = "read"
    reads: bool = True


class Permissions:
    """Judges the calls of one agent and remembers what the person granted to the tree of agents."""

    def __init__(
        self,
        *,
        workspace: Workspace,
        mode: str = "ask",
        allow: Sequence[str] = (),
        ask: Sequence[str] = (),
        deny: Sequence[str] = (),
        book: RuleBook | None = None,
        trusted: bool = False,
        sandbox: Box | None = None,
    ) -> None:
        self.workspace = workspace
        self.trusted = trusted
        self.sandbox = sandbox
        self.book = book or RuleBook(workspace, Rules.of(allow, ask, deny))
        denied = (rule.pattern for rule in self.book.rules.deny if rule.names_files("read"))
        workspace.unsearched = tuple(dict.fromkeys((*workspace.unsearched, *(p.removeprefix("./") for p in denied))))
        self._mode = mode_of(mode)
        self._parent: Permissions | None = None

    @property
    def mode(self) -> str:
        """The mode in force: never looser than the parent's."""
        return tighter(self._mode, self._parent.mode) if self._parent else self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        self._mode = mode_of(mode)

    def child(self, mode: str | None = None) -> Permissions:
        """A view for a child agent: the same rules and grants, and a mode that can only be tighter."""
        child = Permissions.__new__(Permissions)
        child.__dict__.update(self.__dict__)
        child._mode = mode_of(mode) if mode else "bypass"  # bypass: whatever the parent has
        child._parent = self
        return child

    def judge(self, agent: str, tool: ToolFacts, args: Mapping[str, Any], effects: Sequence[Effect]) -> Decision:
        """The decision for one call."""
        given = tuple(str(args[name]) for name in ("file_path", "path", "notebook_path") if args.get(name))
        files = any(effect.kind in ("read", "write") for effect in effects)
        decision = decide(
            tool,
            effects,
            self.book.all(),
            self.mode,
            self.scene(given if files else (), runs=any(effect.kind == "exec" for effect in effects)),
        )
        if decision.verdict == "ask" and args.get("why") and any(effect.needs for effect in effects):
            return replace(decision, reason=f"{decision.reason}: {args['why']}")
        return decision

    def forbids(self, tool: ToolFacts) -> bool:
        """Whether a rule denies every call of a tool."""
        return any(rule.covers(tool) and not rule.pattern for rule in self.book.rules.deny)

    def may_read(self, path: Path) -> bool:
        """Whether no rule denies a file to be read."""
        return self.judge("main", _Reader(), {}, [Effect("read", str(path))]).verdict != "deny"

    def scene(self, given: tuple[str, ...] = (), *, runs: bool = True) -> Situation:
        """What a judgement knows now beside the call; of the boxes only where a command `runs`."""
        box = self.sandbox if runs else None
        return Situation(
            self.workspace,
            trusted=self.trusted,
            boxes=box.boxes if box else "",
            network=bool(box and box.network),
            hides_git=box.hides_git if box else lambda cwd: "",
            refusal=box.refusal if box else "",
            given=given,
            exact=frozenset(self.book.exact),
            granted=self.book.of_dialogs,
            changed=self.book.changed,
        )

    def grant(self, agent: str, rule: str, *, forever: bool) -> None:
        """Remember a grant for this run, or for every run in this folder."""
        self.book.grant(agent, rule, forever=forever)
