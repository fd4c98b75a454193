"""Slash commands of the user's own: `commands/*.md`, a prompt each, with an optional head that describes it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from cowork.app.chat.host import ChatHost
from cowork.app.trust import is_trusted_now
from cowork.config import paths
from cowork.core.plain_file import start_of
from cowork.frontends.host import Command, CommandResult, Prompt

MAX_COMMAND_FILE = 100_000
_HEAD = re.compile(r"---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^(description|argument-hint|argument_hint)[ \t]*:[ \t]*(.+)$", re.MULTILINE)


def user_commands(host: ChatHost, taken: set[str]) -> list[Command]:
    """Those of the user and of a trusted project; `$ARGUMENTS` stands for what is typed after the name."""
    found = {} if host.options.bare else _commands_in(paths.commands_dir(host.environ))
    if host.run.trusted:
        of_project = _commands_in(host.run.root / ".claude" / "commands", host.run.root / ".cowork" / "commands")
        if is_trusted_now(host.run.root, host.options, host.environ):  # after they were read: nothing changed before
            found |= of_project
    return [command for name, command in found.items() if name not in taken]


def _commands_in(*folders: Path) -> dict[str, Command]:
    found: dict[str, Command] = {}
    for path in (p for folder in folders if folder.is_dir() for p in sorted(folder.glob("*.md"))):
        try:
            raw = start_of(path, MAX_COMMAND_FILE + 1)
        except OSError:  # a pipe, or a link to nowhere
            continue
        if len(raw) <= MAX_COMMAND_FILE:
            found[path.stem] = command_of(path.stem, raw.decode("utf-8", "replace").replace("\r\n", "\n"))
    return found


def command_of(name: str, text: str) -> Command:
    """The command a file's text makes; its head is read here and never sent."""
    text = text.removeprefix("\ufeff")
    head = _HEAD.match(text)
    fields = {key: value.strip().strip("\"'") for key, value in _FIELD.findall(head[1] or "")} if head else {}
    body = text[head.end() :].strip() if head else text.strip()
    first = next((line.strip("# ") for line in body.splitlines() if line.strip("# -")), name)
    hint = fields.get("argument-hint") or fields.get("argument_hint") or "[arguments]"
    return Command(name, (fields.get("description") or first)[:70], _sends(name, body), hint, sends=True)


def _sends(name: str, text: str) -> Callable[[str], Awaitable[CommandResult]]:
    async def run(rest: str) -> CommandResult:
        filled = text.replace("$ARGUMENTS", rest) if "$ARGUMENTS" in text else f"{text}\n\n{rest}".strip()
        return Prompt(filled, label=f"/{name} {rest}".strip())

    return run
