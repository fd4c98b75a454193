"""The one finder of agents, skills, commands, hooks and plugins: of two with one name, that of the later place wins."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from cowork.agents import Agents, agent_key, read_agent
from cowork.core.blocks import CHARS_A_TOKEN, Json
from cowork.core.front_matter import MAX_FILES, Problem, files_below, leads_out
from cowork.core.frozen import frozen
from cowork.core.later import later
from cowork.core.ports import AgentDef, AgentOrigin
from cowork.extensions.skills import SKILL_FILE, Skill, read_skill

with later(__name__):
    from cowork.extensions.hooks import HookRule, read_hooks
    from cowork.extensions.plugins import Plugin, read_plugin, read_servers

Kind = Literal["agent", "skill", "command", "hook", "plugin", "server"]


@frozen
class ExtensionFolder:
    """A folder with agents/, skills/, commands/ and hooks in it; where plugins are installed, one for each of them."""

    origin: AgentOrigin
    folder: Path
    plugin: Plugin | None = None

    @property
    def prefix(self) -> str:
        return self.plugin.name if self.plugin else ""


@frozen
class Listed:
    """One extension for people: what it is, from where, what it adds and what it costs each request."""

    kind: Kind
    name: str
    origin: str
    path: Path
    adds: str
    tokens: int = 0

    def to_dict(self) -> Json:
        return {**vars(self), "path": str(self.path)}


@frozen
class Extensions:
    """All that was found."""

    agents: Agents = field(default_factory=Agents)
    skills: Mapping[str, Skill] = field(default_factory=dict)  # and commands, by name
    hooks: tuple[HookRule, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    servers: Mapping[str, Json] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()  # of all but agents

    def skills_for_model(self, *, shipped: bool = False) -> list[Skill]:
        """What the model may call; shipped ones only where that is wanted."""
        found = (skill for skill in self.skills.values() if skill.for_model)
        return [skill for skill in found if shipped or skill.origin != "shipped"]

    def rows(self, *, shipped: bool = False) -> list[Listed]:
        """Everything, for people."""
        told = {skill.name for skill in self.skills_for_model(shipped=shipped)}
        rows = [Listed("plugin", p.name, p.origin, p.root, p.description or p.version) for p in self.plugins]
        for a in self.agents.values():
            line = f"- {a.name}: {a.description[:200]} ({', '.join(a.tools or ())})"
            rows.append(Listed("agent", a.name, a.origin, a.path, a.description, _tokens(line)))
        for s in self.skills.values():
            cost = _tokens(s.line) if s.name in told else 0
            rows.append(Listed(s.kind, s.name, s.origin, s.path, s.description, cost))
        rows += [Listed("hook", h.name, h.origin, h.path, h.command) for h in self.hooks]
        for name, server in self.servers.items():
            words = server.get("url") or " ".join(map(str, (server.get("command", ""), *server.get("args", ()))))
            rows.append(Listed("server", name, "plugin", Path(str(server.get("cwd", ""))), str(words)))
        return rows


def find(places: Sequence[ExtensionFolder], plugin_data: Path, known_tools: Collection[str] = ()) -> Extensions:
    """Read every place. Nothing is run, and a bad file leaves the others."""
    agents, skills, hooks = list[AgentDef](), dict[str, Skill](), list[HookRule]()
    servers: dict[str, Json] = {}
    problems, agent_problems = list[Problem](), list[Problem]()
    for place in places:
        taken: dict[tuple[str, str], Path] = {}
        for kind, path, name in _files(place):
            told = agent_problems if kind == "agent" else problems
            wrong: list[Problem] = []
            # A user may link to what is elsewhere, a plugin and a project may not.
            base = place.folder if place.plugin else place.folder / f"{kind}s"
            if (place.plugin or (place.origin == "project" and kind != "hook")) and leads_out(path, base):
                if not place.plugin and any(not leads_out(path, other.folder / f"{kind}s") for other in places):
                    continue  # it is read there
                wrong = [Problem(path, 1, "is a link out of its folder", hint="Copy it here")]
            elif kind == "hook":
                rules, wrong = read_hooks(path, place.origin, place.plugin.root if place.plugin else None)
                hooks += rules
            elif kind == "agent":
                agent, wrong = read_agent(path, place.origin, known_tools)
                if agent and _is_free(taken, (kind, agent_key(agent.name)), agent.name, path, told):
                    agents.append(replace(agent, name=f"{place.prefix}:{agent.name}") if place.prefix else agent)
            else:
                skill, wrong = read_skill(path, kind, name, place.origin, place.prefix)
                if skill and _is_free(taken, ("skill", skill.name), skill.name, path, told):
                    skills[skill.name] = skill
            told += wrong
        if place.plugin:
            found, wrong = read_servers(place.plugin, plugin_data / place.plugin.name)
            named = place.plugin.name.replace(".", "-")
            servers |= {f"{named}_{name}": server for name, server in found.items()}
            problems += wrong
    plugins = tuple(place.plugin for place in places if place.plugin)
    return Extensions(Agents(agents, agent_problems), skills, tuple(hooks), plugins, servers, tuple(problems))


def _is_free(
    taken: dict[tuple[str, str], Path], key: tuple[str, str], name: str, path: Path, told: list[Problem]
) -> bool:
    """Whether nothing in the place has this name yet; that something has is told."""
    first = taken.setdefault(key, path)
    if first != path:
        told.append(Problem(path, 1, f"the name {name!r} is already that of {first}", hint="Give it another name"))
    return first == path


def plugins_in(folder: Path, origin: AgentOrigin) -> tuple[list[ExtensionFolder], list[Problem]]:
    """A place for each plugin in a folder."""
    places, problems = list[ExtensionFolder](), list[Problem]()
    for child in _children(folder):
        plugin, wrong = read_plugin(child, origin)
        problems += wrong
        if plugin:
            places.append(ExtensionFolder(origin, child, plugin))
    return places, problems


def stamp(places: Iterable[ExtensionFolder]) -> frozenset[tuple[str, int, int]]:
    """What the files of all places are now: their names, times and sizes. Equal stamps need no new look."""
    found = set()
    for place in places:
        for _, path, _ in _files(place):
            with suppress(OSError):
                status = path.stat()
                found.add((str(path), status.st_mtime_ns, status.st_size))
    return frozenset(found)


_File = tuple[Literal["skill", "command", "agent", "hook"], Path, str]


def _files(place: ExtensionFolder) -> Iterable[_File]:
    """(kind, path, name) of every file of a place, once; agents and hooks have their names inside."""
    found: dict[Path, _File] = {}
    for file in _walk(place, place.plugin.parts if place.plugin else {}):
        found.setdefault(file[1], file)
    return found.values()


def _walk(place: ExtensionFolder, parts: Mapping[str, tuple[Path, ...]]) -> Iterator[_File]:
    """The files in the usual folders, then those that a plugin's manifest names."""
    folders = _children(place.folder / "skills")
    for named in parts.get("skills", ()):
        folders += [named, *_children(named)]
    for folder in folders:
        if os.path.lexists(folder / SKILL_FILE):
            yield "skill", folder / SKILL_FILE, folder.name
    kinds: tuple[Literal["command", "agent"], ...] = ("command", "agent")
    for kind in kinds:
        for top in (place.folder / f"{kind}s", *parts.get(f"{kind}s", ())):
            base, paths = (top.parent, [top]) if top.suffix == ".md" else (top, files_below(top))
            for path in paths:
                yield kind, path, str(path)[len(str(base)) + 1 : -3].replace("/", ":")
    names = ["hooks/hooks.json"] if place.plugin else ["hooks.json"] if place.origin != "shipped" else []
    if place.folder.name == ".claude":
        names = ["settings.json", "settings.local.json"]
    usual = [place.folder / name for name in names if os.path.lexists(place.folder / name)]
    yield from (("hook", path, "") for path in (*usual, *parts.get("hooks", ())))


def _children(folder: Path) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir() and entry.name[0] != ".")[:MAX_FILES]
    return []


def _tokens(text: str) -> int:
    return -(-len(text) // CHARS_A_TOKEN)
