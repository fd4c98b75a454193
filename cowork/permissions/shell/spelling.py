"""Reads the words of a shell text: quotes, expansions, and the commands inside them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from cowork.permissions.shell.quoting import ansi
from cowork.permissions.shell.words import Command, Word

MAX_DEPTH = 24
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,^=-]+")
_VARIABLE = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=")
_DEFAULT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?:?=")
_COUNTED = re.compile(r"!|\w+(?:\[[^]]*\])?:(?![-=?+])")  # ${!x}, ${x:1}
_SLEEPS = re.compile(r"\$\(|`")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)")


class Limit(Exception):
    """The text is more than will be followed."""


class Speller(ABC):
    """A place in a shell text, and what was found up to it."""

    def __init__(self, text: str, depth: int, found: list[Command]) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.found = found
        self.broken = ""
        self.arithmetic = 0
        self.doubled = 0  # inside how many double quotes of this list
        self.counts = [False]  # over all levels: there is arithmetic outside of builtins
        self.asleep: list[str] = []  # quoted texts with a substitution in them

    @abstractmethod
    def commands_until(self, end: str, *, top: bool = False) -> None:
        """Read commands up to `end`."""

    @abstractmethod
    def inner(self, text: str) -> Speller:
        """A reader for a text inside this one."""

    def word(self) -> Word:
        parts: list[str] = []
        bare: list[str] = []  # what is not quoted
        start = self.at
        literal, quoted = True, False
        text = self.text
        while self.at < len(text):
            if plain := _PLAIN.match(text, self.at):
                parts.append(plain.group())
                bare.append(plain.group())
                self.at = plain.end()
                continue
            char = text[self.at]
            if char in " \t\n;&|)":
                break
            if char in "<>" and text[self.at + 1 : self.at + 2] != "(":
                break
            if char == "(":
                if not (parts and parts[-1].endswith("=")):
                    if text[self.at - 1] in "?*+@!" and self.at > start:
                        self.note("an extended pattern")
                    break
                self.at += 1
                self.commands_until(")")  # an array; its elements count as commands, which is more than they are
                literal = False
                continue
            if char in "'\"\\" or text.startswith(("$'", '$"'), self.at):
                quoted = True
                value, known = self._quoted(char)
                parts.append(value)
                literal = literal and known
                continue
            before = self.at
            literal = self._special(char) and literal
            parts.append(text[before : self.at])
            bare.append(parts[-1])
        source = text[start : self.at]
        literal = literal and not source.startswith("~") and not _BRACES.search("".join(bare))
        name = _ASSIGNMENT.match(source)
        if quoted:
            self.sleeping("".join(parts))
        if name and quoted and re.search(r"\$\(|`", "".join(parts)):
            self.inner("".join(parts)).quoted_text()  # arithmetic on the variable would run it
        return Word("".join(parts), literal or source in ("[", "[[", "]", "]]"), quoted, name.group(1) if name else "")

    def _quoted(self, char: str) -> tuple[str, bool]:
        """The value of a quotation or escape that starts here, and whether it is known."""
        if char == "\\":
            value = self.text[self.at + 1 : self.at + 2]
            self.at = min(self.at + 2, len(self.text))
            return ("" if value == "\n" else value), True
        if char == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                self.note("a missing '")
                end = len(self.text)
            value = self.text[self.at + 1 : end]
            self.at = end + 1
            return value, True
        if self.text.startswith("$'", self.at):
            value, self.at, known = ansi(self.text, self.at + 2)
            if self.text[self.at - 1 : self.at] != "'":
                self.note("a missing '")
            return value, known
        self.at += 1 + (char == "$")
        return self._double()

    def _double(self) -> tuple[str, bool]:
        parts: list[str] = []
        known = True
        self.doubled += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                self.doubled -= 1
                return "".join(parts), known
            if char == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                parts.append("" if after == "\n" else after if after in '$`"\\' else char + after)
                self.at += 2
            elif char in "$`":
                before = self.at
                known = self._special(char) and known
                parts.append(self.text[before : self.at])
            else:
                run = re.compile(r'[^"\\$`]+').match(self.text, self.at)
                assert run is not None
                parts.append(run.group())
                self.at = run.end()
        self.note('a missing "')
        return "".join(parts), known

    def quoted_text(self) -> None:
        """Read the whole text as the inside of double quotes: only substitutions count."""
        self.doubled += 1
        while self.at < len(self.text):
            if self.text[self.at] in "$`":
                self._special(self.text[self.at])
            else:
                self.at += 1 + (self.text[self.at] == "\\")

    def _special(self, char: str) -> bool:
        """Step over a character with a meaning of its own; False when the value is only known at run time."""
        text = self.text
        self.at += 1
        if char == "`":
            return self._backquote()
        if char in "<>":  # process substitution
            self.at += 1
            self.commands_until(")")
            return False
        if char != "$":
            return char not in "*?["
        if text.startswith("((", self.at):
            self.at += 2
            self._sum()
        elif text.startswith("(", self.at):
            self.at += 1
            self.commands_until(")")
        elif text.startswith("{", self.at):
            self.at += 1
            self._parameter()
        elif text.startswith("[", self.at):
            self.counts[0] = True
            self.note("the old arithmetic $[")
        elif variable := _VARIABLE.match(text, self.at):
            self.at = variable.end()
        else:
            return True  # a dollar sign by itself
        return False

    def _parameter(self) -> None:
        self.deeper()
        if self.text.startswith((" ", "\t", "\n", "|"), self.at):
            self.note("commands inside ${ }")
        self.counts[0] |= _COUNTED.match(self.text, self.at) is not None
        if name := _DEFAULT.match(self.text, self.at):
            self.found.append(Command(assigned=[name.group(1)]))
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "}":
                if self.text.endswith("@P", 0, self.at):
                    self.note("a value read as a prompt, which can run code")
                self.at += 1
                self.depth -= 1
                return
            ansi_quote = self.text.startswith("$'", self.at)
            if self.doubled and (char == "'" or ansi_quote):
                self.note("a quote inside ${ } inside quotes, which shells read in two ways")
            if char in "'\"\\" or ansi_quote:
                self.sleeping(self._quoted(char)[0])
            elif char in "$`" or (self.text.startswith(("<(", ">("), self.at) and not self.doubled):
                self._special(char)
            else:
                self.at += 1
        self.note("a missing }")
        self.depth -= 1

    def _sum(self) -> None:
        """Arithmetic, or two brackets of nested lists: read as lists, which finds the commands of both."""
        self.note("arithmetic, which can run code")
        self.counts[0] = True
        self.arithmetic += 1
        self.commands_until(")")
        if self.text.startswith(")", self.at):
            self.at += 1
        elif self.at < len(self.text):
            self.commands_until(")")
        self.arithmetic -= 1

    def _backquote(self) -> bool:
        end = re.compile(r"(?:[^`\\]|\\.)*", re.DOTALL).match(self.text, self.at)
        assert end is not None
        body = re.sub(r"\\([`\\$])", r"\1", end.group())
        if self.doubled and '\\"' in body:
            self.note("a quote inside backquotes inside quotes")
        self.at = end.end()
        if not self.text.startswith("`", self.at):
            self.note("a missing `")
        self.at += 1
        self.inner(body).commands_until("")
        return False

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Limit(f"nested deeper than {MAX_DEPTH}")

    def note(self, why: str) -> None:
        self.broken = self.broken or why

    def sleeping(self, text: str) -> None:
        if _SLEEPS.search(text):
            self.asleep.append(text)
