"""Rules as people write them, `Tool(pattern)`, what each matches, and the book of all rules of a run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.core.ports import EXACTLY, Family, ToolFacts
from cowork.core.workspace import Workspace, load_json, start_of
from cowork.private_files import write_private
from cowork.tool_names import OPTIONAL_TOOLS, PEER_NAMES, names_tool

BEYOND = ("Network", "Outside")  # not tools: commands that may have the network, or run outside the sandbox
_OF_COMMANDS = ("Bash", *BEYOND)  # speak of shell commands, whichever tool runs them
_FAMILIES: dict[str, tuple[Family, ...]] = {  # words of rules that speak of every tool of a family
    "Read": ("read", "search"),
    "Edit": ("write",),
    "Task": ("delegate",),
    "Agent": ("delegate",),
}
_WORDS = {word.casefold(): word for word in (*_FAMILIES, *_OF_COMMANDS)}
_NAME = r"[A-Za-z][A-Za-z0-9_-]*"
_RULE = re.compile(rf"\s*({_NAME}|mcp__[A-Za-z0-9_-]*\*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_BETWEEN = re.compile(rf"(?<=\)),\s*(?={_NAME}\()")
_EXAMPLES = "Write Tool or Tool(pattern), such as Bash(git commit:*), Bash(npm test), Edit(src/**), Read(.env),"
_EXAMPLES += " Task(explore), mcp__git__*, Network(npm ci:*), Outside(docker:*)."
_MOST_PROGRAM = 16 << 20  # bytes of a granted program


@frozen
class Rule:
    """One rule. An empty pattern covers every call of the tool."""

    tool: str
    pattern: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool

    def covers(self, tool: ToolFacts) -> bool:
        """Whether it names the tool, or speaks of all tools of its family: Read of those that read, Edit of writers."""
        return names_tool(self.tool.casefold(), tool.name.casefold()) or self.speaks_of(tool.family)

    def speaks_of(self, family: Family) -> bool:
        """Whether it holds for whatever a tool of that family does."""
        return family in _FAMILIES.get(self.tool, ())

    def names_files(self, family: Family) -> bool:
        """Whether it speaks of particular files that a tool of that family touches."""
        return bool(self.pattern) and self.speaks_of(family)


def parse(text: str) -> Rule:
    """The rule a text stands for; UserError says what is allowed. Whether there is such a tool is not asked here."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise UserError(f"{text!r} is not a rule.", _EXAMPLES)
    tool, pattern = _WORDS.get(match[1].casefold(), PEER_NAMES.get(match[1], match[1])), match[2]
    if pattern is None or pattern.strip() in ("*", ":*", "**"):
        return Rule(tool)
    pattern = pattern.strip()
    if not pattern:
        raise UserError(f"{text!r} has an empty pattern.", _EXAMPLES)
    if tool in _OF_COMMANDS:
        words = words_of(pattern)[0]
        if not words:
            why = "names no command" if words == () else "has quotes that do not match"
            raise UserError(f"{text!r} {why}.", _EXAMPLES)
        if any(re.search(r"[*?]", word) for word in words):
            raise UserError(f"{text!r} has a * inside.", "A command rule is exact, or a prefix that ends in :* .")
        if any(word in ("&&", "||", ";", "|", "&") for word in words):
            raise UserError(f"{text!r} is a compound command.", "A rule covers one simple command; write one for each.")
    return Rule(tool, pattern)


def check_tools(rules: Iterable[Rule], tools: Mapping[str, ToolFacts]) -> None:
    """Raise UserError for a rule that no tool can ever meet, with these tools or others: a slip of the pen."""
    families = {name.casefold(): family for name, family in OPTIONAL_TOOLS.items()}
    families |= {name.casefold(): tool.family for name, tool in tools.items()}
    for rule in rules:
        name = rule.tool.casefold()
        if rule.tool in _WORDS.values():
            continue
        family = families.get(name, "other" if name.startswith("mcp__") else None)
        if family is None:
            raise UserError(f"{str(rule)!r} names no tool.", f"Tools: {', '.join((*tools, *BEYOND))}.")
        if rule.pattern and family in ("exec", "other"):
            raise UserError(f"{rule.tool} takes no pattern.", f"Write {rule.tool} alone.")


def host_of(url: str) -> str:
    """The host a URL names; empty when it names none that a rule could."""
    host = ""
    with suppress(ValueError):
        host = (urlsplit(url).hostname or "").rstrip(".")
    return host if re.fullmatch(r"[a-z0-9._:-]+", host) else ""


