"""Skills and commands: files of instructions that people call by `/name` and models, if they may, by the Skill tool.

Their text may hold arguments (`$ARGUMENTS`, `$0`, `$name`) and commands that are run first.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from cowork.core.front_matter import BadFile, Marked, Problem, split, text_of_file, words_of_list
from cowork.core.frozen import frozen
from cowork.core.ports import AgentOrigin

SKILL_FILE = "SKILL.md"
LINE_CHARS = 230  # of a skill's line in the catalogue: 60 tokens at most
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_KNOWN = re.compile(
    r"name|description|when_to_use|argument[-_]hint|arguments|(?:dis)?allowed-tools|model|context|agent"
    r"|disable-model-invocation|user-invocable|license|compatibility|metadata|version"
)
_PEER_KEYS = re.compile("effort|hooks|paths|shell|background|color|subtask|mode")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "none", "")
Piece = tuple[Literal["text", "command"], str]
_COMMAND = re.compile(r"(?<!\S)!`([^`\n]+)`|^```!\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_TOKEN = re.compile(r"(\\?)\$(?:ARGUMENTS(?:\[(\d+)\])?|(\d+)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")


@frozen
class Skill:
    """A skill, or a command, which only people call: what it is for, who may call it, and the text it sends."""

    kind: Literal["skill", "command"]
    name: str
    description: str
    body: str
    path: Path
    origin: AgentOrigin = "user"
    plugin: str = ""
    hint: str = ""  # what to type after the name
    arguments: tuple[str, ...] = ()  # names of its positions
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    model: str = ""
    agent: str = ""
    fork: bool = False  # a child works on it
    for_model: bool = False
    for_people: bool = True

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def line(self) -> str:
        """As the model's catalogue lists it."""
        text = f"- {self.name}: {self.description}"
        return text if len(text) <= LINE_CHARS else text[: LINE_CHARS - 1].rpartition(" ")[0] + "…"


def read_skill(
    path: Path, kind: Literal["skill", "command"], name: str, origin: AgentOrigin, plugin: str = ""
) -> tuple[Skill | None, list[Problem]]:
    """One file: the skill or command, or None, and what is wrong with it."""
    try:
        text = text_of_file(path)
        headed = kind == "skill" or text.startswith("---\n")
        file = split(text) if headed else Marked({}, "", text)
        facts, notes = _facts(path, kind, name, file)
    except BadFile as bad:
        return None, [bad.problem(path)]
    facts["name"] = f"{plugin}:{facts['name']}" if plugin else facts["name"]
    return Skill(kind=kind, path=path, origin=origin, plugin=plugin, **facts), notes


def _facts(path: Path, kind: str, name: str, file: Marked) -> tuple[dict[str, Any], list[Problem]]:
    """What a file says of its skill or command, and what it should say otherwise."""
    given, notes, body = file.matter, list[Problem](), file.body.strip()

    def note(key: str, message: str) -> None:
        notes.append(Problem(path, file.line(key), f"{key}: {message}", fatal=False))

    def flag(key: str, *, usual: bool = False) -> bool:
        value = str(given.get(key, usual)).strip().casefold()
        if value not in (*_TRUE, *_FALSE):
            note(key, "must be true or false")
        return value in _TRUE or (usual and value not in _FALSE)

    for key in (key for key in map(str, given) if not _KNOWN.fullmatch(key)):
        note(key, "is a key of another program and is ignored" if _PEER_KEYS.fullmatch(key) else "is not a known key")
    if not body:
        raise BadFile(1, "there is no text below the front matter", "Write what is to be done")
    described, context, agent = _text(given, "description"), _text(given, "context"), _text(given, "agent")
    if kind == "skill":
        if not described:
            raise BadFile(file.line("description"), "description: is required", "Say what it does and when to use it")
        name = _skill_name(_text(given, "name"), name, note)
        if len(described) > 1024:
            note("description", "is longer than 1024 characters; only its start is told")
    if context not in ("", "fork"):
        note("context", f"{context!r} is not known; write fork or leave it out")
    first = next((line.strip("# ") for line in body.splitlines() if line.strip("# -")), name)
    model = _text(given, "model")
    return {
        "name": name,
        "description": " ".join(f"{described or first[:200]} {_text(given, 'when_to_use')}".split()),
        "body": body,
        "hint": _text(given, "argument-hint") or _text(given, "argument_hint"),
        "arguments": _words(given, "arguments"),
        "allowed_tools": _words(given, "allowed-tools"),
        "disallowed_tools": _words(given, "disallowed-tools"),
        "model": {"haiku": "light", "sonnet": "main", "opus": "main", "inherit": ""}.get(model, model),
        "agent": agent,
        "fork": context == "fork" or (kind == "command" and bool(agent)),
        "for_model": kind == "skill" and not flag("disable-model-invocation"),
        "for_people": kind == "command" or flag("user-invocable", usual=True),
    }, notes


def _skill_name(given: str, folder: str, note: Callable[[str, str], None]) -> str:
    """The name a skill goes by: its own where that is one, else its folder's; a wrong one is said and forgiven."""
    if not given:
        note("name", "is missing; the folder's is used")
    elif given != folder:
        note("name", f"{given!r} is not the folder's name, {folder!r}; make them equal")
    name = given or folder
    if not _NAME.fullmatch(name) or len(name) > 64:
        note("name", "use a-z, 0-9 and single dashes, at most 64 characters")
    return re.sub(r"[^\w.-]+", "-", name.casefold()).strip("-")[:64] or "skill"


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if isinstance(value, list):  # `argument-hint: [file]` is a list to YAML
        return "[" + "] [".join(map(str, value)) + "]"
    return "" if value is None or isinstance(value, dict) else str(value).strip()


def _words(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key)
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else tuple(words_of_list(str(value)))


def pieces(skill: Skill, typed: str, places: Mapping[str, str]) -> list[Piece]:
    """The text with its arguments in place, cut where the output of a command belongs that is in the file itself.

    Positions count from `$0`; in a text without it, from `$1`.
    """
    typed, used = typed.strip(), False
    try:
        words = shlex.split(typed)
    except ValueError:  # an apostrophe, not a quote
        words = typed.split()
    first = 0 if re.search(r"\$0(?!\d)", skill.body) else 1

    def argument(match: re.Match[str]) -> str:
        nonlocal used
        escape, index, position, name, braced = match.groups()
        whole, name = match[0].removeprefix("\\"), name or braced
        known = name is None or name in skill.arguments or name in places
        if not known or escape:
            return whole if escape and known else match[0]
        if name in places:
            return places[name]
        used = True
        if (name, index, position) == (None, None, None):
            return typed
        number = skill.arguments.index(name) if name else int(index) if index else int(position) - first
        return words[number] if 0 <= number < len(words) else "" if name else whole

    found, at = list[Piece](), 0
    for match in _COMMAND.finditer(skill.body):
        found.append(("text", _TOKEN.sub(argument, skill.body[at : match.start()])))
        found.append(("command", _TOKEN.sub(argument, match[1] or match[2])))
        at = match.end()
    found.append(("text", _TOKEN.sub(argument, skill.body[at:])))
    if typed and not used:
        found.append(("text", f"\n\n{typed}"))
    return [piece for piece in found if piece[1]]
