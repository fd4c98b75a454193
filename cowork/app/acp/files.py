"""Files as the editor has them: what is not saved yet is saved before a tool reads or changes it."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from cowork.core.blocks import Json, as_object
from cowork.core.events import Event, ToolEnded, ToolStarted
from cowork.core.hooks import HookCall, HookEvent, HookVerdict
from cowork.core.json_rpc import RpcError

FAMILIES = ("read", "write")
CLOCK_S = 0.1  # by which the times of files may lag behind ours


class EditorFiles:
    """A hook before each call about a file. Disk stays the one truth that tools, searches and checkpoints share."""

    def __init__(
        self, session_id: str, request: Callable[[str, Json], Awaitable[Json]], family_of: Callable[[str], str]
    ) -> None:
        self._session_id = session_id
        self._request = request
        self._family_of = family_of
        self._known: dict[Path, int] = {}  # what buffers held when they were last looked at, hashed
        self._commands: dict[str, tuple[float, float]] = {}  # call -> when its command began and ended

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return event == "PreToolUse" and self._family_of(subject) in FAMILIES

    async def fire(self, call: HookCall) -> HookVerdict:
        path = call.data.get("tool_input", {}).get("file_path")
        if isinstance(path, str):
            await self._save(Path(path))
        return HookVerdict()

    def hear(self, event: Event) -> None:
        """Note when commands ran, for what they change on disk a buffer does not show at once."""
        if isinstance(event, ToolStarted) and event.family == "exec":
            self._commands[event.tool_use_id] = (time.time(), math.inf)
            if event.input.get("run_in_background"):
                self._commands[f"{event.tool_use_id} in the background"] = (time.time(), math.inf)
        elif isinstance(event, ToolEnded) and event.tool_use_id in self._commands:
            self._commands[event.tool_use_id] = (self._commands[event.tool_use_id][0], time.time())

    async def aclose(self) -> None:
        return None

    async def _save(self, path: Path) -> None:
        where = {"sessionId": self._session_id, "path": str(path)}
        try:
            text = as_object(await self._request("fs/read_text_file", where)).get("content")
            if not isinstance(text, str):
                return
            before, self._known[path] = self._known.get(path), hash(_plain(text))
            if before == self._known[path] or (before is None and self._changed_by_command(path)):
                return  # nobody typed since; where it differs from the disk, the editor has yet to read that again
            if _plain(text) != _plain(path.read_bytes().decode()):
                await self._request("fs/write_text_file", where | {"content": text})
        except (RpcError, OSError, UnicodeDecodeError):
            return  # a file the editor does not know, one that is not there yet, or no text

    def _changed_by_command(self, path: Path) -> bool:
        changed = path.stat().st_ctime + CLOCK_S
        return any(began <= changed <= ended + CLOCK_S for began, ended in self._commands.values())


def _plain(text: str) -> str:
    """The text without what editors keep apart from it: the mark at its start and the kind of its line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
