"""Colours: a dark and a light palette, how they are found out, and how a styled line becomes bytes.

No information is carried by colour alone, so a screen without any reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from rich.color import ColorSystem
from rich.style import Style

from cowork.core.hygiene import inert
from cowork.frontends.repl.view.styled import Span

Kind = Literal["dark", "light"]
_ONE_ROW = str.maketrans("\t\n", "  ")  # a line is one row, each of these was counted as one column

_STYLES = {  # name: dark, light; other names are styles of rich
    "text": ("default", "default"),
    "dim": ("#8a8f98", "#6a6f78"),
    "faint": ("#5f6570", "#9a9fa8"),
    "accent": ("#d7a657", "#8f5a00"),
    "accent.bold": ("bold #d7a657", "bold #8f5a00"),
    "good": ("#87c08a", "#1f7a33"),
    "bad": ("#e06c75", "#b3261e"),
    "warn": ("#e5c07b", "#8a6100"),
    "link": ("#7fb4ca underline", "#0b5e83 underline"),
    "code": ("#9cc4d8", "#0b5e83"),
    "user": ("bold", "bold"),
    "user.bar": ("#d7a657", "#8f5a00"),
    "rule": ("#5f6570", "#9a9fa8"),
    "selected": ("bold #d7a657", "bold #8f5a00"),
    "diff.add": ("#a9d7a1 on #1d2f20", "#114d1e on #e3f5e4"),
    "diff.add.word": ("bold #d3f2cc on #2f5a34", "bold #0b3a15 on #b4e3b8"),
    "diff.del": ("#e6a5a5 on #361f21", "#7a1a15 on #fbe6e5"),
    "diff.del.word": ("bold #ffd5d5 on #6b2d31", "bold #5e100c on #f3b9b5"),
    "diff.number": ("#5f6570", "#9a9fa8"),
    "agent.red": ("bold #e06c75", "bold #b3261e"),
    "agent.green": ("bold #87c08a", "bold #1f7a33"),
    "agent.yellow": ("bold #e5c07b", "bold #8a6100"),
    "agent.blue": ("bold #7fa8d8", "bold #1d4f91"),
    "agent.magenta": ("bold #c792c9", "bold #8a2c8c"),
    "agent.purple": ("bold #b294d6", "bold #5f3a9a"),
    "agent.cyan": ("bold #7fc1c4", "bold #0f6d72"),
    "agent.orange": ("bold #e0955c", "bold #9a4a00"),
    "agent.pink": ("bold #e39ab5", "bold #a2325f"),
}

_OSC11 = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")
OSC11_QUERY = "\x1b]11;?\x1b\\"


class Theme:
    """One palette at one colour depth; turns styled lines into strings a terminal understands."""

    def __init__(self, kind: Kind = "dark", depth: ColorSystem | None = ColorSystem.TRUECOLOR) -> None:
        self.kind: Kind = kind
        self.depth = depth
        self._styles = {name: light if kind == "light" else dark for name, (dark, light) in _STYLES.items()}
        self._codes: dict[str | Style, tuple[str, str]] = {}

    @property
    def many_colours(self) -> bool:
        """Whether there are enough colours for code on a coloured ground."""
        return self.depth is not None and self.depth != ColorSystem.STANDARD

    @property
    def code_style(self) -> str:
        """The pygments style of code blocks."""
        return "github-dark" if self.kind == "dark" else "friendly"

    def encode(self, line: Iterable[Span]) -> str:
        """The line with SGR codes; plain text where the terminal has no colours. No other code gets through here."""
        out: list[str] = []
        for style, text in line:
            if not text:
                continue
            before, after = self._codes.get(style) or self._code(style)
            out.append(f"{before}{inert(text).translate(_ONE_ROW)}{after}")
        return "".join(out)

    def definition(self, name: str) -> str:
        """The rich style a name stands for."""
        return self._styles.get(name, name)

    def agent(self, color: str) -> str:
        """The style name of an agent's colour; the accent for one that is not known."""
        name = f"agent.{color.lower()}"
        return name if name in self._styles else "accent.bold"

    def _code(self, style: str | Style) -> tuple[str, str]:
        parsed = style if isinstance(style, Style) else Style.parse(self._styles.get(style, style))
        if self.depth is None:  # no colour: keep weight only
            parsed = Style(bold=parsed.bold, italic=parsed.italic, underline=parsed.underline, reverse=parsed.reverse)
        before, _, after = parsed.render("\0", color_system=self.depth or ColorSystem.STANDARD).partition("\0")
        self._codes[style] = before, after
        return before, after


def color_depth(environ: Mapping[str, str]) -> ColorSystem | None:
    """How many colours the terminal has; None with NO_COLOR or a dumb terminal."""
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR") or term in ("dumb", "unknown", ""):
        return None
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return ColorSystem.TRUECOLOR
    return ColorSystem.EIGHT_BIT if "256" in term or "kitty" in term else ColorSystem.STANDARD


def guess_kind(environ: Mapping[str, str]) -> Kind:
    """Dark unless COLORFGBG names a light background."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"


def kind_of_reply(data: str) -> tuple[Kind | None, str]:
    """(background kind, the rest of the input) when the terminal's answer to OSC11_QUERY is in `data`."""
    found = _OSC11.search(data)
    if found is None:
        return None, data
    red, green, blue = (int(value, 16) / (16 ** len(value) - 1) for value in found.groups())
    is_light = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
    return "light" if is_light else "dark", data[: found.start()] + data[found.end() :]
