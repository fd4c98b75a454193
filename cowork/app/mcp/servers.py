"""The servers of one run: where they are configured, who approved them, their start, and what agents get of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from cowork import prompts
from cowork.app.mcp.tools import approval, elicit_by, resource_line, resource_tools, tokens_of, tools_of
from cowork.app.project import Project
from cowork.config import keyring, paths
from cowork.core.blocks import Json, as_object
from cowork.core.errors import UserError, os_error_as
from cowork.core.events import Notice
from cowork.core.git import project_root
from cowork.core.hygiene import visible_line
from cowork.core.later import later
from cowork.core.ports import AgentDef, Answer, Ask
from cowork.core.workspace import load_json
from cowork.engine.loop import Prompt
from cowork.mcp.content import cut_text, resource_content
from cowork.mcp.entries import MOST_BYTES, ServerEntry, entries_of, entry_of, fill, read_file
from cowork.mcp.protocol import Channel, McpError
from cowork.mcp.servers import ListCache, Server, ServerPorts, prepare
from cowork.private_files import write_private
from cowork.tools.base import Tool
from cowork.tools.tool_search import call_tool, search_tools
from cowork.tools.toolset import ToolSet

with later(__name__):  # most runs call no server
    from cowork.app.mcp.processes import StdioChannel
    from cowork.app.run import Run
    from cowork.mcp.http import HttpChannel
    from cowork.mcp.oauth import OAuth

PROJECT_FILE = ".mcp.json"
_MENTION = re.compile(r"(?<!\S)@([A-Za-z0-9][\w.-]*):(\w[\w+.-]*://\S+|\S+)")
_MOST_MENTIONED = 50_000  # characters of a resource
_MOST_OFFERED = 40  # resources in a completion
AGENT_WAIT_S = 30.0  # that a child waits for a server its file names


class McpRun:
    """Implements what a run asks of its servers."""

    def __init__(self, place: Project, ask: Ask | None, run: Callable[[], Run]) -> None:
        self.place, self._ask, self._run = place, ask, run
        cache = ListCache(paths.state_dir(place.environ) / "mcp", place.environ)
        self._ports = ServerPorts(self._channel, self._notice, self._add_listed, cache)
        entries, self.problems = find_servers(place)  # which are told with the first prompt
        self.servers: dict[str, Server] = {}
        for name, entry in entries.items():
            try:
                self.servers[name] = self._server(entry)
            except UserError as error:
                self.problems.append(error.message)
        self._approvals = Approvals(place.environ)
        self._accepted: set[str] = set()  # servers of the project, by the person
        self._settled, self._settling = False, asyncio.Lock()  # children may be sent out side by side

    async def ready(self) -> None:
        """Before the first request: start what is not known yet, wait a little, and offer all tools there are."""
        async with self._settling:
            if self._settled:
                return
            for problem in self.problems:
                self._notice(f"MCP: {problem}", "warning")
            ours = [s for name, s in self.servers.items() if self._for_main(name) and await self._may_use(s)]
            late = await prepare(ours, self.place.config.mcp.wait)
            for server in late:
                self._tell_late(server)
            self._offer(ours, late)
            self._settled = True

    async def ready_for(self, definition: AgentDef) -> None:
        """Before a child: start the servers that its file names, and have their tools where children find them."""
        await self.ready()
        entries, problems = entries_of(definition.own_servers, "agent", str(definition.path))
        for problem in problems:
            self._notice(problem, "warning")
        for entry in entries:
            if entry.name not in self.servers:
                self.servers[entry.name] = self._server(entry)
        named = [self.servers[name] for name in definition.named_servers if name in self.servers]
        async with self._settling:
            named = [server for server in named if await self._may_use(server)]
        await prepare(named, AGENT_WAIT_S)
        tools = self._tools.all
        for tool in (tool for server in named for tool in tools_of(server) if tool.name not in tools):
            tools.add(tool)

    def instructions(self) -> str:
        """What the servers say of their use, as data for the model; said once."""
        texts = [
            f'<server name="{name}">\n{cut_text(server.known.instructions)}\n</server>'
            for name, server in self.servers.items()
            if server.known and server.known.instructions and self._for_main(name)
        ]
        return "How MCP servers describe their use:\n" + "\n".join(texts) if texts else ""

    async def read_mentions(self, text: str) -> str:
        """The resources that a prompt names as `@server:uri`, as context for the model."""
        found = []
        usable = self.usable()
        for name, uri in dict.fromkeys(_MENTION.findall(text)):
            if name not in usable:
                continue
            try:
                said = resource_content(await usable[name].read(uri, elicit_by(self._ask, "main", name)))
            except McpError as error:
                self._notice(f"@{name}:{uri} was not read: the MCP server {error}.", "warning")
                continue
            found.append(f'<resource server="{name}" uri="{uri}">\n{said.text[:_MOST_MENTIONED]}\n</resource>')
        return "\n".join(found)

    async def completions(self, typed: str) -> list[tuple[str, str]]:
        """(text, what it is) for `@typed`: the servers that have resources, then `server:uri` of the one that is named.

        Only naming a server starts it, and never one that waits for approval.
        """
        usable = self.usable()
        name, named, _ = typed.partition(":")
        if not named:
            having = (name for name, server in usable.items() if server.known and server.known.can("resources"))
            return [(f"{name}:", "resources of an MCP server") for name in having if name.startswith(typed)]
        try:
            found = await usable[name].resources() if name in usable else []
        except McpError:
            return []
        lines = [(f"{name}:{uri}", about) for uri, about in map(resource_line, found)]
        return [line for line in lines if typed in line[0]][:_MOST_OFFERED]

    def tokens(self, name: str) -> tuple[int, int]:
        """(tokens its definitions take in each request, tools that a search finds instead)."""
        tools, specs = tools_of(self.servers[name]), {spec.name for spec in self._run().agent.specs}
        told = [tool for tool in tools if tool.name in specs]
        return tokens_of(told), len(tools) - len(told)

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self.servers.values()))

    @property
    def _tools(self) -> ToolSet:
        return self._run().agent.runner.tools

    def usable(self) -> dict[str, Server]:
        """The servers that may be started: switched on, not refused by the settings, and approved."""
        return {name: s for name, s in self.servers.items() if not self._is_off(name) and self._is_approved(s.entry)}

    def _is_off(self, name: str) -> bool:
        refused = (f"mcp__{name}", f"mcp__{name}__*", "mcp__*")
        return self.servers[name].state == "off" or any(w in refused for w in self.place.config.tools.disabled)

    def _for_main(self, name: str) -> bool:
        is_agents = self.servers[name].entry.scope == "agent" or name in self.place.config.mcp.only_for_agents
        return not is_agents and not self._is_off(name)

    async def _may_use(self, server: Server) -> bool:
        """Whether a server may be used; those of a project only with the person's yes to this very entry."""
        entry = server.entry
        if entry.missing:
            names = ", ".join(entry.missing)
            self._notice(f"MCP server {entry.name}: {names} not set in the environment.", "warning")
        if self._is_approved(entry):
            return True
        if server.state == "off":
            return False
        answer = await self._ask(approval(entry)) if self._ask else Answer("no")
        if self._ask is None:
            said = f"MCP server {entry.name} of this project is not used before you approve it"
            self._notice(f"{said}: `cowork mcp approve {entry.name}`.", "warning")
        if not answer.granted:
            server.state = "off"
            return False
        if answer.choice == "always":
            self._approvals.add(self.place.root, entry)
        self._accepted.add(entry.name)
        return True

    def _is_approved(self, entry: ServerEntry) -> bool:
        root = self.place.root
        of_project = entry.scope == "agent" and entry.where.startswith(str(project_root(root)))
        if entry.scope != "project" and not of_project:
            return True
        return self.place.options.trust or entry.name in self._accepted or self._approvals.has(root, entry)

    def _offer(self, servers: Iterable[Server], late: list[Server]) -> None:
        """Give the agents every tool that is known, deferred where all of them would take too much of the window."""
        by_server = {server: tools_of(server) for server in servers}
        rest = [tool for server, tools in by_server.items() if not server.entry.always_load for tool in tools]
        window = self._run().agent.provider.context_window
        many = tokens_of(rest) > self.place.config.mcp.defer * window
        deferred = rest if many else []
        self._add(tool for server, tools in by_server.items() for tool in tools if tool not in deferred)
        self._add(deferred, deferred=True)
        if any(server.known and server.known.can("resources") for server in by_server) or late:
            self._add(resource_tools(self.usable))
        if deferred or late:
            self._add_search([server.name for server in late])

    def _add_search(self, later: Iterable[str] = ()) -> None:
        texts = (prompts.text_of("tools/ToolSearch"), prompts.text_of("tools/CallTool"))
        self._add(search_tools(*texts, self._tools.deferred, list(later)))

    def _add(self, tools: Iterable[Tool], *, deferred: bool = False) -> None:
        for tool in tools:
            if tool.name not in self._tools and tool.name not in self._tools.all:
                self._tools.add(tool, deferred=deferred)

    def _add_listed(self, server: Server) -> None:
        """What becomes known after the first request is found by search: the list of tools stays as it is."""
        if not self._settled or not self._for_main(server.name):
            return
        fresh = [tool for tool in tools_of(server) if tool.name not in self._tools]
        self._add(fresh, deferred=True)
        if fresh and call_tool.name not in self._tools:
            self._add_search()
        if fresh:
            names = ", ".join(tool.name for tool in fresh[:20])
            said = f"The MCP server {server.name} has new tools, which ToolSearch finds: {names}"
            self._run().agent.tell(Prompt(said, source="system", label="note"))

    def _tell_late(self, server: Server) -> None:
        match server.state:
            case "login":
                said, hint = "wants a login", f"`cowork mcp login {server.name}`"
            case "failed":
                said, hint = f"is not used: {server.problem}", f"`cowork mcp test {server.name}` shows more"
            case _:
                said, hint = "is still starting", "the first request goes without it"
        self._notice(f"MCP server {server.name} {said}; {hint}.", "warning")

    def _notice(self, text: str, level: str) -> None:
        self._run().emit(Notice(text, "warning" if level == "warning" else "info", "mcp"))

    def _channel(self, entry: ServerEntry) -> Channel:
        if entry.url:
            given = any(name.lower() == "authorization" for name in entry.headers)
            auth = None if given else OAuth(entry.url, entry.oauth, KeptTokens(entry, self.place.environ))
            return HttpChannel(entry.url, entry.headers, auth)
        return StdioChannel(entry, self._run().tree, entry.folder(self.place.root), self.place.environ)

    def _server(self, entry: ServerEntry) -> Server:
        """A server that is not started yet, with the variables of its entry filled in."""
        own = {"CLAUDE_PROJECT_DIR": str(entry.folder(self.place.root))}
        return Server(fill(entry, {**self.place.environ, **own}), self._ports)


