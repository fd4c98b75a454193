"""Whether a command may run, in this order: never, deny rules, plan mode, ask rules, reading, allow rules, the mode."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cowork.core.errors import UserError
from cowork.core.ports import Decision, Effect, ToolFacts
from cowork.core.workspace import Workspace
from cowork.permissions.layers import PLAN, Rules, Scene
from cowork.permissions.rules import COMMAND, NETWORK, Rule, allows, denies, parse_all, path_matches
from cowork.permissions.shell.gitread import shows
from cowork.permissions.shell.judge import Judgement, Part, judge, mentioned, words_of
from cowork.permissions.shell.lookup import matches
from cowork.permissions.shell.programs import INTERPRETERS, SHELLS, family
from cowork.permissions.shell.refused import expanded
from cowork.permissions.shell.words import names

# First words that say what a command does and let no later word run something else: a prefix is a fair grant. Of the
# others only the exact command is. A build or a test runs the project's own code, which is what the person grants.
_PREFIXES = {
    "git": names(
        "add commit status switch checkout restore branch stash tag merge revert cherry-pick reset rm mv push pull"
    )
    | names("fetch rebase diff log show grep blame"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), names("test ci run run-script")),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pipenv"), names("run sync lock")),
    "cargo": names("build check test clippy fmt doc bench run"),
    "go": names("build test vet fmt list"),
    **dict.fromkeys(("mvn", "gradle", "dotnet", "mix"), names("test build check compile verify package")),
    "bundle": names("exec install"),
    "pip": names("list show freeze"),
    "pre-commit": names("run"),
    "terraform": names("plan validate fmt"),
}
_NAMED_NEXT = names("run run-script exec")  # and the word after it is part of what is granted
_TOOLS = names("pytest ruff mypy eslint prettier tsc jest vitest black flake8 pyright tox nox")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_][\w.:/@-]*")
_HALF = re.compile("[\ud800-\udfff]")
MAX_PATHS = 400
MAX_PLACES = 800  # paths in all the folders a text goes to
MAX_NAMES = 2_000  # in code
_EDITS_FREELY = frozenset({"mkdir", "touch"})


@dataclass(slots=True)
class _Findings:
    """What the rules say about a command."""

    denied: str = ""
    asked: str = ""
    allowed: set[int] = field(default_factory=set)  # parts an allow rule covers


def decide_command(tool: ToolFacts, effect: Effect, rules: Rules, mode: str, scene: Scene) -> Decision:
    if _HALF.search(effect.target):
        return Decision("deny", "it holds half a character (a lone surrogate), which no command can; send it whole")
    cwd = Path(effect.cwd) if effect.cwd else scene.workspace.root
    judgement = judge(effect.target, scene.workspace, cwd, trusted=scene.trusted)
    found = _apply(tool, judgement, rules, scene)
    display = _display(judgement, found)
    if scene.refusal:
        return Decision("deny", scene.refusal, display=display)
    if judgement.refused:
        return Decision("deny", f"never allowed: {judgement.refused}", display=display)
    if found.denied:
        return Decision("deny", found.denied, display=display)
    alone = judgement.unclear and _can_deny(rules.deny)
    if judgement.limited and (alone or mode == "bypass"):
        return Decision("deny", f"it cannot be checked: {judgement.unclear}; make it shorter", display=display)
    read_only = judgement.read_only and not found.asked
    if mode == "plan" and not read_only:
        return Decision("deny", PLAN, display=display)
    if alone:  # bypass has nobody to ask
        verdict: Literal["ask", "deny"] = "deny" if mode == "bypass" else "ask"
        return Decision(verdict, f"deny rules cannot be checked: {judgement.unclear}", display=display)
    if found.asked:
        return Decision("ask", found.asked, display=display)
    if read_only:
        return Decision("allow", display=display, read_only=True)
    return _by_mode(judgement, found, mode, scene, display)


def online(command: str, cwd: Path, rules: Rules, scene: Scene, *, otherwise: bool) -> bool:
    """Whether a command has the network in the sandbox; `otherwise` where no Network rule speaks.

    An allow rule must cover each part that does not only read, by its literal words. It does not say that it may run.
    """
    allow = [rule for rule in rules.allow if rule.tool == NETWORK]
    deny = [rule for rule in rules.deny if rule.tool == NETWORK]
    if not deny and (otherwise or not allow):
        return otherwise
    judgement = judge(command, scene.workspace, cwd, trusted=scene.trusted)
    if deny and (judgement.unclear or any(denies(r, c) is not False for r in deny for c in judgement.commands)):
        return False
    left = [part for part in judgement.parts if part.verdict != "read-only"]
    covered = judgement.literal and bool(left) and all(any(allows(rule, p.argv) for rule in allow) for p in left)
    return otherwise or covered


def _by_mode(judgement: Judgement, found: _Findings, mode: str, scene: Scene, display: dict[str, Any]) -> Decision:
    if mode == "bypass":
        return Decision("allow", display=display)
    left = [
        part
        for number, part in enumerate(judgement.parts)
        if part.verdict != "read-only" and number not in found.allowed and not _free(part, mode, judgement, scene)
    ]
    if judgement.literal and not left:
        return Decision("allow", display=display)
    if scene.sandboxed and not judgement.limited:
        return Decision("allow", "it runs in the sandbox", display=display)
    grants = list(dict.fromkeys(_grant(part.inner or part.argv) for part in left)) if judgement.literal else [""]
    rule = ", ".join(grants) if all(grants) else ""
    whys = list(dict.fromkeys(part.why for part in left or judgement.parts))
    return Decision("ask", "; ".join(whys[:3]), rule, rule, display)


def _apply(tool: ToolFacts, judgement: Judgement, rules: Rules, scene: Scene) -> _Findings:
    found = _Findings()
    words = {
        word.text
        for command in judgement.commands
        if command.perhaps != "mentions"
        for word in words_of(command)
        if word.text
    }
    most = min(MAX_PATHS, MAX_PLACES // max(1, len(judgement.folders)))
    paths = {text: _places(text, judgement.folders) for text in list(words)[:most]}
    found.denied = _says(rules.deny, tool, judgement, paths, scene, "denies")
    found.asked = _says(rules.ask, tool, judgement, paths, scene, "asks about")
    if not judgement.read_only:
        found.asked = found.asked or _touches_protected(paths, scene.workspace)
    for rule in rules.deny:
        if _speaks(rule, tool) and not found.asked and any(denies(rule, c) is None for c in judgement.commands):
            found.asked = f"the rule {rule} may deny it; only run time would tell"
    if len(words) > most:
        why = f"it names more than {most} paths, too many to check"
        found.asked = found.asked or why
        found.denied = found.denied or (
            why if any(rule.pattern and not _speaks(rule, tool) for rule in rules.deny) else ""
        )
    if not found.asked and any(r.speaks_of("read") for r in rules.deny) and _searches_all(judgement):
        found.asked = "it searches whole folders, which may hold files a rule denies"
    for number, part in enumerate(judgement.parts):
        for rule in rules.allow:
            if (
                _speaks(rule, tool)
                and part.argv
                and (allows(rule, part.argv) or (part.inner and allows(rule, part.inner)))
            ):
                found.allowed.add(number)
    return found


def _named(judgement: Judgement) -> list[Path] | None:
    """Where the names inside code and feeds may lead, there or not; None when they are too many to check."""
    found, folders = mentioned(judgement.commands), judgement.folders
    if len(found) * len(folders) > MAX_NAMES:
        return None
    return [Path(os.path.normpath(at / expanded(name, at))) for name in found for at in folders]


def _says(
    rules: tuple[Rule, ...], tool: ToolFacts, judgement: Judgement, paths: dict[str, set[Path]], scene: Scene, verb: str
) -> str:
    """What the first rule that covers a command, or a path it names, says."""
    inside = _named(judgement) if any(rule.pattern and not _speaks(rule, tool) for rule in rules) else []
    for rule in rules:
        if _speaks(rule, tool) and any(denies(rule, command) for command in judgement.commands):
            return f"the rule {rule} {verb} it"
        covers = rule.speaks_of("read") or (rule.speaks_of("write") and not judgement.read_only)
        if not covers or not rule.pattern:
            continue
        for text, places in paths.items():
            if any(path_matches(rule, place, scene.workspace.root, fold=True) for place in places):
                return f"the rule {rule} {verb} {text}"
        if inside is None or any(path_matches(rule, p, scene.workspace.root, fold=True) for p in inside):
            return f"the rule {rule} {verb} a file named in its code"
    return ""


def _places(text: str, folders: Sequence[Path]) -> set[Path]:
    """Where a word may lead as a path, from every folder its command may run in."""
    text = text.removeprefix("file://").removeprefix("@")
    if "\0" in text or len(text) > 4096:
        return set()
    found: set[Path] = set()
    for folder in folders:
        plain = Path(os.path.normpath(folder / expanded(text, folder)))
        found |= {plain, _real(plain), *_matching(plain)}
    return found


def _real(path: Path) -> Path:
    """Where a path leads; itself where that is not to be seen, as of another's process in /proc."""
    try:
        return Path(os.path.realpath(path))
    except OSError:
        return path