def url_matches(rule: Rule, url: str, *, wide: bool) -> bool:
    """Whether a rule such as `WebFetch(domain:python.org)` speaks of a URL; `wide` ones of hosts below it too."""
    domain, host = rule.pattern.casefold().removeprefix("domain:").strip().rstrip("."), host_of(url)
    if not rule.pattern or not host:
        return wide or not rule.pattern
    below = domain.startswith("*.") and host.endswith(domain[1:])
    return host == domain or below or (wide and host.endswith(f".{domain}"))


@frozen
class Rules:
    """All rules of a run. Whichever layer a rule came from, deny beats ask and ask beats allow."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = ()) -> Rules:
        """Rules from their texts; UserError for one that is none."""
        return cls(tuple(map(parse, allow)), tuple(map(parse, ask)), tuple(map(parse, deny)))


def parse_all(text: str) -> list[Rule]:
    """One or more rules joined by commas, as an "always" for a compound command shows them."""
    return [parse(part) for part in _BETWEEN.split(text)]


@lru_cache(maxsize=1024)
def words_of(pattern: str) -> tuple[tuple[str, ...] | None, bool]:
    """The words of a command rule, and whether more may follow."""
    prefix = pattern.endswith((":*", " *"))
    try:
        return tuple(shlex.split(pattern[:-2] if prefix else pattern)), prefix
    except ValueError:
        return None, prefix


def allows(rule: Rule, argv: Sequence[str], cwd: Path, root: Path) -> bool:
    """Whether an allow rule covers these exact words, from the first on. A program's path is read from `root`."""
    words, prefix = words_of(rule.pattern)
    if not words or not argv:
        return not rule.pattern
    if "/" in argv[0] and "/" in words[0]:
        same = os.path.normpath(cwd / argv[0]) == os.path.normpath(root / os.path.expanduser(words[0]))
    else:
        same = argv[0] == words[0]
    rest, others = tuple(argv[len(words) :]), rf"{_RUNS_OTHER}|{_RUNS_OTHER_OF.get(os.path.basename(argv[0]), '(?!)')}"
    if not same or tuple(argv[1 : len(words)]) != words[1:] or (rest and not prefix):
        return False
    return not any(re.fullmatch(others, word, re.DOTALL) for word in rest)


# Words that make a program run or write something else than it says, so that a prefix rule does not cover them.
_RUNS_OTHER = (
    r"--?(?:upload-p|rece|exec|toolex|vett|ext-d|textc|open-f|output|sendm|extc|config|script-s|node-o|python-ex|eval"
    r"|overri|requir)[\w-]*(?:=.*)?"
)
_RUNS_OTHER_OF = {
    "git": r"-[A-Za-z]*[xO].*|foreach|run",
    "make": r"\w+[+:?!]?=.*|-[A-Za-z]*[Ef].*|--(?:f|mak|e).*",
    "tox": r"exec|e|-[xc].*",
}


def path_matches(rule: Rule, path: Path, root: Path, *, fold: bool) -> bool:
    """Whether a rule covers a path. `fold`: also in another case, and by the real place the pattern leads to."""
    if not rule.pattern:
        return True
    if fold and "/" not in rule.pattern.rstrip("/") and not path.is_relative_to(root):
        root = Path("/")  # a name alone is denied wherever it lies, also in folders that were added
    return any(regex.fullmatch(_fold_case(str(path), fold)) for regex in _regexes(rule.pattern, str(root), fold))


@lru_cache(maxsize=1024)
def _regexes(pattern: str, root: str, fold: bool) -> tuple[re.Pattern[str], ...]:
    """A pattern as expressions over absolute paths; it also covers what lies below a folder it names."""
    anywhere = "/" not in pattern.rstrip("/") and not pattern.startswith("~")
    whole = os.path.expanduser(pattern) if pattern.startswith("~") else pattern.removeprefix("./")
    base = "" if whole.startswith("/") else root
    whole = re.sub(r"(?<=[^/*])(?:/\*\*)*/*$", "", whole)  # `src/**` is `src` and all below it, like `src`
    found = {_expression(base, whole, anywhere)}
    if fold and not anywhere:
        fixed = re.split(r"[*?]", whole)[0].rpartition("/")[0] if re.search(r"[*?]", whole) else whole
        real = os.path.realpath(os.path.join(base or "/", fixed))
        found.add(_expression(real, whole[len(fixed) :].strip("/"), False))
    return tuple(re.compile(_fold_case(expression, fold), re.DOTALL) for expression in sorted(found))


