"""Whether a command may run and in which box, in this order: never, deny rules, plan mode, ask rules, what was
granted as shown, reading, allow rules, the mode."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from cowork.core.frozen import frozen
from cowork.core.hygiene import visible
from cowork.core.ports import EXACTLY, Decision, Effect
from cowork.permissions.offers import offer
from cowork.permissions.policy import PLAN, Situation
from cowork.permissions.rules import Rule, Rules, allows, denies, path_matches
from cowork.permissions.shell.follow import Followed, follow, program
from cowork.permissions.shell.hints import Place, hint, in_workspace, words_hint
from cowork.permissions.shell.never import expanded, folders_of, never_of
from cowork.permissions.shell.parse import SimpleCommand
from cowork.permissions.shell.strict import only_reads

_HALF = re.compile("[\ud800-\udfff]")
_MAKES = frozenset({"mkdir", "touch"})
_ONLY_PRINTS = frozenset({"cat", "echo", "printf", "cd"})  # and so writes nothing but what it is redirected into
_LONGEST_EXACT = 2_000
_PATH = re.compile(r"[\w./~@+-]+")
_LEVELS: tuple[Place, ...] = ("read", "write", "network", "outside")
# By place: the rules that let a command run there, of which the first is what "always" adds.
_COVERING = {"write": ("Bash", "Network", "Outside"), "network": ("Network", "Outside"), "outside": ("Outside",)}
_WANTED = {
    "write": "it could not run read-only",
    "network": "it asks for the network",
    "outside": "it asks for a run outside the sandbox",
}


@frozen
class Part:
    """One simple command as people see it. `argv` is set when it is literal, so that an allow rule may match it."""

    text: str
    place: Place
    why: str = ""
    argv: tuple[str, ...] = ()
    cwd: Path = Path()
    checks: bool = False
    allowed: str = ""  # the rule that covers it


@frozen
class Judged:
    """A command taken apart: what people see, what was followed, and where it belongs."""

    parts: tuple[Part, ...]
    followed: Followed
    never: str
    place: Place
    why: str
    cwd: Path

    @property
    def literal(self) -> bool:
        return self.followed.parsed.literal

    @property
    def beyond(self) -> Place:
        """Where it runs with a yes, which is not in the read box."""
        return self.place if self.place != "read" else "write"


def judge(effect: Effect, cwd: Path, root: Path) -> Judged:
    """Take a command apart that would run in `cwd`; what this stumbles over is never judged safe."""
    followed = follow(effect.target)
    parts = _parts(followed, effect.target, cwd)
    guess = hint(followed.commands, otherwise=followed.opaque)
    place, why = guess.place, guess.why
    if effect.needs and _LEVELS.index(place) < _LEVELS.index(effect.needs):
        place, why = effect.needs, _WANTED[effect.needs]
        alone = all(part.place == "read" for part in parts)
        parts = [replace(part, place=place, why=why) if part.place != "read" or alone else part for part in parts]
    if followed.limited:
        place, why = "write", followed.opaque
    return Judged(tuple(parts), followed, never_of(followed, cwd, root), place, why, cwd)


def decide_command(effect: Effect, rules: Rules, mode: str, scene: Situation) -> Decision:
    """The decision for one command."""
    if _HALF.search(effect.target):
        return Decision("deny", "it holds half a character (a lone surrogate), which no command can; send it whole")
    cwd = Path(effect.cwd) if effect.cwd else scene.workspace.root
    judged = judge(effect, cwd, scene.workspace.root)
    parts = [_covered(part, rules.allow, scene) for part in judged.parts]
    outside = not scene.boxes or judged.place == "outside"
    denied, unsure = _denials(rules.deny, judged, cwd, scene, unheld=outside)
    left = [part for part in parts if part.place != "read" or _held_back(part, judged, cwd, scene)]
    display = _display(parts, left, denied or judged.never, judged)
    if why := scene.refusal or (f"never allowed: {judged.never}" if judged.never else "") or denied:
        return Decision("deny", why, display=display)
    if judged.followed.limited and (unsure or mode == "bypass"):
        return Decision("deny", f"it cannot be checked: {judged.followed.opaque}; make it shorter", display=display)
    if unsure:  # bypass and plan have nobody to ask
        verdict: Literal["ask", "deny"] = "deny" if mode in ("bypass", "plan") else "ask"
        return Decision(verdict, f"deny rules cannot be checked: {unsure}", display=display, box=judged.place)
    reading = _reads(judged, left, cwd, scene)
    if mode == "plan":
        if reading and (not scene.boxes or judged.followed.limited):
            return Decision("deny", PLAN, display=display)
        return Decision("allow", display=display, read_only=True, box="read")
    if asked := _asks(rules.ask, judged, cwd, scene, unheld=outside and bool(reading)):
        return Decision("ask", asked, display=display, box=judged.place)
    if effect.target in scene.exact:
        return Decision("allow", "granted for this session", display=display, box=judged.place)
    if not reading:
        # What checks code wants to keep its caches: where nobody has to be asked for that, it may write.
        checks = [part for part in parts if part.checks]
        wider = _by_rules_and_mode(effect, judged, checks, "", mode, scene, display) if checks else None
        if wider and wider.verdict == "allow":
            return wider
        return Decision("allow", display=display, read_only=True, box="read")
    return _by_rules_and_mode(effect, judged, left, reading, mode, scene, display)


def _by_rules_and_mode(
    effect: Effect,
    judged: Judged,
    left: Sequence[Part],
    reading: str,
    mode: str,
    scene: Situation,
    display: dict[str, Any],
) -> Decision:
    """The decision for a command of which these parts do not only read."""
    place = judged.beyond
    if judged.literal and left and all(part.allowed in _COVERING[place] for part in left):
        return Decision("allow", display=display, box=place)
    if judged.literal and left and effect.needs in ("", "write") and all(part.allowed == "Bash" for part in left):
        return Decision("allow", display=display, box="write")
    if mode == "bypass":
        return Decision("allow", display=display, box=place)
    held = scene.boxes == "both" and not scene.network
    if mode == "auto" and held and place == "write" and not judged.followed.limited:
        return Decision("allow", "it runs in the sandbox", display=display, box="masked")
    if mode in ("accept-edits", "auto") and _edits(judged, scene):
        return Decision("allow", display=display, box="write")
    asked = [part for part in left if part.allowed not in _COVERING[place]]
    why = next((part.why for part in asked if part.why and part.place == judged.place), "")
    offers = [offer(_COVERING[place][0], part.argv, part.cwd, scene.workspace.root) for part in asked]
    rule = ", ".join(dict.fromkeys(offers)) if judged.literal and all(offers) else ""
    shown = len(effect.target) <= _LONGEST_EXACT and visible(effect.target) == effect.target
    session = rule or (EXACTLY + effect.target if shown and not judged.followed.limited else "")
    return Decision("ask", why or reading or judged.why, rule, session, display, box=place)


# ---------------------------------------------------------------- parts


def _parts(followed: Followed, text: str, cwd: Path) -> list[Part]:
    """The parts of a text as people see it; of a literal one with the folder each runs in, as far as a `cd` tells."""
    parsed = followed.parsed
    if not parsed.literal:
        why = parsed.fancy or followed.opaque
        top = [one for one in followed.commands if one.top and one.text] or [SimpleCommand(text=text)]
        guesses = [(one, hint([one])) for one in top]
        return [Part(_short(one.text), g.place, g.why or why, checks=g.checks) for one, g in guesses]
    parts = []
    for command in parsed.commands:
        words = _unwrapped([word.text for word in command.words])
        guess = words_hint(words)
        parts.append(Part(command.text, guess.place, guess.why, words, cwd, guess.checks))
        if words[0] == "cd" and len(words) == 2 and command.words[-1].literal:
            cwd = Path(os.path.normpath(cwd / words[1]))
    return parts


def _covered(part: Part, allow: Sequence[Rule], scene: Situation) -> Part:
    """The part with the rule that covers it; a grant holds for the program as it was when it was granted."""
    if not part.argv:
        return part
    levels = _COVERING.get(part.place, _COVERING["write"])
    speaking = (rule for rule in allow if rule.tool in _COVERING["write"])
    found = [rule for rule in speaking if allows(rule, part.argv, part.cwd, scene.workspace.root)]
    rule = min(found, key=lambda rule: rule.tool not in levels, default=None)
    if rule is None:
        return part
    file = in_workspace(part.argv[0], part.cwd, scene.workspace.writable)
    if file and rule in scene.granted and rule.pattern and scene.changed(file):
        return replace(part, why=f"{part.argv[0]} changed since it was allowed")
    return replace(part, allowed=rule.tool)


def _unwrapped(words: Sequence[str]) -> tuple[str, ...]:
    """The words behind `timeout 5`, `time` or `nice -n 5`, which add nothing to what a command may do."""
    while len(words) > 1:
        if words[0] == "time" and not words[1].startswith("-"):
            words = words[1:]
        elif words[0] == "timeout" and len(words) > 2 and re.fullmatch(r"[0-9.]+[smhd]?", words[1]):
            words = words[2:]
        elif words[0] == "nice" and len(words) > 3 and words[1] == "-n" and words[2].lstrip("-").isdigit():
            words = words[3:]
        else:
            break
    return tuple(words)


def _reads(judged: Judged, left: Sequence[Part], cwd: Path, scene: Situation) -> str:
    """Why a command does not run unasked where it can only read; empty when it does."""
    if judged.place != "read" or judged.followed.limited:
        return judged.why or "it may change something"
    if not scene.boxes and not judged.literal:
        return "only plain words run unasked where there is no sandbox"
    return next((_held_back(part, judged, cwd, scene) for part in left), "")


def _held_back(part: Part, judged: Judged, cwd: Path, scene: Situation) -> str:
    """Why a part that only looks does not run unasked all the same."""
    commands = [one for one in judged.followed.commands if one.words]
    own = [one for one in commands if one.text == part.text] or commands
    if any(program(one.words[0].text) == "git" for one in own):
        if not scene.trusted:
            return "git runs what a repository's configuration says, and this folder is not trusted"
        if scene.boxes and (secret := scene.hides_git(cwd)):
            return f"git could show {secret}, which looks like a secret; a rule Read({secret}) would let it"
    if scene.boxes:
        return ""
    if part.argv[:1] == ("cd",):
        here = Path(os.path.normpath(part.cwd / part.argv[-1]))
        certain = all(one.after in ("", "&&", "|") for one in commands) and own[0].after != "|" and len(part.argv) == 2
        inside = scene.workspace.may_read(here) and here.is_dir() and _real(here) == here
        return "" if certain and inside else "cd to a folder only known at run time"
    return only_reads([one for one in own if one.top], part.cwd, scene.workspace)


def _edits(judged: Judged, scene: Situation) -> bool:
    """Whether it only makes folders and files in the workspace; what is written into them needs the box to hold it."""
    commands = judged.followed.commands
    if judged.place != "write" or judged.followed.opaque or not (judged.literal or scene.boxes == "both"):
        return False
    if not all(one.words and one.words[0].text in _MAKES | _ONLY_PRINTS for one in commands):
        return False
    made = [word for one in commands if one.words[0].text in _MAKES for word in one.words[1:] if word.text != "-p"]
    named = [*made, *(word for one in commands for word in one.writes)]
    if not all(word.literal and not re.match("-|.*[*?]", word.text) for word in named):
        return False
    places = [_real(folder / word.text) for folder in folders_of(commands, judged.cwd) for word in named]
    return all(scene.workspace.may_write(real) and not scene.workspace.protects(real) for real in places)


# ---------------------------------------------------------------- deny and ask rules


def _denials(deny: Sequence[Rule], judged: Judged, cwd: Path, scene: Situation, *, unheld: bool) -> tuple[str, str]:
    """What a deny rule says of a command, and why one could not be checked."""
    unsure = ""
    for rule in deny:
        if rule.tool == "Bash" or (rule.tool in ("Network", "Outside") and rule.tool.casefold() == judged.place):
            found = denies(rule, judged.followed)
            if found:
                return f"the rule {rule} denies it", ""
            unsure = unsure or (f"{rule} may cover it" if found is None else judged.followed.opaque)
        elif rule.names_files("read") or rule.names_files("write"):
            named = _names(rule, judged, cwd, scene)
            if named:
                return f"the rule {rule} denies {named}", ""
            if unheld and named is None:
                unsure = unsure or f"{rule} may cover a path that is only known at run time"
    return "", unsure


def _asks(ask: Sequence[Rule], judged: Judged, cwd: Path, scene: Situation, *, unheld: bool) -> str:
    for rule in ask:
        if rule.tool == "Bash" and denies(rule, judged.followed) is not False:
            return f"the rule {rule} asks about it"
        files = rule.names_files("read") or rule.names_files("write")
        if files and (named := _names(rule, judged, cwd, scene)):
            return f"the rule {rule} asks about {named}"
    if unheld:
        for command in judged.followed.commands:
            for text in _paths(command):
                place = _real(cwd / expanded(text, cwd))
                if not place.is_relative_to("/dev") and (why := scene.workspace.protects(place)):
                    return why
    return ""


def _names(rule: Rule, judged: Judged, cwd: Path, scene: Situation) -> str | None:
    """A word of the command that a rule about files covers; None where a word is only known at run time.

    In the boxes the kernel keeps what such a rule denies from commands, whatever words they use.
    """
    if rule.speaks_of("write") and judged.place == "read" and scene.boxes:
        return ""
    unknown, folders = False, folders_of(judged.followed.commands, cwd)
    for command in judged.followed.commands:
        unknown = unknown or not all(word.literal for word in command.words) or _searches(command)
        for text in _paths(command):
            plain = [Path(os.path.normpath(folder / expanded(text, folder))) for folder in folders]
            if any(path_matches(rule, p, scene.workspace.root, fold=True) for p in (*plain, *map(_real, plain))):
                return text
    return None if unknown or judged.followed.opaque else ""


def _real(path: Path) -> Path:
    """Where a path leads; itself where that is not to be seen, as of another's process in /proc."""
    try:
        return Path(os.path.realpath(path))
    except OSError:
        return path


