"""The three standard streams: there, able to spell everything, and unable to carry what steers a terminal."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from cowork.core.hygiene import Visible


class Harmless(io.TextIOWrapper):
    """A text stream through which nothing gets that steers or hides, whoever prints: a list, a warning, a traceback.

    The chat draws through `buffer`: what it draws went through its theme.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._visible = Visible()

    def write(self, text: str, /) -> int:
        super().write(self._visible.feed(text))
        return len(text)

    def flush(self) -> None:
        if held := self._visible.end():
            super().write(held)
        super().flush()


def prepare() -> None:
    """Streams that were closed before we came, or cannot spell a character, must not stop a run."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = getattr(sys, name)
        if stream is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
        elif mode == "w":
            kept = {name: getattr(stream, name) for name in ("encoding", "line_buffering", "write_through")}
            made = Harmless(stream.detach(), errors="replace", **kept)
            setattr(sys, name, made)
            setattr(sys, f"__{name}__", made)  # what was there is no longer usable, and the window is measured by it


def row(text: str) -> None:
    """Print a row of a list; a name with a newline in it does not make two of it."""
    print(text.replace("\n", "\\n").rstrip())
