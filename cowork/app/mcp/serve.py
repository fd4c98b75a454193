"""`cowork mcp serve`: offers Task and the reading tools to other programs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import count

from cowork.app.build import build
from cowork.app.resume import begin
from cowork.app.run import Run
from cowork.config.options import RunOptions
from cowork.core import signals
from cowork.core.blocks import Json, ToolUse
from cowork.core.events import AgentUpdated, Event, ToolOutput, ToolStarted
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
        self.run: Run = build(options, environ, ask=None, sinks=[self._hear], on_sink_failure=lambda sink, error: None)
        begin(self.run)

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
        if isinstance(event, ToolOutput) and event.tool_use_id in self._reports:
            self._reports[event.tool_use_id](event.text)
        elif isinstance(event, AgentUpdated | ToolStarted) and event.agent != "main" and self._reports:
            what = event.action if isinstance(event, AgentUpdated) else f"{event.name} {event.line}"
            for report in self._reports.values():
                report(f"{event.agent.removeprefix('main/')}: {what}")


async def _serve(options: RunOptions, environ: Mapping[str, str]) -> int:
    loop = asyncio.get_running_loop()
    calls = _Calls(options, environ)
    out = sys.stdout.buffer

    def send(line: bytes) -> None:
        out.write(line)
        out.flush()

    reader = asyncio.StreamReader(limit=MOST_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    try:
        with suppress(OSError):
            await McpServer(calls.tools(), calls.call, send).serve(reader)
    finally:
        await calls.run.close()
    return 0
