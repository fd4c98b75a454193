"""Skills and commands: files of instructions that people call by `/name` and models, if they may, by the Skill tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from cowork.core.front_matter import BadFile, Marked, Problem, split, text_of_file
from cowork.core.frozen import frozen
from cowork.core.ports import AgentOrigin

SKILL_FILE = "SKILL.md"
LINE_CHARS = 230  # of a skill's line in the catalogue: 60 tokens at most
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LISTED = re.compile(r"[\w*-]+(?:\([^)]*\))?")
_KNOWN = re.compile(
    r"name|description|when_to_use|argument[-_]hint|arguments|(?:dis)?allowed-tools|model|context|agent"
    r"|disable-model-invocation|user-invocable|license|compatibility|metadata|version"
)
_PEER_KEYS = re.compile("effort|hooks|paths|shell|background|color|subtask|mode")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "none", "")


@frozen
class Recipe:
    """One skill or command: what it is for, who may call it, and the text it sends."""

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


def read_recipe(
    path: Path, kind: Literal["skill", "command"], name: str, origin: AgentOrigin, plugin: str = ""
) -> tuple[Recipe | None, list[Problem]]:
    """One file: the skill or command, or None, and what is wrong with it."""
    try:
        text = text_of_file(path)
        headed = kind == "skill" or text.startswith("---\n")
        file = split(text, lenient=True) if headed else Marked({}, "", text)
        return _recipe(path, kind, name, origin, plugin, file)
    except BadFile as bad:
        return None, [bad.problem(path)]


def _recipe(
    path: Path, kind: Literal["skill", "command"], name: str, origin: AgentOrigin, plugin: str, file: Marked
) -> tuple[Recipe, list[Problem]]:
    given, notes = file.matter, _unknown(path, file)
    body = file.body.strip()
    if not body:
        raise BadFile(1, "there is no text below the front matter", "Write what is to be done")
    described = _text(given, "description")
    if kind == "skill":
        if not described:
            raise BadFile(file.line("description"), "description: is required", "Say what it does and when to use it")
        name = _skill_name(path, name, file, notes)
        if len(described) > 1024:
            notes.append(_note(path, file, "description", "is longer than 1024 characters; only its start is told"))
    first = next((line.strip("# ") for line in body.splitlines() if line.strip("# -")), name)
    more = _text(given, "when_to_use")
    description = " ".join(f"{described or first[:200]} {more}".split())
    context = _text(given, "context")
    if context not in ("", "fork"):
        notes.append(_note(path, file, "context", f"{context!r} is not known; write fork or leave it out"))
    agent = _text(given, "agent")
    recipe = Recipe(
        kind=kind,
        name=f"{plugin}:{name}" if plugin else name,
        description=description,
        body=body,
        path=path,
        origin=origin,
        plugin=plugin,
        hint=_text(given, "argument-hint") or _text(given, "argument_hint"),
        arguments=_words(given, "arguments"),
        allowed_tools=_words(given, "allowed-tools"),
        disallowed_tools=_words(given, "disallowed-tools"),
        model={"haiku": "light", "sonnet": "main", "opus": "main", "inherit": ""}.get(m := _text(given, "model"), m),
        agent=agent,
        fork=context == "fork" or (kind == "command" and bool(agent)),
        for_model=kind == "skill" and not _flag(path, file, "disable-model-invocation", notes),
        for_people=kind == "command" or _flag(path, file, "user-invocable", notes, usual=True),
    )
    return recipe, notes


def _skill_name(path: Path, folder: str, file: Marked, notes: list[Problem]) -> str:
    """The name a skill goes by: its own where that is one, else its folder's; a wrong one is said and forgiven."""
    given = _text(file.matter, "name")
    if not given:
        notes.append(_note(path, file, "name", "is missing; the folder's is used"))
    elif given != folder:
        notes.append(_note(path, file, "name", f"{given!r} is not the folder's name, {folder!r}; make them equal"))
    name = given or folder
    if not _NAME.fullmatch(name) or len(name) > 64:
        notes.append(_note(path, file, "name", "use a-z, 0-9 and single dashes, at most 64 characters"))
    return re.sub(r"[^\w.-]+", "-", name.casefold()).strip("-")[:64] or "skill"


def _unknown(path: Path, file: Marked) -> list[Problem]:
    found = []
    for key in map(str, file.matter):
        if not _KNOWN.fullmatch(key):
            why = "is a key of another program and is ignored" if _PEER_KEYS.fullmatch(key) else "is not a known key"
            found.append(_note(path, file, key, why))
    return found


def _note(path: Path, file: Marked, key: str, message: str) -> Problem:
    return Problem(path, file.line(key), f"{key}: {message}", fatal=False)


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if isinstance(value, list):  # `argument-hint: [file]` is a list to YAML
        return "[" + "] [".join(map(str, value)) + "]"
    return "" if value is None or isinstance(value, dict) else str(value).strip()


def _words(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key)
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else tuple(_LISTED.findall(str(value)))


def _flag(path: Path, file: Marked, key: str, notes: list[Problem], *, usual: bool = False) -> bool:
    if key not in file.matter:
        return usual
    value = str(file.matter[key]).strip().casefold()
    if value not in (*_TRUE, *_FALSE):
        notes.append(_note(path, file, key, "must be true or false"))
        return usual
    return value in _TRUE
