"""Answers as short Markdown with `path:line` evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cowork.providers.offline.languages import family_of
from cowork.providers.offline.plans import Line

WHAT_I_AM = (
    "I am the built-in offline model: rules and search, no network, no cost. I can say where things are defined and "
    "used, outline a repo or a file, list, read and count, find TODOs, say what changed, and run the tests and report "
    "what failed. I change no files."
)
NEEDS_MODEL = (
    "Reasoning, explanations, reviews and writing code need a real model: `/model` here, or `cowork config init`."
)
WHY = "Why something is so needs a real model (`/model` here, or `cowork config init`). What search can find of it:"
HELLO = (
    f"{WHAT_I_AM}\n\n{NEEDS_MODEL}\n\n"
    "Try: “what is in this repo?”, “where is `main` defined?”, “how do I run the tests?”"
)
UNKNOWN = f"I cannot answer that. {WHAT_I_AM}\n\n{NEEDS_MODEL}"
_FENCES = {"script": "js", "shell": "sh"} | {f: f for f in ("python", "go", "rust", "c", "ruby", "make")}


def fence(text: str, path: str) -> str:
    """Code in a fence that text cannot break out of."""
    mark = "```"
    while mark in text:
        mark += "`"
    return f"{mark}{_FENCES.get(family_of(path), '')}\n{text}\n{mark}"


def code(text: str) -> str:
    """A name in backticks."""
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def bullets(rows: Sequence[str], most: int = 40, total: int = 0) -> str:
    """A list, with how many more there are."""
    total = max(total, len(rows))
    more = [f"- and {total - most} more"] if total > most else []
    return "\n".join([*(f"- {row}" for row in rows[:most]), *more])


def evidence(lines: Iterable[Line]) -> list[str]:
    """A row for each line a search found: its place and its text."""
    return [f"`{line.at}` {code(shortened(line.text))}" for line in lines]


def shortened(text: str, width: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def plural(count: int, noun: str) -> str:
    noun, of, rest = noun.partition(" with ")
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith(("s", "ch")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}{of}{rest}"
