"""Runs a command the person typed with `!`: in a terminal of its own, and on the real one as soon as it needs that."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cowork.core import spawn
from cowork.core.ports import ToolRecord, ok
from cowork.tools.base import Interrupted, Tool, ToolContext, tool
from cowork.tools.shell.bash import bash, take_folder, terminal_display
from cowork.tools.shell.terminal_text import plain

Lend = Callable[[Callable[[], None]], Awaitable[None]]  # calls a function while the chat leaves the terminal alone

_FULL_SCREEN = re.compile(rb"\x1b\[\?(?:1049|1047|47)h")
_COOKED = termios.ICANON | termios.ECHO  # how a terminal reads lines and shows them
_LOOK_S = 0.05
_GRACE_S = 1.0
_PROMPT_S = 0.3  # an unfinished line that stands this long is a prompt
_KEPT = 1 << 20  # bytes of output
_CHUNK = 1 << 16


def own_shell(lend: Lend) -> Tool:
    """Bash for the person's own commands; one that takes over the screen or the keys gets both."""

    @tool(bash.name, family=bash.family, effects=bash.effects, line=bash.tell)
    async def run(ctx: ToolContext, command: Annotated[str, "The command"]) -> ToolRecord:
        running = _BangCommand(command, ctx)
        try:
            code = await running.run(ctx.output, lend)
        except asyncio.CancelledError:
            raise Interrupted(running.record(None)) from None
        running.follow(ctx)
        return running.record(code)

    return run


class _BangCommand:
    """One command in a pseudo-terminal. `lent` once it had the real one, where the person saw its output."""

    def __init__(self, command: str, ctx: ToolContext) -> None:
        self.lent = False
        self._command, self._output = command, bytearray()
        self._began = self._heard = time.monotonic()
        self._full_screen = False
        self._place = ctx.tree.scratch / f"{ctx.tool_use_id}.cwd"
        self._place.parent.mkdir(parents=True, exist_ok=True)
        self._ours, self._theirs = os.openpty()
        self._copy_size()
        environ = {**ctx.tree.environ, "TERM": os.environ.get("TERM", "dumb")}
        self._process = spawn.shell_on(
            command, os.ttyname(self._theirs), self._place, environ=environ, cwd=ctx.state.cwd
        )

    async def run(self, tell: Callable[[str], None], lend: Lend) -> int:
        """The exit code; output is told as it comes."""
        try:
            while self._process.poll() is None and not self.lent:
                if data := self._read():
                    tell(plain(data.decode("utf-8", "replace")))
                if self._needs_terminal():
                    self.lent = True
                    await lend(self._relay)
                else:
                    await asyncio.sleep(_LOOK_S)
            self._read()
            return self._process.wait()
        finally:
            if self._process.poll() is None:
                await asyncio.to_thread(self._end)
            os.close(self._ours)
            os.close(self._theirs)

    def follow(self, ctx: ToolContext) -> None:
        """Be in the folder the command went to, as after a command of the model."""
        told = take_folder(self._place)
        if told and os.path.isdir(told):
            ctx.state.cwd = Path(told)

    def record(self, code: int | None) -> ToolRecord:
        text = plain(self._output.decode("utf-8", "replace")).strip("\n")
        summary = "interrupted" if code is None else f"exit {code}"
        if self._full_screen:
            text = "It filled the user's screen, so its output was not kept."
        if self.lent:
            summary += " · had the terminal"
        shown = "" if self.lent else text
        display = terminal_display(self._command, shown, code, shown.count("\n") + 1 if shown else 0, summary)
        said = f"{text}\n\nExit code {code}." if code else text
        return ok(said, display=display, exit_code=code, duration_ms=round((time.monotonic() - self._began) * 1000))

    def _read(self) -> bytes:
        """What it has written by now."""
        before = len(self._output)
        while len(self._output) < before + _KEPT and select.select([self._ours], [], [], 0)[0]:
            self._output += os.read(self._ours, _CHUNK)
        new = bytes(self._output[before:])
        self._full_screen = self._full_screen or bool(_FULL_SCREEN.search(self._output[-len(new) - 8 :]))
        self._heard = time.monotonic() if new else self._heard
        del self._output[:-_KEPT]
        return new

    def _needs_terminal(self) -> bool:
        """Whether it reads keys as they come or unseen (editors, pagers, passwords), or waits at a prompt.

        What it writes decides nothing: the text of a file must not get to the real terminal by holding codes for it.
        """
        if (termios.tcgetattr(self._theirs)[3] & _COOKED) != _COOKED:
            return True
        prompt = bool(self._output) and not self._output.endswith((b"\n", b"\r"))
        return prompt and time.monotonic() - self._heard > _PROMPT_S

    def _relay(self) -> None:
        """Pass keys to it and its output to the real terminal, until it ends."""
        keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
        before = termios.tcgetattr(keys)
        tty.setraw(keys)
        try:
            _write_all(screen, bytes(self._output))
            while True:
                self._copy_size()
                ready = select.select([keys, self._ours], [], [], 4 * _LOOK_S)[0]
                if keys in ready:
                    _write_all(self._ours, os.read(keys, _CHUNK))
                if self._ours in ready:
                    _write_all(screen, self._read())
                elif self._process.poll() is not None:
                    return
        finally:
            termios.tcsetattr(keys, termios.TCSADRAIN, before)

    def _copy_size(self) -> None:
        with suppress(OSError, termios.error):
            termios.tcsetwinsize(self._theirs, termios.tcgetwinsize(sys.stdout.fileno()))

    def _end(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, sign)
            spawn.wait(self._process, _GRACE_S)
            if self._process.returncode is not None:
                return


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
