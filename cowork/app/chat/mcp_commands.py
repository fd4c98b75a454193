"""/mcp, and the prompts of servers as commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from cowork.app.chat import pages
from cowork.core.errors import UserError
from cowork.core.hygiene import visible_line
from cowork.frontends.host import Command, CommandResult, PromptResult

if TYPE_CHECKING:  # a chat without servers loads none of it
    from cowork.app.chat.host import ChatHost
    from cowork.app.mcp.join import McpRun
    from cowork.mcp.servers import Server

ACTIONS = ("reconnect", "on", "off")


class McpCommands:
    """What `/mcp` shows and does."""

    def __init__(self, host: ChatHost) -> None:
        self.host = host

    async def mcp(self, rest: str) -> CommandResult:
        words = rest.split()
        mcp = self._mcp()
        if not words:
            return f"{self.table()}\n\n`/mcp NAME` shows its tools; `/mcp reconnect|on|off NAME`."
        if words[0] not in ACTIONS:
            return _page(mcp, self._find(mcp, words[0]))
        if len(words) < 2:
            raise UserError(f"Which server? /mcp {words[0]} NAME", f"There are {', '.join(mcp.servers)}.")
        server = self._find(mcp, words[1])
        await server.switch(on=words[0] != "off")
        if words[0] == "off":
            return f"{server.name} is off in this chat."
        from cowork.mcp.protocol import McpError

        try:
            await server.connected()
        except McpError as error:
            raise UserError(f"{server.name} {error}.", f"`cowork mcp test {server.name}` shows more.") from error
        return f"{server.name} is connected: {len(server.tools)} tools."

    def words(self) -> tuple[str, ...]:
        servers = tuple(self.host.run.mcp.servers) if self.host.run.mcp else ()
        return (*ACTIONS, *servers)

    def _mcp(self) -> McpRun:
        if self.host.run.mcp is None:
            raise UserError("No MCP servers are configured.", "`cowork mcp add NAME -- COMMAND` adds one.")
        return self.host.run.mcp

    def _find(self, mcp: McpRun, name: str) -> Server:
        if name not in mcp.servers:
            raise UserError(f"There is no MCP server {name!r}.", f"There are {', '.join(mcp.servers)}.")
        return mcp.servers[name]

    def table(self) -> str:
        """What the servers are and take."""
        rows, mcp = [], self._mcp()
        for name, server in mcp.servers.items():
            tokens, found = mcp.tokens(name)
            cost = f"{tokens:,}" + (f" ({found} by search)" if found else "")
            calls = f"{server.calls} · {server.seconds:.1f} s" if server.calls else ""
            state = f"{server.state}: {server.problem}" if server.problem else server.state
            rows.append((name, state, len(server.tools), cost, calls, server.entry.scope))
        head = ("server", "state", "tools", "tokens a request", "calls", "from")
        return pages.table(head, rows)


def _page(mcp: McpRun, server: Server) -> str:
    from cowork.app.mcp.tools import tools_of
    from cowork.mcp.content import cut_text

    rows = [(f"`{tool.name}`", pages.first_sentence(tool.description)) for tool in tools_of(server)]
    known = server.known
    about = f"**{server.name}** · {server.state} · {visible_line(server.entry.line)}"
    said = f"\n\n{cut_text(known.instructions)}" if known and known.instructions else ""
    tools = pages.table(("tool", "does"), rows) if rows else "Its tools are not known yet."
    return f"{about}{said}\n\n{tools}"


def prompt_commands(host: ChatHost) -> list[Command]:
    """The prompts of servers whose lists are known, each `/mcp__server__prompt`."""
    mcp = host.run.mcp
    if mcp is None:
        return []
    return [
        _command(host, server, prompt)
        for server in mcp.servers.values()
        if server.known and server.state != "off"
        for prompt in server.known.prompts
        if isinstance(prompt.get("name"), str)
    ]


def _command(host: ChatHost, server: Server, prompt: dict[str, Any]) -> Command:
    from cowork.mcp.content import cut_text, one_liner

    name = f"mcp__{server.name}__{prompt['name']}"
    wanted = [a for a in prompt.get("arguments") or () if isinstance(a, dict) and isinstance(a.get("name"), str)]
    hint = " ".join(str(a["name"]) if a.get("required") else f"[{a['name']}]" for a in wanted)
    about = one_liner(cut_text(prompt.get("description") or prompt["name"]), 70)
    runs = _runs(host, server, str(prompt["name"]), [str(a["name"]) for a in wanted])
    return Command(name, about, runs, hint, sends=True)


def _runs(host: ChatHost, server: Server, name: str, wanted: list[str]) -> Callable[[str], Awaitable[CommandResult]]:
    """Arguments are words; the last takes what is left."""
    from cowork.app.mcp.tools import elicit_by
    from cowork.mcp.content import prompt_text
    from cowork.mcp.protocol import McpError

    async def run(rest: str) -> CommandResult:
        words = rest.split(maxsplit=max(0, len(wanted) - 1)) if wanted else []
        given = dict(zip(wanted, words, strict=False))
        try:
            found = await server.prompt(name, given, elicit_by(host.ask, "main", server.name))
        except McpError as error:
            raise UserError(f"{server.name} {error}.", "/mcp shows its state.") from error
        return PromptResult(prompt_text(found), label=f"/mcp__{server.name}__{name} {rest}".strip())

    return run
