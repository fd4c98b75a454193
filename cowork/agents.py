"""Agent files: `agents/*.md` with front matter become AgentDefs. A bad file is named, the others load."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cowork.core.front_matter import BadFile, Marked, Problem, files_below, leads_out, split, text_of_file
from cowork.core.modes import MODES
from cowork.core.ports import AgentDef, AgentOrigin, is_tool_word

COLORS = ("red", "green", "yellow", "blue", "magenta", "cyan", "white", "purple", "orange", "pink")


class Agents(Mapping[str, AgentDef]):
    """The loaded agents by name; `find` forgives case and dashes, `nearest` also reads descriptions."""

    def __init__(self, agents: Iterable[AgentDef] = (), problems: Sequence[Problem] = ()) -> None:
        self._by_name = {agent.name: agent for agent in agents}
        self._by_key = {_key(name): agent for name, agent in self._by_name.items()}
        self.problems = tuple(problems)

    def __getitem__(self, name: str) -> AgentDef:
        return self._by_name[name]

    def __iter__(self) -> Any:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def with_added(self, agents: Iterable[AgentDef]) -> Agents:
        """These and others, which take the place of those of the same name."""
        return Agents((*self.values(), *agents), self.problems) if agents else self

    def find(self, name: str) -> AgentDef | None:
        """The agent of that name, ignoring case, `-` and `_`."""
        return self._by_key.get(_key(name))

    def nearest(self, name: str, purpose: str = "") -> list[AgentDef]:
        """The agents nearest to a name that is none of theirs; several when nothing tells them apart.

        A misspelt name comes first, then words of the name, then words of the description, then what the task is
        about; a word that few agents have counts more than one that many have.
        """
        key = _key(name)
        alike = [known for known in self._by_key if 2 * min(len(known), len(key)) >= _ALIKE * (len(known) + len(key))]
        if typo := difflib.get_close_matches(key, alike, n=1, cutoff=_ALIKE):
            return [self._by_key[typo[0]]]
        in_names, in_descriptions, anywhere = self._words_of_agents
        asked, wanted = _words(name), _words(purpose)
        scores = {agent: [0.0, 0.0, 0.0] for agent in self._by_name}
        for place, words, index in ((0, asked, in_names), (1, asked, in_descriptions), (2, wanted, anywhere)):
            for word in words & index.keys():
                for agent in index[word]:
                    scores[agent][place] += 1 / len(anywhere[word])
        rounded = {agent: [round(score, 6) for score in three] for agent, three in scores.items()}
        best = max(rounded.values(), default=[0.0])
        return [self._by_name[agent] for agent, score in rounded.items() if score == best] if any(best) else []

    @functools.cached_property
    def _words_of_agents(self) -> tuple[dict[str, set[str]], dict[str, set[str]], dict[str, set[str]]]:
        """Which agents have a word: in the name, in the description, in either."""
        found: tuple[dict[str, set[str]], ...] = ({}, {}, {})
        for name, agent in self._by_name.items():
            names, described = _words(name), _words(agent.description)
            for index, words in zip(found, (names, described, names | described), strict=True):
                for word in words:
                    index.setdefault(word, set()).add(name)
        return found[0], found[1], found[2]


def load_agents(folders: Sequence[tuple[AgentOrigin, Path]], known_tools: Collection[str] = ()) -> Agents:
    """Agents of all folders; a later folder's agent takes the place of an earlier one of the same name."""
    found: dict[str, AgentDef] = {}
    problems: list[Problem] = []
    for origin, folder in folders:
        here: dict[str, Path] = {}
        for path in files_below(folder):
            if origin == "project" and leads_out(path, folder):
                problems.append(Problem(path, 1, "is a link out of its folder", hint="Copy the file here"))
                continue
            agent, wrong = read_agent(path, origin, known_tools)
            problems += wrong
            if agent is None:
                continue
            key = _key(agent.name)
            if key in here:
                message = f"name: {agent.name!r} is already defined by {here[key].name} in the same folder"
                problems.append(Problem(path, 1, message))
                continue
            here[key] = path
            found.pop(key, None)
            found[key] = agent
    return Agents(found.values(), problems)


def read_agent(path: Path, origin: AgentOrigin, known_tools: Collection[str]) -> tuple[AgentDef | None, list[Problem]]:
    """One file: the agent, or None, and what is wrong with it."""
    try:
        return _agent(path, origin, split(text_of_file(path)), known_tools)
    except BadFile as bad:
        return None, [bad.problem(path)]


_KEYS = {
    "name": "name",
    "description": "description",
    "tools": "tools",
    "disallowed_tools": "disallowed_tools",
    "disallowedTools": "disallowed_tools",
    "model": "model",
    "max_turns": "max_turns",
    "maxTurns": "max_turns",
    "timeout": "timeout",
    "permission_mode": "permission_mode",
    "permissionMode": "permission_mode",
    "color": "color",
    "isolation": "isolation",
    "mcp": "servers",
    "mcpServers": "servers",
}
_PEER_KEYS = frozenset(
    {"skills", "hooks", "memory", "background", "effort", "initialPrompt"}
    | {"mode", "temperature", "kind", "steps", "hidden", "prompt", "permission", "timeout_mins"}
)
_PEER_MODELS = {"haiku": "light", "sonnet": "main", "opus": "main"}
_PEER_MODES = {"default": "ask", "acceptEdits": "accept-edits", "bypassPermissions": "bypass"}


