"""The three standard streams: safe to print to, and a stdin that never holds up a run which has its prompt."""

from __future__ import annotations

import contextlib
import io
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cowork.core.errors import UserError
from cowork.core.hygiene import Visible, ascii_json

MAX_BYTES = 10 * 1024 * 1024
FIRST_DATA = 1.0  # seconds a pipe beside a prompt has to show its first byte
PROMPT_DATA = 10.0  # seconds a pipe that is to bring the prompt has, when nobody is there to ask
GAP = 60.0  # seconds between two pieces, when nobody is there to press Ctrl-D

Say = Callable[[str], None]
_HOW = 'cowork run "what to do"   or   echo "what to do" | cowork run'


class Harmless(io.TextIOWrapper):
    """A text stream through which nothing gets that steers or hides, whoever prints: a list, a warning, a traceback.

    The chat draws through `buffer`: what it draws went through its theme.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._visible = Visible()
        self._lost: OSError | None = None

    def write(self, text: str, /) -> int:
        with self._note_loss():
            super().write(self._visible.feed(text))
        return len(text)

    def flush(self) -> None:
        lost, self._lost = self._lost, None
        with self._note_loss():
            if held := self._visible.end():
                super().write(held)
            super().flush()
        if lost:
            raise lost

    @contextlib.contextmanager
    def _note_loss(self) -> Iterator[None]:
        """Have the next flush fail too: of a long text nothing is left that would make it."""
        try:
            yield
        except OSError as error:
            if not isinstance(error, BlockingIOError):  # a full pipe that may be tried again
                self._lost = error
            raise


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
            lines = name == "stderr" or stream.isatty()
            # With PYTHONUNBUFFERED the old one has no buffer: what did not fit would be lost before it is flushed.
            whole = os.fdopen(number, "wb", closefd=False)
            made = Harmless(whole, encoding=stream.encoding, errors="replace", line_buffering=lines)
            setattr(sys, name, made)
            setattr(sys, f"__{name}__", made)  # what was there is no longer usable, and the window is measured by it


def row(text: str) -> None:
    """Print a row of a list; a name with a newline in it does not make two of it."""
    print(text.replace("\n", "\\n").rstrip())


def show_rows(facts: object, rows: Iterable[str], *, as_json: bool = False, none: str = "") -> None:
    """Print what was found: JSON for programs, else rows for people, or a line that there is nothing."""
    if as_json:
        print(ascii_json(facts))
        return
    for text in [*rows] or [none] * bool(none):
        row(text)


def gather(argument: str | None, *, non_interactive: bool, say: Say, stdin: int = 0) -> tuple[str, str]:
    """(prompt, context). The prompt is the argument, else stdin; beside an argument, stdin is context."""
    kind, gap = _kind(stdin), GAP if non_interactive else None
    prompt, context = clean(argument or ""), ""
    if argument is not None and argument != "-":
        if kind == "pipe" and not _ready(stdin, FIRST_DATA):
            say(f"stdin is an open pipe without data after {FIRST_DATA:g} s; going on without it")
        elif kind in ("file", "pipe"):
            context, ended = _read(stdin, gap if kind == "pipe" else None)
            if not ended:
                say(f"stdin was silent for {GAP:g} s and did not end; going on with what came so far")
    elif kind == "none" or (kind == "terminal" and (argument is None or non_interactive)):
        raise UserError("there is no prompt", _HOW)
    elif kind == "pipe" and non_interactive and not _ready(stdin, PROMPT_DATA):
        raise UserError(f"no prompt came on stdin within {PROMPT_DATA:g} s", 'Give it as an argument: cowork run "…"')
    else:
        prompt, ended = _read(stdin, gap if kind == "pipe" else None)
        if not ended:
            raise UserError(f"the prompt on stdin did not end: nothing came for {GAP:g} s", "Close the pipe after it.")
    if not prompt.strip():
        raise UserError("the prompt is empty", _HOW)
    return prompt, context


def clean(text: str) -> str:
    """Text of the command line without the stand-ins for bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


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


def _read(stdin: int, gap: float | None) -> tuple[str, bool]:
    """(everything up to the end, True); with `gap`, (all up to the first silence of that length, False)."""
    found, last, ended = bytearray(), time.monotonic(), False
    while gap is None or _ready(stdin, max(0.0, last + gap - time.monotonic())):
        try:
            piece = os.read(stdin, 65536)
        except BlockingIOError:  # whoever gave us the pipe made it non-blocking
            _ready(stdin, gap)
            continue
        except OSError:
            piece = b""
        if not piece:
            ended = True
            break
        found += piece
        if len(found) > MAX_BYTES:
            raise UserError(f"stdin is larger than {MAX_BYTES // 2**20} MB", "Put it in a file and name the file.")
        last = time.monotonic()
    return found.decode("utf-8-sig", "replace"), ended


def terminal() -> bool:
    """Whether a person sits at both ends."""
    return _kind(0) == "terminal" and sys.stdout is not None and sys.stdout.isatty()
