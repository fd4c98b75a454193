"""Reads a shell text into simple commands, at any depth, in linear time. What it cannot read is said, never skipped.

Nothing is trusted because it was read well: boxes hold commands. What this finds is a hint, what a deny rule is
compared with, and what people are shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from cowork.core.frozen import frozen
from cowork.core.hygiene import visible

MAX_CHARS = 16_384
MAX_COMMANDS = 1_000
MAX_DEPTH = 24

_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_REDIRECT = re.compile(r"(?:[0-9]*|\{\w+\})(?:<<<|<<-?|<>|<&|<(?!\()|>>|>\||>&|>(?!\())|&>>?")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,^=~-]+")
_NAME = re.compile(r"/?(?:[A-Za-z0-9_.+@-]+/)*[A-Za-z0-9_][A-Za-z0-9_.+-]*|\[|:")
_HARMLESS_TARGET = re.compile(r"/dev/null|&?[0-9-]+")
_ANSI = re.compile(r"\$'([^'\\]*)'")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!_-]|\{[A-Za-z_]\w*\})")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=")
_AFTER = {"time": re.compile(r"(?:[ \t]+-[A-Za-z-]+)+"), "coproc": re.compile(r"[ \t]+\w+(?=[ \t]+[{(])")}
_COUNTS = frozenset(("let", "declare", "typeset", "local", "export", "test", "[", "[[", "printf", "read", "unset"))
_SKIPPED = frozenset(
    ["if", "then", "elif", "else", "fi", "do", "done", "while", "until", "!", "{", "}", "esac", "in", "coproc", "time"]
)


def names(text: str) -> frozenset[str]:
    """A set of words, written as they would be read aloud."""
    return frozenset(text.split())


@frozen
class Word:
    """`text` is the value when `literal`, else the value with what is only known at run time left as written."""

    text: str
    literal: bool = True
    quoted: bool = False
    glob: bool = False  # not literal only for a `*` or `?` that the shell will expand


@dataclass(slots=True)
class SimpleCommand:
    """One simple command: its words, the variables set before it, where it writes and reads, what it is fed."""

    words: list[Word] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)
    fed: list[str] = field(default_factory=list)  # bodies of here-documents and here-strings
    text: str = ""
    top: bool = False
    background: bool = False
    after: str = ""  # the operator before it
    function: str = ""  # the function in whose body it stands


@frozen
class Parsed:
    """The commands of a text; `unclear` says what could not be read, `limited` that commands may be missing for it."""

    commands: tuple[SimpleCommand, ...]
    unclear: str = ""
    limited: bool = False
    fancy: str = ""  # what it holds beside literal words joined by `|`, `&&`, `||`, `;` and line ends

    @property
    def literal(self) -> bool:
        """Whether it is nothing but literal words, so that an allow rule may cover its commands one by one."""
        return bool(self.commands) and not (self.fancy or self.unclear or self.limited)


class _Limit(Exception):
    pass


def parse(text: str) -> Parsed:
    """Every simple command of a shell text."""
    if len(text) > MAX_CHARS:
        return Parsed((), f"the command is longer than {MAX_CHARS:,} characters", limited=True)
    reader = _Reader(text, [], [])
    try:
        reader.commands("", 0)
    except _Limit as limit:
        return Parsed(tuple(reader.found), str(limit), limited=True)
    if reader.asleep and any(c.words and c.words[0].text in _COUNTS for c in reader.found):
        reader.unclear.append("a substitution in quotes, which what counts would run")
    if re.search(r"[^\s\\]\\\n", text):
        reader.unclear.append("a word that goes on in the next line")
    if re.search(r"<<-?[ \t]*[^\s<][^\n]*(?:[$<]\(|`)|(?:[$<]\(|`)[^\n]*<<-?[ \t]*[^\s<]", text):
        reader.unclear.append("a here-document beside a substitution")
    fancy = reader.fancy or ("hidden or control characters" if visible(text) != text else _fancy(reader.found))
    return Parsed(tuple(reader.found), reader.unclear[0] if reader.unclear else "", fancy=fancy)


def _fancy(commands: Sequence[SimpleCommand]) -> str:
    """Why these commands are more than literal words."""
    for command in commands:
        if command.assigned or not command.words:
            return "it sets a variable"
        if command.background:
            return "a command in the background"
        if command.reads:
            return "a file that is put in"
        if command.fed or any(not _HARMLESS_TARGET.fullmatch(word.text) for word in command.writes):
            return "a redirection that may write"
        name, *rest = command.words
        if not name.literal or name.quoted or not _NAME.fullmatch(name.text):
            return "the name of the command is not a plain word"
        if not all(word.literal or word.glob for word in (*rest, *command.reads)):
            return "an expansion"
    return ""


@dataclass(slots=True)
class _State:
    """Where a list of commands is: the command being read, inside how many `case`, among the words of a `for`."""

    start: int
    command: SimpleCommand = field(default_factory=SimpleCommand)
    cases: int = 0
    loop: bool = False


class _Reader:
    def __init__(self, text: str, found: list[SimpleCommand], unclear: list[str]) -> None:
        self.text, self.at = text, 0
        self.found, self.unclear = found, unclear
        self.heredocs: list[tuple[str, bool, bool, SimpleCommand]] = []
        self.functions: list[str] = []
        self.asleep = False  # there is a substitution in quotes
        self.fancy = ""  # the first thing that is more than literal words

    def commands(self, end: str, depth: int) -> None:
        """Read commands up to `end`, a closing bracket or the end of the text."""
        if depth > MAX_DEPTH:
            raise _Limit(f"brackets are nested more than {MAX_DEPTH} deep")
        text, state = self.text, _State(start=self.at)
        self._more("brackets" if depth else "")
        while self.at < len(text):
            if blank := _BLANK.match(text, self.at):
                self._more("an escape" if "\\" in blank.group() else "")
                self.at = blank.end()
                continue
            char = text[self.at]
            if char == ")" and end and not state.cases:
                break
            self._more("brackets or a comment" if char in "#()" else "")
            if char == "#" and (self.at == 0 or text[self.at - 1] in " \t\n;&|("):
                self.at = (text + "\n").find("\n", self.at)
            elif redirect := _REDIRECT.match(text, self.at):
                self._redirect(redirect, state.command, depth)
            elif char in ";&|\n()":
                self._end_command(state, char, depth)
            else:
                self._take_word(state, depth)
        if not state.loop:
            self._keep(state.command, state.start, depth)
        if state.command.after in ("|", "&&", "||", "|&") and not state.command.words:
            self._more("an operator without a command")
        if self.heredocs and not depth:
            self.unclear.append("a here-document without its end")
        if end and self.at >= len(text):
            self.unclear.append(f"a missing {end}")
        self.at += len(end)

    def _more(self, what: str) -> None:
        """Note the first thing that is more than literal words."""
        self.fancy = self.fancy or what

    def _end_command(self, state: _State, char: str, depth: int) -> None:
        """Step over an operator and keep the command before it, but for patterns of `case` and lists of `for`."""
        command, at = state.command, self.at
        self._operator(command, char, depth)
        if not state.loop and not (char == ")" and state.cases):
            self._keep(command, state.start, depth)
        elif state.loop and command.words[0].text in ("for", "select") and len(command.words) > 1:
            self.found.append(SimpleCommand(assigned=[command.words[1].text]))
        if not (command.words or command.writes) and char in ";|&":
            self._more("an operator without a command")
        operator = self.text[at : self.at].strip(" \t") if char in ";|&\n" else ""
        state.command, state.start, state.loop = SimpleCommand(after=operator or char), self.at, False

    def _take_word(self, state: _State, depth: int) -> None:
        """Read one word: an assignment, a word of the shell, or one of the command."""
        command = state.command
        state.start = state.start if command.words or command.assigned else self.at
        sets = None if command.words else _ASSIGNMENT.match(self.text, self.at)
        word = self.word(depth)
        if sets:
            command.assigned.append(sets[1])
        elif command.words or word.quoted or command.assigned:
            command.words.append(word)
            if word.text in ("do", "{") and not word.quoted and state.loop:
                if command.words[0].text == "function":
                    self.functions = [*self.functions, command.words[1].text]
                elif len(command.words) > 2:
                    self.found.append(SimpleCommand(assigned=[command.words[1].text]))
                state.command, state.start, state.loop = SimpleCommand(), self.at, False
        elif word.text in _SKIPPED:
            timed = word.text == "time" and self.text[self.at : self.at + 2] != " -"
            self._more("" if timed else f"the shell word {word.text}")
            state.cases -= word.text == "esac" and state.cases > 0
            if word.text in _AFTER and (skipped := _AFTER[word.text].match(self.text, self.at)):
                self.at = skipped.end()
            self.functions = self.functions[:-1] if word.text == "}" else self.functions
        else:
            state.loop = word.text in ("for", "select", "case", "function")
            state.cases += word.text == "case"
            self._more(f"the shell word {word.text}" if state.loop else "")
            command.words.append(word)

    def _operator(self, command: SimpleCommand, char: str, depth: int) -> None:
        double = self.text[self.at : self.at + 2]
        command.background = char == "&" and double != "&&"
        if double == "((":
            close = self.text.find("))", self.at)
            self.unclear.append("arithmetic")
            self.at = close + 2 if close >= 0 else len(self.text)
            return
        self.at += 2 if double in ("&&", "||", ";;", "|&") else 1
        if char == "\n":
            self._bodies()
        elif char == "(":
            if len(command.words) == 1 and (close_ := re.compile(r"[ \t]*\)").match(self.text, self.at)):
                self.at = close_.end()
                self.functions = [*self.functions, command.words.pop().text]
                return
            if command.words:
                self.unclear.append("brackets among words")
            self.commands(")", depth + 1)

    def _keep(self, command: SimpleCommand, start: int, depth: int) -> None:
        if not (command.words or command.assigned or command.writes or command.reads):
            return
        command.text = self.text[start : self.at].strip().rstrip(";&|\n ")
        command.top = depth == 0
        command.function = self.functions[-1] if self.functions else ""
        self.found.append(command)
        if len(self.found) > MAX_COMMANDS:
            raise _Limit(f"more than {MAX_COMMANDS:,} commands")

    def _redirect(self, match: re.Match[str], command: SimpleCommand, depth: int) -> None:
        operator = re.sub(r"^(?:[0-9]+|\{\w+\})", "", match.group())
        self.at = match.end()
        if blank := _BLANK.match(self.text, self.at):
            self.at = blank.end()
        word = self.word(depth)
        if operator in ("<<", "<<-"):
            if not word.literal:
                self.unclear.append("a here-document whose end is not plain")
            self.heredocs.append((word.text, operator == "<<-", word.quoted, command))
        elif operator == "<<<":
            command.fed.append(word.text)
        elif operator.endswith("<"):
            command.reads.append(word)
        elif not (operator in (">&", "<&") and re.fullmatch(r"[0-9]+-?|-", word.text)):
            command.writes.append(word)

    def _bodies(self) -> None:
        """Step over the bodies of here-documents that wait for this line end."""
        waiting, self.heredocs = self.heredocs, []
        for end, tabs, quoted, command in waiting:
            body: list[str] = []
            while self.at < len(self.text):
                stop = (self.text + "\n").find("\n", self.at)
                line, self.at = self.text[self.at : stop], min(stop + 1, len(self.text))
                if (line.lstrip("\t") if tabs else line) == end:
                    break
                body.append(line)
            else:
                self.unclear.append("a here-document without its end")
            whole = "\n".join(body)
            command.fed.append(whole)
            if not quoted and re.search(r"\$[({]|`|\\\n", whole):
                self.unclear.append("commands in a here-document")

    # ------------------------------------------------------------ words

    def word(self, depth: int) -> Word:
        parts: list[str] = []
        start, literal, quoted, glob = self.at, True, False, False
        while self.at < len(self.text):
            char = self.text[self.at]
            if plain := _PLAIN.match(self.text, self.at):
                parts.append(plain.group())
                self.at = plain.end()
            elif (
                char in " \t\n;&|)"
                or (char in "<>" and not self.text.startswith("(", self.at + 1))
                or (char == "(" and not (parts and parts[-1] in "<>"))
            ):
                break
            elif char == "'":
                close = self.text.find("'", self.at + 1)
                if re.search(r"\$\(|`", self.text[self.at : close]):  # a builtin that counts would run it
                    self.asleep = True
                parts.append(self.text[self.at + 1 : close] if close >= 0 else self._missing("'"))
                self.at, quoted = (close + 1 if close >= 0 else len(self.text)), True
            elif char == '"':
                text, sure = self._doubled(depth)
                parts.append(text)
                literal, quoted = literal and sure, True
            elif char == "\\":
                self.fancy = self.fancy or "an escape"
                following = self.text[self.at + 1 : self.at + 2]
                parts.append("" if following == "\n" else following)
                if following == "\n" and parts[:-1]:
                    self.unclear.append("a word that goes on in the next line")
                self.at, quoted = self.at + 2, quoted or following != "\n"
            elif self.text.startswith("$'", self.at) and (known := _ANSI.match(self.text, self.at)):
                parts.append(known.group(1))
                self.at, quoted, self.fancy = known.end(), True, self.fancy or "an expansion"
            elif char in "$`<>":
                parts.append(self._expansion(depth))
                literal = literal and parts[-1] == "$"
            else:
                parts.append(char)
                glob = glob or char in "*?"
                literal = literal and char not in "[{"
                self.fancy = self.fancy or ("" if char in "*?" else f"the character {char!a}")
                self.at += 1
        if self.at == start:  # a character that starts no word, such as a lone bracket
            self.at += 1
            self.unclear.append("a character out of place")
        text = "".join(parts)
        literal = literal or text in ("[", "[[", "]", "]]")
        self._more("a home folder" if text.startswith("~") else "")
        return Word(text, literal and not glob, quoted, glob and literal)

    def _missing(self, quote: str) -> str:
        self.unclear.append(f"a {quote} that does not end")
        return self.text[self.at + 1 :]

    def _doubled(self, depth: int) -> tuple[str, bool]:
        """What stands in double quotes, and whether it is known."""
        parts, sure = [], True
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                parts.append(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            elif char in "$`" and self.text[self.at + 1 : self.at + 2] not in ('"', " "):
                parts.append(self._expansion(depth))
                sure = False
            else:
                parts.append(char)
                self.at += 1
        if self.at >= len(self.text):
            self.unclear.append('a " that does not end')
        self.at += 1
        return "".join(parts), sure

    def _expansion(self, depth: int) -> str:
        """Step over a variable or a substitution, whose commands are kept; gives it as written."""
        start, text = self.at, self.text
        if text.startswith("$((", start):
            self.unclear.append("arithmetic")
            close = text.find("))", start)
            self.at = close + 2 if close >= 0 else len(text)
        elif text.startswith(("$(", "<(", ">("), start):
            self.at += 2
            self.commands(")", depth + 1)
        elif text[start] == "`":
            close = start + 1
            while close < len(text) and text[close] != "`":
                close += 2 if text[close] == "\\" else 1
            inner = _Reader(re.sub(r"\\([`$\\])", r"\1", text[start + 1 : close]), self.found, self.unclear)
            inner.commands("", depth + 1)
            self.at = close + 1
        elif variable := _VARIABLE.match(text, start):
            self.at = variable.end()
        elif text.startswith(("${", "$'", '$"', "$["), start):
            self.unclear.append("an expansion of a kind of its own")
            close = text.find({"{": "}", "[": "]"}.get(text[start + 1], text[start + 1]), start + 2)
            self.at = close + 1 if close >= 0 else len(text)
        else:
            self.at += 1
        return text[start : self.at]
