"""Answers as short Markdown with `path:line` evidence."""

from __future__ import annotations

from collections.abc import Sequence

from cowork.providers.offline.languages import Definition, family_of

WHAT_I_AM = (
    "I am the built-in offline model: rules and search, no network, no cost. I can say where things are defined and "
    "used, outline a repo or a file, list, read and count, find TODOs, say what changed, run the tests and report what "
    "failed, and make literal edits (replace, rename, add a line, create a file)."
)
NEEDS_MODEL = (
    "Reasoning, explanations, reviews and writing code need a real model: `/model` here, or `cowork config init`."
)
WHY = "Why something is so needs a real model (`/model` here, or `cowork config init`). What search can find of it:"
_FENCE = {
    "python": "python",
    "script": "js",
    "go": "go",
    "rust": "rust",
    "c": "c",
    "ruby": "ruby",
    "shell": "sh",
    "make": "make",
}


def hello() -> str:
    return (
        f"{WHAT_I_AM}\n\n{NEEDS_MODEL}\n\n"
        "Try: “what is in this repo?”, “where is `main` defined?”, “how do I run the tests?”"
    )


def unknown(question: str, looked_for: str = "") -> str:
    """Said plainly when the question is beyond search."""
    searched = f" I searched for {looked_for} and found nothing." if looked_for else ""
    return f"I cannot answer that.{searched} {WHAT_I_AM}\n\n{NEEDS_MODEL}"


def fence(text: str, path: str) -> str:
    """Code in a fence that text cannot break out of."""
    mark = "```"
    while mark in text:
        mark += "`"
    return f"{mark}{_FENCE.get(family_of(path), '')}\n{text}\n{mark}"


def code(text: str) -> str:
    """A name in backticks."""
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def places(found: Sequence[Definition], most: int = 6) -> str:
    """Definitions, a line each."""
    rows = [f"- `{d.at}` {d.kind} {code(shortened(d.text))}" for d in found[:most]]
    if len(found) > most:
        rows.append(f"- and {len(found) - most} more")
    return "\n".join(rows)


def shortened(text: str, width: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def plural(count: int, noun: str) -> str:
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith(("s", "ch")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"