def user_file(environ: Mapping[str, str]) -> Path:
    """The person's servers, for everywhere and for single folders."""
    return paths.config_dir(environ) / "mcp.json"


def find_servers(place: Project) -> tuple[dict[str, ServerEntry], list[str]]:
    """(the servers of a run by name, what is wrong with their files). Of two with one name the first counts, whole."""
    options, own, folder = place.options, user_file(place.environ), project_root(place.root)
    looks = []
    if options.mcp_config is not None:
        if not options.mcp_config.is_file():
            raise UserError(f"--mcp-config: {options.mcp_config} is not a file.", 'It holds {"mcpServers": {…}}.')
        looks.append(read_file(options.mcp_config, "flag"))
    looks.append(entries_of(options.mcp_servers, "flag", "the program that runs cowork"))
    looks += [] if options.bare else [read_file(own, "local", folder)]
    looks += [read_file(folder / PROJECT_FILE, "project")] if place.trusted else []
    looks.append(entries_of(place.invoker.extensions.servers, "user", "a plugin"))
    looks += [] if options.bare else [read_file(own, "user")]
    looks.append(entries_of(place.config.mcp_servers, "config", "[mcp.servers] of config.toml"))
    found: dict[str, ServerEntry] = {}
    for entry in (entry for entries, _ in looks for entry in entries if entry.name not in place.config.mcp.disabled):
        found.setdefault(entry.name, entry)
    return found, [problem for _, wrong in looks for problem in wrong]


