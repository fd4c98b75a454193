"""What `cowork mcp` does with servers: tries them, and logs in."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from cowork.app.build import build
from cowork.app.mcp.servers import KeptTokens
from cowork.app.mcp.tools import tokens_of, tools_of
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.mcp.oauth import OAuth
from cowork.mcp.protocol import LoginNeeded, McpError
from cowork.mcp.servers import Server


@asynccontextmanager
async def _configured_server(options: RunOptions, environ: Mapping[str, str], name: str) -> AsyncIterator[Server]:
    """A server, in a run in which nothing is said; what it refuses is told to the person."""
    run = build(options, environ)
    try:
        servers = run.mcp.servers if run.mcp else {}
        if name not in servers:
            wrong = next((problem for problem in (run.mcp.problems if run.mcp else ()) if name in problem), "")
            known = f"Configured here: {', '.join(servers) or 'none'}."
            raise UserError(wrong or f"There is no MCP server {name!r}.", known)
        yield servers[name]
    except LoginNeeded as error:
        raise UserError(f"MCP server {name}: {error}.", f"`cowork mcp login {name}`", exit_code=3) from error
    except McpError as error:
        raise UserError(f"MCP server {name} {error}.", f"Its entry: `cowork mcp get {name}`", exit_code=1) from error
    finally:
        await run.close()


async def try_server(options: RunOptions, environ: Mapping[str, str], name: str) -> Json:
    """Connect to a server and say what it has."""
    async with _configured_server(options, environ, name) as server:
        client = await server.connect()
        tools = tools_of(server)
        return {
            "name": name,
            "server": client.facts.name,
            "release": client.facts.release,
            "protocol": client.facts.version,
            "tools": [tool.name for tool in tools],
            "tokens": tokens_of(tools),
            "prompts": [str(prompt.get("name")) for prompt in server.known.prompts] if server.known else [],
            "resources": len(await client.listed("resources")),
        }


async def log_in(options: RunOptions, environ: Mapping[str, str], name: str, *, browser: bool) -> None:
    """Let the person log in to a remote server, and keep the token."""

    async def browse(url: str) -> None:
        print(f"Log in on this page:\n  {url}", flush=True)
        if browser:
            await asyncio.to_thread(webbrowser.open, url)

    async with _configured_server(options, environ, name) as server:
        entry = server.entry
        if not entry.url:
            hint = "Give it what it needs in env."
            raise UserError(f"{name} runs on this machine: there is nothing to log in to.", hint)
        await OAuth(entry.url, entry.oauth, KeptTokens(entry, environ), browse).login()
