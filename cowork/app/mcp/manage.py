"""What `cowork mcp` does with servers: tries them and logs in."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Mapping

from cowork.app.build import build
from cowork.app.mcp.join import McpRun
from cowork.app.mcp.sources import KeptTokens
from cowork.app.mcp.tools import tokens_of, tools_of
from cowork.app.run import Run
from cowork.config.options import RunOptions
from cowork.core import signals
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.mcp.entries import ServerEntry
from cowork.mcp.oauth import OAuth
from cowork.mcp.protocol import LoginNeeded, McpError
from cowork.mcp.servers import Server


def opened(options: RunOptions, environ: Mapping[str, str]) -> tuple[Run, McpRun]:
    """A run that nothing is said in, for its servers."""
    run = build(options, environ, ask=None, sinks=[], on_sink_failure=lambda sink, error: None)
    if run.mcp is None:
        raise UserError("No MCP servers are configured here.", "`cowork mcp add NAME -- COMMAND` adds one.")
    return run, run.mcp


def named(mcp: McpRun, name: str) -> Server:
    if name not in mcp.servers:
        known = ", ".join(mcp.servers) or "none"
        raise UserError(f"There is no MCP server {name!r}.", f"Configured here: {known}.")
    return mcp.servers[name]


def tried(options: RunOptions, environ: Mapping[str, str], name: str) -> Json:
    """Connect to a server and say what it has."""

    async def work() -> Json:
        run, mcp = opened(options, environ)
        try:
            server = named(mcp, name)
            client = await server.connected()
            tools = tools_of(server)
            return {
                "name": name,
                "server": client.facts.name,
                "release": client.facts.release,
                "protocol": client.facts.version,
                "tools": [tool.name for tool in tools],
                "tokens": tokens_of(tools),
                "prompts": [str(prompt.get("name")) for prompt in server.known.prompts] if server.known else [],
                "resources": len(await client.resources()),
            }
        except LoginNeeded as error:
            raise UserError(f"MCP server {name}: {error}.", f"`cowork mcp login {name}`", exit_code=3) from error
        except McpError as error:
            hint = f"Its entry: `cowork mcp get {name}`"
            raise UserError(f"MCP server {name} {error}.", hint, exit_code=1) from error
        finally:
            await run.close()

    return signals.run(work())


def log_in(options: RunOptions, environ: Mapping[str, str], name: str, *, browser: bool) -> None:
    """Let the person log in to a remote server, and keep the token."""

    async def browse(url: str) -> None:
        print(f"Log in on this page:\n  {url}", flush=True)
        if browser:
            await asyncio.to_thread(webbrowser.open, url)

    async def work() -> None:
        run, mcp = opened(options, environ)
        try:
            entry = _remote(named(mcp, name).entry)
            await OAuth(entry.url, entry.oauth, KeptTokens(entry, environ), browse).login()
        except McpError as error:
            raise UserError(f"MCP server {name} {error}.", exit_code=3) from error
        finally:
            await run.close()

    signals.run(work())


def _remote(entry: ServerEntry) -> ServerEntry:
    if not entry.url:
        hint = "Give it what it needs in env."
        raise UserError(f"{entry.name} runs on this machine: there is nothing to log in to.", hint)
    return entry
