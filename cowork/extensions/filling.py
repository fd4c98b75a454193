"""Arguments in the text of skills and commands (`$ARGUMENTS`, `$0`, `$name`), and the commands it wants run first."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Literal

from cowork.extensions.recipes import Recipe

Piece = tuple[Literal["text", "command"], str]

_COMMAND = re.compile(r"(?<!\S)!`([^`\n]+)`|^```!\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_TOKEN = re.compile(r"(\\?)\$(?:ARGUMENTS(?:\[(\d+)\])?|(\d+)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
FILE = re.compile(r"(?<![\w`@])@((?:~/|/|\./)?\w(?:[\w./-]*[\w/])?)")


def pieces(recipe: Recipe, typed: str, places: Mapping[str, str]) -> list[Piece]:
    """The text with its arguments in place, cut where a command's output belongs.

    Commands are those of the file alone: what is typed after the name is never looked at for more of them.
    """
    fill = _Filling(recipe, typed, places)
    found: list[Piece] = []
    at = 0
    for match in _COMMAND.finditer(recipe.body):
        found.append(("text", fill(recipe.body[at : match.start()])))
        found.append(("command", fill(match[1] or match[2])))
        at = match.end()
    found.append(("text", fill(recipe.body[at:])))
    if typed.strip() and not fill.used:
        found.append(("text", f"\n\n{typed.strip()}"))
    return [piece for piece in found if piece[1]]


class _Filling:
    """Puts arguments in the place of their names. Positions count from `$0`; in a text without it, from `$1`."""

    def __init__(self, recipe: Recipe, typed: str, places: Mapping[str, str]) -> None:
        self.typed, self.places, self.names = typed.strip(), places, recipe.arguments
        try:
            self.words = shlex.split(typed)
        except ValueError:  # an apostrophe, not a quote
            self.words = typed.split()
        self.first = 0 if re.search(r"\$0(?!\d)", recipe.body) else 1
        self.used = False

    def __call__(self, text: str) -> str:
        return _TOKEN.sub(self._one, text)

    def _one(self, match: re.Match[str]) -> str:
        escape, index, position, name, braced = match.groups()
        whole = match[0].removeprefix("\\")
        name = name or braced
        known = name is None or name in self.names or name in self.places
        if not known or escape:
            return whole if escape and known else match[0]
        if name in self.places:
            return self.places[name]
        self.used = True
        if name is not None:
            return self._word(self.names.index(name), "")
        if index is not None:
            return self._word(int(index), whole)
        if position is not None:
            return self._word(int(position) - self.first, whole)
        return self.typed

    def _word(self, number: int, missing: str) -> str:
        return self.words[number] if 0 <= number < len(self.words) else missing
