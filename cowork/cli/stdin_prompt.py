"""What stdin has to say. A pipe that stays silent never holds up a run that already has its prompt."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable

from cowork.core.errors import UserError

MAX_BYTES = 10 * 1024 * 1024
FIRST_DATA = 1.0  # seconds a pipe beside a prompt has to show its first byte
PROMPT_DATA = 10.0  # seconds a pipe that is to bring the prompt has, when nobody is there to ask
GAP = 10.0  # seconds between two pieces, when nobody is there to press Ctrl-D

Say = Callable[[str], None]


def gather(argument: str | None, *, non_interactive: bool, say: Say, stdin: int = 0) -> tuple[str, str]:
    """(prompt, context). The prompt is the argument, else stdin; beside an argument, stdin is context."""
    gap = GAP if non_interactive else None
    if argument is not None and argument != "-":
        prompt, context = clean(argument), _beside(stdin, gap, say)
    else:
        prompt, context = _as_prompt(argument, stdin, gap), ""
    if not prompt.strip():
        raise UserError("the prompt is empty", 'cowork run "what to do"   or   echo "what to do" | cowork run')
    return prompt, context


def clean(text: str) -> str:
    """Text of the command line without the stand-ins for bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _beside(stdin: int, gap: float | None, say: Say) -> str:
    kind = _kind(stdin)
    if kind == "file":
        return _decode(_read(stdin, None))
    if kind != "pipe":
        return ""
    if not _ready(stdin, FIRST_DATA):
        say(f"stdin is an open pipe without data after {FIRST_DATA:g} s; going on without it")
        return ""
    return _decode(_read(stdin, gap))


def _as_prompt(argument: str | None, stdin: int, gap: float | None) -> str:
    kind = _kind(stdin)
    if kind == "none" or (kind == "terminal" and (argument is None or gap is not None)):
        raise UserError("there is no prompt", 'cowork run "what to do"   or   echo "what to do" | cowork run')
    if kind == "pipe" and gap is not None and not _ready(stdin, PROMPT_DATA):
        raise UserError(f"no prompt came on stdin within {PROMPT_DATA:g} s", 'Give it as an argument: cowork run "…"')
    return _decode(_read(stdin, gap if kind == "pipe" else None))


def _kind(stdin: int) -> str:
    """terminal, file, pipe, or none (closed, /dev/null and other devices)."""
    try:
        mode = os.fstat(stdin).st_mode
    except OSError:
        return "none"
    if os.isatty(stdin):
        return "terminal"
    if stat.S_ISREG(mode):
        return "file"
    return "pipe" if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else "none"


def _ready(stdin: int, wait: float | None) -> bool:
    """Whether data or the end came within the time."""
    return bool(select.select([stdin], [], [], wait)[0])


def _read(stdin: int, gap: float | None) -> bytes:
    """Everything up to the end; with `gap`, up to the first silence of that length."""
    pieces: list[bytes] = []
    size = 0
    last = time.monotonic()
    while gap is None or _ready(stdin, max(0.0, last + gap - time.monotonic())):
        try:
            piece = os.read(stdin, 65536)
        except BlockingIOError:  # whoever gave us the pipe made it non-blocking
            _ready(stdin, gap)
            continue
        except OSError:
            break
        if not piece:
            break
        size += len(piece)
        if size > MAX_BYTES:
            raise UserError(f"stdin is larger than {MAX_BYTES // 2**20} MB", "Put it in a file and name the file.")
        pieces.append(piece)
        last = time.monotonic()
    return b"".join(pieces)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8-sig", "replace")


def terminal() -> bool:
    """Whether a person sits at both ends."""
    return _kind(0) == "terminal" and sys.stdout is not None and sys.stdout.isatty()
