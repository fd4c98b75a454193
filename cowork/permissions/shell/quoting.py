"""How bash reads `$'…'`, and lines that a backslash joins."""

from __future__ import annotations

import re

_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_CODE = re.compile(r"x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}")

# A backslash at a line end in the midst of a word or an operator: bash joins them before it reads either.
SPLIT_WORD = re.compile(r"[^\s\\]\\\n(?:\\\n)*\S")


def ansi(text: str, at: int) -> tuple[str, int, bool]:
    """The value of `$'…'` from after its first quote, where it ends, and whether the value is sure."""
    parts: list[str] = []
    sure = True
    while at < len(text):
        char = text[at]
        at += 1
        if char == "'":
            return "".join(parts), at, sure
        if char != "\\":
            parts.append(char)
        elif code := _CODE.match(text, at):
            digits = code.group()
            number = int(digits, 8) & 0xFF if digits[0] in "01234567" else int(digits[1:], 16)
            parts.append(chr(number) if number < 0x110000 else "\ufffd")
            sure = sure and number != 0  # bash drops what comes after a NUL
            at = code.end()
        else:
            after = text[at : at + 1]
            sure = sure and after not in ("c", "x")  # a control character; \\x{…}
            parts.append(_NAMED.get(after, after))
            at += 1
    return "".join(parts), len(text) + 1, sure


def continued(text: str, at: int, *, joins: bool) -> tuple[str, int]:
    """The line that starts here and where the next one does; `joins`: a backslash at its end joins the next."""
    line = ""
    while True:
        newline = text.find("\n", at)
        stop = len(text) if newline < 0 else newline
        line += text[at:stop]
        at = min(stop + 1, len(text))
        slashes = len(line) - len(line.rstrip("\\"))
        if not joins or slashes % 2 == 0 or at >= len(text):
            return line, at
        line = line[:-1]
