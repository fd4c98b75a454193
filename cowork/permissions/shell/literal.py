"""The only shell texts that may ever run unasked: literal words joined by `|`, `&&`, `||`, `;` and line ends.

Nothing is expanded here except a plain `*` or `?` in an argument. Every other character with a meaning to a shell,
and every character that is not what it looks like, makes the text not literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cowork.core.frozen import frozen
from cowork.core.hygiene import visible
from cowork.permissions.shell.words import names

MAX_CHARS = 2_000

_BLANK = re.compile(r"[ \t]+")
_OPERATOR = re.compile(r"&&|\|\||[|;\n]")
_END = r"(?![^ \t\n;|&])"
_QUIET = re.compile(rf"(?:(?:[12]?>|2>>|>>)[ \t]?/dev/null|2>&1|1?>&2|<[ \t]?/dev/null){_END}")
_INPUT = re.compile(r"<[ \t]?(?=[A-Za-z0-9_./'\"])")
_PIECE = re.compile(
    r"(?P<plain>[A-Za-z0-9_./:=@%+,^-]+)"
    r"|(?P<ref>(?<=[A-Za-z0-9^_])~(?=[0-9]|[ \t\n;|&]|\Z)|(?<=@)\{[0-9]+\})"  # HEAD~1, HEAD@{1}
    r"|(?P<glob>[*?])"
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[^"\\$`\n]|\$(?="))*)"'
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*|\[|:")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


@frozen
class Argument:
    """A word: its text, whether it holds a `*` or `?` the shell will expand, and whether it was quoted."""

    text: str
    glob: bool = False
    quoted: bool = False


@frozen
class Simple:
    """One literal simple command; `after` is the operator before it."""

    name: str
    args: tuple[Argument, ...]
    text: str
    after: str = ""
    reads: tuple[Argument, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        return (self.name, *(argument.text for argument in self.args))


class NotLiteral(Exception):
    """Why a text is more than literal words."""


def literal(text: str) -> list[Simple]:
    """The commands of a literal text; NotLiteral says what else is in it."""
    if len(text) > MAX_CHARS:
        raise NotLiteral(f"longer than {MAX_CHARS:,} characters")
    if visible(text) != text:
        raise NotLiteral("it holds hidden or control characters")
    commands = _commands(text.strip(" \t\n"))
    if not commands:
        raise NotLiteral("it is empty")
    _second_opinion(text, commands)
    return commands


def _commands(text: str) -> list[Simple]:
    commands: list[Simple] = []
    words: list[Argument] = []
    reads: list[Argument] = []
    at = start = 0
    after = ""
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
            continue
        if quiet := _QUIET.match(text, at):
            at = quiet.end()
            continue
        if operator := _OPERATOR.match(text, at):
            commands.append(_simple(words, reads, text[start:at], after))
            after, at = operator.group(), operator.end()
            while after in ("\n", "|", "&&", "||", ";") and at < len(text) and text[at] in " \t\n":
                at += 1
            words, reads, start = [], [], at
            continue
        if source := _INPUT.match(text, at):
            word, at = _word(text, source.end())
            reads.append(word)
            continue
        word, at = _word(text, at)
        words.append(word)
    if words or reads or after not in ("", ";"):
        commands.append(_simple(words, reads, text[start:], after))
    return commands


def _word(text: str, at: int) -> tuple[Argument, int]:
    parts: list[str] = []
    glob = quoted = False
    first = at
    if text.startswith("!", at) and (at + 1 == len(text) or text[at + 1] in " \t"):
        return Argument("!"), at + 1
    if bracket := re.compile(r"\\([()])(?=[ \t]|\Z)").match(text, at):  # find's brackets, a word of their own
        return Argument(bracket.group(1), quoted=True), bracket.end()
    while at < len(text) and (piece := _PIECE.match(text, at)):
        kind = piece.lastgroup or ""
        value = piece.group(kind)
        if kind in ("plain", "ref", "glob") and not value.isascii():
            raise NotLiteral("it holds a letter outside ASCII that is not quoted")
        glob = glob or kind == "glob"
        quoted = quoted or kind in ("single", "double")
        parts.append(value)
        at = piece.end()
    if at < len(text) and text[at] not in " \t\n;|":
        raise NotLiteral(_why(text[at], text[at + 1 : at + 2]))
    if at == first:
        raise NotLiteral(_why(text[at], text[at + 1 : at + 2]))
    if glob and (quoted or re.search(r"(?:^|/)\.[^/]*[*?]", "".join(parts))):
        # What is quoted is no pattern, and before bash 5.2 `.*` is also the folder above.
        raise NotLiteral("a pattern of hidden or quoted names")
    return Argument("".join(parts), glob, quoted), at


def _simple(words: list[Argument], reads: list[Argument], text: str, after: str) -> Simple:
    if not words:
        raise NotLiteral("an operator without a command")
    first = words[0]
    if _ASSIGNMENT.match(first.text):
        raise NotLiteral("it sets a variable")
    if first.glob or first.quoted or not _NAME.fullmatch(first.text):
        raise NotLiteral("the name of the command is not a plain word")
    return Simple(first.text, tuple(words[1:]), text.strip(), after, tuple(reads))


def _why(char: str, following: str) -> str:
    if char == "$":
        return "a command substitution" if following == "(" else "an expansion"
    known = {"`": "a command substitution", ">": "a redirection that may write", "<": "an input redirection"}
    known |= {"&": "a command in the background", "(": "a subshell", "{": "braces", "}": "braces", "~": "a home folder"}
    known |= {"\\": "an escape", "#": "a comment", "!": "a history mark or negation", "[": "a bracket pattern"}
    known |= {"'": "a quote that does not end", '"': "a quotation with an expansion, an escape or no end"}
    return known.get(char, f"the character {char!a}")


# ---------------------------------------------------------------- tree-sitter must read it the same way

_parse: Callable[[bytes], Any] | None = None
_NODES = names("program list pipeline command command_name word number string string_content raw_string")
_NODES |= names("concatenation redirected_statement file_redirect file_descriptor")


def _second_opinion(text: str, commands: list[Simple]) -> None:
    """A grammar of bash must find the same commands. The text is well formed, so slow error recovery cannot start."""
    global _parse
    if _parse is None:
        _parse = _parser()
    found: list[str] = []
    stack = [_parse(text.encode()).root_node]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing or (node.is_named and node.type not in _NODES):
            raise NotLiteral("the parser reads it in another way")
        if node.type == "command_name":
            found.append(node.text.decode())
        stack.extend(reversed(node.children))
    if found != [command.name for command in commands]:
        raise NotLiteral("the parser reads it in another way")


def _parser() -> Callable[[bytes], Any]:
    import tree_sitter
    import tree_sitter_bash

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    return parser.parse
