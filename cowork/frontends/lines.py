"""Short words for what happened: a call in a line, tokens, money and time as people read them."""

from __future__ import annotations

from typing import Any

from cowork.core.hygiene import visible

LOOKS = ("Read", "Grep", "Glob", "LS")  # a run of these is folded
FEW = 2  # looks that are told one by one
_SUBJECTS = ("file_path", "pattern", "command", "description", "path", "label", "bash_id", "shell_id")
_QUOTED = frozenset({"pattern", "command", "description", "label"})


def call(name: str, given: dict[str, Any], *, cwd: str = "", width: int = 72) -> str:
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


def one_line(text: str, width: int = 200) -> str:
    """The text on one line, safe to draw, cut at `width` characters."""
    flat = visible(" ".join(text[: width * 4].split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def tokens(count: int) -> str:
    """`950 tok`, `14.1k tok`, `2.3M tok`."""
    if count < 1000:
        return f"{count} tok"
    return f"{count / 1000:.1f}k tok" if count < 999_950 else f"{count / 1_000_000:.1f}M tok"


def money(usd: float | None) -> str:
    """`$0.031`; a price that nobody knows is said so."""
    if usd is None:
        return "cost unknown"
    if usd == 0:
        return "$0.00"
    return f"${usd:.3f}" if usd < 1 else f"${usd:,.2f}"


def seconds(ms: float) -> str:
    """`0.4 s`, `8 s`, `41 s`, `3 min 5 s`."""
    if ms < 9_950:
        return f"{ms / 1000:.1f}".removesuffix(".0") + " s"
    whole = round(ms / 1000)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
