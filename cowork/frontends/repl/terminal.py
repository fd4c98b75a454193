"""The terminal beside the text: keys in, title, bell and clipboard out, and other programs that use it for a while."""

from __future__ import annotations

import asyncio
import base64
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import Input
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl

from cowork.core import spawn
from cowork.core.errors import UserError
from cowork.core.format import one_line
from cowork.core.hygiene import clean_environ
from cowork.frontends.host import Options
from cowork.frontends.repl.painter import Painter
from cowork.frontends.styled import Kind, clip, kind_of_reply

_ESCAPE_S = 0.03  # what follows an Escape as part of one key follows at once
_SECOND_KEY_S = 0.6  # a person may take this long for the second key of Ctrl+X …
_PIECE = 65_536  # bytes at a time: in small ones a large paste takes seconds
AWAY_S = 5.0  # without a key for so long, the person is looking elsewhere
_EDITORS = ("nano", "vim", "vi", "emacs")
_IMAGE_PROGRAMS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-t", "image/png", "-o")),
    ("", ("pngpaste", "-")),
)
_PNG = b"\x89PNG\r\n"
_MOST = 20_000_000  # bytes
_PATIENCE_S = 5.0


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

    def focus_input(self, wanted: bool) -> None:
        """Let editing keys through, or not."""
        self.layout.focus(self._typing if wanted else self._still)


class KeyReader(PosixStdinReader):
    """Reads keys and takes the answer to OSC 11 out of them; it may come in pieces, so a part of it is held back."""

    def __init__(self, inner: PosixStdinReader, tell: Callable[[Kind], None]) -> None:
        super().__init__(inner.stdin_fd, inner.errors)
        self._tell = tell
        self._held = ""

    def read(self, count: int = _PIECE) -> str:
        kind, data = kind_of_reply(self._held + super().read(count))
        if kind is not None:
            self._tell(kind)
        start = data.find("\x1b]11;")
        cut = start if start >= 0 and len(data) - start < 64 else len(data)
        self._held = data[cut:]
        return data[:cut]


@dataclass(slots=True)
class Terminal:
    """What is done with the terminal besides drawing. `write` takes control sequences of our own making.

    `live` tells whether the chat draws on it at the moment.
    """

    options: Options
    write: Callable[[str], None]
    clock: Callable[[], float]
    environ: Mapping[str, str] = field(default_factory=dict)
    live: Callable[[], bool] = lambda: False
    last_key: float = -1e9
    _asked: object = None  # the question the person was called for
    _images: int = 0  # taken from the clipboard so far
    _folder: tempfile.TemporaryDirectory[str] | None = None  # holds them, and is gone when the chat is

    def keep_title(self, *, back: bool = False) -> None:
        """Keep the title, and at the end give it back."""
        if self.options.title:
            self.write("\x1b[23;2t" if back else "\x1b[22;2t")

    def title(self, where: str, what: str = "") -> None:
        """`cowork · shop · why do refunds fail?`"""
        if self.options.title:
            text = " · ".join(part for part in ("cowork", where, what) if part)
            self.write(f"\x1b]2;{clip(one_line(text), 80)}\x07")

    def call_back(self, seconds: float) -> None:
        """Call the person back after a long turn."""
        if seconds >= self.options.notify_after_s:
            self._call("done")

    def call_to(self, question: object, title: str) -> None:
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

    async def lend(self, work: Callable[[], None]) -> None:
        """Call a function that uses the terminal, in a thread, while the chat leaves it alone."""
        await (run_in_terminal(work, in_executor=True) if self.live() else asyncio.to_thread(work))

    async def edit_file(self, path: Path) -> None:
        """Open a file in the person's editor."""
        named = self.environ.get("VISUAL") or self.environ.get("EDITOR") or ""
        words = shlex.split(named) or [name for name in _EDITORS if shutil.which(name)][:1]
        if not words:
            raise UserError("There is no editor.", "Set EDITOR to one, such as EDITOR=nano.")

        def work() -> None:
            try:
                spawn.on_terminal([*words, str(path)], environ=clean_environ(self.environ))
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

    async def clipboard_image(self) -> Path:
        """A file with the image that is on the clipboard."""
        path = spawn.own_path(self.environ)
        known = [words for variable, words in _IMAGE_PROGRAMS if not variable or self.environ.get(variable)]
        words = next(((found, *rest) for name, *rest in known if (found := shutil.which(name, path=path))), None)
        if words is None:
            raise UserError("Pasting an image needs wl-paste, xclip or pngpaste")
        try:
            done = await asyncio.to_thread(spawn.run, words, environ=clean_environ(self.environ), seconds=_PATIENCE_S)
        except OSError as error:
            raise UserError(f"{words[0]} does not answer") from error
        if not done.stdout.startswith(_PNG) or len(done.stdout) > _MOST:
            raise UserError("There is no image on the clipboard")
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="cowork-")
        self._images += 1
        image = Path(self._folder.name) / f"clipboard-{self._images}.png"
        image.write_bytes(done.stdout)
        return image
