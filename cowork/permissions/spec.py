"""What a command may look like: the flags it may have, which take a value, and what its operands are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Protocol

from cowork.core.frozen import frozen
from cowork.permissions.literal import Argument

Kind = str  # text | number | path | glob (of names to search) | format (of git)
Check = Callable[[Set[str], Sequence[str]], str]  # flags seen and operands -> why not
_MANY = 1_000


class Look(Protocol):
    """What a judgement may look up; each answer is empty, or why not."""

    def path(self, argument: Argument) -> str: ...
    def file(self, argument: Argument) -> str: ...
    def program(self, name: str) -> str: ...
    def search(self, argument: Argument, *, hidden: bool) -> str: ...
    def at(self, folder: str) -> Look: ...
    def git(self) -> str: ...
    def shows(self, words: Sequence[str]) -> str: ...
    def trusted(self) -> str: ...


@frozen
class Spec:
    """The flags a command may have (`values` take one), what its operands are and how many it may have."""

    flags: frozenset[str] = frozenset()
    values: Mapping[str, Kind] | None = None  # `--x=`: only as one word, for git takes no second one there
    operands: str = "paths"  # paths | files | refs | pattern (one text, then paths) | text | words (text, flags too)
    most: int = _MANY
    least: int = 0
    numeric: bool = False  # -5
    pattern_flags: frozenset[str] = frozenset()  # with one of these every operand is a path
    check: Check | None = None
    deep: frozenset[str] = frozenset()  # with one of these it reads whatever lies in its folders, hidden or not
    searches: bool = False  # it reads its folders, but what is hidden or ignored only with a flag of `deep`


def spec(
    flags: str = "",
    values: str = "",
    operands: str = "paths",
    *,
    most: int = _MANY,
    least: int = 0,
    numeric: bool = False,
    pattern_flags: str = "",
    check: Check | None = None,
    deep: str = "",
    searches: bool = False,
) -> Spec:
    """A spec from space-separated flags; a value flag is `-n`, `-n:number`, `-f:path` or `--pretty=:format`."""
    kinds = {name: kind or "text" for name, _, kind in (item.partition(":") for item in values.split())}
    return Spec(
        frozenset(flags.split()),
        kinds,
        operands,
        most,
        least,
        numeric,
        frozenset(pattern_flags.split()),
        check,
        frozenset(deep.split()),
        searches,
    )


def fits(rules: Spec, name: str, args: Sequence[Argument], look: Look) -> str:
    """Empty when flags and operands are what the spec allows."""
    operands: list[Argument] = []
    seen: set[str] = set()
    values = rules.values or {}
    rest = list(args)
    if rules.operands == "words":
        return "its text is a pattern the shell expands" if any(word.glob for word in args) else ""
    while rest:
        word = rest.pop(0)
        text = word.text
        if text == "--" and not word.glob:
            operands += rest
            break
        if not text.startswith("-") or text == "-":
            operands.append(word)
            continue
        if word.glob and not _glob_value(text, values):
            return f"{text} could expand to any flag"
        if rules.numeric and re.fullmatch(r"-[0-9]+", text):
            continue
        flag, why = _flag(rules, text, values, rest, look)
        if why:
            return f"{name} {text}: {why}"
        seen |= flag
    return _operands(rules, name, operands, seen, look)


def _glob_value(text: str, values: Mapping[str, Kind]) -> bool:
    """`--include=*.py`: whatever the shell finds for it is still a value of that flag."""
    name, equals, _ = text.partition("=")
    return bool(equals) and values.get(name) == "text" and not re.search(r"[*?]", name)


def _flag(
    rules: Spec, text: str, values: Mapping[str, Kind], rest: list[Argument], look: Look
) -> tuple[frozenset[str], str]:
    """The flags a word stands for, and why it is not allowed."""
    if text in rules.flags:
        return frozenset({text}), ""
    name, equals, value = text.partition("=")
    kind = values.get(name) or values.get(f"{name}=")
    if equals and kind and name.startswith("--"):
        return _valued({name}, kind, Argument(value), look)
    if text in values:
        if not rest:
            return frozenset(), "its value is missing"
        if text.startswith("--") and rest[0].text.startswith("-") and not _NUMBER.fullmatch(rest[0].text):
            return frozenset(), "its value looks like a flag, and may be one"
        return _valued({text}, values[text], rest.pop(0), look)
    if text.startswith("--") or len(text) < 3:
        return frozenset(), "not a flag known to only read"
    flags: set[str] = set()
    for at, letter in enumerate(text[1:], 1):  # a cluster such as -la or -n5
        flag = f"-{letter}"
        flags.add(flag)
        if flag in rules.flags:
            continue
        if flag not in values:
            return frozenset(), f"{flag} is not a flag known to only read"
        attached = text[at + 1 :]
        if not attached and not rest:
            return frozenset(), "its value is missing"
        return _valued(flags, values[flag], Argument(attached) if attached else rest.pop(0), look)
    return frozenset(flags), ""


_NUMBER = re.compile(r"[+-]?[0-9]+[kKMGb]?")
_SUFFIX = re.compile(r"(?:[\w*/-]*/)?[\w*-]+\.(?:\w+|\{\w+(?:,\w+)*\})")
WIDE = "a glob that may bring hidden files back"


def _valued(flags: set[str], kind: Kind, word: Argument, look: Look) -> tuple[frozenset[str], str]:
    """The flags seen with this value, and why the value is not allowed."""
    text = word.text
    if word.glob:
        return frozenset(), "its value is a pattern the shell expands"
    if kind == "number":
        return frozenset(flags), "" if _NUMBER.fullmatch(text) else "its value is not a number"
    if kind == "format" and re.search(r"%[-+ ]?G|signature", text):
        return frozenset(), "it would run gpg to check signatures"
    if kind == "glob" and not text.startswith("!") and not (_SUFFIX.fullmatch(text) and "env" not in text.casefold()):
        flags = flags | {WIDE}
    return frozenset(flags), look.path(word) if kind == "path" else ""


def _operands(rules: Spec, name: str, operands: list[Argument], seen: set[str], look: Look) -> str:
    if len(operands) > rules.most:
        return (
            f"{name} with more than {rules.most} operands may write" if rules.most else f"{name} takes no operands here"
        )
    if len(operands) < rules.least:
        return f"{name} without operands is not only reading"
    if rules.most < _MANY and any(word.glob for word in operands):
        return "its operand could expand to several"
    if rules.check and (why := rules.check(seen, [word.text for word in operands])):
        return why
    if rules.operands == "text":
        return "its text is a pattern the shell expands" if any(word.glob for word in operands) else ""
    paths = operands
    if rules.operands.startswith("pattern") and not (seen & rules.pattern_flags):
        if operands and operands[0].glob:
            return "its pattern would be expanded by the shell"
        paths = operands[1:]
    named = [word for word in paths if word.text != "-"]
    if rules.operands.endswith("refs"):  # `HEAD:a.py` and `:0:a.py` name files too
        if any(word.text.startswith(":(") for word in named):
            return "a path with git's own magic"
        return every(look.path, named + [Argument(p, w.glob) for w in named for p in w.text.split(":")[1:] if p])
    odd = next((word.text for word in named if word.text[:1] in ("+", "@")), "")
    if odd:
        return f"{odd} may be more than the name of a file"
    if why := every(look.file if rules.operands == "files" else look.path, named):
        return why
    if not (seen & rules.deep or rules.searches):
        return ""
    hidden = bool(seen & (rules.deep | {WIDE}))
    return every(lambda word: look.search(word, hidden=hidden), named or [Argument(".")])


def every(judge: Callable[[Argument], str], words: Sequence[Argument]) -> str:
    return next((why for word in words if (why := judge(word))), "")
