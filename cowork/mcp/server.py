"""cowork as a server: the other end of the protocol, on standard streams, in both eras."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cowork.core.blocks import Json
from cowork.mcp import protocol
from cowork.mcp.protocol import LEGACY, MODERN, McpError

Report = Callable[[str], None]
CallTool = Callable[[str, Json, Report], Awaitable[Json]]
_INFO = {"name": "cowork", "version": protocol.CLIENT_INFO["version"]}
_CAPABILITIES: Json = {"tools": {}}


class McpServer:
    """Answers one client: its tools, and calls of them side by side, with progress and cancellation."""

    def __init__(self, tools: Sequence[Json], call: CallTool, send: Callable[[bytes], None]) -> None:
        self._tools, self._call, self._send = list(tools), call, send
        self._running: dict[Any, asyncio.Task[None]] = {}

    def hear(self, line: bytes) -> None:
        """Take one message."""
        try:
            message = protocol.decode(line)
        except McpError as problem:
            self._say(protocol.error(None, -32700, f"That is no message: it {problem}"))
            return
        id, method, params = message.get("id"), message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "notifications/cancelled":
            if task := self._running.get(params.get("requestId")):
                task.cancel()
        elif id is not None and isinstance(method, str):
            self._running[id] = task = asyncio.create_task(self._answer(id, method, params))
            task.add_done_callback(lambda done: self._running.pop(id, None))

    async def close(self) -> None:
        for task in list(self._running.values()):
            task.cancel()
        if self._running:
            await asyncio.wait(self._running.values())

    async def _answer(self, id: Any, method: str, params: Json) -> None:
        meta = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        version = meta.get("io.modelcontextprotocol/protocolVersion")
        try:
            if version not in (None, MODERN):
                data = {"supported": [MODERN, *LEGACY], "requested": version}
                raise McpError("Unsupported protocol version", protocol.UNSUPPORTED_VERSION, data)
            found = await self._result(method, params, meta.get("progressToken"))
        except McpError as refusal:
            self._say(protocol.error(id, refusal.code or protocol.INTERNAL, str(refusal), refusal.data))
            return
        self._say(protocol.result(id, found | ({"resultType": "complete"} if version else {})))

    async def _result(self, method: str, params: Json, token: Any) -> Json:
        match method:
            case "initialize":
                wanted = params.get("protocolVersion")
                version = wanted if wanted in LEGACY else LEGACY[0]
                return {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": _INFO}
            case "server/discover":
                return {"supportedVersions": [MODERN, *LEGACY], "capabilities": _CAPABILITIES, "serverInfo": _INFO}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": self._tools}
            case "tools/call":
                name, arguments = params.get("name"), params.get("arguments", {})
                if name not in [tool["name"] for tool in self._tools] or not isinstance(arguments, dict):
                    raise McpError(f"There is no tool {protocol.one_line(str(name), 60)!r}", protocol.INVALID_PARAMS)
                return await self._call(str(name), arguments, self._reporter(token))
        raise McpError(f"There is no method {protocol.one_line(method, 60)!r}", protocol.METHOD_NOT_FOUND)

    def _reporter(self, token: Any) -> Report:
        steps = 0

        def report(text: str) -> None:
            nonlocal steps
            steps += 1
            params = {"progressToken": token, "progress": steps, "message": protocol.one_line(text, 200)}
            if token is not None:
                self._say(protocol.notification("notifications/progress", params))

        return report

    def _say(self, message: Json) -> None:
        with contextlib.suppress(OSError):  # the client is gone, which its closed input tells too
            self._send(protocol.encode(message) + b"\n")
