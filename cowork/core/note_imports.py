"""Lines `@path` of a notes file, which stand for the text of another file of the same folder tree."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from cowork.core.plain_file import start_of
from cowork.core.workspace import sensitive

_LINE = re.compile(r"^@([^\s@]+)[ \t]*$", re.MULTILINE)
_DEPTH = 5
_BYTES = 1_000_000
_FILES = 100


def told(path: Path, may_tell: Callable[[Path], bool] = lambda path: True) -> tuple[str, dict[Path, bytes]]:
    """The text of a notes file with its imports in their places, and what each file it was made of holds.

    A file that looks like it holds secrets is none of them, whatever its name leads to: nobody was asked about it.
    """
    read: dict[Path, bytes] = {}
    base = Path(os.path.realpath(path.parent))

    def text_of(file: Path, depth: int) -> str:
        real = Path(os.path.realpath(file))
        if sensitive(real) or not may_tell(real):
            return f"[{file.name} was left out: it may not be read unasked]"
        try:
            raw = start_of(real, _BYTES + 1)
        except OSError:
            return ""
        read[real] = raw
        if len(raw) > _BYTES:
            return f"[{file.name} is too large and was left out]"
        folder = file.parent

        def include(match: re.Match[str]) -> str:
            target = Path(os.path.realpath(folder / match[1]))
            if depth >= _DEPTH or len(read) >= _FILES or target in read:
                return match[0]
            if not target.is_relative_to(base) or not target.is_file():
                return match[0]
            return text_of(target, depth + 1)

        return _LINE.sub(include, raw.decode("utf-8", "replace").replace("\r\n", "\n"))

    return text_of(path, 0), read
