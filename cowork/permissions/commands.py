"""Whether a command may run and in which box, in this order: never, deny rules, plan mode, ask rules, what was
granted as shown, reading, allow rules, the mode."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from cowork.core.blocks import Json
from cowork.core.hygiene import visible, visible_line
from cowork.core.ports import EXACTLY, BoxName, Decision, Effect, ToolFacts
from cowork.permissions.policy import PLAN, Permissions
from cowork.permissions.rules import Rule, allows, in_workspace, path_matches
from cowork.permissions.shell.follow import denies, follow, program
from cowork.permissions.shell.never import expand, folders_of, never_of
from cowork.permissions.shell.parse import ShellText, SimpleCommand
from cowork.permissions.shell.programs import LEVELS, Part, Place, hint, offer, only_reads, words_hint

_MAKES = ("mkdir", "touch")
_ONLY_PRINTS = ("cat", "echo", "printf", "cd")  # and so writes nothing but what it is redirected into
_LONGEST_EXACT = 2_000
_PATH = re.compile(r"[\w./~@+-]+")
_SEARCHES = re.compile(  # it reads whole folders, whatever is in them
    r"(?:rg|find|tree|ag|ack|fd|git (?:\S+ )?(?:grep|log|show|diff))(?= |$)|(?:grep|git)\b.* -(?:\w*[rR]|-rec)", re.S
)
# `timeout 5`, `time` or `nice -n 5` before a command add nothing to what it may do.
_ADDS_NOTHING = re.compile(r"^(?:time\0(?!-)|timeout\0[0-9.]+[smhd]?\0|nice\0-n\0-*[0-9]+\0)+(?=.)")
# By place: the rules that let a command run there, of which the first is what "always" adds.
_COVERING = {"write": ("Bash", "Network", "Outside"), "network": ("Network", "Outside"), "outside": ("Outside",)}
_WANTED = {
    "write": "it could not run read-only",
    "network": "it asks for the network",
    "outside": "it asks for a run outside the sandbox",
}
_BOXES = {
    "read": "in the read box: it can change nothing, send nothing and see no secrets",
    "masked": "in the write box: it can write the workspace, has no network and sees no secrets",
    "write": "in the write box: it can write the workspace and has no network",
    "network": "in the write box with the network, without the workspace's secrets",
    "outside": "outside the sandbox, with your own rights",
    "": "with your own rights",
}


def judge_command(effect: Effect, permits: Permissions) -> Decision:
    """The decision for one command; what taking it apart stumbles over is never judged safe."""
    if re.search("[\ud800-\udfff]", effect.target):
        return Decision("deny", "it holds half a character (a lone surrogate), which no command can; send it whole")
    return _Case(effect, permits).decide()


class _Case:
    """One command, taken apart: what people see of it, what was followed, and where it belongs."""

    def __init__(self, effect: Effect, permits: Permissions) -> None:
        self.effect, self.permits, self.mode = effect, permits, permits.mode
        self.workspace, self.boxes, self.rules = permits.workspace, permits.boxes, permits.book.all()
        self.cwd = Path(effect.cwd) if effect.cwd else self.workspace.root
        followed = self.followed = follow(effect.target)
        self.commands, self.literal = followed.commands, followed.literal
        self.limited, self.opaque = followed.limited, followed.opaque
        self.folders = folders_of(self.commands, self.cwd)
        self.never = never_of(followed, self.folders, self.workspace.root)
        guess, parts = hint(self.commands, otherwise=self.opaque), _parts(followed, effect.target, self.cwd)
        self.place, self.why = guess.place, guess.why
        if effect.needs and LEVELS.index(self.place) < LEVELS.index(effect.needs):
            self.place, self.why = effect.needs, _WANTED[effect.needs]
            wanting = [part for part in parts if part.place != "read"] or parts
            parts = [replace(part, place=self.place, why=self.why) if part in wanting else part for part in parts]
        if self.limited:
            self.place, self.why = "write", self.opaque
        self.unheld = not self.boxes or self.place == "outside"
        self.git = ""  # why git does not run unasked here
        if any(program(one.words[0].text) == "git" for one in self.commands if one.words):
            if not permits.trusted:
                self.git = "git runs what a repository's configuration says, and this folder is not trusted"
            elif self.boxes and permits.sandbox and (secret := permits.sandbox.hides_git(self.cwd)):
                self.git = f"git could show {secret}, which looks like a secret; a rule Read({secret}) would let it"
        self.parts = [self._cover(part) for part in parts]
        self.left = [part for part in self.parts if part.place != "read" or self._objection(part)]
        self.denied = self.unsure = ""
        self._deny()
        self.beyond: Place = self.place if self.place != "read" else "write"  # where it runs with a yes

    def decide(self) -> Decision:
        refusal = self.permits.sandbox.refusal if self.permits.sandbox else ""
        if why := refusal or (f"never allowed: {self.never}" if self.never else "") or self.denied:
            return self._say("deny", why)
        if self.limited and (self.unsure or self.mode == "bypass"):
            return self._say("deny", f"it cannot be checked: {self.opaque}; make it shorter")
        if self.unsure:  # bypass and plan have nobody to ask
            why = f"deny rules cannot be checked: {self.unsure}"
            return self._say("deny" if self.mode in ("bypass", "plan") else "ask", why, box=self.place)
        reading = next((self._objection(part) for part in self.left), "")  # why it does not run unasked and read-only
        if self.place != "read" or self.limited:
            reading = self.why or "it may change something"
        if self.mode == "plan":
            refused = reading and (not self.boxes or self.limited)
            return self._say("deny", PLAN) if refused else self._say("allow", box="read")
        if asked := self._asks(unheld=self.unheld and bool(reading)):
            return self._say("ask", asked, box=self.place)
        if self.effect.target in self.permits.book.exact:
            return self._say("allow", "granted for this session", box=self.place)
        if reading:
            return self._without_asking(self.left) or self._question(reading)
        # What checks code wants to keep its caches: where nobody has to be asked for that, it may write.
        checks = [part for part in self.parts if part.checks]
        return (self._without_asking(checks) if checks else None) or self._say("allow", box="read")

    def _without_asking(self, left: Sequence[Part]) -> Decision | None:
        """What rules and the mode let run, of a command of which these parts do not only read."""
        place, covering = self.beyond, {part.allowed for part in left}
        if self.literal and left and covering <= {*_COVERING[place]}:
            return self._say("allow", box=place)
        if self.literal and left and self.effect.needs in ("", "write") and covering == {"Bash"}:
            return self._say("allow", box="write")
        if self.mode == "bypass":
            return self._say("allow", box=place)
        held = self.boxes == "both" and self.permits.sandbox and not self.permits.sandbox.network
        if self.mode == "auto" and held and place == "write" and not self.limited:
            return self._say("allow", "it runs in the sandbox", box="masked")
        return self._say("allow", box="write") if self.mode in ("accept-edits", "auto") and self._edits() else None

    def _question(self, reading: str) -> Decision:
        """What the person is asked, with the rule that "always" would add."""
        place, text = self.beyond, self.effect.target
        asked = [part for part in self.left if part.allowed not in _COVERING[place]]
        why = next((part.why for part in asked if part.why and part.place == self.place), "")
        offers = [offer(_COVERING[place][0], part.argv, part.cwd, self.workspace.root) for part in asked]
        rule = ", ".join(dict.fromkeys(offers)) if self.literal and all(offers) else ""
        shown = len(text) <= _LONGEST_EXACT and visible(text) == text
        session = rule or (EXACTLY + text if shown and not self.limited else "")
        return replace(self._say("ask", why or reading or self.why, box=place), rule=rule, session_rule=session)

    def _say(self, verdict: Literal["allow", "ask", "deny"], reason: str = "", *, box: BoxName = "") -> Decision:
        shown, denied = [], self.denied or self.never
        for part in self.parts:
            said = "allow" if part.allowed or part not in self.left else "ask"
            why = part.why or self._objection(part) if part in self.left else "it only looks"
            why = "a rule allows it" if part.allowed else why
            text = part.command.text
            text = text if len(text) <= 2_000 else f"{text[:1_000]} … {text[-500:]}"
            shown.append({"text": text, "verdict": "deny" if denied else said, "why": denied or why})
        wants = {"wants": self.place} if self.place in ("network", "outside") else {}
        display = {"kind": "command", "parts": shown, **wants}
        return Decision(verdict, reason, display=display, read_only=verdict == "allow" and box == "read", box=box)

    def _cover(self, part: Part) -> Part:
        """The part with the rule that covers it; a grant holds for the program as it was when it was granted."""
        levels = _COVERING.get(part.place, _COVERING["write"])
        speaking = (rule for rule in self.rules.allow if part.argv and rule.tool in _COVERING["write"])
        found = [rule for rule in speaking if allows(rule, part.argv, part.cwd, self.workspace.root)]
        rule = min(found, key=lambda rule: rule.tool not in levels, default=None)
        if rule is None:
            return part
        file = in_workspace(part.argv[0], part.cwd, self.workspace.writable)
        book = self.permits.book
        if file and rule.pattern and rule in book.of_dialogs and book.has_changed(file):
            return replace(part, why=f"{part.argv[0]} changed since it was allowed")
        return replace(part, allowed=rule.tool)

    def _objection(self, part: Part) -> str:
        """Why a part that only looks does not run unasked all the same."""
        if self.git and ("git" in part.command.text.casefold() or not part.argv):  # which may spell it otherwise
            return self.git
        if self.boxes or not part.argv:
            return "" if self.boxes else "only plain words run unasked where there is no sandbox"
        if part.argv[0] != "cd":
            return only_reads(part.command, part.cwd, self.workspace)
        here, one_way = Path(os.path.normpath(part.cwd / part.argv[-1])), part.command.after != "|"
        one_way = one_way and all(one.after in ("", "&&", "|") for one in self.commands) and len(part.argv) == 2
        inside = self.workspace.may_read(here) and here.is_dir() and _real(here) == here
        return "" if one_way and inside else "cd to a folder only known at run time"

    def _edits(self) -> bool:
        """Whether it only makes folders and files in the workspace; to write into them takes a box that holds it."""
        commands = self.commands
        if self.place != "write" or self.opaque or not (self.literal or self.boxes == "both"):
            return False
        if not all(one.words and one.words[0].text in (*_MAKES, *_ONLY_PRINTS) for one in commands):
            return False
        named = [word for one in commands if one.words[0].text in _MAKES for word in one.words[1:] if word.text != "-p"]
        named += [word for one in commands for word in one.writes]
        if not all(word.literal and not re.match("-|.*[*?]", word.text) for word in named):
            return False
        places = [_real(folder / expand(word.text, folder)) for folder in self.folders for word in named]
        return all(self.workspace.may_write(real) and not self.workspace.protects(real) for real in places)

    def _deny(self) -> None:
        """Note what a deny rule says of it, and why one could not be checked."""
        for rule in self.rules.deny:
            if rule.tool == "Bash" or (rule.tool in ("Network", "Outside") and rule.tool.casefold() == self.place):
                found = denies(rule, self.followed)
                self.denied = self.denied or (f"the rule {rule} denies it" if found else "")
                self.unsure = self.unsure or (f"{rule} may cover it" if found is None else self.opaque)
            elif rule.names_files("read") or rule.names_files("write"):
                named = self._names(rule)
                self.denied = self.denied or (f"the rule {rule} denies {named}" if named else "")
                if self.unheld and named is None:
                    self.unsure = self.unsure or f"{rule} may cover a path that is only known at run time"

    def _asks(self, *, unheld: bool) -> str:
        """Why it asks whatever is allowed: a rule, or a protected file where no box keeps it."""
        for rule in self.rules.ask:
            if rule.tool == "Bash" and denies(rule, self.followed) is not False:
                return f"the rule {rule} asks about it"
            if (rule.names_files("read") or rule.names_files("write")) and (named := self._names(rule)):
                return f"the rule {rule} asks about {named}"
        texts = (text for command in self.commands for text in _paths(command)) if unheld else ()
        for place in (_real(self.cwd / expand(text, self.cwd)) for text in texts):
            if not place.is_relative_to("/dev") and (why := self.workspace.protects(place)):
                return why
        return ""

    def _names(self, rule: Rule) -> str | None:
        """A word of the command that a rule about files covers; None where a word is only known at run time."""
        if rule.speaks_of("write") and self.place == "read" and self.boxes:
            return ""
        for text in (text for command in self.commands for text in _paths(command)):
            plain = [Path(os.path.normpath(folder / expand(text, folder))) for folder in self.folders]
            if any(path_matches(rule, place, self.workspace.root, fold=True) for place in (*plain, *map(_real, plain))):
                return text
        unknown = any(not word.literal for one in self.commands for word in one.words)
        searches = (_SEARCHES.match(" ".join(word.text for word in one.words)) for one in self.commands)
        return None if unknown or self.opaque or any(searches) else ""


def _parts(followed: ShellText, text: str, cwd: Path) -> list[Part]:
    """The parts of a text as people see it; of a literal one with the folder each runs in, as far as a `cd` tells."""
    parts, top = [], [one for one in followed.commands if one.top and one.text] or [SimpleCommand(text=text)]
    for command in top:
        if not followed.literal:
            guess = hint([command])
            parts.append(replace(guess, command=command, why=guess.why or followed.opaque))
            continue
        words = tuple(_ADDS_NOTHING.sub("", "\0".join(word.text for word in command.words)).split("\0"))
        parts.append(replace(words_hint(words), command=command, argv=words, cwd=cwd))
        if words[0] == "cd" and len(words) == 2 and command.words[-1].literal:
            cwd = Path(os.path.normpath(cwd / words[1]))
    return parts


def _real(path: Path) -> Path:
    """Where a path leads; itself where that is not to be seen, as of another's process in /proc."""
    with suppress(OSError):
        path = Path(os.path.realpath(path))
    return path


