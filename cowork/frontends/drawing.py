"""What is drawn outside the chat: answers and diffs of one run, and the live tree of commands that send out tasks."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from cowork.core.events import AgentEnded, AgentStarted, Event, Notice
from cowork.core.format import one_line
from cowork.frontends.repl.view.panels import ChildState, ended_line, new_child, panels_lines
from cowork.frontends.repl.view.stream import MarkdownStream
from cowork.frontends.repl.view.tool_lines import diff_lines
from cowork.frontends.styled import WIDEST, Line, Theme, color_depth, guess_kind
from cowork.frontends.text import draw

_DIFF_ROWS = 24
_EVERY = 0.1  # seconds between two frames


class TerminalText:
    """Renders answers block by block, in the colours and the width of the terminal."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._theme = Theme(guess_kind(environ), color_depth(environ))
        self._stream = MarkdownStream()

    def feed(self, text: str) -> str:
        """Take a piece of an answer; gives what of it is finished."""
        self._stream.feed(text)
        return _encode(self._stream.take(min(WIDEST, _columns()), self._theme), self._theme)

    def end(self) -> str:
        """The rest of the answer; the next piece begins another."""
        stream, self._stream = self._stream, MarkdownStream()
        return _encode(stream.end(min(WIDEST, _columns()), self._theme), self._theme)

    def diff(self, diff: str) -> str:
        """A diff with its colours."""
        lines = diff_lines(diff, min(WIDEST, _columns()), limit=_DIFF_ROWS, theme=self._theme)
        return _encode(lines, self._theme)


class TaskTree:
    """Draws rows for those at work at the bottom of the terminal; a line with receipts stays of each that ended."""

    def __init__(self, out: TextIO, environ: Mapping[str, str], status: Callable[[], str]) -> None:
        self._out = out
        self._status = status  # one line about the whole
        self._theme = Theme(guess_kind(environ), color_depth(environ))
        self._children: dict[str, ChildState] = {}
        self._rows = 0  # drawn below the cursor
        self._drawn = 0.0

    def __call__(self, event: Event) -> None:
        """Follow an event; frames are drawn at most ten times a second."""
        now = time.monotonic()
        match event:
            case AgentStarted():
                self._children[event.agent] = new_child(event, now)
            case AgentEnded() if child := self._children.pop(event.agent, None):
                self._print(ended_line(child, event, _columns(), self._theme))
            case Notice() if event.agent == "main":
                style = "warn" if event.level == "warning" else "dim"
                self._print([[(style, one_line(event.text, _columns() - 1))]])
            case _ if child := self._children.get(event.agent):
                child.apply(event, now)
        if now - self._drawn >= _EVERY:
            self.draw()

    def draw(self) -> None:
        """Draw those at work and the status line over the frame before."""
        now = time.monotonic()
        rows = max(3, shutil.get_terminal_size().lines // 2)
        children = list(self._children.values())
        lines = panels_lines(children, _columns(), rows, now, self._theme) if children else []
        lines = [*lines, [("dim", one_line(self._status(), _columns() - 1))]]
        self._print(lines)
        self._rows, self._drawn = len(lines), now

    def close(self) -> None:
        """Leave only what ended."""
        self._print([])

    def _print(self, lines: list[Line]) -> None:
        """Print lines that stay, over the frame before; the next event draws another below them."""
        up = f"\x1b[{self._rows}A" if self._rows else ""
        draw(self._out, f"{up}\r\x1b[J" + _encode(lines, self._theme))
        self._rows, self._drawn = 0, 0.0


def drawable(out: TextIO) -> bool:
    """Whether a live tree can be drawn there."""
    return out.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _columns() -> int:
    return max(20, shutil.get_terminal_size().columns - 1)


def _encode(lines: Iterable[Line], theme: Theme) -> str:
    return "".join(f"{theme.encode(line)}\n" for line in lines)
