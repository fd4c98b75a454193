"""Tells a tool call in one line: what it is about, as short as people read it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

LONGEST = 400
_LONG_PATTERN = 24
_BAR = "\0"  # between alternatives that are kept together
_SUBJECTS = ("file_path", "path", "command", "pattern", "description", "label", "query", "url", "bash_id", "id", "name")


def flat(text: str) -> str:
    """On one line, and not longer than anybody would read."""
    line = " ".join(text[: 4 * LONGEST].split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def call_line(args: Mapping[str, Any], cwd: str = "") -> str:
    """For any tool: the first argument that says what a call is about, else all of them."""
    for key in _SUBJECTS:
        if isinstance(value := args.get(key), str) and value.strip():
            return short_path(value, cwd)
    return json.dumps(dict(args), ensure_ascii=False, default=str) if args else ""


def path_line(args: Mapping[str, Any], cwd: str = "") -> str:
    """For a tool that works on a file or a folder."""
    return short_path(str(args.get("file_path") or args.get("path") or "."), cwd)


def short_path(path: str, cwd: str) -> str:
    """The path relative to the working directory when it lies in it."""
    return path.removeprefix(cwd.rstrip("/") + "/") if cwd else path


def short_pattern(pattern: str) -> str:
    """A regular expression as people read it: a long one is its words, with `…` for what is between them."""
    if len(pattern) <= _LONG_PATTERN:
        return pattern
    text = re.sub(r"\\([\"'./:#<>=-])", r"\1", pattern[:LONGEST])
    text = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.[*+?]|\{\d*,?\d*\}", "…", text)
    for _ in range(len(text)):  # from the inside out
        text, found = re.subn(r"\((?:\?[:=!]|\?<[=!])?([^()]*)\)[*+?]*", _alternatives, text)
        if not found:
            break
    text = re.sub(r"[…^$*+?|]*…[…^$*+?|]*", "…", re.sub(r"[\^$*+?]", "…", text)).replace(_BAR, "|")
    return text if text.strip("…") else pattern


def short_glob(glob: str) -> str:
    """A glob whose lists of more than four are cut to three."""
    return re.sub(r"\{((?:[^{},]*,){3})(?:[^{},]*,)+[^{},]*\}", r"{\1…}", glob)


def _alternatives(group: re.Match[str]) -> str:
    """The words of a group; of many only the first two."""
    parts = re.split(rf"[|{_BAR}]", group[1])
    words = [word for part in parts if (word := re.sub(r"[^\w …]+", "", part).strip("… "))]
    if not words:
        return "…"
    kept = words if len(words) <= 3 else [*words[:2], "…"]
    return f"…{_BAR.join(kept)}…"