def _matching(path: Path) -> list[Path]:
    """The files a path with patterns in it stands for now."""
    if not re.search(r"[*?\[{]", str(path)):
        return []
    found = [Path("/")]
    for part in path.parts[1:]:
        pattern = re.sub(r"\{[^{}]*(?:,|\.\.)[^{}]*\}", "*", part)
        fixed = not re.search(r"[*?\[]", pattern)
        hidden = part.startswith((".", "{"))  # a plain * brings no hidden names
        names_of = [[part] if fixed else _names(place, pattern, hidden=hidden) for place in found]
        found = [place / name for place, these in zip(found, names_of, strict=True) for name in these][:MAX_PATHS]
    return found


def _names(folder: Path, pattern: str, *, hidden: bool) -> list[str]:
    try:
        found = os.listdir(folder)
    except OSError:
        return []
    return [name for name in found if matches(name, pattern) and (hidden or not name.startswith("."))]


def _touches_protected(paths: dict[str, set[Path]], workspace: Workspace) -> str:
    """A command that is not known to only read and names a protected path asks, whatever the rules allow."""
    for text, places in paths.items():
        if text.startswith("-"):
            continue
        for place in places:
            if not place.is_relative_to("/dev") and (why := workspace.protects(place)):
                return why
    return ""


def _searches_all(judgement: Judgement) -> bool:
    for command in judgement.commands:
        argv = tuple(word.text for word in command.words if word.text != "--no-pager")
        if argv[:2] == ("git", "-C"):
            argv = ("git", *argv[3:])
        if not argv or command.perhaps:
            continue
        if argv[0] in ("rg", "find", "tree") or (
            argv[0] == "grep" and any(re.match(r"-\w*[rR]|--(?:rec|deref)", w) for w in argv)
        ):
            return True
        if argv[0] == "git" and len(argv) > 1 and shows(argv[1:]):
            return True
    return False


