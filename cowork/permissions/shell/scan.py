"""Finds every simple command in a shell text, at any depth, in linear time and without ever giving up silently.

It serves deny rules, so where bash could be read in two ways it reports more commands than there are, never fewer; what
it could not follow is named in `broken`. (A grammar-driven parser took seconds to recover from 8 KB of hostile text.)
"""

from __future__ import annotations

import re
from dataclasses import replace

from cowork.permissions.shell.quoting import SPLIT_WORD, continued
from cowork.permissions.shell.spelling import Limit, Speller
from cowork.permissions.shell.words import Command, Scan, Word

MAX_CHARS = 16_384
MAX_COMMANDS = 1_000
MAX_QUOTED = 200  # backquotes and here-documents, each a text of its own
MAX_HEREDOCS = 24

_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_REDIRECT = re.compile(r"(?:[0-9]*|\{\w+\})(?:<<<|<<-?|<>|<&|<(?!\()|>>|>\||>&|>(?!\())|&>>?")
_OPENING = frozenset(("if", "then", "elif", "else", "do", "while", "until", "function", "!", "{", "}"))


def scan(text: str) -> Scan:
    """Every simple command of a shell text."""
    if len(text) > MAX_CHARS:
        return Scan([], f"the command is longer than {MAX_CHARS:,} characters", limited=True)
    scanner = _Scanner(text)
    try:
        scanner.commands_until("", top=True)
    except Limit as limit:
        return Scan(scanner.found, str(limit), limited=True)
    if SPLIT_WORD.search(text):
        scanner.note("a word that goes on in the next line")
    return Scan(scanner.found, scanner.broken, asleep=scanner.asleep, counts=scanner.counts[0])


def substitutions(text: str) -> Scan:
    """The commands of the substitutions in a text that something may expand later."""
    scanner = _Scanner(text)
    try:
        scanner.quoted_text()
    except Limit as limit:
        return Scan(scanner.found, str(limit), limited=True)
    return Scan(scanner.found)


