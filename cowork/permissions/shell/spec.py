"""What a command may look like: the flags it may have, which take a value, and what its operands are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from cowork.core.frozen import frozen
from cowork.permissions.shell.literal import Argument

# text | number | width (of what is printed) | list (of columns) | letter | when (a date)
# | apart (a text, never in one word with its flag) | path | glob (of names to search) | format (of git)
# | lines (of git: RANGE:FILE)
Kind = str
Check = Callable[[Set[str], Sequence[str]], str]  # flags seen and operands -> why not
_MANY = 1_000


class Look(Protocol):
    """What a judgement may look up; each answer is empty, or why not."""

    def path(self, argument: Argument) -> str: ...
    def file(self, argument: Argument) -> str: ...
    def named(self, argument: Argument) -> str: ...
    def program(self, name: str) -> str: ...
    def search(self, argument: Argument, *, hidden: bool, wanted: Sequence[str] = ()) -> str: ...
    def at(self, folder: str) -> Look: ...
    def git(self) -> str: ...
    def commits(self, named: Sequence[str], after: int | None) -> bool: ...
    def shows(self, named: Sequence[str], after: int | None, *, commits: bool) -> str: ...
    def searches(self) -> str: ...
    def password(self) -> str: ...
    def logged(self) -> str: ...
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
    ordered: bool = False  # a flag after its first operand is an operand to it, or a flag of what that names


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
    ordered: bool = False,
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
        ordered,
    )


@dataclass(slots=True)
class Parsed:
    """The words of a command as its own parser takes them, or `why` that is not known."""

    flags: set[str] = field(default_factory=set)
    values: list[tuple[str, Kind, Argument]] = field(default_factory=list)  # with the word they came by
    operands: list[Argument] = field(default_factory=list)
    after: int | None = None  # how many operands came before `--`, if it was there
    why: str = ""


def fits(rules: Spec, name: str, args: Sequence[Argument], look: Look) -> str:
    """Empty when flags and operands are what the spec allows."""
    if rules.operands == "words":
        return "its text is a pattern the shell expands" if any(word.glob for word in args) else ""
    parsed = parse(rules, name, args)
    return parsed.why or every(look.named, _perhaps_files(rules, args, parsed)) or judged(rules, name, parsed, look)


def _perhaps_files(rules: Spec, args: Sequence[Argument], parsed: Parsed) -> list[Argument]:
    """Flags behind an operand, and values of flags: to another program of this name they may be files."""
    if rules.operands in ("text", "none"):
        return []
    flags = next((at for at, word in enumerate(args) if not word.text.startswith("-")), len(args))
    pattern = parsed.operands[:1] if rules.operands == "pattern" else []
    return [word for word in args[flags:] if word not in pattern and word.text != "/"]  # a `/` stands between fields


def parse(rules: Spec, name: str, args: Sequence[Argument]) -> Parsed:
    """Which words are flags, which their values, which operands; nothing is looked up."""
    found = Parsed()
    values = rules.values or {}
    rest = list(args)
    while rest and not found.why:
        word = rest.pop(0)
        text = word.text
        if text == "--" and not word.glob:
            found.after = len(found.operands)
            found.operands += rest
            break
        if not text.startswith("-") or text == "-":
            found.operands.append(word)
        elif rules.ordered and found.operands:
            found.why = f"{name} takes {text} for no flag of its own where it stands"
        elif word.glob and not _glob_value(text, values):
            found.why = f"{text} could expand to any flag"
        elif not (rules.numeric and re.fullmatch(r"-[0-9]{1,9}", text)) and (why := _flag(rules, text, rest, found)):
            found.why = f"{name} {text}: {why}"
    return found


def judged(rules: Spec, name: str, parsed: Parsed, look: Look) -> str:
    """Why these words are not only reading, with what they name looked up."""
    wanted: list[str] = []
    for by, kind, word in parsed.values:
        if why := _valued(kind, word, look):
            return f"{name} {by}: {why}"
        if kind == "glob" and not word.text.startswith("!"):
            wanted += _alternatives(word.text) or [_ALL]
    return _operands(rules, name, parsed.operands, parsed.flags, look) or _search(rules, parsed, wanted, look)


def _glob_value(text: str, values: Mapping[str, Kind]) -> bool:
    """`--include=*.py`: whatever the shell finds for it is still a value of that flag."""
    name, equals, _ = text.partition("=")
    return bool(equals) and values.get(name) == "text" and not re.search(r"[*?]", name)


def _flag(rules: Spec, text: str, rest: list[Argument], found: Parsed) -> str:
    """Take the flags a word stands for, and its value; says why it is not allowed."""
    values = rules.values or {}
    if text in rules.flags:
        found.flags.add(text)
        return ""
    name, equals, value = text.partition("=")
    kind = values.get(name) or values.get(f"{name}=")
    if equals and kind and name.startswith("--"):
        found.flags.add(name)
        found.values.append((text, kind, Argument(value)))
        return ""
    if text in values:
        if text.startswith("--") and rest and rest[0].text.startswith("-") and not _NUMBER.fullmatch(rest[0].text):
            return "its value looks like a flag, and may be one"
        return _take(text, text, values[text], "", rest, found)
    if text.startswith("--") or len(text) < 3:
        return "not a flag known to only read"
    for at, letter in enumerate(text[1:], 1):  # a cluster such as -la or -n5
        flag = f"-{letter}"
        if flag not in rules.flags:
            if flag not in values:
                return f"{flag} is not a flag known to only read"
            return _take(text, flag, values[flag], text[at + 1 :], rest, found)
        found.flags.add(flag)
    return ""


def _take(text: str, flag: str, kind: Kind, attached: str, rest: list[Argument], found: Parsed) -> str:
    found.flags.add(flag)
    if attached and kind == "apart":
        return f"what follows {flag} may be more flags"
    if not attached and not rest:
        return "its value is missing"
    found.values.append((text, kind, Argument(attached) if attached else rest.pop(0)))
    return ""


_NUMBER = re.compile(r"[+-]?[0-9]{1,12}[kKMGb]?")
_SHAPES = {
    "number": (_NUMBER, "its value is not a number"),
    "width": (re.compile(r"[0-9]{1,4}"), "its value is not a small number"),
    "list": (re.compile(r"(?:[0-9]{1,5}(?![0-9])|[,-])+"), "its value is not a list of small numbers"),
    "letter": (re.compile(r"[A-Za-z]"), "its value is not one letter"),
    "when": (re.compile(r"[^=]*"), "a date that names a file of time zones"),
}
_SUFFIX = re.compile(r"(?:[\w*/-]*/)?[\w*-]+\.(?:\w+|\{\w+(?:,\w+)*\})")
_ALL = "*"  # a glob that may bring hidden files back


def _valued(kind: Kind, word: Argument, look: Look) -> str:
    """Why this value is not allowed."""
    text = word.text
    if word.glob:
        return "its value is a pattern the shell expands"
    if kind in _SHAPES:
        shape, why = _SHAPES[kind]
        return "" if shape.fullmatch(text) else why
    if kind == "format" and re.search(r"%[-+ ]?G|signature", text):
        return "it would run gpg to check signatures"
    if kind == "format" and re.search(r"\(\*?raw|remotename", text):
        return "it may show a whole file, or an address with a password"
    if kind == "format" and re.search(r"[0-9]{5}", text):
        return "it may print more than a machine can hold"
    if kind == "lines" and ":" in text:
        return look.path(Argument(text.rpartition(":")[2]))
    return look.path(word) if kind == "path" else ""


def _alternatives(glob: str) -> list[str]:
    """The patterns of names a plain glob stands for, which it brings back where they are ignored; none if not plain."""
    if not _SUFFIX.fullmatch(glob) or "env" in glob.casefold():
        return []
    stem, _, suffix = glob.rpartition("/")[2].rpartition(".")
    return [f"{stem}.{one}" for one in suffix.strip("{}").split(",")]


def _operands(rules: Spec, name: str, operands: Sequence[Argument], seen: set[str], look: Look) -> str:
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
    if rules.operands.endswith("refs"):  # `HEAD:a.py` and `:0:a.py` name files too
        if any(word.text.startswith(":(") for word in paths):
            return "a path with git's own magic"
        return every(look.path, [*paths, *(Argument(p, w.glob) for w in paths for p in w.text.split(":")[1:] if p)])
    odd = next((word.text for word in paths if word.text[:1] in ("+", "@")), "")
    if odd:
        return f"{odd} may be more than the name of a file"
    return every(look.file if rules.operands == "files" else look.path, paths)  # to some programs `-` is a file


def _search(rules: Spec, parsed: Parsed, wanted: Sequence[str], look: Look) -> str:
    """Why the folders it would go through must not be searched; `wanted` names are read even where they are ignored."""
    if not (parsed.flags & rules.deep or rules.searches):
        return ""
    first = int(rules.operands.startswith("pattern") and not parsed.flags & rules.pattern_flags)
    named = [word for word in parsed.operands[first:] if word.text != "-"]
    hidden = bool(parsed.flags & rules.deep) or _ALL in wanted
    return every(lambda word: look.search(word, hidden=hidden, wanted=wanted), named or [Argument(".")])


def every(judge: Callable[[Argument], str], words: Sequence[Argument]) -> str:
    return next((why for word in words if (why := judge(word))), "")