def _paths(command: SimpleCommand) -> list[str]:
    words = [word.text for word in (*command.words[1:], *command.writes, *command.reads)]
    parts = [part for word in words for part in (word, word.partition("=")[2], word.rpartition(":")[2])]
    parts += [word[2:] for word in words if re.match(r"-[A-Za-z].", word)]
    parts += [name for word in (*words, *command.fed) if re.search(r"[\s('\"]", word) for name in _PATH.findall(word)]
    return [part for part in dict.fromkeys(parts) if part and "\0" not in part and len(part) < 4096]


def explain(permissions: Permissions, tool: ToolFacts, command: str, cwd: Path) -> Json:
    """The decision for a command, its parts, its box and why; nothing is run."""
    decision = permissions.judge("main", tool, {"command": command}, [Effect("exec", command, str(cwd))])
    box = decision.box if permissions.boxes == "both" or decision.box == "read" else ""
    always = f" Always would add {decision.rule}." if decision.rule else ""
    text = f"It asks ({decision.reason}), and with a yes runs {_BOXES[box]}.{always}"
    if decision.verdict == "allow":
        text = f"It runs unasked {_BOXES[box]}."
    elif decision.verdict == "deny":
        box, text = "", f"It does not run: {decision.reason}."
    said: Json = {"verdict": decision.verdict, "box": box, "why": decision.reason, "rule": decision.rule}
    return said | {"parts": decision.display.get("parts", []), "text": text}


def explain_text(found: Json) -> str:
    """The same as lines for people."""
    marks = {"allow": "looks or allowed", "ask": "asks", "deny": "refused"}
    lines = [f"{marks[p['verdict']]:17} {visible_line(p['text'])}   ({visible_line(p['why'])})" for p in found["parts"]]
    return "\n".join([*lines, visible_line(found["text"])])
