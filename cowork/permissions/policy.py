"""The policy: `Permissions` says allow, ask or deny for one call, why, and the exact rule an "always" would add.

In this order: what never runs, deny rules, folders, plan mode, protected writes, ask rules, allow rules, the mode.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cowork.core.later import later
from cowork.core.ports import Decision, Effect, ToolFacts, mode_of, tighter
from cowork.core.secret_names import sensitive
from cowork.core.workspace import Workspace
from cowork.permissions.rules import Rule, RuleBook, Rules, host_of, path_matches, url_matches

with later(__name__):
    from cowork.permissions.commands import judge_command
    from cowork.permissions.sandbox.masks import holds_password

if TYPE_CHECKING:
    from cowork.permissions.sandbox.box import Sandbox

PLAN = "plan mode is read-only. Look around with the tools that read, then hand in your plan"
PLAN += " and let the user leave plan mode"


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
        sandbox: Sandbox | None = None,
    ) -> None:
        self.workspace, self.trusted, self.sandbox = workspace, trusted, sandbox
        self.book = book or RuleBook(workspace, Rules.of(allow, ask, deny))
        self.grant = self.book.grant
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

    @property
    def boxes(self) -> Literal["both", "read", ""]:  # those that hold commands here
        return self.sandbox.boxes if self.sandbox else ""

    def child(self, mode: str | None = None) -> Permissions:
        """A view for a child agent: the same rules and grants, and a mode that can only be tighter."""
        child = Permissions.__new__(Permissions)
        child.__dict__.update(self.__dict__)
        child._mode = mode_of(mode) if mode else "bypass"  # bypass: whatever the parent has
        child._parent = self
        return child

    def judge(self, agent: str, tool: ToolFacts, args: Mapping[str, Any], effects: Sequence[Effect]) -> Decision:
        """The decision for one call: the strictest of its effects."""
        given = [str(args[name]) for name in ("file_path", "path", "notebook_path") if args.get(name)]
        found = []
        for effect in effects or (Effect("none"),):
            if effect.kind in ("read", "write"):
                found.append(_judge_file(tool, effect, self, given))
            else:
                found.append(judge_command(effect, self) if effect.kind == "exec" else _judge_other(tool, effect, self))
        worst = max(found, key=lambda decision: ("allow", "ask", "deny").index(decision.verdict))
        if worst.verdict == "ask" and args.get("why") and any(effect.needs for effect in effects):
            worst = replace(worst, reason=f"{worst.reason}: {args['why']}")
        if len(found) == 1:
            return worst
        grants = dict.fromkeys(decision.rule for decision in found if decision.verdict == worst.verdict)
        rule = ", ".join(grants) if all(grants) else ""
        return replace(worst, rule=rule, session_rule=rule, read_only=all(decision.read_only for decision in found))

    def forbids(self, tool: ToolFacts) -> bool:
        """Whether a rule denies every call of a tool."""
        return any(rule.covers(tool) and not rule.pattern for rule in self.book.rules.deny)

    def may_read(self, path: Path) -> bool:
        """Whether no rule denies a file to be read."""
        deny, root = self.book.rules.deny, self.workspace.root
        denied = any(rule.speaks_of("read") and path_matches(rule, path, root, fold=True) for rule in deny)
        return self.workspace.may_read(path) and not denied


def _judge_file(tool: ToolFacts, effect: Effect, permits: Permissions, given: Sequence[str]) -> Decision:
    path, writes, mode, workspace = Path(effect.target), effect.kind == "write", permits.mode, permits.workspace
    rules, root, shown = permits.book.all(), workspace.root, workspace.show(path)
    spellings = {path, *(Path(os.path.normpath(root / os.path.expanduser(text))) for text in given)}
    display = {"kind": "path", "path": str(path)}

    def first(wanted: tuple[Rule, ...], *, fold: bool) -> Rule | None:
        speaking = (rule for rule in wanted if rule.covers(tool) or rule.speaks_of("write" if writes else "read"))
        places = spellings if fold else {path}
        return next((rule for rule in speaking if any(path_matches(rule, p, root, fold=fold) for p in places)), None)

    if rule := first(rules.deny, fold=True):
        return Decision("deny", f"the rule {rule} denies {shown}")
    if writes and workspace.may_read(path) and not workspace.may_write(path):
        return Decision("deny", f"{path} may be read but not written")
    if not workspace.may_read(path):
        folder, verb = path if os.path.isdir(path) else path.parent, "written" if writes else "read"
        hint = f"the user can allow {'it' if folder == path else 'its folder'} with --add-dir {folder}"
        return Decision("deny", f"{path} is outside the workspace and may not be {verb}; {hint}")
    if writes and mode == "plan":
        return Decision("deny", PLAN)
    # A protected folder of the workspace may itself be a link to one with an innocent name.
    links = [root / name for name in (".git", ".cowork", ".claude", ".agents", ".vscode", ".idea")] if writes else []
    behind = (link for link in links if link.is_symlink() and path.is_relative_to(os.path.realpath(link)))
    linked = next((f"{path} is protected: {link.name} leads to it" for link in behind), "")
    if writes and (why := workspace.protects(path) or linked):
        return Decision("ask", why, display=display)
    if rule := first(rules.ask, fold=True):
        return Decision("ask", f"the rule {rule} asks", display=display, read_only=not writes)
    name = f"./{path.relative_to(root)}" if path.is_relative_to(root) and path != root else str(path)
    # None where the name would read as a pattern, or as more than one rule.
    grant = "" if re.search(r"[*?\n()]|^\s|\s$", name) else f"{'Edit' if writes else 'Read'}({name})"
    if mode == "bypass" or first(rules.allow, fold=False):
        return Decision("allow", read_only=not writes)
    if writes and mode not in ("accept-edits", "auto"):
        return Decision("ask", f"{tool.name} changes {shown}", grant, grant, display)
    if not writes and (any(sensitive(place) for place in spellings) or holds_password(path)):
        return Decision("ask", f"{shown} may hold secrets", grant, grant, display, read_only=True)
    return Decision("allow", read_only=not writes)


def _judge_other(tool: ToolFacts, effect: Effect, permits: Permissions) -> Decision:
    """Calls without a file or command: by the first rule that covers them, then the mode, then what they do."""
    rules, mode = permits.book.all(), permits.mode
    default, reads = Decision("allow"), effect.kind != "call"
    if effect.kind == "fetch":  # asked about once a host
        host = host_of(effect.target)
        grant = f"{tool.name}(domain:{host})" if host else ""
        default = Decision("ask", f"it reads from {host or effect.target}", grant, grant, read_only=True)
    elif effect.kind == "call":
        default = Decision("ask", f"nothing is known of what {tool.name} changes", tool.name, tool.name)

    def first(wanted: tuple[Rule, ...], *, wide: bool) -> Rule | None:
        for rule in (rule for rule in wanted if rule.covers(tool)):
            same = re.sub(r"[-_ ]", "", rule.pattern).casefold() == re.sub(r"[-_ ]", "", effect.target).casefold()
            named = url_matches(rule, effect.target, wide=wide) if effect.kind == "fetch" else same and reads
            if named or not rule.pattern:
                return rule
        return None

    if rule := first(rules.deny, wide=True):
        return Decision("deny", f"the rule {rule} denies it")
    if mode == "plan" and not reads:
        return Decision("deny", PLAN)
    if rule := first(rules.ask, wide=True):
        return Decision("ask", f"the rule {rule} asks", read_only=default.read_only)
    if mode == "bypass" or first(rules.allow, wide=False):
        return Decision("allow", read_only=default.read_only)
    return default
