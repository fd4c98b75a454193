"""Finds every simple command in a shell text, at any depth, in linear time and without ever giving up silently.

It serves deny rules, so where bash could be read in two ways it reports more commands than there are, never fewer; what
it could not follow is named in `broken`. (A grammar-driven parser took seconds to recover from 8 KB of hostile text.)
"""

from __future__ import annotations

import re

from cowork.permissions.words import Command, Scan, Word

MAX_CHARS = 16_384
MAX_DEPTH = 24
MAX_COMMANDS = 1_000
MAX_QUOTED = 200  # backquotes and here-documents, each a text of its own
MAX_HEREDOCS = 24

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,^=-]+")
_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_REDIRECT = re.compile(r"(?:[0-9]*|\{\w+\})(?:<<<|<<-?|<>|<&|<(?!\()|>>|>\||>&|>(?!\())|&>>?")
_VARIABLE = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=")
_DEFAULT = re.compile(r"([A-Za-z_]\w*):?=")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)")
_OPENING = frozenset(("if", "then", "elif", "else", "do", "while", "until", "function", "!", "{", "}"))
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ANSI_CODE = re.compile(r"x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}")


def scan(text: str) -> Scan:
    """Every simple command of a shell text."""
    if len(text) > MAX_CHARS:
        return Scan([], f"the command is longer than {MAX_CHARS:,} characters", limited=True)
    scanner = _Scanner(text)
    try:
        scanner.commands_until("", top=True)
    except _Limit as limit:
        return Scan(scanner.found, str(limit), limited=True)
    return Scan(scanner.found, scanner.broken)


class _Limit(Exception):
    pass


