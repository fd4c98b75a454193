"""cowork for editors: the agent's side of the Agent Client Protocol, on stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cowork import __version__
from cowork.app.acp.session import EditorSession
from cowork.config import paths
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Json, as_object
from cowork.core.json_rpc import INVALID_PARAMS, UNKNOWN_METHOD, Peer, RpcError, standard_streams
from cowork.sessions import index
from cowork.sessions.log.writer import new_id

LONGEST_LINE = 64 * 2**20  # images come as text
PAGE = 50  # sessions a list gives at a time
NOT_FOUND = -32002
CAPABILITIES: Json = {
    "protocolVersion": 1,
    "agentInfo": {"name": "cowork", "title": "cowork", "version": __version__},
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": False},
        "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
    },
    "authMethods": [],
}


async def serve(options: RunOptions) -> None:
    """Answer an editor until it closes stdin."""
    async with standard_streams(LONGEST_LINE) as (reader, send):
        agent = AcpAgent(options, os.environ, send)
        try:
            await agent.peer.serve(reader)
        finally:
            await agent.close()


class AcpAgent:
    """Answers the editor's requests; each session is a conversation of its own."""

    def __init__(self, options: RunOptions, environ: Mapping[str, str], send: Callable[[Json], None]) -> None:
        self.peer = Peer(send, self.answer, self.hear)
        self._options, self._environ = options, environ
        self._sessions: dict[str, EditorSession] = {}
        self._client: Json = {}  # what the editor can do

    async def answer(self, method: str, params: Json) -> Json:
        """The result of a request."""
        match method:
            case "initialize":
                self._client = as_object(params.get("clientCapabilities"))
                return CAPABILITIES
            case "authenticate":  # keys are in cowork's own settings
                return {}
            case "session/new":
                session = await self._open(params, session_id=new_id())
                return {"sessionId": session.id, **session.state()}
            case "session/load" | "session/resume":
                wanted = str(params.get("sessionId"))
                if wanted not in self._stored_ids():
                    raise RpcError(NOT_FOUND, f"There is no session {wanted}.")
                return (await self._open(params, resume=wanted, replay=method == "session/load")).state()
            case "session/list":
                return self._list(params)
            case "session/delete":
                wanted = str(params.get("sessionId"))
                if opened := self._sessions.pop(wanted, None):
                    await opened.close()
                if wanted in self._stored_ids():
                    index.remove(paths.sessions_dir(self._environ), wanted)
            case "session/close":
                session = self._session(params)
                del self._sessions[session.id]
                await session.close()
            case "session/prompt":
                blocks = params.get("prompt")
                return {"stopReason": await self._session(params).prompt(blocks if isinstance(blocks, list) else [])}
            case "session/set_mode":
                self._session(params).set_mode(str(params.get("modeId")))
            case "session/set_config_option":
                session = self._session(params)
                await session.set_option(str(params.get("configId")), str(params.get("value")))
                return {"configOptions": session.config_options()}
            case _:
                raise RpcError(UNKNOWN_METHOD, f"There is no method {method}.")
        return {}

    def hear(self, method: str, params: Json) -> None:
        if method == "session/cancel" and (session := self._sessions.get(str(params.get("sessionId")))):
            session.cancel()

    async def close(self) -> None:
        """End every session."""
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.close() for session in sessions))

    async def _open(
        self, params: Json, *, session_id: str = "", resume: str = "", replay: bool = False
    ) -> EditorSession:
        folder = _folder_of(params)
        more = params.get("additionalDirectories") or []
        if not isinstance(more, list):
            raise RpcError(INVALID_PARAMS, "`additionalDirectories` must be a list.")
        if resume in self._sessions:
            raise RpcError(INVALID_PARAMS, f"Session {resume} is open already.")
        options = replace(
            self._options,
            cwd=folder,
            add_dirs=(*self._options.add_dirs, *map(str, more)),
            session_id=session_id,
            resume=resume,
            mcp_servers=_servers_of(params.get("mcpServers")),
        )
        session = EditorSession(options, self._environ, self.peer, self._client)
        self._sessions[session.id] = session  # before its first word, so that nobody opens it twice
        try:
            session.begin(replay=replay)
        except BaseException:
            del self._sessions[session.id]
            await session.close()
            raise
        return session

    def _stored_ids(self) -> set[str]:
        return {e.id for e in index.list_sessions(paths.sessions_dir(self._environ), empty=True)}

    def _list(self, params: Json) -> Json:
        folder = _folder_of(params) if params.get("cwd") else None
        found = index.list_sessions(paths.sessions_dir(self._environ), folder)
        cursor = str(params.get("cursor") or "0")
        if not cursor.isdecimal() or len(cursor) > 9:
            raise RpcError(INVALID_PARAMS, "`cursor` is not one that was given.")
        start = int(cursor)

        def moment(at: float) -> str:
            return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

        shown = [
            {"sessionId": e.id, "cwd": e.cwd, "title": e.title or None, "updatedAt": moment(e.last_used)}
            for e in found[start : start + PAGE]
        ]
        return {"sessions": shown, **({"nextCursor": str(start + PAGE)} if start + PAGE < len(found) else {})}

    def _session(self, params: Json) -> EditorSession:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            raise RpcError(NOT_FOUND, f"There is no session {params.get('sessionId')}.")
        return session


def _folder_of(params: Json) -> Path:
    folder: Any = params.get("cwd")
    with suppress(TypeError, UnicodeEncodeError):
        if os.path.isabs(os.fsencode(folder)) and "\0" not in folder:
            return Path(folder)
    raise RpcError(INVALID_PARAMS, "`cwd` must be an absolute path.")


def _servers_of(given: Any) -> dict[str, Json]:
    """The MCP servers an editor passes, as `.mcp.json` has them."""
    servers: dict[str, Json] = {}
    for server in filter(None, map(as_object, given if isinstance(given, list) else ())):
        name = re.sub(r"[^A-Za-z0-9-]+", "_", str(server.get("name"))).strip("_")
        servers[name] = {key: server[key] for key in ("type", "command", "args", "url") if key in server}
        for key in {"env", "headers"} & server.keys():
            pairs = map(as_object, server[key] if isinstance(server[key], list) else ())
            servers[name][key] = {str(pair.get("name")): pair.get("value") for pair in pairs if pair}
    return servers
