"""cowork as a server: the other end of the protocol, on standard streams, in both eras."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

from cowork.core.blocks import Json, as_object
from cowork.core.format import one_line
from cowork.core.json_rpc import INVALID_PARAMS, UNKNOWN_METHOD, Peer, RpcError
from cowork.mcp import protocol
from cowork.mcp.protocol import LEGACY, MODERN

Report = Callable[[str], None]
CallTool = Callable[[str, Json, Report], Awaitable[Json]]
_INFO = {"name": "cowork", "version": protocol.CLIENT_INFO["version"]}
_CAPABILITIES: Json = {"tools": {}}
_KEPT: Json = {"ttlMs": 3_600_000, "cacheScope": "private"}  # how long clients may keep what does not change


class McpServer:
    """Answers one client: its tools, and calls of them side by side, with progress and cancellation."""

    def __init__(self, tools: Sequence[Json], call: CallTool, send: Callable[[Json], None]) -> None:
        self._tools, self._call = {str(tool["name"]): tool for tool in tools}, call
        # A client tells nothing that matters here.
        self._peer = Peer(send, self._answer, lambda *told: None, cancel=protocol.CANCEL, tells_cancelled=False)
        self.serve = self._peer.serve  # answers until the client leaves

    async def _answer(self, method: str, params: Json) -> Json:
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
                version = wanted if wanted in LEGACY else LEGACY[0]
                return {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": _INFO}
            case "server/discover":
                return {"supportedVersions": [MODERN, *LEGACY], "capabilities": _CAPABILITIES, "serverInfo": _INFO}
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
                return await self._call(name, arguments or {}, self._reporter(token))
        raise RpcError(UNKNOWN_METHOD, f"There is no method {one_line(method, 60)!r}")

    def _reporter(self, token: Any) -> Report:
        steps = count(1)

        def report(text: str) -> None:
            params = {"progressToken": token, "progress": next(steps), "message": one_line(text, 200)}
            if token is not None:
                self._peer.notify("notifications/progress", params)

        return report
