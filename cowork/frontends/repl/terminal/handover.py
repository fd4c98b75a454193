"""Hands the terminal to another program, such as an editor, and takes it back when that ends."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
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

    async def lend(self, work: Callable[[], None]) -> None:
        """Call a function that uses the terminal, in a thread, while the chat leaves it alone."""
        await (run_in_terminal(work, in_executor=True) if self._live() else asyncio.to_thread(work))

    async def edit_file(self, path: Path) -> None:
        """Open a file in the person's editor."""
        words = [*self._editor(), str(path)]

        def work() -> None:
            try:
                spawn.on_terminal(words, environ=clean_environ(self._environ))
            except OSError as error:
                raise UserError(f"{words[0]} cannot be run: {error.strerror}.") from error

        await self.lend(work)

    async def edit(self, text: str) -> str:
        """The text as the person leaves it in their editor."""
        with tempfile.TemporaryDirectory(prefix="cowork-") as folder:
            path = Path(folder) / "text.md"
            path.write_text(text, encoding="utf-8")
            await self.edit_file(path)
            return path.read_text(encoding="utf-8", errors="replace")

    def _editor(self) -> list[str]:
        named = self._environ.get("VISUAL") or self._environ.get("EDITOR") or ""
        words = shlex.split(named) or [name for name in _EDITORS if shutil.which(name)][:1]
        if not words:
            raise UserError("There is no editor.", "Set EDITOR to one, such as EDITOR=nano.")
        return words