def _searches(command: SimpleCommand) -> bool:
    """Whether it reads whole folders, whatever is in them."""
    words = [word.text for word in command.words]
    if not words or words[0] not in ("grep", "git"):
        return bool(words) and words[0] in ("rg", "find", "tree", "ag", "ack", "fd")
    return bool({"grep", "log", "show", "diff"} & set(words[1:3]) or any(re.match(r"-\w*[rR]|--rec", w) for w in words))


def _paths(command: SimpleCommand) -> list[str]:
    words = [word.text for word in (*command.words[1:], *command.writes, *command.reads)]
    parts = [part for word in words for part in (word, word.partition("=")[2], word.rpartition(":")[2])]
    parts += [word[2:] for word in words if re.match(r"-[A-Za-z].", word)]
    parts += [name for word in (*words, *command.fed) if re.search(r"[\s('\"]", word) for name in _PATH.findall(word)]
    return [part for part in dict.fromkeys(parts) if part and "\0" not in part and len(part) < 4096]


# ---------------------------------------------------------------- what people see


def _display(parts: Sequence[Part], left: Sequence[Part], denied: str, judged: Judged) -> dict[str, Any]:
    shown = []
    for part in parts:
        verdict = "allow" if part.allowed or part not in left else "ask"
        why = "a rule allows it" if part.allowed else part.why if part in left else "it only looks"
        shown.append({"text": part.text, "verdict": "deny" if denied else verdict, "why": denied or why})
    wants = judged.place if judged.place in ("network", "outside") else ""
    return {"kind": "command", "parts": shown, **({"wants": wants} if wants else {})}


def _short(text: str) -> str:
    return text if len(text) <= 2_000 else f"{text[:1_000]} … {text[-500:]}"
