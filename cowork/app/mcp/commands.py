"""What `cowork mcp` does with servers: tries them, logs in, and is one that offers Task and the reading tools."""

from __future__ import annotations

import asyncio
import os
import webbrowser
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count

from cowork.app.build import build
from cowork.app.mcp.servers import KeptTokens
from cowork.app.mcp.tools import tokens_of, tools_of
from cowork.app.resume import begin
from cowork.app.run import Run
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Json, ToolUse
from cowork.core.errors import UserError
from cowork.core.events import AgentEnded, AgentStarted, AgentUpdated, Event, ToolOutput, ToolStarted
from cowork.core.json_rpc import standard_streams
from cowork.mcp.oauth import OAuth
from cowork.mcp.protocol import MOST_BYTES, LoginNeeded, McpError
from cowork.mcp.server import McpServer, Report
from cowork.mcp.servers import Server

_FAMILIES = ("read", "search", "delegate")  # of the tools that are offered


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
            "resources": len(await client.resources()),
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


async def serve(options: RunOptions) -> None:
    """Answer on standard streams until the client leaves."""
    calls = _Calls(options, os.environ)
    try:
        begin(calls.run)
        async with standard_streams(MOST_BYTES) as (reader, send):
            await McpServer(calls.tools(), calls.call, send).serve(reader)
    finally:
        await calls.run.close()


class _Calls:
    """Runs calls in one run of cowork, and tells each client what happens below its own."""

    def __init__(self, options: RunOptions, environ: Mapping[str, str]) -> None:
        self._reports: dict[str, Report] = {}
        self._numbers = count(1)
        self._owners: dict[str, str] = {}  # child's path -> the call that sent it out
        self.run: Run = build(options, environ, sinks=[self._hear])

    def tools(self) -> list[Json]:
        """What is offered: nothing that changes files by itself."""
        runner = self.run.agent.runner
        return [
            {"name": spec.name, "description": spec.description, "inputSchema": spec.schema}
            for spec in self.run.agent.specs
            if runner.tools[spec.name].family in _FAMILIES and runner.tools[spec.name].reads
        ]

    async def call(self, name: str, arguments: Json, report: Report) -> Json:
        id = f"served_{next(self._numbers)}"
        self._reports[id] = report
        try:
            (record,) = await self.run.agent.runner.run([ToolUse(id, name, arguments)])
        finally:
            self._reports.pop(id, None)
        content = [{"type": "text", "text": record.text}]
        content += [{"type": "image", "mimeType": i.media_type, "data": i.data} for i in record.images]
        return {"content": content, "isError": record.status == "error"}

    def _hear(self, event: Event) -> None:
        """Progress: what a child does, under the call that sent it out, and live output."""
        match event:
            case AgentStarted():
                self._owners[event.agent] = self._owners.get(event.parent, event.tool_use_id)
            case AgentEnded():
                self._owners.pop(event.agent, None)
            case ToolOutput() if report := self._reports.get(event.tool_use_id):
                report(event.text)
            case AgentUpdated() | ToolStarted() if report := self._reports.get(self._owners.get(event.agent, "")):
                what = event.action if isinstance(event, AgentUpdated) else f"{event.name} {event.line}"
                report(f"{event.agent.removeprefix('main/')}: {what}")