def _can_deny(rules: tuple[Rule, ...]) -> bool:
    return any(rule.tool == COMMAND for rule in rules)


def _speaks(rule: Rule, tool: ToolFacts) -> bool:
    """Whether a rule is about commands that this tool runs."""
    return rule.tool == COMMAND or rule.covers(tool)


def _free(part: Part, mode: str, judgement: Judgement, scene: Scene) -> bool:
    """Making folders and empty files in the workspace is an edit."""
    if mode not in ("accept-edits", "auto") or not part.argv or part.argv[0] not in _EDITS_FREELY:
        return False
    words = [word for word in part.argv[1:] if word != "-p"]
    plain = all(not word.startswith("-") and not re.search(r"[*?]", word) for word in words)
    return plain and all(
        scene.workspace.may_write(real := _real(judgement.cwd / word)) and not scene.workspace.protects(real)
        for word in words
    )


def _grant(argv: tuple[str, ...]) -> str:
    """The rule "always" adds for a command: a prefix where its first words say what it does, else the exact command."""
    if not argv or any("\n" in word or "*" in word or "?" in word for word in argv):
        return ""
    name = argv[0]
    if name in _TOOLS:
        return _offered(f"{name}:*", argv)
    if len(argv) > 1 and argv[1] in _PREFIXES.get(name, ()):
        length = 3 if argv[1] in _NAMED_NEXT and name != "cargo" else 2
        words = argv[:length]
        runs_anything = len(words) > 2 and (family(words[2]) in INTERPRETERS or family(words[2]) in SHELLS)
        plain = len(words) == length and all(map(_PLAIN_WORD.fullmatch, words)) and not runs_anything
        if plain and (rule := _offered(f"{' '.join(words)}:*", argv)):
            return rule
    return _offered(shlex.join(argv), argv)


def _offered(pattern: str, argv: tuple[str, ...]) -> str:
    """A rule only if, read back, it is one rule and covers this command."""
    rule = f"{COMMAND}({pattern})"
    try:
        read = parse_all(rule) if len(rule) <= 200 else []
    except UserError:
        return ""
    return rule if [str(one) for one in read] == [rule] and allows(read[0], argv) else ""


def _display(judgement: Judgement, found: _Findings) -> dict[str, Any]:
    parts = []
    for number, part in enumerate(judgement.parts):
        allowed = number in found.allowed and part.verdict == "ask"
        verdict = {"read-only": "allow", "ask": "ask", "refused": "deny"}[part.verdict]
        parts.append(
            {
                "text": part.text,
                "verdict": "deny" if found.denied else "allow" if allowed else verdict,
                "why": found.denied or ("a rule allows it" if allowed else part.why),
            }
        )
    return {"kind": "command", "parts": parts}
