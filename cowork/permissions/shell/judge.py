"""Judges a shell command: which of its parts only read, which never run, and every program it would start.

Two readings serve two ends. `literal` accepts a tiny grammar and decides what may run unasked; `scan` follows any
shell text through wrappers and decides what deny rules see. A limit that is hit is said, never skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from cowork.core.frozen import frozen
from cowork.core.hygiene import visible
from cowork.core.workspace import Workspace
from cowork.permissions.shell.commands import read_only
from cowork.permissions.shell.literal import Argument, NotLiteral, Simple, literal
from cowork.permissions.shell.lookup import Lookup
from cowork.permissions.shell.programs import FOREIGN, family, program
from cowork.permissions.shell.refused import bomb, expanded, refused
from cowork.permissions.shell.scan import scan, substitutions
from cowork.permissions.shell.words import Command, Scan, Word, names
from cowork.permissions.shell.wrappers import UNKNOWN, counts, inside

MAX_NESTING = 8
MAX_FOUND = 1_000
_MOST_FOLDERS = 32
_ENTERS = names("cd pushd env sudo git make tar")

Verdict = Literal["read-only", "ask", "refused"]


@frozen
class Part:
    """One simple command as people see it. `argv` is set when it is literal, so that an allow rule may match it."""

    text: str
    verdict: Verdict
    why: str
    argv: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()  # the same behind `timeout 5` and its like
    needed: bool = True  # cd and its like need no rule of their own


@frozen
class Judgement:
    """What a command would do, as far as it can be told without running it."""

    parts: tuple[Part, ...]
    commands: tuple[Command, ...] = ()  # at any depth, behind any wrapper
    read_only: bool = False
    literal: bool = False
    refused: str = ""
    unclear: str = ""  # why some command may not be among `commands`
    limited: bool = False
    folders: tuple[Path, ...] = ()  # where its commands may run
    cwd: Path = field(default_factory=Path)


def judge(command: str, workspace: Workspace, cwd: Path, *, trusted: bool) -> Judgement:
    """Judge a command that would run in `cwd`. What the judge itself stumbles over is never judged safe."""
    try:
        return _judge(command, workspace, cwd, trusted=trusted)
    except Exception as error:
        why = f"it could not be judged ({type(error).__name__})"
        return Judgement((Part(_short(command), "ask", why),), unclear=why, limited=True, folders=(cwd,), cwd=cwd)


def _judge(command: str, workspace: Workspace, cwd: Path, *, trusted: bool) -> Judgement:
    everything = _unwrapped(scan(command))
    folders = folders_of(everything.commands, cwd)
    if len(folders) > _MOST_FOLDERS:
        folders = folders[:_MOST_FOLDERS]
        everything = replace(everything, broken=f"it goes to more than {_MOST_FOLDERS} folders", limited=True)
    never = _refused(everything.commands, folders, workspace.root)
    if everything.limited and not never:
        return Judgement(
            (Part(_short(command), "ask", everything.broken),),
            tuple(everything.commands),
            unclear=everything.broken,
            limited=True,
            folders=tuple(folders),
            cwd=cwd,
        )
    try:
        parts = _judged(literal(command), Lookup(workspace, cwd, trusted=trusted))
        is_literal = True
    except NotLiteral as why:
        parts = _described(command, everything.commands, str(why))
        is_literal = False
    if never:
        parts = _guilty(parts, never, folders, workspace.root)
    return Judgement(
        tuple(parts),
        tuple(everything.commands),
        read_only=is_literal and not never and all(part.verdict == "read-only" for part in parts),
        literal=is_literal,
        refused=never,
        unclear=everything.broken,
        folders=tuple(folders),
        cwd=cwd,
    )


def _guilty(parts: Sequence[Part], never: str, folders: Sequence[Path], root: Path) -> list[Part]:
    """The parts with those marked that never run; all of them when only together they are the reason."""
    found = []
    for part in parts:
        why = _refused(_unwrapped(scan(part.text)).commands, folders, root)
        found.append(replace(part, verdict="refused", why=why) if why else part)
    if any(part.verdict == "refused" for part in found):
        return found
    return [replace(part, verdict="refused", why=never) for part in parts]


def explain(command: str, workspace: Workspace, cwd: Path, *, trusted: bool = True) -> list[Part]:
    """Every part of a command with its verdict and why."""
    return list(judge(command, workspace, cwd, trusted=trusted).parts)


def explain_text(command: str, workspace: Workspace, cwd: Path, *, trusted: bool = True) -> str:
    """The explanation as lines for people."""
    judgement = judge(command, workspace, cwd, trusted=trusted)
    mark = {"read-only": "runs without asking", "ask": "asks", "refused": "refused"}
    lines = []
    for part in judgement.parts:
        lines.append(f"{visible(part.text)}\n    {mark[part.verdict]}: {visible(part.why)}")
    hidden = [c for c in judgement.commands if c.words and not c.top and not c.perhaps]
    if hidden:
        lines.append("also starts, for deny rules: " + ", ".join(sorted({visible(c.words[0].text) for c in hidden})))
    if judgement.unclear:
        lines.append(f"not everything is known: {visible(judgement.unclear)}")
    overall = "refused" if judgement.refused else "runs without asking" if judgement.read_only else "asks"
    lines.append(f"the whole: {overall}")
    return "\n".join(lines)


# ---------------------------------------------------------------- what may run unasked


def _judged(commands: Sequence[Simple], look: Lookup) -> list[Part]:
    parts = []
    for number, command in enumerate(commands):
        if command.name == "cd":
            parts.append(_cd(commands, number, look))
            continue
        bare, wrappers = _bare(command)
        why = next((why for name in wrappers if (why := look.program(name))), "") or read_only(bare, look)
        verdict: Verdict = "ask" if why else "read-only"
        inner = bare.argv if bare is not command else ()
        fed = bool(why and command.reads)  # a rule speaks of words, not of the file that is put in
        words = () if fed else command.argv
        parts.append(Part(command.text, verdict, why or "it only reads", words, () if fed else inner))
    return parts


def _cd(commands: Sequence[Simple], number: int, look: Lookup) -> Part:
    """A `cd` is followed only where the rest cannot run in two places: what comes after must depend on it.

    That is so when only `&&` and `|` come later, or when nothing but `cd … &&` came before.
    """
    command = commands[number]
    later = {other.after for other in commands[number + 1 :]}
    following = commands[number + 1].after if number + 1 < len(commands) else ""
    certain = all(other.name == "cd" and other.after in ("", "&&") for other in commands[: number + 1])
    if len(command.args) != 1 or command.args[0].text.startswith("-") or command.reads:
        why = "cd without one plain folder"
    elif following not in ("", "&&") or command.after == "|" or not (certain or later <= {"&&", "|"}):
        why = "after this cd the folder is only known at run time"
    else:
        why = look.enter(command.args[0])
    return Part(command.text, "ask" if why else "read-only", why or "it stays in the workspace", command.argv)


def _bare(command: Simple) -> tuple[Simple, list[str]]:
    """The command behind `timeout 5`, `time` or `nice`, which add nothing to what it may do, and their names."""
    words = [Argument(command.name), *command.args]
    wrappers = []
    while len(words) > 1:
        name = words[0].text
        if name == "time" and not words[1].text.startswith("-"):
            words = words[1:]
        elif name == "timeout" and len(words) > 2 and words[1].text.rstrip("smhd").replace(".", "", 1).isdigit():
            words = words[2:]
        elif name == "nice" and len(words) > 3 and words[1].text == "-n" and words[2].text.lstrip("-").isdigit():
            words = words[3:]
        else:
            break
        wrappers.append(name)
    if not wrappers or words[0].glob or words[0].quoted:
        return command, []
    return replace(command, name=words[0].text, args=tuple(words[1:])), wrappers


def _described(command: str, commands: Sequence[Command], why: str) -> list[Part]:
    """The parts of a text that is more than literal words: each is shown, none runs unasked."""
    parts = [Part(_short(found.text), "ask", why) for found in commands if found.top and found.text]
    return parts or [Part(_short(command), "ask", why)]


def _short(text: str) -> str:
    return text if len(text) <= 2_000 else f"{text[:1_000]} … {text[-500:]}"


# ---------------------------------------------------------------- what deny rules see


def _unwrapped(first: Scan) -> Scan:
    """Every command of a scan and every command those run in turn."""
    found: list[Command] = []
    broken, limited = first.broken, first.limited
    waiting = [(command, 0) for command in first.commands]
    asleep, sums = list(first.asleep), first.counts
    at = 0
    while at < len(waiting) or (sums and asleep):
        if at == len(waiting):
            woken = substitutions(asleep.pop())
            limited = limited or woken.limited
            waiting += [(replace(command, top=False, perhaps="text"), 1) for command in woken.commands]
            continue
        command, depth = waiting[at]
        at += 1
        while command.words and command.words[0].text in ("!", "{", "then", "do", "if", "while", "until"):
            command = replace(command, words=command.words[1:])  # `time ! rm x`
        found.append(command)
        sums = sums or counts(command.words)
        if len(waiting) > MAX_FOUND or depth > MAX_NESTING:
            return Scan(found, f"more than {MAX_FOUND:,} commands or {MAX_NESTING} wrappers", limited=True)
        if command.words and not command.words[0].literal and not command.perhaps:
            broken = broken or "the name of a command is only known at run time"
        for inner in inside(command.words, command.fed, guess=not command.perhaps):
            broken = broken or inner.opaque
            perhaps = command.perhaps or inner.perhaps
            if inner.words:
                waiting.append((Command(words=list(inner.words), text=command.text, perhaps=perhaps), depth + 1))
            if inner.code is not None:
                nested = scan(inner.code)
                broken = broken or ("" if perhaps else nested.broken)
                limited = limited or nested.limited
                asleep, sums = asleep + nested.asleep, sums or nested.counts
                waiting += [(replace(c, top=False, perhaps=c.perhaps or perhaps), depth + 1) for c in nested.commands]
    return Scan(found, broken, limited)


def _refused(commands: Sequence[Command], folders: Sequence[Path], root: Path) -> str:
    """Why the whole never runs. Each command is looked at in every folder the text may have gone to."""
    for command in commands:
        if command.perhaps not in ("text", "mentions"):
            command = _completed(command, commands)
            for folder in folders:
                if why := refused(command, folder, root):
                    return why
    return bomb(commands)


def _completed(command: Command, commands: Sequence[Command]) -> Command:
    """A command that is given words by xargs, with every path the text names as what it may be given."""
    if UNKNOWN not in command.words:
        return command
    texts = [text for other in commands for text in (*(w.text for w in other.words[1:]), *" ".join(other.fed).split())]
    paths = [Word(text) for text in dict.fromkeys(texts) if re.match(r"/|~|\.\.|\$\{?HOME", text)]
    return replace(command, words=[*(word for word in command.words if word != UNKNOWN), Word("-r"), *paths])


def folders_of(commands: Sequence[Command], cwd: Path) -> list[Path]:
    """Where the commands of a text may run: here, and wherever a `cd` or `env -C` in it goes."""
    found, latest = {cwd: None}, cwd
    for command in commands:
        if not command.words or command.words[0].text not in _ENTERS:
            continue
        words = [expanded(word.text, cwd) for word in command.words]
        if words[0] in ("cd", "pushd"):
            target = words[-1] if len(words) > 1 else os.path.expanduser("~")
            latest = Path(os.path.normpath(latest / target))
            found |= {Path(os.path.normpath(cwd / target)): None, latest: None}
        for option, value in pairwise([*words, ""]):
            if attached := re.fullmatch(r"(?:-C|--(?:chdir|directory)=)(.+)", option):
                found[Path(os.path.normpath(cwd / attached.group(1)))] = None
            elif option in ("-C", "--chdir", "--directory", "-D"):
                found[Path(os.path.normpath(cwd / value))] = None
    return list(found)


def words_of(command: Command) -> list[Word]:
    """Every word that may name a file: arguments, values, what is redirected, the parts of `a=b`, `a:b`, `-fNAME`."""
    words = [*command.words[1:], *command.values, *command.writes, *command.reads]
    parts = [Word(word.text.partition(mark)[2], word.literal) for word in words for mark in "=:" if mark in word.text]
    parts += [Word(word.text.partition(":")[0], word.literal) for word in words if ":" in word.text]
    attached = [Word(word.text[2:], word.literal) for word in words if re.match(r"-[A-Za-z].", word.text)]
    return [*words, *parts, *attached]


def mentioned(commands: Sequence[Command]) -> list[str]:
    """What may be a file's name inside code in another language, or in what xargs is fed."""
    texts: list[str] = []
    feeds = any(program(command.words[0]) in ("xargs", "parallel") for command in commands if command.words)
    for command in commands:
        if command.words and family(program(command.words[0])) in FOREIGN:
            texts += [*(word.text for word in command.words[1:]), *command.fed]
        elif feeds:
            texts += command.fed
    return list(dict.fromkeys(name for text in texts for name in re.findall(r"[\w./~@+-]+", text)))
