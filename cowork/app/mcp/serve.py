"""`cowork mcp serve`: offers Task and the reading tools to other programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count

from cowork.app.build import build
from cowork.app.resume import begin
from cowork.app.run import Run
from cowork.config.options import RunOptions
from cowork.core import signals
from cowork.core.blocks import Json, ToolUse
from cowork.core.events import AgentEnded, AgentStarted, AgentUpdated, Event, ToolOutput, ToolStarted
from cowork.core.json_rpc import standard_streams
from cowork.mcp.protocol import MOST_BYTES
from cowork.mcp.server import McpServer, Report

_FAMILIES = ("read", "search", "delegate")


def serve(options: RunOptions) -> int:
    """Answer on standard streams until the client leaves."""
    return signals.run(_serve(options, os.environ))


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


async def _serve(options: RunOptions, environ: Mapping[str, str]) -> int:
    calls = _Calls(options, environ)
    try:
        begin(calls.run)
        async with standard_streams(MOST_BYTES) as (reader, send):
            await McpServer(calls.tools(), calls.call, send).serve(reader)
    finally:
        await calls.run.close()
    return 0
