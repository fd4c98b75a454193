"""Hands the terminal to another program, such as an editor, and takes it back when that ends."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from prompt_toolkit.application import run_in_terminal

from cowork.core import spawn
from cowork.core.errors import UserError
from cowork.core.hygiene import clean_environ

_EDITORS = ("nano", "vim", "vi", "emacs")


class Handover:
    """Runs programs on the chat's own terminal. `live`: whether the chat draws on it at the moment."""

    def __init__(self, environ: Mapping[str, str], live: Callable[[], bool]) -> None:
        self._environ = environ
        self._live = live

    async def run(self, words: Sequence[str], cwd: Path | None = None) -> int:
        """The exit code of a program that had the terminal."""

        def work() -> int:
            try:
                return spawn.on_terminal(list(words), environ=clean_environ(self._environ), cwd=cwd)
            except OSError as error:
                raise UserError(f"{words[0]} cannot be run: {error.strerror}.") from error

        if self._live():
            return await run_in_terminal(work, in_executor=True)
        return await asyncio.to_thread(work)

    async def lend(self, work: Callable[[], None]) -> None:
        """Call a function that uses the terminal, in a thread, while the chat leaves it alone."""
        await (run_in_terminal(work, in_executor=True) if self._live() else asyncio.to_thread(work))

    async def edit_file(self, path: Path) -> None:
        """Open a file in the person's editor."""
        await self.run([*self._editor(), str(path)])

    async def edit(self, text: str) -> str:
        """The text as the person leaves it in their editor."""
        descriptor, name = tempfile.mkstemp(prefix="cowork-", suffix=".md")
        path = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            await self.edit_file(path)
            return path.read_text(encoding="utf-8", errors="replace")
        finally:
            path.unlink(missing_ok=True)

    def _editor(self) -> list[str]:
        named = self._environ.get("VISUAL") or self._environ.get("EDITOR") or ""
        words = shlex.split(named) or [name for name in _EDITORS if shutil.which(name)][:1]
        if not words:
            raise UserError("There is no editor.", "Set EDITOR to one, such as EDITOR=nano.")
        return words