class _Scanner(Speller):
    def __init__(self, text: str, depth: int = 0, found: list[Command] | None = None, function: str = "") -> None:
        super().__init__(text, depth, [] if found is None else found)
        self.heredocs: list[tuple[str, bool, bool, Command, int]] = []
        self.heredocs_seen = 0
        self.function = function
        self.texts = [0]  # counted over all levels

    # ------------------------------------------------------------ lists of commands

    def commands_until(self, end: str, *, top: bool = False) -> None:
        """Read commands up to `end` (a closing bracket, or the end of the text)."""
        self.deeper()
        doubled, self.doubled = self.doubled, 0
        command, start, cases = Command(), self.at, 0
        braces: list[str] = []
        defines = False
        while self.at < len(self.text):
            if blank := _BLANK.match(self.text, self.at):
                self.at = blank.end()
                continue
            char = self.text[self.at]
            if char == ")" and end == ")" and not cases:
                break
            if char == "#":
                self._comment()
            elif redirect := _REDIRECT.match(self.text, self.at):
                self._redirect(redirect, command)
            elif char in ";&|\n()":
                self._keep(command, start, top)
                command.background = char == "&" and not self.text.startswith("&&", self.at)
                named = self._operator(char, command)
                if named:
                    braces.append(self.function)
                    self.function = named
                command, start = Command(), self.at
            else:
                if not command.words and not command.assigned:
                    start = self.at
                word = self.word()
                if word.text == "case" and end:
                    self.note("a case in brackets, whose end depends on its patterns")
                opens = word.text in ("{", "do") and not word.quoted  # `function f {`, `for i do`
                if opens and command.words:
                    self._keep(command, start, top)
                    if defines:
                        braces.append(self.function)
                        self.function, defines = command.words[0].text, False
                    command, start = Command(), self.at
                    continue
                if command.words or word.quoted or not self._reserved(word.text):
                    self._add(command, word)
                    continue
                cases += {"case": 1, "esac": -1}.get(word.text, 0)
                cases = max(cases, 0)
                defines = word.text == "function"
                if word.text == "}" and braces:
                    self.function = braces.pop()
                start = self.at
        self._keep(command, start, top)
        if self.heredocs:
            self.note("a here-document without its end")
        if end and self.at >= len(self.text):
            self.note(f"a missing {end}")
        self.at += len(end)
        self.depth -= 1
        self.doubled = doubled

    def _operator(self, char: str, command: Command) -> str:
        """Step over an operator; the name of a function when its definition starts here."""
        if char == "(" and self.text.startswith("((", self.at):
            self.at += 2
            self._sum()
            return ""
        self.at += 1
        if char == "\n":
            self._bodies()
        if char == "(":
            if len(command.words) == 1 and (close := re.compile(r"[ \t]*\)").match(self.text, self.at)):
                self.at = close.end()
                return command.words[0].text
            self.commands_until(")")
        return ""

    def _keep(self, command: Command, start: int, top: bool) -> None:
        if not (command.words or command.assigned or command.writes or command.reads):
            return
        command.text = self.text[start : self.at].strip()
        command.top = top and self.depth == 1
        command.function = self.function
        self.found.append(command)
        if len(self.found) > MAX_COMMANDS:
            raise Limit(f"more than {MAX_COMMANDS:,} commands")

    def _add(self, command: Command, word: Word) -> None:
        if not command.words and word.assigns:
            command.assigned.append(word.assigns)
            command.values.append(replace(word, text=word.text.partition("=")[2]))
            return
        command.words.append(word)

    @staticmethod
    def _reserved(text: str) -> bool:
        return text in _OPENING or text in ("fi", "done", "case", "esac")

    def _comment(self) -> None:
        self.at = (self.text + "\n").find("\n", self.at)

    # ------------------------------------------------------------ redirections and here-documents

    def _redirect(self, match: re.Match[str], command: Command) -> None:
        operator = re.sub(r"^(?:[0-9]+|\{\w+\})", "", match.group())
        self.at = match.end()
        if blank := _BLANK.match(self.text, self.at):
            self.at = blank.end()
        word = self.word()
        if operator.startswith("<<") and operator != "<<<":
            self.heredocs_seen += 1
            if self.heredocs_seen > MAX_HEREDOCS:
                raise Limit(f"more than {MAX_HEREDOCS} here-documents")
            if not word.literal:
                self.note("a here-document whose end is not plain")
            if not self.arithmetic:  # there << is a shift, and nothing after it may be skipped
                self.heredocs.append((word.text, operator.endswith("-"), word.quoted, command, self.depth))
        elif operator == "<<<":
            command.fed.append(word.text)
        elif operator.endswith("<"):
            command.reads.append(word)
        elif not (operator in (">&", "<&") and re.fullmatch(r"[0-9]+-?|-", word.text)):
            command.writes.append(word)

    def _bodies(self) -> None:
        """Step over the bodies of the here-documents that wait for this line end."""
        waiting, self.heredocs = self.heredocs, []
        for end, tabs, quoted, command, depth in waiting:
            if depth != self.depth:
                self.note("a here-document that starts on another level")
            body: list[str] = []
            while self.at < len(self.text):
                line, self.at = continued(self.text, self.at, joins=not quoted)
                line = line.lstrip("\t") if tabs else line
                if line == end:
                    break
                if self.depth > 1 and line.startswith(end) and ")" in line:
                    self.note("a here-document that a bracket may end")
                body.append(line)
            else:
                self.note("a here-document without its end")
            whole = "\n".join(body)
            command.fed.append(whole)
            self.sleeping(whole)
            if not quoted:
                self.inner(whole).quoted_text()

    def inner(self, text: str) -> _Scanner:
        self.texts[0] += 1
        if self.texts[0] > MAX_QUOTED:
            raise Limit(f"more than {MAX_QUOTED} texts inside the text")
        inner = _Scanner(text, self.depth + 1, self.found, self.function)
        inner.texts = self.texts
        inner.asleep = self.asleep
        inner.counts = self.counts
        inner.note = self.note  # type: ignore[method-assign]
        return inner