class Approvals:
    """Which servers of projects a person has approved, as they were written then."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._file = paths.state_dir(environ) / "mcp_approved.json"

    def has(self, root: Path, entry: ServerEntry) -> bool:
        return as_object(self._read().get(str(project_root(root)), {})).get(entry.name) == entry.digest

    def add(self, root: Path, entry: ServerEntry) -> None:
        kept = self._read()
        kept.setdefault(str(project_root(root)), {})[entry.name] = entry.digest
        write_private(self._file, json.dumps(kept, indent=1))

    def _read(self) -> Json:
        try:
            return as_object(load_json(self._file))
        except (OSError, ValueError):
            return {}


class KeptTokens:
    """What a login to a server gave, where /login keeps keys: by its name and address, so no other gets it."""

    def __init__(self, entry: ServerEntry, environ: Mapping[str, str]) -> None:
        mark = hashlib.sha256(entry.url.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        self._name, self._environ = f"MCP_{entry.name}_{mark}", environ

    def get(self) -> Json:
        try:
            return as_object(json.loads(keyring.read(self._name, self._environ) or "{}"))
        except ValueError:
            return {}

    def put(self, kept: Json) -> None:
        keyring.keep(self._name, json.dumps(kept) if kept else "", self._environ)


def why_not(name: str, raw: Json, taken: Collection[str]) -> str:
    """Why a server of another program is not taken over; empty where it can be."""
    try:
        entry_of(name, raw, "user")
    except ValueError as problem:
        return visible_line(str(problem))
    return "exists already and stays" if name in taken else ""


def change_file(path: Path, name: str, entry: Json | None, folder: Path | None = None) -> bool:
    """Write an entry to a file, or remove it; False when there was none to remove."""
    try:
        whole = load_json(path, MOST_BYTES) if path.exists() else {}
        servers = whole
        for key in ("projects", str(folder), "mcpServers") if folder else ("mcpServers",):
            servers = servers.setdefault(key, {})
        if not isinstance(servers, dict):
            raise ValueError("mcpServers is not an object")
    except (OSError, ValueError, AttributeError) as error:
        known = "it does not hold objects" if isinstance(error, AttributeError) else getattr(error, "strerror", "")
        raise UserError(f"{path} cannot be read: {known or error}.", "Mend it first.") from error
    if entry is None and name not in servers:
        return False
    if entry is None:
        del servers[name]
    else:
        servers[name] = entry
    text = json.dumps(whole, indent=2, ensure_ascii=False)
    with os_error_as(f"{path} cannot be written"):
        if path.name == PROJECT_FILE:  # others read it too
            path.write_text(text + "\n", encoding="utf-8")
        else:
            write_private(path, text)
    return True
