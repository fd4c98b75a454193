"""Whether a command may run and in which box, in this order: never, deny rules, plan mode, ask rules, what was
granted as shown, reading, allow rules, the mode."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from cowork.core.frozen import frozen
from cowork.core.hygiene import visible
from cowork.core.ports import EXACTLY, BoxName, Decision, Effect
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
Verdict = Literal["allow", "ask", "deny"]
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


def decide_command(effect: Effect, rules: Rules, mode: str, scene: Situation) -> Decision:
    """The decision for one command; what taking it apart stumbles over is never judged safe."""
    if _HALF.search(effect.target):
        return Decision("deny", "it holds half a character (a lone surrogate), which no command can; send it whole")
    return _Case(effect, rules, mode, scene).decide()


class _Case:
    """One command, taken apart: what people see of it, what was followed, and where it belongs."""

    def __init__(self, effect: Effect, rules: Rules, mode: str, scene: Situation) -> None:
        self.effect, self.rules, self.mode, self.scene = effect, rules, mode, scene
        self.cwd = Path(effect.cwd) if effect.cwd else scene.workspace.root
        self.followed = follow(effect.target)
        self.commands, self.limited = self.followed.commands, self.followed.limited
        self.literal = self.followed.parsed.literal
        self.never = never_of(self.followed, self.cwd, scene.workspace.root)
        guess = hint(self.commands, otherwise=self.followed.opaque)
        self.place, self.why = guess.place, guess.why
        parts = _parts(self.followed, effect.target, self.cwd)
        if effect.needs and _LEVELS.index(self.place) < _LEVELS.index(effect.needs):
            self.place, self.why = effect.needs, _WANTED[effect.needs]
            wanting = [part for part in parts if part.place != "read"] or parts
            parts = [replace(part, place=self.place, why=self.why) if part in wanting else part for part in parts]
        if self.limited:
            self.place, self.why = "write", self.followed.opaque
        self.unheld = not scene.boxes or self.place == "outside"
        self.parts = [_covered(part, rules.allow, scene) for part in parts]
        self.left = [part for part in self.parts if part.place != "read" or self._held_back(part)]
        self.denied, self.unsure = self._denials()

    def decide(self) -> Decision:
        """The decision."""
        if why := self.scene.refusal or (f"never allowed: {self.never}" if self.never else "") or self.denied:
            return self._say("deny", why)
        if self.limited and (self.unsure or self.mode == "bypass"):
            return self._say("deny", f"it cannot be checked: {self.followed.opaque}; make it shorter")
        if self.unsure:  # bypass and plan have nobody to ask
            verdict: Verdict = "deny" if self.mode in ("bypass", "plan") else "ask"
            return self._say(verdict, f"deny rules cannot be checked: {self.unsure}", box=self.place)
        reading = self._reading()
        if self.mode == "plan":
            refused = reading and (not self.scene.boxes or self.limited)
            return self._say("deny", PLAN) if refused else self._say("allow", box="read", read_only=True)
        if asked := self._asks(unheld=self.unheld and bool(reading)):
            return self._say("ask", asked, box=self.place)
        if self.effect.target in self.scene.exact:
            return self._say("allow", "granted for this session", box=self.place)
        if reading:
            return self._unasked(self.left) or self._question(reading)
        # What checks code wants to keep its caches: where nobody has to be asked for that, it may write.
        checks = [part for part in self.parts if part.checks]
        return (self._unasked(checks) if checks else None) or self._say("allow", box="read", read_only=True)

    @property
    def beyond(self) -> Place:
        """Where it runs with a yes, which is not in the read box."""
        return self.place if self.place != "read" else "write"

    def _unasked(self, left: Sequence[Part]) -> Decision | None:
        """What rules and the mode let run, of a command of which these parts do not only read."""
        place, covering = self.beyond, {part.allowed for part in left}
        if self.literal and left and covering <= {*_COVERING[place]}:
            return self._say("allow", box=place)
        if self.literal and left and self.effect.needs in ("", "write") and covering == {"Bash"}:
            return self._say("allow", box="write")
        if self.mode == "bypass":
            return self._say("allow", box=place)
        held = self.scene.boxes == "both" and not self.scene.network
        if self.mode == "auto" and held and place == "write" and not self.limited:
            return self._say("allow", "it runs in the sandbox", box="masked")
        return self._say("allow", box="write") if self.mode in ("accept-edits", "auto") and self._edits() else None

    def _question(self, reading: str) -> Decision:
        """What the person is asked, with the rule that "always" would add."""
        place, text = self.beyond, self.effect.target
        asked = [part for part in self.left if part.allowed not in _COVERING[place]]
        why = next((part.why for part in asked if part.why and part.place == self.place), "")
        offers = [offer(_COVERING[place][0], part.argv, part.cwd, self.scene.workspace.root) for part in asked]
        rule = ", ".join(dict.fromkeys(offers)) if self.literal and all(offers) else ""
        shown = len(text) <= _LONGEST_EXACT and visible(text) == text
        session = rule or (EXACTLY + text if shown and not self.limited else "")
        return replace(self._say("ask", why or reading or self.why, box=place), rule=rule, session_rule=session)

    def _say(self, verdict: Verdict, reason: str = "", *, box: BoxName = "", read_only: bool = False) -> Decision:
        """A decision, with what it says of each part."""
        shown, denied = [], self.denied or self.never
        for part in self.parts:
            said = "allow" if part.allowed or part not in self.left else "ask"
            why = "a rule allows it" if part.allowed else part.why if part in self.left else "it only looks"
            shown.append({"text": part.text, "verdict": "deny" if denied else said, "why": denied or why})
        wants = {"wants": self.place} if self.place in ("network", "outside") else {}
        display = {"kind": "command", "parts": shown, **wants}
        return Decision(verdict, reason, display=display, read_only=read_only, box=box)

    # ------------------------------------------------------------ reading and editing

    def _reading(self) -> str:
        """Why it does not run unasked where it can only read; empty when it does."""
        if self.place != "read" or self.limited:
            return self.why or "it may change something"
        if not self.scene.boxes and not self.literal:
            return "only plain words run unasked where there is no sandbox"
        return next((self._held_back(part) for part in self.left), "")

    def _held_back(self, part: Part) -> str:
        """Why a part that only looks does not run unasked all the same."""
        commands = [one for one in self.commands if one.words]
        own = [one for one in commands if one.text == part.text] or commands
        if any(program(one.words[0].text) == "git" for one in own):
            if not self.scene.trusted:
                return "git runs what a repository's configuration says, and this folder is not trusted"
            if self.scene.boxes and (secret := self.scene.hides_git(self.cwd)):
                return f"git could show {secret}, which looks like a secret; a rule Read({secret}) would let it"
        if self.scene.boxes:
            return ""
        if part.argv[:1] == ("cd",):
            here = Path(os.path.normpath(part.cwd / part.argv[-1]))
            certain = (
                all(one.after in ("", "&&", "|") for one in commands) and own[0].after != "|" and len(part.argv) == 2
            )
            inside = self.scene.workspace.may_read(here) and here.is_dir() and _real(here) == here
            return "" if certain and inside else "cd to a folder only known at run time"
        return only_reads([one for one in own if one.top], part.cwd, self.scene.workspace)

    def _edits(self) -> bool:
        """Whether it only makes folders and files in the workspace; to write into them takes a box that holds it."""
        commands = self.commands
        if self.place != "write" or self.followed.opaque or not (self.literal or self.scene.boxes == "both"):
            return False
        if not all(one.words and one.words[0].text in _MAKES | _ONLY_PRINTS for one in commands):
            return False
        made = [word for one in commands if one.words[0].text in _MAKES for word in one.words[1:] if word.text != "-p"]
        named = [*made, *(word for one in commands for word in one.writes)]
        if not all(word.literal and not re.match("-|.*[*?]", word.text) for word in named):
            return False
        folders = folders_of(commands, self.cwd)
        places = [_real(folder / expanded(word.text, folder)) for folder in folders for word in named]
        return all(self.scene.workspace.may_write(real) and not self.scene.workspace.protects(real) for real in places)

    # ------------------------------------------------------------ deny and ask rules

    def _denials(self) -> tuple[str, str]:
        """What a deny rule says of a command, and why one could not be checked."""
        unsure = ""
        for rule in self.rules.deny:
            if rule.tool == "Bash" or (rule.tool in ("Network", "Outside") and rule.tool.casefold() == self.place):
                found = denies(rule, self.followed)
                if found:
                    return f"the rule {rule} denies it", ""
                unsure = unsure or (f"{rule} may cover it" if found is None else self.followed.opaque)
            elif rule.names_files("read") or rule.names_files("write"):
                named = self._names(rule)
                if named:
                    return f"the rule {rule} denies {named}", ""
                if self.unheld and named is None:
                    unsure = unsure or f"{rule} may cover a path that is only known at run time"
        return "", unsure

    def _asks(self, *, unheld: bool) -> str:
        for rule in self.rules.ask:
            if rule.tool == "Bash" and denies(rule, self.followed) is not False:
                return f"the rule {rule} asks about it"
            files = rule.names_files("read") or rule.names_files("write")
            if files and (named := self._names(rule)):
                return f"the rule {rule} asks about {named}"
        if unheld:
            for command in self.commands:
                for text in _paths(command):
                    place = _real(self.cwd / expanded(text, self.cwd))
                    if not place.is_relative_to("/dev") and (why := self.scene.workspace.protects(place)):
                        return why
        return ""

    def _names(self, rule: Rule) -> str | None:
        """A word of the command that a rule about files covers; None where a word is only known at run time.

        In the boxes the kernel keeps what such a rule denies from commands, whatever words they use.
        """
        if rule.speaks_of("write") and self.place == "read" and self.scene.boxes:
            return ""
        unknown, folders = False, folders_of(self.commands, self.cwd)
        for command in self.commands:
            unknown = unknown or not all(word.literal for word in command.words) or _searches(command)
            for text in _paths(command):
                plain = [Path(os.path.normpath(folder / expanded(text, folder))) for folder in folders]
                if any(
                    path_matches(rule, p, self.scene.workspace.root, fold=True) for p in (*plain, *map(_real, plain))
                ):
                    return text
        return None if unknown or self.followed.opaque else ""


# ---------------------------------------------------------------- parts and paths


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


def _short(text: str) -> str:
    return text if len(text) <= 2_000 else f"{text[:1_000]} … {text[-500:]}"
