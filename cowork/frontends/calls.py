"""A tool call in one line."""

from __future__ import annotations

from typing import Any

from cowork.core.format import one_line

LOOKS = ("Read", "Grep", "Glob", "LS")  # a run of these is folded
FEW = 2  # looks that are told one by one
_SUBJECTS = ("file_path", "pattern", "command", "description", "path", "label", "bash_id", "shell_id")
_QUOTED = frozenset({"pattern", "command", "description", "label"})


def call_text(name: str, given: dict[str, Any], *, cwd: str = "", width: int = 72) -> str:
    """A call in a few words: `Read shop/a.py`, `Grep "guest"`, `Bash "git push"`."""
    name = one_line(name, 40)
    for subject in _SUBJECTS:
        value = given.get(subject)
        if not isinstance(value, str) or not value.strip():
            continue
        text = value.removeprefix(f"{cwd}/") if cwd and subject not in _QUOTED else value
        text = one_line(text, width)
        return f'{name} "{text}"' if subject in _QUOTED else f"{name} {text}"
    return name
