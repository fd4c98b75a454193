"""The editor's own files and terminals.

What is not saved yet is saved before a tool reads or changes it. Commands that run with the person's own rights run in
the editor's terminals, where the person sees and stops them; what a box holds runs in the box.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json, as_object
from cowork.core.errors import ToolErrorCode
from cowork.core.events import Event, ToolEnded, ToolStarted
from cowork.core.hooks import HookCall, HookEvent, Hooks, HookVerdict
from cowork.core.json_rpc import RpcError
from cowork.core.ports import ToolRecord, error_record
from cowork.tools.base import Interrupted, Tool, ToolContext
from cowork.tools.shell.bash import TIMEOUT_MS, follow, take_folder, terminal_display

CLOCK_S = 0.1  # by which the times of files may lag behind ours
MOST_BYTES = 30_000  # of output that an editor keeps for us; it drops the beginning
_LAST_WORDS_S = 2.0  # for an editor that does not answer any more
_STOPPED = "Interrupted before it finished. Its effects may be partly done."
_SHELL = 'trap \'pwd -P >"$0"\' EXIT; eval "$1"'  # the folder it ended in is the next command's

Request = Callable[[str, Json], Awaitable[Any]]


class EditorFiles(Hooks):
    """A hook before each call about a file. Disk stays the one truth that tools, searches and checkpoints share."""

    def __init__(self, request: Request, family_of: Callable[[str], str]) -> None:
        self._request, self._family_of = request, family_of
        self._known: dict[Path, int] = {}  # what buffers held when they were last looked at, hashed
        self._commands: dict[str, tuple[float, float]] = {}  # call -> when its command began and ended

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return event == "PreToolUse" and self._family_of(subject) in ("read", "write")

    async def fire(self, call: HookCall) -> HookVerdict:
        path = call.data.get("tool_input", {}).get("file_path")
        if isinstance(path, str):
            await self.save(Path(path))
        return HookVerdict()

    def hear(self, event: Event) -> None:
        """Note when commands ran, for what they change on disk a buffer does not show at once."""
        if isinstance(event, ToolStarted) and event.family == "exec":
            beside = " in the background" if event.input.get("run_in_background") else ""  # which no end closes
            self._commands[event.tool_use_id + beside] = (time.time(), math.inf)
        elif isinstance(event, ToolEnded) and event.tool_use_id in self._commands:
            self._commands[event.tool_use_id] = (self._commands[event.tool_use_id][0], time.time())

    async def save(self, path: Path) -> None:
        """Bring what is typed into a file, and not saved, to the disk."""
        where = {"path": str(path)}
        try:
            text = as_object(await self._request("fs/read_text_file", where)).get("content")
            if not isinstance(text, str):
                return
            before, self._known[path] = self._known.get(path), hash(_plain(text))
            changed = path.stat().st_ctime + CLOCK_S
            by_command = any(began <= changed <= ended + CLOCK_S for began, ended in self._commands.values())
            if before == self._known[path] or (before is None and by_command):
                return  # nobody typed since; where it differs from the disk, the editor has yet to read that again
            if _plain(text) != _plain(path.read_bytes().decode()):
                await self._request("fs/write_text_file", where | {"content": text})
        except (RpcError, OSError, UnicodeDecodeError):
            return  # a file the editor does not know, one that is not there yet, or no text


def _plain(text: str) -> str:
    """The text without what editors keep apart from it: the mark at its start and the kind of its line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def in_terminals(
    shell: Tool, request: Request, show: Callable[[str, str], None], is_unboxed: Callable[[str], bool]
) -> Tool:
    """The shell tool, with commands that no box holds in the editor's terminals; `show` tells it which call has one."""

    async def run(ctx: ToolContext, command: str, timeout: int = TIMEOUT_MS, **others: Any) -> ToolRecord:
        if command.strip() and is_unboxed(ctx.box) and not others.get("run_in_background"):
            terminal = _Terminal(request, command)
            if await terminal.open(ctx):
                show(ctx.tool_use_id, terminal.id)
                return await terminal.result(ctx, timeout)
        return await shell.run(ctx, command=command, timeout=timeout, **others)

    return replace(shell, run=run)


class _Terminal:
    """One command in a terminal of the editor."""

    def __init__(self, request: Request, command: str) -> None:
        self.id, self._request, self._command = "", request, command

    async def open(self, ctx: ToolContext) -> bool:
        """Start the command; false where the editor will not, and the command has not begun."""
        if ctx.tree.before_command and not ctx.reads:
            await ctx.tree.before_command(ctx.output)
        ctx.tree.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        told: Json = {
            "command": "/bin/bash",
            "args": ["-c", _SHELL, str(ctx.tree.scratch / f"{ctx.tool_use_id}.cwd"), self._command],
            "cwd": str(ctx.state.cwd),
            "outputByteLimit": MOST_BYTES,
        }
        made = asyncio.ensure_future(self._create(told))
        try:
            return await asyncio.shield(made)
        except asyncio.CancelledError as stop:  # it may come all the same, and must not run on
            await asyncio.wait([made], timeout=_LAST_WORDS_S)
            if self.id:
                raise Interrupted(await self._cut("ABORTED", _STOPPED)) from stop
            made.cancel()
            raise

    async def _create(self, told: Json) -> bool:
        try:
            self.id = str((await self._request("terminal/create", told))["terminalId"])
        except (RpcError, KeyError, TypeError):
            return False
        return True

    async def result(self, ctx: ToolContext, timeout_ms: int) -> ToolRecord:
        """The record of the command; one that takes too long, or is interrupted, is ended."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                ended = await self._ask("wait_for_exit")
        except TimeoutError:
            return await self._cut("TIMEOUT", f"Command timed out after {timeout_ms} ms")
        except asyncio.CancelledError as stop:
            raise Interrupted(await self._cut("ABORTED", _STOPPED)) from stop
        record = self._record(await self._output(), ended)
        notes = follow(ctx, take_folder(ctx.tree.scratch / f"{ctx.tool_use_id}.cwd"))
        await self._ask("release")
        return replace(record, text="\n\n".join([record.text, *notes]))

    async def _cut(self, code: ToolErrorCode, why: str) -> ToolRecord:
        """Have it ended; gives what it had printed."""
        output = ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._ask("kill")
                output = await self._output()
                await self._ask("release")
        display = self._record(output, {}).display
        return replace(error_record(code, why, display=display), text="\n\n".join(filter(None, (why, output))))

    async def _ask(self, what: str) -> Json:
        try:
            return as_object(await self._request(f"terminal/{what}", {"terminalId": self.id}))
        except RpcError:
            return {}

    async def _output(self) -> str:
        said = await self._ask("output")
        cut = "[… the beginning is left out …]\n" if said.get("truncated") else ""
        return cut + str(said.get("output") or "")

    def _record(self, output: str, ended: Json) -> ToolRecord:
        code, signal = ended.get("exitCode"), str(ended.get("signal") or "")
        summary = f"exit {code}" if code is not None else signal or "ended"
        display = terminal_display(self._command, output, code, len(output.splitlines()), summary)
        note = "" if code == 0 else f"Exit code {code}." if code is not None else f"Ended by {signal or 'a signal'}."
        text = "\n\n".join(filter(None, (output.rstrip("\n"), note))) or "(no output)"
        return ToolRecord("success" if code == 0 else "partial", text, {"exit_code": code}, display=display)
