"""The policy: `decide` says allow, ask or deny for one call, why, and the exact rule an "always" would add.

In this order: what never runs, deny rules, folders, plan mode, protected writes, ask rules, allow rules, the mode.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from cowork.core.frozen import frozen
from cowork.core.later import later
from cowork.core.ports import Decision, Effect, ToolFacts
from cowork.core.workspace import Workspace, sensitive
from cowork.permissions.rules import Rule, Rules, host_of, path_matches, url_matches

with later(__name__):
    from cowork.permissions.commands import decide_command
    from cowork.permissions.sandbox.masks import holds_password


PLAN = (
    "plan mode is read-only. Look around with the tools that read, then present your plan as text"
    " and let the user leave plan mode"
)


@frozen
class Situation:
    """What a judgement knows beside the call. `boxes`: both, the read box only, or none work on this system."""

    workspace: Workspace
    trusted: bool = False
    boxes: Literal["both", "read", ""] = ""
    network: bool = False  # the write box has the network, so that nothing runs there unasked
    hides_git: Callable[[Path], str] = lambda cwd: ""  # the tracked secret for which git's objects are hidden inside
    refusal: str = ""  # why no command may run at all
    given: tuple[str, ...] = ()  # paths as the model wrote them, before links were followed
    exact: frozenset[str] = frozenset()  # texts granted as they were shown
    granted: frozenset[Rule] = frozenset()  # rules of a dialog, which hold for a program as it was then
    changed: Callable[[Path], bool] = lambda path: False  # whether a granted program is another by now


def decide(tool: ToolFacts, effects: Sequence[Effect], rules: Rules, mode: str, scene: Situation) -> Decision:
    """The decision for one call: the strictest of its effects."""
    found = [_decide_one(tool, effect, rules, mode, scene) for effect in effects or (Effect("none"),)]
    worst = max(found, key=lambda decision: ("allow", "ask", "deny").index(decision.verdict))
    if len(found) == 1:
        return worst
    same = [decision for decision in found if decision.verdict == worst.verdict]
    grants = list(dict.fromkeys(decision.rule for decision in same))
    rule = ", ".join(grants) if all(grants) else ""
    return Decision(
        worst.verdict,
        worst.reason,
        rule,
        rule,
        worst.display,
        read_only=all(decision.read_only for decision in found),
        box=worst.box,
    )


def _decide_one(tool: ToolFacts, effect: Effect, rules: Rules, mode: str, scene: Situation) -> Decision:
    match effect.kind:
        case "read" | "write":
            return _file(tool, effect, rules, mode, scene)
        case "exec":
            return decide_command(effect, rules, mode, scene)
        case _:
            return _other(tool, effect, rules, mode)


# ---------------------------------------------------------------- files


def _file(tool: ToolFacts, effect: Effect, rules: Rules, mode: str, scene: Situation) -> Decision:
    path = Path(effect.target)
    writes = effect.kind == "write"
    root = scene.workspace.root
    shown = scene.workspace.show(path)
    spellings = {path, *(Path(os.path.normpath(root / os.path.expanduser(given))) for given in scene.given)}
    kind = "Edit" if writes else "Read"

    def first(wanted: tuple[Rule, ...], *, fold: bool) -> Rule | None:
        places = spellings if fold else {path}
        for rule in wanted:
            speaks = rule.covers(tool) or rule.speaks_of("write" if writes else "read")
            if speaks and any(path_matches(rule, p, root, fold=fold) for p in places):
                return rule
        return None

    if rule := first(rules.deny, fold=True):
        return Decision("deny", f"the rule {rule} denies {shown}")
    if not (scene.workspace.may_write(path) if writes else scene.workspace.may_read(path)):
        return Decision("deny", _outside(path, writes, scene.workspace))
    if writes and mode == "plan":
        return Decision("deny", PLAN)
    if writes and (why := scene.workspace.protects(path) or _linked_protected(path, root)):
        return Decision("ask", why, display=_resolved(path))
    if rule := first(rules.ask, fold=True):
        return Decision("ask", f"the rule {rule} asks", display=_resolved(path), read_only=not writes)
    grant = _grant(kind, path, root)
    if mode == "bypass" or first(rules.allow, fold=False):
        return Decision("allow", read_only=not writes)
    if not writes:
        if any(sensitive(place) for place in spellings) or holds_password(path):
            return Decision("ask", f"{shown} may hold secrets", grant, grant, _resolved(path), read_only=True)
        return Decision("allow", read_only=True)
    if mode in ("accept-edits", "auto"):
        return Decision("allow")
    return Decision("ask", f"{tool.name} changes {shown}", grant, grant, _resolved(path))


def _outside(path: Path, writes: bool, workspace: Workspace) -> str:
    verb = "written" if writes else "read"
    if writes and workspace.may_read(path):
        return f"{path} may be read but not written"
    folder = path if os.path.isdir(path) else path.parent
    hint = f"the user can allow {'it' if folder == path else 'its folder'} with --add-dir {folder}"
    return f"{path} is outside the workspace and may not be {verb}; {hint}"


def _linked_protected(path: Path, root: Path) -> str:
    """A protected folder of the workspace may itself be a link to one with an innocent name."""
    for name in (".git", ".cowork", ".claude", ".agents", ".vscode", ".idea"):
        place = root / name
        if place.is_symlink() and path.is_relative_to(os.path.realpath(place)):
            return f"{path} is protected: {name} leads to it"
    return ""


def _resolved(path: Path) -> dict[str, Any]:
    return {"kind": "path", "path": str(path)}


def _anchored(path: Path, root: Path) -> str:
    return f"./{path.relative_to(root)}" if path.is_relative_to(root) and path != root else str(path)


def _grant(kind: str, path: Path, root: Path) -> str:
    """What "always" grants: this file only. None where its name would read as a pattern, or as more than one rule."""
    text = _anchored(path, root)
    return "" if re.search(r"[*?\n()]", text) or text != text.strip() else f"{kind}({text})"


# ---------------------------------------------------------------- agents and the rest


def _other(tool: ToolFacts, effect: Effect, rules: Rules, mode: str) -> Decision:
    """Calls without a file or command: by the first rule that covers them, then the mode, then what they do."""
    default, reads = Decision("allow"), effect.kind != "call"
    if effect.kind == "fetch":  # asked about once a host
        host = host_of(effect.target)
        grant = f"{tool.name}(domain:{host})" if host else ""
        default = Decision("ask", f"it reads from {host or effect.target}", grant, grant, read_only=True)
    elif effect.kind == "call":
        default = Decision("ask", f"nothing is known of what {tool.name} changes", tool.name, tool.name)

    def first(wanted: tuple[Rule, ...], *, wide: bool) -> Rule | None:
        return next((rule for rule in wanted if rule.covers(tool) and _speaks(rule, effect, wide=wide)), None)

    if rule := first(rules.deny, wide=True):
        return Decision("deny", f"the rule {rule} denies it")
    if mode == "plan" and not reads:
        return Decision("deny", PLAN)
    if rule := first(rules.ask, wide=True):
        return Decision("ask", f"the rule {rule} asks", read_only=default.read_only)
    if mode == "bypass" or first(rules.allow, wide=False):
        return Decision("allow", read_only=default.read_only)
    return default


def _speaks(rule: Rule, effect: Effect, *, wide: bool) -> bool:
    """Whether a rule for a tool speaks of this call of it."""
    if effect.kind == "fetch":
        return url_matches(rule, effect.target, wide=wide)
    return not rule.pattern or (effect.kind != "call" and _agent(rule.pattern) == _agent(effect.target))


def _agent(name: str) -> str:
    return re.sub(r"[-_ ]", "", name).casefold()
