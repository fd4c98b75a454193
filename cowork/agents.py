"""Agent files: `agents/*.md` with front matter become AgentDefs. A bad file is named, the others load."""

from __future__ import annotations

import difflib
import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from cowork.core.errors import UserError
from cowork.core.front_matter import BadFile, Marked, Problem, split, text_of_file, words_of_list
from cowork.core.ports import MODES, AgentDef, AgentOrigin, mode_of
from cowork.tool_names import PEER_NAMES, PEER_TOOLS, is_tool_word, tool_names

COLORS = ("red", "green", "yellow", "blue", "magenta", "cyan", "white", "purple", "orange", "pink")


class Agents(dict[str, AgentDef]):
    """The loaded agents by name; `find` forgives case and dashes, `nearest` also reads descriptions."""

    def __init__(self, agents: Iterable[AgentDef] = (), problems: Sequence[Problem] = ()) -> None:
        self._by_key: dict[str, AgentDef] = {}
        for agent in agents:  # of two with one name the later counts
            self._by_key.pop(agent_key(agent.name), None)
            self._by_key[agent_key(agent.name)] = agent
        super().__init__({agent.name: agent for agent in self._by_key.values()})
        self.problems = tuple(problems)

    def with_added(self, agents: Iterable[AgentDef]) -> Agents:
        """These and others, which take the place of those of the same name."""
        return Agents((*self.values(), *agents), self.problems) if agents else self

    def find(self, name: str) -> AgentDef | None:
        """The agent of that name, ignoring case, `-` and `_`."""
        return self._by_key.get(agent_key(name))

    def nearest(self, name: str, purpose: str = "") -> list[AgentDef]:
        """The agents nearest to a name that is none of theirs; several when nothing tells them apart.

        A misspelt name comes first, then words of the name, then words of the description, then what the task is
        about; a word that few agents have counts more than one that many have.
        """
        key = agent_key(name)
        alike = [known for known in self._by_key if 2 * min(len(known), len(key)) >= _ALIKE * (len(known) + len(key))]
        if typo := difflib.get_close_matches(key, alike, n=1, cutoff=_ALIKE):
            return [self._by_key[typo[0]]]
        asked, wanted, (vocabulary, agents_with) = _words(name), _words(purpose), self._vocabulary

        def score(words: frozenset[str]) -> float:
            return round(sum(1 / agents_with[word] for word in words), 6) if words else 0.0

        scores = {
            agent: (score(asked & in_name), score(asked & described), score(wanted & (in_name | described)))
            for agent, (in_name, described) in vocabulary.items()
        }
        best = max(scores.values(), default=())
        return [self[agent] for agent, score in scores.items() if score == best] if any(best) else []

    @functools.cached_property
    def _vocabulary(self) -> tuple[dict[str, tuple[frozenset[str], frozenset[str]]], Counter[str]]:
        """The words in each agent's name and in its description, and how many agents have each word."""
        words = {name: (_words(name), _words(agent.description)) for name, agent in self.items()}
        return words, Counter(word for in_name, described in words.values() for word in in_name | described)


def read_agent(path: Path, origin: AgentOrigin, known_tools: Collection[str]) -> tuple[AgentDef | None, list[Problem]]:
    """One file: the agent, or None, and what is wrong with it."""
    try:
        return _agent(path, origin, split(text_of_file(path)), known_tools)
    except BadFile as bad:
        return None, [bad.problem(path)]


_KEYS = frozenset(
    {"name", "description", "tools", "disallowed_tools", "model", "max_turns", "timeout"}
    | {"permission_mode", "color", "isolation", "servers"}
)
_SPELLINGS = {"mcp": "servers", "mcp_servers": "servers", "servers": ""}
_PEER_KEYS = frozenset(
    {"skills", "hooks", "memory", "background", "effort", "initialPrompt"}
    | {"mode", "temperature", "kind", "steps", "hidden", "prompt", "permission", "timeout_mins"}
)
_PEER_MODELS = {"haiku": "light", "sonnet": "main", "opus": "main"}


