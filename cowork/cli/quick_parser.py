"""The plain spellings of `cowork` and `cowork run`, parsed without loading typer.

It understands exact options only and gives up on anything else; then typer parses, and explains what is wrong. Both
read the table of `RunOptions`, and a test holds that they agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cowork.config.run_options import RunOptions, options_of

# The words that are commands and never prompts; a test holds the list equal to what typer knows.
COMMANDS = (
    "run", "agents", "extensions", "tools", "sessions", "cost", "report", "watch", "tasks", "flow", "config",
    "trust", "permissions", "doctor", "demo", "acp",
    "plugin", "hooks", "import", "mcp", "batch",
)  # fmt: skip

CONVERT: dict[str, Any] = {  # by the type of a field
    "str": str, "Path | None": Path, "int | None": int, "float | None": float, "tuple[str, ...]": str
}  # fmt: skip


def parse(argv: Sequence[str]) -> tuple[str, str | None, RunOptions] | None:
    """(command, prompt, options) of a plain command line; None when it is not plain."""
    argv = spell_out(argv)
    command = "run" if argv[:1] == ["run"] else "chat"
    table = {flag: entry for entry in options_of(chat=command == "chat") for flag in entry[3].flags}
    given: dict[str, Any] = {}
    words: list[str] = []
    rest = iter(argv[1:] if command == "run" else argv)
    for word in rest:
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        flag, equals, value = word.partition("=")
        if flag not in table or (equals and not flag.startswith("--")):
            return None
        name, kind, _, option = table[flag]
        if kind == "bool":
            if equals:
                return None
            given[name] = True
            continue
        if not equals:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
        if not value or (option.choices and value not in option.choices):
            return None
        try:
            converted = CONVERT[kind](value)
        except ValueError:
            return None
        given[name] = (*given.get(name, ()), converted) if kind == "tuple[str, ...]" else converted
    if len(words) > 1 or (command == "chat" and words and not is_prompt(words[0])):
        return None
    return command, words[0] if words else None, RunOptions(**given)


def spell_out(argv: Sequence[str]) -> list[str]:
    """`-p` or `--print` before or instead of a command is another way to say `run`."""
    before = list(argv[: argv.index("--")] if "--" in argv else argv)
    at = next((i for i, word in enumerate(before) if word in ("-p", "--print")), None)
    if at is None or any(word in COMMANDS for word in before[:at]):
        return list(argv)
    return ["run", *argv[:at], *argv[at + 1 :]]


def is_prompt(word: str) -> bool:
    """Whether a word where a command could stand opens the chat; one that looks like a command does not."""
    if any(character.isspace() for character in word):
        return True
    from difflib import get_close_matches

    return word not in COMMANDS and not get_close_matches(word.lower(), COMMANDS, n=1, cutoff=0.7)


def output_of(argv: Sequence[str]) -> str:
    """What `--output` asks for, however wrong the rest of a `cowork run` is: programs wait for an object then too."""
    words = "\0".join(spell_out(argv)).partition("\0--\0")[0]
    table = options_of(chat=False)
    forms = "|".join(next(option.choices for name, _, _, option in table if name == "output"))
    switches = "".join(
        flag[1] for _, kind, _, option in table if kind == "bool" for flag in option.flags if len(flag) == 2
    )
    found = re.findall(rf"(?<![^\0])(?:--output[=\0]|-[{switches}]*o\0?)({forms})(?![^\0])", words)
    return found[-1] if found and "run" in words.split("\0") else "text"
