"""What `/` and `@` offer: commands with their help, files found by a few letters, agents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from cowork.core.format import one_line
from cowork.core.frozen import frozen
from cowork.frontends.host import Command
from cowork.frontends.repl.view.styled import Line, clip, clip_start, option, pad, width, window

ROWS = 8
_LIMIT = 40
_CHUNK = 4_000  # paths looked at between two chances for a key to be echoed
_AT = re.compile(r"(?:^|(?<=[\s(\[\"'`]))@([^\s@]*)$")
_SLASH = re.compile(r"^/([\w:-]*)$")
_ARGUMENT = re.compile(r"^/([\w:-]+)\s+(\S*)$")


@frozen
class Item:
    """One thing on offer: what is put into the input, and one line about it."""

    text: str
    help: str = ""
    kind: str = "file"  # file | agent | resource | command | argument | history
    final: bool = True  # nothing needs to follow, so Enter may send at once


@dataclass(slots=True)
class Menu:
    """The list under the input. `start` is how many characters before the cursor an item replaces."""

    items: list[Item] = field(default_factory=list)
    start: int = 0
    index: int = 0

    @property
    def chosen(self) -> Item | None:
        return self.items[self.index] if self.items else None

    def move(self, step: int) -> None:
        if self.items:
            self.index = (self.index + step) % len(self.items)

    def lines(self, columns: int, rows: int = ROWS) -> list[Line]:
        if not self.items or rows <= 0:
            return []
        rows = min(rows, ROWS)
        shown = self.items[window(self.index, len(self.items), rows)]
        room = min(max((width(one_line(item.text)) for item in shown), default=0), max(8, columns * 3 // 5))
        out: list[Line] = []
        for item in shown:
            text = one_line(item.text)
            text = clip_start(text, room) if item.kind == "file" else clip(text, room)
            line = option(pad(text, room), chosen=item is self.chosen)
            if item.help and columns > room + 12:
                line.append(("dim", f"  {clip(one_line(item.help), columns - room - 6)}"))
            out.append(line)
        if len(self.items) > rows:
            more = len(self.items) - rows
            out.append([("dim", f"    {more} more{'' if more < _LIMIT - ROWS else ' or so'}")])
        return out


@frozen
class Context:
    """What is being completed before the cursor."""

    kind: str  # command | argument | at
    query: str
    command: str = ""


def context_of(before: str) -> Context | None:
    """What the text before the cursor asks for, if anything."""
    if found := _SLASH.match(before):
        return Context("command", found[1])
    if found := _ARGUMENT.match(before):
        return Context("argument", found[2], found[1])
    if found := _AT.search(before):
        return Context("at", found[1])
    return None


def match_commands(commands: Iterable[Command], query: str) -> list[Item]:
    """Commands whose name starts with the query, then those that hold it."""
    query = query.lower()
    found = [command for command in commands if in_order(query, command.name.lower())]
    found.sort(key=lambda command: (not command.name.lower().startswith(query), command.name))
    return [Item(f"/{c.name}", f"{c.arguments}  {c.help}".strip(), "command", not c.arguments) for c in found]


def match_words(words: Iterable[str], query: str, kind: str = "argument") -> list[Item]:
    query = query.lower()
    found = sorted((w for w in words if query in w.lower()), key=lambda word: not word.lower().startswith(query))
    return [Item(w, "", kind) for w in found[:_LIMIT] if w.lower() != query or len(found) > 1]


class FileIndex:
    """Paths prepared for search: the shortest first, so that scans can stop early."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = sorted(paths, key=len)
        self._low = [path.lower() for path in self.paths]
        self._names = [low.rstrip("/").rpartition("/")[2] for low in self._low]

    async def search(self, query: str, limit: int = _LIMIT) -> list[str]:
        """The best paths: name starts with it, name holds it, path holds it, its letters in order."""
        query = query.lower()
        if not query:
            return self.paths[:limit]
        found: dict[int, None] = {}
        letters = re.compile("".join(f"[^{re.escape(c)}]*{re.escape(c)}" for c in query))
        tests = (
            lambda i: self._names[i].startswith(query),
            lambda i: query in self._names[i],
            lambda i: query in self._low[i],
            lambda i: letters.match(self._names[i]),
            lambda i: letters.match(self._low[i]),
        )
        for test in tests:
            for start in range(0, len(self.paths), _CHUNK):
                indexes = range(start, min(start + _CHUNK, len(self.paths)))
                hits = (i for i in indexes if i not in found and test(i))
                found.update(dict.fromkeys(islice(hits, limit - len(found))))
                if len(found) >= limit:
                    return [self.paths[i] for i in found]
                await asyncio.sleep(0)
        return [self.paths[i] for i in found]


def match_agents(agents: Sequence[tuple[str, str]], query: str) -> list[Item]:
    query = query.lower()
    return [Item(f"@{name}", f"agent · {about}", "agent") for name, about in agents if in_order(query, name.lower())][
        :6
    ]


def agents_and_files(agents: Sequence[Item], files: Sequence[Item], query: str) -> list[Item]:
    """One list: agents that are named first, those that only hold the letters somewhere after the files."""
    if not query:
        return [*files[:4], *agents, *files[4:]]
    named = [agent for agent in agents if query.lower() in agent.text]
    return [*named, *files, *(agent for agent in agents if agent not in named)]


def in_order(letters: str, text: str) -> bool:
    """Whether the letters stand in the text in this order."""
    rest = iter(text)
    return all(letter in rest for letter in letters)
