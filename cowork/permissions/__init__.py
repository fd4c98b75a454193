"""What may run: rules, shell commands, paths, trust and the sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.core.modes import mode_of, tighter
from cowork.core.ports import Decision, Effect, Family, ToolFacts
from cowork.core.workspace import Workspace
from cowork.permissions.commands import online
from cowork.permissions.layers import Rules, Scene
from cowork.permissions.policy import decide
from cowork.permissions.private import write_private
from cowork.permissions.rules import Rule, parse_all

_MOST_RULES = 1 << 20  # bytes of a rules file


class Box(Protocol):
    """What permissions ask of a sandbox."""

    network: bool

    @property
    def tight(self) -> bool: ...
    @property
    def refusal(self) -> str: ...


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
        project_ask: Sequence[str] = (),
        project_deny: Sequence[str] = (),
        rules_file: Path | None = None,
        trusted: bool = False,
        sandbox: Box | None = None,
        auto_allow: bool = False,
    ) -> None:
        self.workspace = workspace
        self.trusted = trusted
        self.sandbox = sandbox
        self.auto_allow = auto_allow
        self.rules_file = rules_file
        self.rules = Rules.of(allow, ask, deny).tighten(Rules.of((), project_ask, project_deny))
        denied = (rule.pattern for rule in self.rules.deny if rule.pattern and rule.speaks_of("read"))
        workspace.unsearched = tuple(dict.fromkeys((*workspace.unsearched, *(p.removeprefix("./") for p in denied))))
        self.granted: list[tuple[str, Rule]] = []  # (who asked, what was granted), of the whole tree
        self._kept = Rules(allow=tuple(_load(rules_file, workspace.root))) if rules_file else Rules()
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
        rules = self._all()
        given = tuple(str(args[name]) for name in ("file_path", "path", "notebook_path") if args.get(name))
        runs = [effect for effect in effects if effect.kind == "exec"]
        scene = Scene(
            self.workspace,
            trusted=self.trusted,
            sandboxed=bool(runs) and all(map(self._held, runs)),
            refusal=self.sandbox.refusal if self.sandbox is not None and runs else "",
            given=given if any(effect.kind in ("read", "write") for effect in effects) else (),
        )
        return decide(tool, effects, rules, self.mode, scene)

    def forbids(self, tool: ToolFacts) -> bool:
        """Whether a rule denies every call of a tool."""
        return any(rule.covers(tool) and not rule.pattern for rule in self.rules.deny)

    def may_read(self, path: Path) -> bool:
        """Whether no rule denies a file to be read."""
        return self.judge("main", _Reader(), {}, [Effect("read", str(path))]).verdict != "deny"

    def _held(self, effect: Effect) -> bool:
        """Whether the sandbox holds all a command may do, whatever it turns out to be, and the user trusts in that."""
        if not (self.auto_allow or self.mode == "auto") or self.sandbox is None or not self.sandbox.tight:
            return False
        return not self.online(effect.target, Path(effect.cwd) if effect.cwd else self.workspace.root)

    def online(self, command: str, cwd: Path) -> bool:
        """Whether this command has the network inside the sandbox: as rules say, else as the sandbox is set."""
        otherwise = self.sandbox is not None and self.sandbox.network
        return online(command, cwd, self._all(), Scene(self.workspace, trusted=self.trusted), otherwise=otherwise)

    def grant(self, agent: str, rule: str, *, forever: bool) -> None:
        """Remember a grant for this run, or for every run in this folder."""
        if not rule:
            return
        rules = parse_all(rule)
        self.granted += [(agent, one) for one in rules if (agent, one) not in self.granted]
        if forever and self.rules_file:
            top = self._top
            kept = [*top._kept.allow, *(one for one in rules if one not in top._kept.allow)]
            _save(self.rules_file, self.workspace.root, kept)
            top._kept = Rules(allow=tuple(kept))

    def kept(self) -> tuple[Rule, ...]:
        """What was granted for every run in this folder."""
        return self._top._kept.allow

    def forget(self, rule: str) -> bool:
        """Take a grant back, of this run and of this folder; False when it was none."""
        top, granted = self._top, [one for one in self.granted if str(one[1]) != rule]
        kept = [one for one in top._kept.allow if str(one) != rule]
        found = len(granted) < len(self.granted) or len(kept) < len(top._kept.allow)
        self.granted[:] = granted
        if self.rules_file and len(kept) < len(top._kept.allow):
            _save(self.rules_file, self.workspace.root, kept)
            top._kept = Rules(allow=tuple(kept))
        return found

    def _all(self) -> Rules:
        return self.rules + self._top._kept + Rules(allow=tuple(rule for _, rule in self.granted))

    @property
    def _top(self) -> Permissions:
        return self._parent._top if self._parent else self


def _load(path: Path, root: Path) -> list[Rule]:
    """The rules granted in this folder by earlier runs; a grant in one repository says nothing about another."""
    try:
        return [rule for text in _read(path).get(str(root), ()) for rule in parse_all(str(text))]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path} cannot be read as rules: {error}.", "Correct or delete it.") from error


def _read(path: Path) -> dict[str, list[str]]:
    try:
        with open(path, "rb") as file:
            folders: dict[str, list[str]] = json.loads(file.read(_MOST_RULES))["allow"]
    except FileNotFoundError:
        return {}
    except KeyError as error:
        raise ValueError("it has no allow") from error
    return folders


def _save(path: Path, root: Path, rules: Sequence[Rule]) -> None:
    """Write the rules whole or not at all, for the user alone; those of other folders are kept."""
    write_private(
        path, json.dumps({"version": 1, "allow": {**_read(path), str(root): [str(r) for r in rules]}}, indent=1)
    )