def _expression(base: str, pattern: str, anywhere: bool) -> str:
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(signs.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern))
    middle = "/(?:.*/)?" if anywhere else "/" if body and not body.startswith("/") else ""
    return f"{re.escape(base.rstrip('/'))}{middle}{body}(?:/.*)?"


def _fold_case(text: str, fold: bool) -> str:
    return unicodedata.normalize("NFC", text).lower() if fold else text


class RuleBook:
    """The rules in force; what the person grants is added, and kept for this folder if they say so."""

    def __init__(self, workspace: Workspace, rules: Rules, file: Path | None = None) -> None:
        self.workspace, self.rules, self.file = workspace, rules, file
        self.granted: list[tuple[str, Rule]] = []  # (who asked, what was granted), of the whole tree
        self.exact: set[str] = set()  # texts granted for the session as they were shown
        self.kept: tuple[Rule, ...] = ()  # what was granted for every run in this folder
        self._programs: dict[str, str] = {}  # path of a granted program -> what it held then
        if file:
            try:
                stored, root = _read(file), str(workspace.root)
                self.kept = tuple(rule for text in stored["allow"].get(root, ()) for rule in parse_all(str(text)))
                self._programs = dict(stored.get("programs", {}).get(root, {}))
            except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
                raise UserError(f"{file} cannot be read as rules: {error}.", "Correct or delete it.") from error

    @property
    def of_dialogs(self) -> tuple[Rule, ...]:
        """Rules that were granted in a dialog, now or earlier."""
        return (*self.kept, *(rule for _, rule in self.granted))

    def all(self) -> Rules:
        return Rules(self.rules.allow + self.of_dialogs, self.rules.ask, self.rules.deny)

    def grant(self, agent: str, text: str, *, forever: bool) -> None:
        """Remember a grant for this run, or for every run in this folder."""
        if text.startswith(EXACTLY):
            self.exact.add(text.removeprefix(EXACTLY))
            return
        rules = parse_all(text) if text else []
        self.granted += [(agent, one) for one in rules if (agent, one) not in self.granted]
        for rule in rules:
            words = words_of(rule.pattern)[0] if rule.tool in _OF_COMMANDS else None
            if words and (file := in_workspace(words[0], self.workspace.root, self.workspace.writable)):
                self._programs[str(file)] = _content(file)
        if forever and rules:
            self.kept += tuple(one for one in rules if self.file and one not in self.kept)
            self._save()

    def forget(self, text: str) -> bool:
        """Take a grant back, of this run and of this folder; False when it was none."""
        known, kept = text in map(str, self.of_dialogs), self.kept
        self.granted = [one for one in self.granted if str(one[1]) != text]
        self.kept = tuple(one for one in kept if str(one) != text)
        if self.kept != kept:
            self._save()
        return known

    def has_changed(self, program: Path) -> bool:
        """Whether a granted program of the workspace is not what it was when it was granted."""
        return self._programs.get(str(program)) != _content(program)

    def _save(self) -> None:
        """Write the rules whole or not at all, for the user alone; those of other folders are kept."""
        if self.file:
            stored, root = _read(self.file), str(self.workspace.root)
            stored["allow"][root] = [str(rule) for rule in self.kept]
            stored.setdefault("programs", {})[root] = self._programs
            write_private(self.file, json.dumps({"version": 1, **stored}, indent=1))


def _read(path: Path) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = load_json(path)
    except FileNotFoundError:
        return {"allow": {}}
    if not isinstance(stored.get("allow"), dict):
        raise ValueError("it has no allow")
    return stored


def _content(path: Path) -> str:
    """What a program is: the hash of its content and where its name leads."""
    real = os.path.realpath(path)
    with suppress(OSError):
        return hashlib.sha256(os.fsencode(real) + b"\0" + start_of(Path(real), _MOST_PROGRAM)).hexdigest()
    return ""


def in_workspace(name: str, cwd: Path, roots: Sequence[Path]) -> Path | None:
    """The file a program with a path stands for, if it lies where commands may write."""
    path = Path(os.path.normpath(cwd / name))
    return path if "/" in name and any(path.is_relative_to(root) for root in roots) else None
