"""The image on the clipboard, by the program of the platform that can read it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cowork.core import spawn
from cowork.core.errors import UserError
from cowork.core.hygiene import clean_environ

_PROGRAMS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-t", "image/png", "-o")),
    ("", ("pngpaste", "-")),
)
_PNG = b"\x89PNG\r\n"
_MOST = 20_000_000  # bytes
_PATIENCE_S = 5.0


class Clipboard:
    """Images taken from the clipboard, in files that are gone when the chat is."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._taken = 0

    async def image(self) -> Path:
        """A file with the image that is on the clipboard."""
        words = self._program()
        try:
            done = await asyncio.to_thread(spawn.run, words, environ=clean_environ(self._environ), seconds=_PATIENCE_S)
        except OSError as error:
            raise UserError(f"{words[0]} does not answer") from error
        data = done.stdout
        if not data.startswith(_PNG) or len(data) > _MOST:
            raise UserError("There is no image on the clipboard")
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="cowork-")
        self._taken += 1
        path = Path(self._folder.name) / f"clipboard-{self._taken}.png"
        path.write_bytes(data)
        return path

    def _program(self) -> tuple[str, ...]:
        for variable, words in _PROGRAMS:
            known = self._environ.get(variable) if variable else True
            if known and (found := shutil.which(words[0], path=spawn.own_path(self._environ))):
                return (found, *words[1:])
        raise UserError("Pasting an image needs wl-paste, xclip or pngpaste")
