"""Reads a shell text into simple commands, at any depth, in linear time. What it cannot read is said, never skipped.

What this finds is a hint, what a deny rule is compared with, and what people are shown: boxes hold commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cowork.core.frozen import frozen
from cowork.core.hygiene import visible

MAX_CHARS, MAX_COMMANDS, MAX_DEPTH = 16_384, 1_000, 24

_BLANK = r"(?:[ \t]|\\\n)+"
_TOKEN = re.compile(
    rf"(?P<blank>{_BLANK})|(?P<comment>(?<![^ \t\n;&|(])#[^\n]*)|(?P<counts>\(\(.*?(?:\)\)|\Z))"
    rf"|(?:[0-9]+|\{{\w+\}})?(?P<redirect><<<|<<-?|<>|<&|<(?!\()|>>|>\||>&|>(?!\()|&>>?)(?:{_BLANK})?"
    r"|(?P<operator>&&|\|\||;;|\|&|[;&|\n()])",
    re.DOTALL,
)
_EXPANSION = (
    r"(?P<counts>\$\(\(.*?(?:\)\)|\Z))|(?P<opens>\$\()|`(?P<ticks>(?:[^`\\]|\\.)*)`?"
    r"|(?P<variable>\$(?:[A-Za-z_]\w*|[0-9@*#?$!_-]|\{[A-Za-z_]\w*\}))|(?P<strange>\$(?:\{[^}]*\}?|\[[^]]*\]?))"
)
_WORD = re.compile(  # a piece of a word, from the left
    r"(?P<plain>[A-Za-z0-9_./:@%+,^=~-]+)|'(?P<single>[^']*)'?|(?P<double>\")|\\(?P<escape>.?)|\$'(?P<ansi>[^'\\]*)'"
    rf"|{_EXPANSION}|(?P<process>[<>]\()|(?P<quirk>\$(?:'[^']*'?|\"[^\"]*\"?))|(?P<other>[^ \t\n;&|()<>])",
    re.DOTALL,
)
_QUOTED = re.compile(rf"{_EXPANSION}|(?P<text>[^\"\\$`]+|\$)|\\(?P<escape>[$`\"\\\n])|(?P<stroke>\\)", re.DOTALL)
_AS_WRITTEN = ("plain", "ansi", "escape", "text", "stroke")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=")
# Nothing but literal words, joined by `|`, `&&`, `||`, `;` and line ends; output may go to /dev/null.
_SHELL_WORDS = "if then elif else fi do done while until esac in coproc time for select case function"
_NO_SHELL_WORD = rf"(?:time[ \t]+(?!-))*(?!(?:{_SHELL_WORDS.replace(' ', '|')})(?![^\s;|&]))"
_NAME = re.compile(rf"\s*{_NO_SHELL_WORD}(?:/?(?:[\w.+@-]+/)*\w[\w.+-]*|:)(?![\w/])", re.ASCII)
_QUOTES = r"'[^']*'|\"(?:[^\"$`\\]|\\.|\$(?![\w@*#?$!({\[-]))*\""
_ARGUMENT = rf"(?!['\"]*~)(?:[A-Za-z0-9_./:@%+,^=~*?-]|{_QUOTES}|\$(?![\w@*#?$!({{\['\"-]))+"
_TO_NOTHING = r"[0-9]*(?:(?:&?>>?|>[|&])[ \t]*/dev/null(?![^\s;|&<>])|[<>]&(?:[0-9]+-?|-))"
_NEXT = re.compile(rf"[ \t]*{_TO_NOTHING}|[ \t]+{_ARGUMENT}", re.DOTALL | re.ASCII)
_JOINT, _END = re.compile(r"[ \t]*(?:&&|\|\||\|&?|;;?|\n)", re.ASCII), re.compile(r"[ \t]*;?;?\s*", re.ASCII)
_HEREDOC, _SUBSTITUTION = re.compile(r"<<-?[ \t]*[^\s<]"), re.compile(r"[$<]\(|`")
_AFTER = {"time": re.compile(r"(?:[ \t]+-[A-Za-z-]+)+"), "coproc": re.compile(r"[ \t]+\w+(?=[ \t]+[{(])")}


def names(text: str) -> frozenset[str]:
    """A set of words, written as they would be read aloud."""
    return frozenset(text.split())


_COUNTS = names("let declare typeset local export test [ [[ printf read unset")
HEADS = names("for select case function")  # first words of a heading, up to `do`, `{` or the end of a line
_SKIPPED = names(_SHELL_WORDS) - HEADS | names("! { }")


@frozen
class Word:
    """`text` is the value when `literal`, else the value with what is only known at run time left as written."""

    text: str
    literal: bool = True
    quoted: bool = False


@dataclass(slots=True)
class SimpleCommand:
    """One simple command: its words, the variables set before it, where it writes and reads, what it is fed."""

    words: list[Word] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)
    fed: list[str] = field(default_factory=list)  # bodies of here-documents and here-strings
    text: str = ""
    start: int = 0  # where it begins
    top: bool = False
    background: bool = False
    after: str = ""  # the operator before it
    function: str = ""  # the function in whose body it stands

    @property
    def is_heading(self) -> bool:  # it only says over what a loop or a function goes
        return bool(self.words) and self.words[0].text in HEADS and not self.words[0].quoted


@frozen
class ShellText:
    """The commands of a text; `opaque` says what could not be read or followed, `limited` that some may be missing."""

    commands: tuple[SimpleCommand, ...]
    opaque: str = ""
    limited: bool = False
    literal: bool = False  # it is nothing but literal words, so that allow rules may cover its commands one by one
    strangers: tuple[SimpleCommand, ...] = ()  # commands that may run any of their words


def parse(text: str) -> ShellText:
    """Every simple command of a shell text."""
    if len(text) > MAX_CHARS:
        return ShellText((), f"the command is longer than {MAX_CHARS:,} characters", limited=True)
    reader = _Reader(text, [], [])
    try:
        reader.commands("", 0)
    except OverflowError as limit:
        return ShellText(tuple(reader.found), str(limit), limited=True)
    if reader.asleep and any(c.words and c.words[0].text in _COUNTS for c in reader.found):
        reader.unclear.append("a substitution in quotes, which what counts would run")
    reader.unclear += ["a word that goes on in the next line"] if re.search(r"\S\\\n", text) else []
    if any(_HEREDOC.search(line) and _SUBSTITUTION.search(line) for line in text.split("\n")):
        reader.unclear.append("a here-document beside a substitution")
    literal = not reader.unclear and visible(text) == text and _is_literal(text)
    return ShellText(tuple(reader.found), "".join(reader.unclear[:1]), literal=literal)


def _is_literal(text: str) -> bool:
    """Whether it is literal commands from one end to the other; a piece that was read is not read in another way."""
    at, joint = 0, re.match("", text)
    while joint and (name := _NAME.match(text, joint.end())):
        at = name.end()
        while piece := _NEXT.match(text, at):
            at = piece.end()
        joint = _JOINT.match(text, at)
    return at > 0 and _END.fullmatch(text, at) is not None


class _Reader:
    """Reads from left to right; what stands in brackets is read in the same way, one level deeper."""

    def __init__(self, text: str, found: list[SimpleCommand], unclear: list[str]) -> None:
        self.text, self.at, self.found, self.unclear = text, 0, found, unclear
        self.command = SimpleCommand()
        self.cases = 0  # how many `case` are open, whose patterns end in a bracket
        self.heredocs: list[tuple[str, str, bool, SimpleCommand]] = []
        self.functions: list[str] = []
        self.asleep = False  # there is a substitution in quotes

    def commands(self, end: str, depth: int) -> None:
        """Read commands up to `end`, a closing bracket or the end of the text."""
        if depth > MAX_DEPTH:
            raise OverflowError(f"brackets are nested more than {MAX_DEPTH} deep")
        outer = self.command, self.cases
        self.command, self.cases = SimpleCommand(start=self.at), 0
        while self.at < len(self.text):
            token = _TOKEN.match(self.text, self.at)
            if token is None:
                self._take_word(depth)
                continue
            kind, sign = token.lastgroup, token[token.lastgroup or 0]
            if sign == ")" and end and not self.cases:
                break
            self.at = token.end()
            self.unclear += ["arithmetic"] if kind == "counts" else []
            if kind == "redirect":
                self._redirect(sign, depth)
            elif kind == "operator":
                self._operator(sign, depth)
        self._keep(depth)
        self.unclear += ["a here-document without its end"] if self.heredocs and not depth else []
        self.unclear += [f"a missing {end}"] if end and self.at >= len(self.text) else []
        self.at += len(end)
        self.command, self.cases = outer

    def _take_word(self, depth: int) -> None:
        """Read one word: an assignment, a word of the shell, or one of the command."""
        command = self.command
        command.start = command.start if command.words or command.assigned else self.at
        sets = None if command.words else _ASSIGNMENT.match(self.text, self.at)
        word = self.word(depth)
        text = "" if word.quoted else word.text
        if sets:
            command.assigned.append(sets[1])
        elif text in ("do", "{") and command.is_heading:
            self.functions += [command.words[-1].text] if command.words[0].text == "function" else []
            self._keep(depth)
        elif command.words or command.assigned or text not in _SKIPPED:
            command.words.append(word)
            self.cases += text == "case" and len(command.words) == 1
        else:
            self.cases -= text == "esac" and self.cases > 0
            if text in _AFTER and (skipped := _AFTER[text].match(self.text, self.at)):
                self.at = skipped.end()
            self.functions = self.functions[:-1] if text == "}" else self.functions

    def _operator(self, sign: str, depth: int) -> None:
        """End the command before an operator, but for a pattern of `case`; go into brackets."""
        command = self.command
        command.background = sign == "&"
        if sign == "\n":
            self._bodies()
        elif sign == "(" and len(command.words) == 1 and (close := re.compile(r"[ \t]*\)").match(self.text, self.at)):
            self.at = close.end()
            self.functions = [*self.functions, command.words.pop().text]
        elif sign == "(":
            self.unclear += ["brackets among words"] if command.words else []
            self.commands(")", depth + 1)
        if sign == ")" and self.cases:
            self.command = SimpleCommand()
        self._keep(depth, sign)

    def _keep(self, depth: int, after: str = "") -> None:
        command, self.command = self.command, SimpleCommand(after=after, start=self.at)
        if command.words or command.assigned or command.writes or command.reads:
            command.text = "" if command.is_heading else self.text[command.start : self.at].strip().rstrip(";&|\n ")
            command.top = depth == 0
            command.function = self.functions[-1] if self.functions else ""
            self.found.append(command)
        if len(self.found) > MAX_COMMANDS:
            raise OverflowError(f"more than {MAX_COMMANDS:,} commands")

    def _redirect(self, operator: str, depth: int) -> None:
        word, command = self.word(depth), self.command
        if operator in ("<<", "<<-"):
            self.unclear += [] if word.literal else ["a here-document whose end is not plain"]
            self.heredocs.append((word.text, "\t*" if operator == "<<-" else "", word.quoted, command))
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
            close = re.compile(rf"^{tabs}{re.escape(end)}(?:\n|\Z)", re.MULTILINE).search(self.text, self.at)
            body = self.text[self.at : close.start() if close else None]
            self.at = close.end() if close else len(self.text)
            self.unclear += [] if close else ["a here-document without its end"]
            command.fed.append(body)
            if not quoted and re.search(r"\$[({]|`|\\\n", body):
                self.unclear.append("commands in a here-document")

    def word(self, depth: int) -> Word:
        start, word = self.at, self._pieces(_WORD, depth)
        if self.at == start:  # a redirection to nothing
            self.at += 1
            self.unclear.append("a character out of place")
        return Word(word.text, quoted=word.quoted) if word.text in ("[", "[[", "]", "]]") else word

    def _pieces(self, pattern: re.Pattern[str], depth: int) -> Word:
        """Read a word, or what stands in double quotes, piece by piece."""
        parts, literal, quoted = list[str](), True, False
        while piece := pattern.match(self.text, self.at):
            kind, text = piece.lastgroup or "", piece[piece.lastgroup or 0]
            begin, self.at = self.at, piece.end()
            quoted = quoted or kind in ("single", "double", "ansi") or (kind == "escape" and text != "\n")
            if kind == "single":
                self.asleep = self.asleep or bool(re.search(r"\$\(|`", text))  # a builtin that counts would run it
                self.unclear += [] if len(piece[0]) == len(text) + 2 else ["a ' that does not end"]
            elif kind == "double":
                inner = self._pieces(_QUOTED, depth)
                text, literal = inner.text, literal and inner.literal
                self.unclear += ['a " that does not end'] if self.at >= len(self.text) else []
                self.at += 1
            elif kind == "other":
                literal = literal and text not in "*?[{"
            elif kind not in _AS_WRITTEN:
                text, literal = self._expansion(piece, begin, depth), False
            parts.append(text.replace("\n", "") if kind == "escape" else text)
        return Word("".join(parts), literal, quoted)

    def _expansion(self, piece: re.Match[str], begin: int, depth: int) -> str:
        """Step over a variable or a substitution, whose commands are kept; gives it as written."""
        kind = piece.lastgroup
        if kind in ("opens", "process"):
            self.commands(")", depth + 1)
        elif kind == "ticks" and piece["ticks"]:
            inner = _Reader(re.sub(r"\\([`$\\])", r"\1", piece["ticks"]), self.found, self.unclear)
            inner.commands("", depth + 1)
        elif kind not in ("variable", "ticks"):
            self.unclear.append("arithmetic" if kind == "counts" else "an expansion of a kind of its own")
        return self.text[begin : self.at]
