"""What the terminal is told outside the text: title, bell, desktop notification, clipboard."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

from cowork.core.format import one_line
from cowork.frontends.host import Options
from cowork.frontends.repl.view.styled import clip

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
