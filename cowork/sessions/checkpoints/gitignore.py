"""What .gitignore files say, for walking a workspace with or without git.

Plain names and `*.ext` are looked up, not matched, so that a tree of many files stays cheap. Patterns are turned into
regular expressions that cannot backtrack without bound: these files come from strangers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_MAX_RULES = 5_000
_MAX_PATTERN = 500
_MAX_CACHED = 10_000
_BRACKETS = re.compile(r"([!^]?\]?(?:\[:[a-z]+:\]|[^\]])*)\]")
_NAMED = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "blank": r" \t", "xdigit": "0-9a-fA-F", "punct": r"!-/:-@\[-`{-~", "word": r"\w",
}  # fmt: skip
_MAX_DEEP = 3  # `**` in one pattern


Pattern = tuple[int, re.Pattern[str], bool]  # number of the rule, pattern, folders only


@dataclass(slots=True)
class IgnoreRules:
    """The rules of one file, which hold below the folder it is in; the last rule that matches decides."""

    negated: list[bool] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    folder_names: dict[str, int] = field(default_factory=dict)
    suffixes: dict[str, int] = field(default_factory=dict)
    unanchored: list[Pattern] = field(default_factory=list)
    anchored: list[Pattern] = field(default_factory=list)
    by_name: dict[str, int] = field(default_factory=dict)  # what was found before, as names repeat

    def verdict(self, name: str, path: str, *, folder: bool) -> bool | None:
        """True: ignored; False: kept by a `!` rule; None: no rule is about it. `path` is relative to the file."""
        key = name + "/" if folder else name
        best = self.by_name.get(key)
        if best is None:
            best = self._best_by_name(name, folder=folder)
            if len(self.by_name) < _MAX_CACHED:
                self.by_name[key] = best
        for number, pattern, folders_only in self.anchored:
            if number > best and (folder or not folders_only) and pattern.fullmatch(path):
                best = number
        return None if best < 0 else not self.negated[best]

    def _best_by_name(self, name: str, *, folder: bool) -> int:
        best = self.names.get(name, -1)
        if folder:
            best = max(best, self.folder_names.get(name, -1))
        dot = name.find(".")
        while dot >= 0:
            best = max(best, self.suffixes.get(name[dot:], -1))
            dot = name.find(".", dot + 1)
        for number, pattern, folders_only in self.unanchored:
            if number > best and (folder or not folders_only) and pattern.fullmatch(name):
                best = number
        return best


def parse(text: str) -> IgnoreRules:
    """The rules a .gitignore file holds."""
    rules = IgnoreRules()
    for line in text.splitlines()[:_MAX_RULES]:
        _add(rules, line)
    return rules


Chain = tuple[tuple[IgnoreRules, int], ...]
"""Rules that hold in a folder, nearest first, each with the length of the path prefix of the folder it is from."""


def ignored(chain: Chain, name: str, path: str, *, folder: bool) -> bool:
    """Whether the nearest rule that is about this entry ignores it."""
    for rules, prefix in chain:
        verdict = rules.verdict(name, path[prefix:], folder=folder)
        if verdict is not None:
            return verdict
    return False


def _add(rules: IgnoreRules, line: str) -> None:
    pattern = _trimmed(line)
    if not pattern or pattern.startswith("#") or len(pattern) > _MAX_PATTERN:
        return
    negated = pattern.startswith("!")
    pattern = pattern[negated:]
    folders_only = pattern.endswith("/")
    pattern = pattern.rstrip("/") if folders_only else pattern
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not pattern or pattern.count("**") > _MAX_DEEP:
        return
    number = len(rules.negated)
    if not anchored and not re.search(r"[*?\[\\]", pattern):
        (rules.folder_names if folders_only else rules.names)[pattern] = number
    elif not anchored and not folders_only and re.fullmatch(r"\*\.[^*?\[\\]+", pattern):
        rules.suffixes[pattern[1:]] = number
    else:
        try:
            compiled = (number, re.compile(_regex(pattern), re.DOTALL), folders_only)
        except re.error:
            return
        (rules.anchored if anchored else rules.unanchored).append(compiled)
    rules.negated.append(negated)


def _trimmed(line: str) -> str:
    """Without the spaces at the end, unless the last is escaped."""
    bare = line.rstrip(" ")
    return bare + " " if bare.endswith("\\") and len(bare) < len(line) else bare


def _regex(pattern: str) -> str:
    parts = pattern.split("/")
    out: list[str] = []
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            out.append(".+" if last else "(?:[^/]+/)*")
        else:
            out.append(_component(part) + ("" if last else "/"))
    return "".join(out)


def _component(part: str) -> str:
    """One name of a path. Each star takes the first place where what follows fits and never looks back."""
    pieces = list(_pieces(part))
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle if piece) + f"[^/]*{last}"


def _pieces(part: str) -> Iterable[str]:
    """The regular expressions between the stars."""
    piece, at = "", 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            yield piece
            piece = ""
        elif char == "?":
            piece += "[^/]"
        elif char == "[":
            found = _BRACKETS.match(part, at)
            piece += _class(found[1]) if found else re.escape(char)
            at = found.end() if found else at
        elif char == "\\" and at < len(part):
            piece += re.escape(part[at])
            at += 1
        else:
            piece += re.escape(char)
    yield piece


def _class(body: str) -> str:
    negated = body[:1] in ("!", "^")
    inner = ""
    for named, char in re.findall(r"\[:([a-z]+):\]|(.)", body[negated:], re.DOTALL):
        inner += _NAMED.get(named, "") if named else f"\\{char}" if char in "\\[]^&~|" else char
    return f"(?!/)[{'^' if negated else ''}{inner}]"
