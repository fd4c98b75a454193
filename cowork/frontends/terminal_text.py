"""Markdown and diffs of a one-shot run, rendered for the terminal it prints to."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping

from cowork.frontends.repl.view.diffs import diff_lines
from cowork.frontends.repl.view.stream import MarkdownStream
from cowork.frontends.repl.view.styled import WIDEST, Line
from cowork.frontends.repl.view.theme import Theme, color_depth, guess_kind

_DIFF_ROWS = 24


class TerminalText:
    """Renders answers block by block, in the colours and the width of the terminal."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._theme = Theme(guess_kind(environ), color_depth(environ))
        self._stream = MarkdownStream()

    def feed(self, text: str) -> str:
        """Take a piece of an answer; gives what of it is finished."""
        self._stream.feed(text)
        return self._encode(self._stream.take(_columns(), self._theme))

    def end(self) -> str:
        """The rest of the answer; the next piece begins another."""
        stream, self._stream = self._stream, MarkdownStream()
        return self._encode(stream.end(_columns(), self._theme))

    def diff(self, diff: str) -> str:
        """A diff with its colours."""
        return self._encode(diff_lines(diff, _columns(), limit=_DIFF_ROWS, theme=self._theme))

    def _encode(self, lines: Iterable[Line]) -> str:
        return "".join(f"{self._theme.encode(line)}\n" for line in lines)


def _columns() -> int:
    return max(20, min(WIDEST, shutil.get_terminal_size().columns - 1))
