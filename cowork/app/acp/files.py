"""Files as the editor has them: what is not saved yet is saved before a tool reads or changes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from cowork.core.blocks import Json
from cowork.core.hooks import HookCall, HookEvent, HookVerdict
from cowork.core.json_rpc import RpcError

FAMILIES = ("read", "write")


class EditorFiles:
    """A hook before each call about a file. Disk stays the one truth that tools, searches and checkpoints share."""

    def __init__(
        self, session_id: str, request: Callable[[str, Json], Awaitable[Json]], family_of: Callable[[str], str]
    ) -> None:
        self._session_id = session_id
        self._request = request
        self._family_of = family_of
        self._known: dict[Path, str] = {}  # what buffers held when they were last looked at

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return event == "PreToolUse" and self._family_of(subject) in FAMILIES

    async def fire(self, call: HookCall) -> HookVerdict:
        path = call.data.get("tool_input", {}).get("file_path")
        if isinstance(path, str):
            await self._save(Path(path))
        return HookVerdict()

    async def aclose(self) -> None:
        return None

    async def _save(self, path: Path) -> None:
        where = {"sessionId": self._session_id, "path": str(path)}
        try:
            said = await self._request("fs/read_text_file", where)
            text = said.get("content") if isinstance(said, dict) else None
            if not isinstance(text, str) or self._known.get(path) == _plain(text):
                return  # nobody typed since; where it differs from the disk, the editor has yet to read that again
            self._known[path] = _plain(text)
            if _plain(text) != _plain(path.read_bytes().decode()):
                await self._request("fs/write_text_file", where | {"content": text})
        except (RpcError, OSError, UnicodeDecodeError):
            return  # a file the editor does not know, one that is not there yet, or no text


def _plain(text: str) -> str:
    """The text without what editors keep apart from it: the mark at its start and the kind of its line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
