"""The terminal beside the text: keys in, title, bell and clipboard out, and other programs that use it for a while."""

from __future__ import annotations

import asyncio
import base64
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import Input
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl

from cowork.core import spawn
from cowork.core.errors import UserError
from cowork.core.format import one_line
from cowork.core.hygiene import clean_environ
from cowork.frontends.host import Options
from cowork.frontends.repl.painter import Painter
from cowork.frontends.repl.view.styled import clip
from cowork.frontends.repl.view.theme import Kind, kind_of_reply

_ESCAPE_S = 0.03  # what follows an Escape as part of one key follows at once
_SECOND_KEY_S = 0.6  # a person may take this long for the second key of Ctrl+X …


class ChatApplication(Application[int]):
    """Editing keys reach the buffer only while it has the focus."""

    def __init__(self, buffer: Buffer, keys: KeyBindings, source: Input, painter: Painter, *, vi: bool) -> None:
        self._typing = Window(BufferControl(buffer))
        self._still = Window(FormattedTextControl("", focusable=True))
        super().__init__(
            layout=Layout(HSplit([self._typing, self._still])),
            key_bindings=keys,
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            input=source,
            output=painter.output,
            max_render_postpone_time=0,
        )
        self.ttimeoutlen = 0.05  # an Escape by itself is known this soon
        self.renderer = painter

    @property
    def timeoutlen(self) -> float:
        """How long to wait for a longer sequence of keys."""
        waiting = self.key_processor.key_buffer
        return _ESCAPE_S if waiting and waiting[0].key == Keys.Escape else _SECOND_KEY_S

    @timeoutlen.setter
    def timeoutlen(self, value: float | None) -> None:
        """Given by the keys themselves."""

    @property
    def navigating(self) -> bool:
        """With vi keys, in navigation mode."""
        return self.editing_mode == EditingMode.VI and self.vi_state.input_mode == InputMode.NAVIGATION

    def toggle_vi(self) -> bool:
        """Vi keys, or emacs keys; gives whether vi keys are on."""
        self.editing_mode = EditingMode.EMACS if self.editing_mode == EditingMode.VI else EditingMode.VI
        return bool(self.editing_mode == EditingMode.VI)

    def focus_input(self, wanted: bool) -> None:
        """Let editing keys through, or not."""
        self.layout.focus(self._typing if wanted else self._still)


_START = "\x1b]11;"
_PIECE = 65_536  # bytes at a time: in small ones a large paste takes seconds


def watch(source: Input, tell: Callable[[Kind], None]) -> bool:
    """Take the answer to OSC 11 out of what is read and tell its meaning; False where that is not possible."""
    if not isinstance(source, Vt100Input):
        return False
    source.stdin_reader = _Reader(source.stdin_reader, tell)
    return True


class _Reader(PosixStdinReader):
    """Reads keys; the answer may come in pieces, so an unfinished one is held back."""

    def __init__(self, inner: PosixStdinReader, tell: Callable[[Kind], None]) -> None:
        super().__init__(inner.stdin_fd, inner.errors)
        self._tell = tell
        self._held = ""

    def read(self, count: int = _PIECE) -> str:
        data = self._held + super().read(count)
        self._held = ""
        kind, data = kind_of_reply(data)
        if kind is not None:
            self._tell(kind)
        start = data.find(_START)
        if start >= 0 and len(data) - start < 64:
            data, self._held = data[:start], data[start:]
        return data


AWAY_S = 5.0  # without a key for so long, the person is looking elsewhere


@dataclass(slots=True)
class TerminalControl:
    """Sends what a terminal shows around the text. `write` takes control sequences of our own making."""

    options: Options
    write: Callable[[str], None]
    clock: Callable[[], float]
    last_key: float = -1e9
    _asked: object = None  # the question the person was called for

    def start(self) -> None:
        """Keep the title, to give it back at the end."""
        if self.options.title:
            self.write("\x1b[22;2t")

    def end(self) -> None:
        if self.options.title:
            self.write("\x1b[23;2t")

    def title(self, where: str, what: str = "") -> None:
        """`cowork · shop · why do refunds fail?`"""
        if self.options.title:
            text = " · ".join(part for part in ("cowork", where, what) if part)
            self.write(f"\x1b]2;{clip(one_line(text), 80)}\x07")

    def turn_ended(self, seconds: float) -> None:
        """Call the person back after a long turn."""
        if seconds >= self.options.notify_after_s:
            self._call("done")

    def asked(self, question: object, title: str) -> None:
        """Call the person to a question, once, unless they are there anyway."""
        if question is not self._asked and self.clock() - self.last_key > AWAY_S:
            self._call(title)
        self._asked = question

    def copy(self, text: str) -> None:
        """Put a text on the clipboard (OSC 52)."""
        self.write(f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode()}\x07")

    def _call(self, text: str) -> None:
        if self.options.notify != "off":
            bell = "\x07" if self.options.notify == "bell" else ""
            words = one_line(text).replace(";", ",")
            code = f"777;notify;cowork;{words}" if self.options.notify_by == "777" else f"9;cowork: {words}"
            self.write(f"\x1b]{code}\x07{bell}")


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