def _agent(
    path: Path, origin: AgentOrigin, file: Marked, known_tools: Collection[str]
) -> tuple[AgentDef, list[Problem]]:
    given, notes, spelled = _known(path, file)
    body = file.body

    def at(key: str) -> int:
        return file.line(spelled.get(key, key))

    for key in ("name", "description"):
        if not isinstance(given.get(key), str) or not given[key].strip():
            raise BadFile(at(key), f"{key}: is required and must be text")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", given["name"]):
        raise BadFile(at("name"), "name: use letters, digits, dashes; at most 64 characters")
    if not body.strip():
        raise BadFile(1, "the role prompt below the front matter is empty")
    tools = _names(given, "tools", at("tools"))
    for key, names in (("tools", tools), ("disallowed_tools", _names(given, "disallowed_tools", 1))):
        for unknown in (n for n in names or () if known_tools and not is_tool_word(n, known_tools)):
            notes.append(Problem(path, at(key), f"{key}: there is no tool {unknown!r}", False, True))
    mode = _PEER_MODES.get(str(given.get("permission_mode", "")), str(given.get("permission_mode", "")))
    if mode and mode not in MODES:
        raise BadFile(at("permission_mode"), f"permission_mode: {mode!r} is not one of {', '.join(MODES)}")
    isolation = str(given.get("isolation", ""))
    if isolation not in ("", "worktree"):
        raise BadFile(at("isolation"), f"isolation: {isolation!r} is not worktree")
    color = str(given.get("color", ""))
    if color and color not in COLORS:
        notes.append(Problem(path, at("color"), f"color: {color!r} is not one of {', '.join(COLORS)}", fatal=False))
    model = str(given.get("model", "inherit") or "inherit")
    servers, own_servers = _servers(given, at("servers"))
    agent = AgentDef(
        name=given["name"],
        description=" ".join(given["description"].split()),
        role=body.strip(),
        tools=tools,
        disallowed_tools=_disallowed(given, at("disallowed_tools"), known_tools),
        model=_PEER_MODELS.get(model, model),
        max_turns=_number(given, "max_turns", at("max_turns"), 1, 100),
        timeout=_number(given, "timeout", at("timeout"), 1, 86_400),
        permission_mode=mode,
        color=color if color in COLORS else "",
        isolation=isolation,
        servers=servers,
        own_servers=own_servers,
        origin=origin,
        path=path,
    )
    return agent, notes


def _known(path: Path, file: Marked) -> tuple[dict[str, Any], list[Problem], dict[str, str]]:
    """The keys as cowork spells them, a word on each that it does not know, and how the others were spelled."""
    notes: list[Problem] = []
    given: dict[str, Any] = {}
    spellings: dict[str, str] = {}
    for spelled, value in file.matter.items():
        name = _KEYS.get(str(spelled))
        if name:
            given[name] = value
            spellings[name] = str(spelled)
        else:
            why = "is a key of another agent program and is ignored" if spelled in _PEER_KEYS else "is not a known key"
            notes.append(Problem(path, file.line(str(spelled)), f"{spelled}: {why}", fatal=False))
    return given, notes, spellings


def _names(given: Mapping[str, Any], key: str, line: int) -> tuple[str, ...] | None:
    value = given.get(key)
    if value is None or value == "*":
        return None
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise BadFile(line, f"{key}: must be a list of tool names")
    # `Bash(git:*)` in another program's file names the tool Bash; its pattern is for permission rules.
    return tuple(dict.fromkeys(v.split("(")[0].strip() for v in value))


def _servers(given: Mapping[str, Any], line: int) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
    """(names of MCP servers, entries of its own): a list of either, a table of entries, or names with commas."""
    value = given.get("servers")
    if value is None:
        return None, {}
    parts = value.split(",") if isinstance(value, str) else [value] if isinstance(value, dict) else value
    if not isinstance(parts, list) or not all(isinstance(part, str | dict) for part in parts):
        raise BadFile(line, "mcp: must be a list of servers")
    names = [part.strip() for part in parts if isinstance(part, str) and part.strip()]
    own = {name: entry for part in parts if isinstance(part, dict) for name, entry in part.items()}
    return (*names, *own), own


def _disallowed(given: Mapping[str, Any], line: int, known_tools: Collection[str]) -> tuple[str, ...]:
    """What an agent may not have, as the tools are spelled here: a word that is not understood must not loosen it."""
    names = ("*",) if given.get("disallowed_tools") == "*" else _names(given, "disallowed_tools", line) or ()
    if "*" in names:
        return ("*",)
    spelled = {name.casefold(): name for name in known_tools}
    return tuple(spelled.get(name.casefold(), name) for name in names)


def _number(given: Mapping[str, Any], key: str, line: int, least: int, most: int) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadFile(line, f"{key}: must be a whole number from {least} to {most}")
    return value


def _key(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").strip()


_ALIKE = 0.8  # so much of a misspelt name must be right
_STOP = frozenset(
    {"and", "for", "from", "how", "into", "that", "the", "this", "use", "what", "when", "with", "agent", "task"}
)


def _words(text: str) -> frozenset[str]:
    """The stems of the words of a text, those left out that say nothing about it."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).casefold()
    return frozenset(_stem(w) for w in re.split(r"[^a-z0-9]+", spaced) if len(w) > 2 and w not in _STOP)


def _stem(word: str) -> str:
    """A word without its ending, so that `reviews`, `reviewer` and `reviewing` are one."""
    short = re.sub(r"(?:ations?|ings?|ers?|ors?|ions?|ies|ed|es|s|e|y)$", "", word)
    return re.sub(r"([b-df-hj-np-tv-z])\1$", r"\1", short) if len(short) >= 3 else word
