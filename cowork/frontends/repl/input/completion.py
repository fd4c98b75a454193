"""What `/` and `@` offer under the input: commands with their help, files found by a few letters, agents, history."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from cowork.core.format import one_line
from cowork.core.front_matter import AT, BARE, mention
from cowork.core.frozen import frozen
from cowork.frontends.host import Command, Host
from cowork.frontends.repl.input.composer import Composer
from cowork.frontends.styled import Line, clip, clip_start, option, pad, width, window

ROWS = 8
_LIMIT = 40
_CHUNK = 1_000  # paths looked at between two chances for a key to be echoed
_CONTEXT = re.compile(
    rf'^/(?P<command>[\w:-]*)$|^/(?P<of>[\w:-]+)\s+(?P<argument>\S*)$|{AT}(?P<at>"[^"\n]*|(?:{BARE})*)$'
)
_FRESH_S = 20.0  # how long the list of files is good for


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
        room = min(max(width(one_line(item.text)) for item in shown), max(8, columns * 3 // 5))
        out: list[Line] = []
        for item in shown:
            text = (clip_start if item.kind == "file" else clip)(one_line(item.text), room)
            out.append(option(pad(text, room), chosen=item is self.chosen))
            if item.help and columns > room + 12:
                out[-1].append(("dim", f"  {clip(one_line(item.help), columns - room - 6)}"))
        if (more := len(self.items) - rows) > 0:
            out.append([("dim", f"    {more} more{'' if more < _LIMIT - ROWS else ' or so'}")])
        return out


def context_of(before: str) -> tuple[str, str, str] | None:
    """(command | argument | at, its letters, the command of an argument) that the text before the cursor asks for."""
    found = _CONTEXT.search(before)
    kind = found and found.lastgroup
    return (kind, found[kind], found["of"] or "") if found and kind else None


def match_commands(commands: Iterable[Command], query: str) -> list[Item]:
    """Commands whose name starts with the query, then those that hold it."""
    query = query.lower()
    found = [command for command in commands if in_order(query, command.name.lower())]
    found.sort(key=lambda command: (not command.name.lower().startswith(query), command.name))
    return [Item(f"/{c.name}", f"{c.arguments}  {c.help}".strip(), "command", not c.arguments) for c in found]


class FileIndex:
    """Paths prepared for search: the shortest first, so that scans can stop early."""

    def __init__(self, paths: Iterable[str]) -> None:
        low = ((path, path.lower()) for path in sorted(paths, key=len))
        self._paths = [(path, lower, lower.rstrip("/").rpartition("/")[2]) for path, lower in low]

    async def search(self, query: str, limit: int = _LIMIT) -> list[str]:
        """The best paths: name starts with it, name holds it, path holds it, its letters in order."""
        query = query.lower()
        letters = re.compile("".join(f"[^{re.escape(c)}]*{re.escape(c)}" for c in query))
        tests: tuple[Callable[[str, str], object], ...] = (
            lambda name, path: name.startswith(query),
            lambda name, path: query in name,
            lambda name, path: query in path,
            lambda name, path: letters.match(name),
            lambda name, path: letters.match(path),
        )
        found: list[list[str]] = [[] for _ in tests]
        for number, (path, low, name) in enumerate(self._paths, 1):
            rank = next((place for place, test in enumerate(tests) if test(name, low)), None)
            if rank is not None:
                found[rank].append(path)
            if len(found[0]) >= limit:
                break
            if number % _CHUNK == 0:
                await asyncio.sleep(0)
        return list(chain.from_iterable(found))[:limit]


def match_agents(agents: Sequence[tuple[str, str]], query: str) -> list[Item]:
    found = [(name, about) for name, about in agents if in_order(query.lower(), name.lower())]
    return [Item(f"@{name}", f"agent · {about}", "agent") for name, about in found[:6]]


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


class Completer:
    """What is on offer for the text before the cursor."""

    def __init__(
        self, host: Host, composer: Composer, commands: Callable[[], Iterable[Command]], redraw: Callable[[], None]
    ) -> None:
        self.menu = Menu()
        self.searching = False  # Ctrl+R: the input is a query for the history
        self._host, self._composer, self._commands, self._redraw = host, composer, commands, redraw
        self._index = FileIndex(())
        self._indexed_at = -1e9
        self._task: asyncio.Task[None] | None = None
        self._quiet = False
        self._draft = ""
        composer.buffer.on_text_changed += lambda _: self._update()
        composer.buffer.on_cursor_position_changed += lambda _: self._check_place()

    def quiet(self, change: Callable[[], object]) -> None:
        """Change the text without offering anything for it, or even looking: some choices are read from files."""
        self._quiet = True
        try:
            change()
        finally:
            self._quiet = False
            self._forget()

    def accept(self) -> bool:
        """Put the chosen item into the input; True when Enter should send the line as well."""
        item, buffer = self.menu.chosen, self._composer.buffer
        if self.searching:  # what nothing matches stays written, to be sent or changed
            self.searching = False
            found = item.text if item else ""
            self.quiet(lambda: self._composer.set(found, draft="" if found else self._composer.text))
            return False
        if item is None:
            return True
        start, goes_on, is_whole = self.menu.start, item.text.endswith(("/", ":")), self._before.endswith(item.text)
        sends = item.kind == "command" or (item.kind == "argument" and len(self.menu.items) == 1)
        space = "" if goes_on or buffer.document.text_after_cursor.startswith(" ") else " "
        self.quiet(lambda: buffer.delete_before_cursor(start))
        self.quiet(lambda: buffer.insert_text(item.text + space))
        if goes_on or not item.final:
            self._update()
        return is_whole or (sends and item.final)

    def close(self) -> bool:
        """Close the menu or the search; False when there was nothing to close."""
        was_open = self.searching or bool(self.menu.items)
        if self.searching:
            self.searching = False
            self.quiet(lambda: self._composer.set("", draft=self._draft))
        self._forget()
        return was_open

    def search_history(self) -> None:
        """Ctrl+R: what is typed narrows the history."""
        self._draft = self._composer.text
        self.searching = True
        self._update()

    @property
    def _before(self) -> str:
        return self._composer.buffer.document.text_before_cursor

    def _update(self) -> None:
        if self._quiet:
            return
        if self.searching:
            query = self._composer.text.lower()
            found = dict.fromkeys(entry for entry in reversed(self._composer.history.entries) if query in entry.lower())
            self.menu = Menu([Item(entry, "", "history") for entry in islice(found, _LIMIT)], len(query))
            return
        shown = self.menu
        self._forget()
        match context_of(self._before):
            case "at", query, _:
                self.menu = shown  # until there is another
                self._task = asyncio.ensure_future(self._offer_paths(query))
            case "command", query, _:
                self.menu = Menu(match_commands(self._commands(), query), len(query) + 1)
            case _, query, command:
                self._offer_arguments(command, query)

    def _check_place(self) -> None:
        """Close the menu when the cursor leaves what it is about."""
        if not self.searching and self.menu.items and context_of(self._before) is None:
            self._forget()

    def _offer_arguments(self, command: str, typed: str) -> None:
        takes = next((c for c in self._commands() if c.name == command and c.choices), None)
        choices, query = takes.choices() if takes and takes.choices else (), typed.lower()
        words = sorted((w for w in choices if query in w.lower()), key=lambda word: not word.lower().startswith(query))
        offered = [word for word in words[:_LIMIT] if word.lower() != query or len(words) > 1]
        is_last = takes is not None and " " not in takes.arguments  # no other word follows
        self.menu = Menu([Item(word, "", "argument", is_last) for word in offered], len(typed))

    async def _offer_paths(self, typed: str) -> None:
        query = typed.removeprefix('"')
        found = await self._host.resources(query)
        agents = [Item(f"@{text}", about, "resource") for text, about in found]
        agents += match_agents(self._host.agents(), query)

        async def show() -> None:
            paths = await self._index.search(query)
            if context_of(self._before) == ("at", typed, ""):
                files = [Item(mention(path), "", "file") for path in paths]
                self.menu = Menu(agents_and_files(agents, files, query), len(typed) + 1)
                self._redraw()

        await show()
        now = asyncio.get_running_loop().time()
        if now - self._indexed_at > _FRESH_S:
            self._indexed_at = now
            self._index = await asyncio.to_thread(FileIndex, await self._host.files())
            await show()

    def _forget(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.menu = Menu()
