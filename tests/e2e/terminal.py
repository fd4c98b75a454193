"""A terminal for tests: a program in a pty, its screen and scrollback as a person would see them."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyte
from ptyprocess import PtyProcess, PtyProcessError
from pyte.screens import Char

from tests.fakes import fork_server
from tests.fakes.command import COWORK, QUIET

ROOT = Path(__file__).parents[2]
_ALTERNATE = 1049 << 5  # how pyte spells a private mode

KEYS = {
    "Enter": "\r", "Esc": "\x1b", "Tab": "\t", "BackTab": "\x1b[Z", "Up": "\x1b[A", "Down": "\x1b[B",
    "Right": "\x1b[C", "Left": "\x1b[D", "Backspace": "\x7f", "PageUp": "\x1b[5~", "PageDown": "\x1b[6~",
    "Alt+Enter": "\x1b\r", **{f"Ctrl+{c}": chr(ord(c) - 64) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
}  # fmt: skip

DEMO = [sys.executable, "-m", "tests.fakes.repl_demo"]
PATIENCE = 90.0  # seconds at least before a wait counts as failed: a loaded machine is slow, not wrong


class Screen(pyte.Screen):
    """pyte's screen with a scrollback, an alternate buffer and, if wanted, reflow on resize."""

    def __init__(self, columns: int, lines: int) -> None:
        self.scrolled: list[str] = []
        self.titles: list[str] = []
        self.alternate = False
        self._saved: tuple[dict[int, object], int, int] | None = None
        super().__init__(columns, lines)

    def index(self) -> None:
        bottom = self.margins.bottom if self.margins else self.lines - 1
        if self.cursor.y == bottom and not self.alternate:
            self.scrolled.append(self.row(0))
        super().index()

    def restore_cursor(self) -> None:
        """A place that was saved stays saved; pyte would forget it."""
        super().restore_cursor()
        self.save_cursor()

    def set_title(self, param: str) -> None:
        self.titles.append(param)
        super().set_title(param)

    def set_mode(self, *modes: int, **kwargs: bool) -> None:
        super().set_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes and not self.alternate:
            self.alternate = True
            self._saved = ({n: dict(row) for n, row in self.buffer.items()}, self.cursor.x, self.cursor.y)
            self.erase_in_display(2)

    def reset_mode(self, *modes: int, **kwargs: bool) -> None:
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes and self.alternate and self._saved:
            self.alternate = False
            rows, x, y = self._saved
            self.erase_in_display(2)
            for number, row in rows.items():
                self.buffer[number].update(row)  # type: ignore[call-overload]
            self.cursor.x, self.cursor.y = x, y

    def row(self, number: int) -> str:
        cells = self.buffer[number]
        return "".join(cells[x].data for x in range(self.columns)).rstrip()

    def resize_to(self, columns: int, lines: int, *, reflow: bool) -> None:
        """The window changes. As in tmux rows below the cursor go first, then rows at the top scroll away.

        With reflow, rows too long for it are wrapped, as most terminals do; otherwise they are cut.
        """
        rows: list[list[Char]] = []
        cursor = (0, 0)
        last = max([n for n in range(self.lines) if self.row(n)] + [self.cursor.y])
        for number in range(last + 1):
            cells = [self.buffer[number][x] for x in range(self.columns)]
            used = len(self.row(number).rstrip())
            starts = range(0, max(1, min(used, len(cells))), columns) if reflow else (0,)
            pieces = [cells[at : at + columns] for at in starts]
            if number == self.cursor.y:
                at = min(self.cursor.x // columns, len(pieces) - 1)
                cursor = (len(rows) + at, self.cursor.x - at * columns)
            rows += pieces
        del rows[max(lines, cursor[0] + 1) :]
        over = max(0, len(rows) - lines)
        self.resize(lines, columns)
        self.erase_in_display(2)
        self.scrolled += ["".join(c.data for c in row).rstrip() for row in rows[:over]]
        for number, row in enumerate(rows[over:]):
            for x, cell in enumerate(row):
                self.buffer[number][x] = cell
        self.cursor.y, self.cursor.x = max(0, cursor[0] - over), min(cursor[1], columns - 1)


class Terminal:
    """A running program. Use it as a context manager; leaving ends the program."""

    def __init__(
        self, command: Sequence[str], *, columns: int = 100, rows: int = 30, env: Mapping[str, str] | None = None,
        reflow: bool = False, background: str = "", cwd: Path = ROOT, forked: bool = True,
    ) -> None:  # fmt: skip
        """Forked where that is the same as started (see the fork server); `forked=False` starts the program itself."""
        self.screen_ = Screen(columns, rows)
        self.screen_.write_process_input = self._reply  # type: ignore[method-assign]
        self._stream = pyte.ByteStream(self.screen_)
        self._reflow = reflow
        self._background = background
        self.raw = bytearray()
        environ = {**QUIET, "PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "TERM": "xterm-256color",
                   "LANG": "C.UTF-8", "COLORTERM": "truecolor"}  # fmt: skip
        if not reflow:
            environ["XTERM_VERSION"] = "pyte"  # a terminal that does not wrap old lines anew
        environ |= dict(env or {})
        self.started = time.monotonic()
        self._process: PtyProcess | fork_server.ForkedTerminal
        known = command[0] == str(COWORK) or list(command) == DEMO
        if forked and known and fork_server.can_fork(environ):
            self._process = fork_server.start_in_terminal(command, cwd=cwd, env=environ, columns=columns, rows=rows)
        else:
            self._process = PtyProcess.spawn(list(command), cwd=str(cwd), env=environ, dimensions=(rows, columns))

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.close(force=True)
        except PtyProcessError:  # killed, and on a busy machine not yet gone
            self._process.wait()

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    # ---- what a person does

    def type(self, *what: str) -> None:
        """Type texts; names of KEYS in angle brackets are keys: `type("hi", "<Enter>")`."""
        for text in what:
            key = KEYS.get(text[1:-1]) if text.startswith("<") and text.endswith(">") else None
            self._process.write((text if key is None else key).encode())

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        self.pump(0.12)  # right after a frame, so that none is on its way while the window changes
        self.screen_.resize_to(columns, rows, reflow=self._reflow)
        self._process.setwinsize(rows, columns)

    # ---- what a person sees

    def screen(self) -> list[str]:
        """The rows of the screen, without trailing blanks."""
        return [self.screen_.row(n) for n in range(self.screen_.lines)]

    def scrollback(self) -> list[str]:
        """Everything: what scrolled away, then the screen; blank rows at the end left out."""
        rows = [*self.screen_.scrolled, *self.screen()]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def text(self) -> str:
        return "\n".join(self.screen())

    # ---- waiting

    def pump(self, seconds: float = 0.02) -> bool:
        """Take in what the program wrote; False when it has ended."""
        fd = self._process.fd
        while select.select([fd], [], [], seconds)[0]:
            seconds = 0
            try:
                data = os.read(fd, 65_536)
            except OSError:
                return False
            if not data:
                return False
            self.raw += data
            self._stream.feed(data)
            if self._background and b"\x1b]11;?" in data:
                self.type(f"\x1b]11;rgb:{self._background}\x1b\\")
        return True

    def settle(self, seconds: float = 0.4) -> None:
        """Take in output for so long; for looking at something, never for waiting on something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.pump():
            pass

    def wait_until(self, holds: Callable[[], bool], deadline: float = 10.0, what: str = "") -> float:
        """Seconds it took until the condition held; fails with the screen otherwise."""
        start = time.monotonic()
        while not holds():
            alive = self.pump()
            if holds():
                break
            if time.monotonic() - start > max(deadline, PATIENCE) or not alive:
                state = "in time" if alive else "before the program ended"
                raise AssertionError(
                    f"{what or 'it'} did not happen {state}. The screen:\n" + "\n".join(self.scrollback())
                )
        return time.monotonic() - start

    def wait_for(self, text: str, deadline: float = 10.0) -> float:
        """Until the text is on the screen, or went by: a slow test may read many screens at once."""
        before = len(self.screen_.scrolled)

        def seen() -> bool:
            return text in self.text() or any(text in row for row in self.screen_.scrolled[before:])

        return self.wait_until(seen, deadline, f"{text!r}")

    def wait_gone(self, text: str, deadline: float = 10.0) -> float:
        return self.wait_until(lambda: text not in self.text(), deadline, f"the end of {text!r}")

    def wait_for_pattern(self, pattern: str, deadline: float = 10.0) -> float:
        return self.wait_until(lambda: re.search(pattern, self.text(), re.M) is not None, deadline, pattern)

    def wait_exit(self, deadline: float = 10.0) -> int:
        """The exit code; a signal as its negative number."""
        start = time.monotonic()
        while self._process.isalive():
            self.pump()
            if time.monotonic() - start > max(deadline, PATIENCE):
                raise AssertionError("the program did not end. The screen:\n" + "\n".join(self.scrollback()))
        self.pump(0)
        signal = self._process.signalstatus
        return -signal if signal else int(self._process.exitstatus or 0)

    def _reply(self, data: str) -> None:
        self._process.write(data.encode())


def demo(**options: object) -> Terminal:
    """The chat over scripted answers."""
    return Terminal(DEMO, **options)  # type: ignore[arg-type]
