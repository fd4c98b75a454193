"""Reads a glob so that ripgrep does most of the work: where to start, which names, and what is left to check.

rg's own `-g` is not used to include files, for a match there beats .gitignore and `**/*` would bring back node_modules.
"""

from __future__ import annotations

import os
import re

from cowork.core.errors import ToolError
from cowork.core.frozen import frozen

_MAX_GLOB = 4_096
_MAGIC = re.compile(r"[*?\[\]{}\\]")


@frozen
class GlobPlan:
    """A glob, taken apart."""

    prefix: str  # the leading folders without wildcards
    name: str  # a glob every file's name matches; empty: any name
    regex: re.Pattern[str]  # for the path below `prefix`

    def accepts(self, path: str) -> bool:
        """Whether a whole path fits."""
        head = f"{self.prefix}/" if self.prefix else ""
        return path.startswith(head) and self.regex.fullmatch(path[len(head) :]) is not None


def plan(glob: str) -> GlobPlan:
    """Take a glob apart. Without a slash it names files at any depth, as in .gitignore."""
    glob = os.path.expanduser(glob.strip())
    if not glob:
        raise ToolError("INVALID_PARAM", "pattern is empty. Give a glob such as **/*.py.")
    try:
        re.compile(translate(glob))
    except (ValueError, re.error) as error:
        raise ToolError("INVALID_PARAM", f"pattern is not a glob: {error}.") from error
    if glob.endswith("/"):
        glob += "**"
    parts = split(glob.removeprefix("./"), "/")
    prefix: list[str] = []
    while len(parts) > 1 and not _MAGIC.search(parts[0]):
        prefix.append(parts.pop(0))
    if not prefix and len(parts) == 1:
        parts.insert(0, "**")
    name = "" if parts[-1] in ("*", "**") else parts[-1]
    folder = "/".join(prefix) or ("/" if prefix else "")
    return GlobPlan(folder, name, re.compile(translate("/".join(parts)), re.DOTALL))


def names(globs: list[str]) -> list[str]:
    """Options that keep rg to files of these names, without overruling .gitignore."""
    return [*(f"--type-add=cowork:{glob}" for glob in globs), "-tcowork"] if all(globs) and globs else []


def split(text: str, separators: str) -> list[str]:
    """Split at separators that stand outside braces and brackets."""
    parts, depth, start, i = [], 0, 0, 0
    while i < len(text):
        char = text[i]
        if char in separators and depth == 0:
            parts.append(text[start:i])
            start = i + 1
        depth += (char == "{") - (char == "}" and depth > 0)
        i += 2 if char == "\\" else 1
    return [*parts, text[start:]]


def translate(glob: str) -> str:
    """The regular expression of a glob: `*` and `?` stay within a folder, `**` does not, `{a,b}` is either."""
    if len(glob) > _MAX_GLOB:
        raise ValueError(f"a glob has at most {_MAX_GLOB:,} characters")
    out, i, depth = "", 0, 0
    while i < len(glob):
        char = glob[i]
        if glob.startswith("**", i):
            end = i + 2
            whole = (i == 0 or glob[i - 1] in "/{,") and (end == len(glob) or glob[end] in "/},")
            if whole and glob.startswith("/", end):
                out, i = out + "(?:.*/)?", end + 1
            else:
                out, i = out + ".*", end
            continue
        first = i + 2 if glob[i + 1 : i + 2] in ("!", "^") else i + 1
        close = glob.find("]", first + 1)
        if char == "[" and close > 0:
            body = re.escape(glob[first:close]).replace(r"\-", "-")
            out, i = out + f"[{'^' if first == i + 2 else ''}{body}]", close + 1
            continue
        if char == "\\" and i + 1 < len(glob):
            i += 1
            out += re.escape(glob[i])
        elif char == "{":
            depth, out = depth + 1, out + "(?:"
        elif char == "}" and depth:
            depth, out = depth - 1, out + ")"
        elif char == "," and depth:
            out += "|"
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char)
        i += 1
    if depth:
        raise ValueError(f"error parsing glob '{glob}': unclosed alternate group; missing '}}'")
    return out
