"""cowork as a server of other agents: Task and reading tools, on standard streams, in both eras of the protocol."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import count
from typing import Any

from cowork.app.build import build
from cowork.app.resume import begin
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Json, ToolUse, as_object
from cowork.core.events import AgentEnded, AgentStarted, AgentUpdated, Event, ToolOutput, ToolStarted
from cowork.core.format import one_line
from cowork.core.json_rpc import INVALID_PARAMS, UNKNOWN_METHOD, Peer, RpcError, standard_streams
from cowork.mcp import protocol
from cowork.mcp.protocol import LEGACY, MODERN

_FAMILIES = ("read", "search", "delegate")  # of the tools that are offered
_ABOUT: Json = {
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "cowork", "version": protocol.CLIENT_INFO["version"]},
}
_KEPT: Json = {"ttlMs": 3_600_000, "cacheScope": "private"}  # how long clients may keep what does not change


async def serve(options: RunOptions) -> None:
    """Answer on standard streams until the client leaves."""
    server = McpServer(options, os.environ)
    try:
        begin(server.run)
        async with standard_streams(protocol.MOST_BYTES) as (reader, send):
            # A client tells nothing that matters here.
            server.peer = Peer(send, server.answer, lambda *told: None, cancel=protocol.CANCEL, tells_cancelled=False)
            await server.peer.serve(reader)
    finally:
        await server.run.close()


class McpServer:
    """Answers one client in one run of cowork: calls side by side, each told what happens below it."""

    def __init__(self, options: RunOptions, environ: Mapping[str, str]) -> None:
        self.peer: Peer
        self._reports: dict[str, Callable[[str], None]] = {}  # of calls that want to hear of progress
        self._numbers = count(1)
        self._owners: dict[str, str] = {}  # child's path -> the call that sent it out
        self.run = build(options, environ, sinks=[self._hear])

    async def answer(self, method: str, params: Json) -> Json:
        """The result of a request."""
        meta = as_object(params.get("_meta"))
        version = meta.get(f"{protocol.META}protocolVersion")
        if version not in (None, MODERN):
            data = {"supported": [MODERN, *LEGACY], "requested": version}
            raise RpcError(protocol.UNSUPPORTED_VERSION, "Unsupported protocol version", data)
        found = await self._result(method, params, meta.get("progressToken"))
        kept = _KEPT if method in ("server/discover", "tools/list") else {}
        return found | ({"resultType": "complete", **kept} if version else {})

    async def _result(self, method: str, params: Json, token: Any) -> Json:
        match method:
            case "initialize":
                wanted = params.get("protocolVersion")
                return {"protocolVersion": wanted if wanted in LEGACY else LEGACY[0], **_ABOUT}
            case "server/discover":
                return {"supportedVersions": [MODERN, *LEGACY], **_ABOUT}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": list(self._tools.values())}
            case "tools/call":
                name, arguments = str(params.get("name")), params.get("arguments")
                if name not in self._tools:
                    raise RpcError(INVALID_PARAMS, f"There is no tool {one_line(name, 60)!r}")
                if not isinstance(arguments, dict | None):
                    raise RpcError(INVALID_PARAMS, "`arguments` must be an object.")
                return await self._call(name, arguments or {}, token)
        raise RpcError(UNKNOWN_METHOD, f"There is no method {one_line(method, 60)!r}")

    @cached_property
    def _tools(self) -> dict[str, Json]:
        """What is offered: nothing that changes files by itself."""
        tools = self.run.agent.runner.tools
        return {
            spec.name: {"name": spec.name, "description": spec.description, "inputSchema": spec.schema}
            for spec in self.run.agent.specs
            if tools[spec.name].family in _FAMILIES and tools[spec.name].reads
        }

    async def _call(self, name: str, arguments: Json, token: Any) -> Json:
        id, steps = f"served_{next(self._numbers)}", count(1)

        def report(text: str) -> None:
            told = {"progressToken": token, "progress": next(steps), "message": one_line(text, 200)}
            self.peer.notify("notifications/progress", told)

        if token is not None:
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