class _Head:
    """The front matter of one file, its keys as cowork spells them. What is wrong is said with its line."""

    def __init__(self, path: Path, file: Marked) -> None:
        self.given: dict[str, Any] = {}
        self.notes: list[Problem] = []
        self._path, self._file = path, file
        self._spelled: dict[str, str] = {}
        for spelled, value in file.matter.items():
            snake = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", str(spelled))
            name = _SPELLINGS.get(snake, snake)
            if name in _KEYS:
                self.given[name] = value
                self._spelled[name] = str(spelled)
            elif spelled in _PEER_KEYS:
                self.note(str(spelled), "is a key of another agent program and is ignored")
            else:
                self.note(str(spelled), "is not a known key")

    def note(self, key: str, why: str, *, unknown_tool: bool = False) -> None:
        self.notes.append(Problem(self._path, self._line(key), f"{key}: {why}", False, unknown_tool))

    def wrong(self, key: str, why: str) -> BadFile:
        return BadFile(self._line(key), f"{key}: {why}")

    def word(self, key: str, otherwise: str = "") -> str:
        return str(self.given.get(key) or otherwise)

    def names(self, key: str) -> tuple[str, ...] | None:
        """Tools of a list; None for all."""
        value = self.given.get(key)
        if value is None or value == "*":
            return None
        if isinstance(value, str):
            value = words_of_list(value)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.wrong(key, "must be a list of tool names")
        # `Bash(git:*)` in another program's file names the tool Bash; its pattern is for permission rules.
        names = (v.split("(")[0].strip() for v in value)
        return tuple(dict.fromkeys(PEER_NAMES.get(name, name) for name in names))

    def number(self, key: str, most: int) -> int | None:
        value = self.given.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.wrong(key, f"must be a whole number from 1 to {most}")
        return value

    def mode(self) -> str:
        word = self.word("permission_mode")
        try:
            return mode_of(word) if word else ""
        except UserError as error:
            raise self.wrong("permission_mode", f"{word!r} is not one of {', '.join(MODES)}") from error

    def servers(self) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
        """(names of MCP servers, entries of its own): a list of either, a table of entries, or names with commas."""
        value = self.given.get("servers")
        if value is None:
            return None, {}
        parts = value.split(",") if isinstance(value, str) else [value] if isinstance(value, dict) else value
        if not isinstance(parts, list) or not all(isinstance(part, str | dict) for part in parts):
            raise BadFile(self._line("servers"), "mcp: must be a list of servers")
        names = [part.strip() for part in parts if isinstance(part, str) and part.strip()]
        own = {name: entry for part in parts if isinstance(part, dict) for name, entry in part.items()}
        return (*names, *own), own

    def _line(self, key: str) -> int:
        return self._file.line(self._spelled.get(key, key))


def _agent(
    path: Path, origin: AgentOrigin, file: Marked, known_tools: Collection[str]
) -> tuple[AgentDef, list[Problem]]:
    head = _Head(path, file)
    for key in ("name", "description"):
        if not isinstance(head.given.get(key), str) or not head.given[key].strip():
            raise head.wrong(key, "is required and must be text")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", head.given["name"]):
        raise head.wrong("name", "use letters, digits, dashes; at most 64 characters")
    if not file.body.strip():
        raise BadFile(1, "the role prompt below the front matter is empty")
    tools, disallowed = head.names("tools"), head.names("disallowed_tools") or ()
    for key, names in (("tools", tools), ("disallowed_tools", disallowed)):
        for name in (n for n in names or () if known_tools and not is_tool_word(n, known_tools)):
            peers = name in PEER_TOOLS
            why = (
                f"{name!r} is a tool of another agent program and is ignored" if peers else f"there is no tool {name!r}"
            )
            head.note(key, why, unknown_tool=not peers)
    if "*" in disallowed or head.given.get("disallowed_tools") == "*":
        disallowed = ("*",)
    isolation, color = head.word("isolation"), head.word("color")
    if isolation not in ("", "worktree"):
        raise head.wrong("isolation", f"{isolation!r} is not worktree")
    if color and color not in COLORS:
        head.note("color", f"{color!r} is not one of {', '.join(COLORS)}")
    model = head.word("model", "inherit")
    servers, own_servers = head.servers()
    spelled = {peer.casefold(): ours for ours in known_tools for peer in tool_names(ours)}  # no spelling loosens it
    agent = AgentDef(
        name=head.given["name"],
        description=" ".join(head.given["description"].split()),
        role=file.body.strip(),
        tools=None if tools is None else tuple(name for name in tools if name not in PEER_TOOLS),
        disallowed_tools=tuple(spelled.get(name.casefold(), name) for name in disallowed),
        model=_PEER_MODELS.get(model, model),
        max_turns=head.number("max_turns", 100),
        timeout=head.number("timeout", 86_400),
        permission_mode=head.mode(),
        color=color if color in COLORS else "",
        isolation=isolation,
        servers=servers,
        own_servers=own_servers,
        origin=origin,
        path=path,
    )
    return agent, head.notes


def agent_key(name: str) -> str:
    """The same for every spelling of a name."""
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