class _Scanner:
    def __init__(self, text: str, depth: int = 0, found: list[Command] | None = None, function: str = "") -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.found: list[Command] = [] if found is None else found
        self.broken = ""
        self.heredocs: list[tuple[str, bool, bool, Command]] = []
        self.heredocs_seen = 0
        self.function = function
        self.arithmetic = 0
        self.texts = [0]  # counted over all levels

    # ------------------------------------------------------------ lists of commands

    def commands_until(self, end: str, *, top: bool = False) -> None:
        """Read commands up to `end` (a closing bracket, or the end of the text)."""
        self._deeper()
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
                word = self._word()
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
            self._broken("a here-document without its end")
        if end and self.at >= len(self.text):
            self._broken(f"a missing {end}")
        self.at += len(end)
        self.depth -= 1

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
            raise _Limit(f"more than {MAX_COMMANDS:,} commands")

    def _add(self, command: Command, word: Word) -> None:
        if not command.words and word.assigns:
            command.assigned.append(word.assigns)
            return
        command.words.append(word)

    @staticmethod
    def _reserved(text: str) -> bool:
        return text in _OPENING or text in ("fi", "done", "case", "esac")

    def _comment(self) -> None:
        self.at = (self.text + "\n").find("\n", self.at)

    # ------------------------------------------------------------ redirections and here-documents

    def _redirect(self, match: re.Match[str], command: Command) -> None:
        operator = match.group().lstrip("0123456789")
        self.at = match.end()
        if blank := _BLANK.match(self.text, self.at):
            self.at = blank.end()
        word = self._word()
        if operator.startswith("<<") and operator != "<<<":
            self.heredocs_seen += 1
            if self.heredocs_seen > MAX_HEREDOCS:
                raise _Limit(f"more than {MAX_HEREDOCS} here-documents")
            if not self.arithmetic:  # there << is a shift, and nothing after it may be skipped
                self.heredocs.append((word.text, operator.endswith("-"), word.quoted, command))
        elif operator == "<<<":
            command.fed.append(word.text)
        elif operator.endswith("<"):
            command.reads.append(word)
        elif not (operator in (">&", "<&") and re.fullmatch(r"[0-9]+-?|-", word.text)):
            command.writes.append(word)

    def _bodies(self) -> None:
        """Step over the bodies of the here-documents that wait for this line end."""
        waiting, self.heredocs = self.heredocs, []
        for end, tabs, quoted, command in waiting:
            body: list[str] = []
            while self.at < len(self.text):
                newline = self.text.find("\n", self.at)
                stop = len(self.text) if newline < 0 else newline
                line = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                if (line.lstrip("\t") if tabs else line) == end:
                    break
                body.append(line)
            else:
                self._broken("a here-document without its end")
            command.fed.append("\n".join(body))
            if not quoted:
                self._inner("\n".join(body)).quoted_text()

    # ------------------------------------------------------------ words

    def _word(self) -> Word:
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
        if name and quoted and re.search(r"\$\(|`", "".join(parts)):
            self._inner("".join(parts)).quoted_text()  # arithmetic on the variable would run it
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
                self._broken("a missing '")
                end = len(self.text)
            value = self.text[self.at + 1 : end]
            self.at = end + 1
            return value, True
        if self.text.startswith("$'", self.at):
            self.at += 2
            return self._ansi(), True
        self.at += 1 + (char == "$")
        return self._double()

    def _double(self) -> tuple[str, bool]:
        parts: list[str] = []
        known = True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
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
        self._broken('a missing "')
        return "".join(parts), known

    def quoted_text(self) -> None:
        """Read the whole text as the inside of double quotes: only substitutions count."""
        while self.at < len(self.text):
            if self.text[self.at] in "$`":
                self._special(self.text[self.at])
            else:
                self.at += 1 + (self.text[self.at] == "\\")

    def _ansi(self) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "'":
                return "".join(parts)
            if char != "\\":
                parts.append(char)
            elif code := _ANSI_CODE.match(self.text, self.at):
                digits = code.group()
                number = int(digits, 8) if digits[0] in "01234567" else int(digits[1:], 16)
                parts.append(chr(number) if number < 0x110000 else "\ufffd")
                self.at = code.end()
            else:
                after = self.text[self.at : self.at + 1]
                parts.append(_ANSI.get(after, after))
                self.at += 1
        self._broken("a missing '")
        return "".join(parts)

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
            self._broken("the old arithmetic $[")
        elif variable := _VARIABLE.match(text, self.at):
            self.at = variable.end()
        else:
            return True  # a dollar sign by itself
        return False

    def _parameter(self) -> None:
        self._deeper()
        if self.text.startswith((" ", "\t", "\n", "|"), self.at):
            self._broken("commands inside ${ }")
        if name := _DEFAULT.match(self.text, self.at):
            self.found.append(Command(assigned=[name.group(1)]))
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "}":
                if self.text.endswith("@P", 0, self.at):
                    self._broken("a value read as a prompt, which can run code")
                self.at += 1
                self.depth -= 1
                return
            if char in "'\"\\":
                self._quoted(char)
            elif char in "$`":
                self._special(char)
            else:
                self.at += 1
        self._broken("a missing }")
        self.depth -= 1

    def _sum(self) -> None:
        """Arithmetic, or two brackets of nested lists: read as lists, which finds the commands of both."""
        self._broken("arithmetic, which can run code")
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
        self.at = end.end()
        if not self.text.startswith("`", self.at):
            self._broken("a missing `")
        self.at += 1
        self._inner(body).commands_until("")
        return False

    def _inner(self, text: str) -> _Scanner:
        self.texts[0] += 1
        if self.texts[0] > MAX_QUOTED:
            raise _Limit(f"more than {MAX_QUOTED} texts inside the text")
        inner = _Scanner(text, self.depth + 1, self.found, self.function)
        inner.texts = self.texts
        inner._broken = self._broken  # type: ignore[method-assign]
        return inner

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Limit(f"nested deeper than {MAX_DEPTH}")

    def _broken(self, why: str) -> None:
        self.broken = self.broken or why
