"""Keeps the menu under the input in step with what is typed: commands, files, agents, history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from cowork.frontends.host import Command, Host
from cowork.frontends.repl.input.completion import (
    Context,
    FileIndex,
    Item,
    Menu,
    agents_and_files,
    context_of,
    match_agents,
    match_commands,
    match_words,
)
from cowork.frontends.repl.input.composer import Composer

_FRESH_S = 20.0  # how long the list of files is good for
_HISTORY_SHOWN = 40


class Completer:
    """What is on offer for the text before the cursor."""

    def __init__(
        self, host: Host, composer: Composer, commands: Callable[[], Iterable[Command]], redraw: Callable[[], None]
    ) -> None:
        self.menu = Menu()
        self.searching = False  # Ctrl+R: the input is a query for the history
        self._host, self._composer, self._commands, self._redraw = host, composer, commands, redraw
        self._index: FileIndex | None = None
        self._indexed_at = -1e9
        self._task: asyncio.Task[None] | None = None
        self._silent = False
        self._draft = ""
        composer.buffer.on_text_changed += lambda _: self._update()
        composer.buffer.on_cursor_position_changed += lambda _: self._close_if_moved()

    def quiet(self, change: Callable[[], object]) -> None:
        """Change the text without offering anything for it."""
        self._silent = True
        try:
            change()
        finally:
            self._silent = False
        self._forget()

    def enter(self) -> bool:
        """Enter with the menu open: take the item; True when the line should be sent as well."""
        item = self.menu.chosen
        if item is None:
            return True
        is_whole = self._composer.buffer.document.text_before_cursor.endswith(item.text)
        searching = self.searching
        self.accept()
        return not searching and (is_whole or (item.kind == "command" and item.final))

    def accept(self) -> None:
        """Put the chosen item into the input."""
        item = self.menu.chosen
        if item is None:
            return
        start, search = self.menu.start, self.searching
        self._forget()
        self.searching = False
        if search:
            self.quiet(lambda: self._composer.set(item.text))
            return

        def insert() -> None:
            buffer = self._composer.buffer
            buffer.delete_before_cursor(start)
            after = buffer.document.text_after_cursor
            space = "" if item.text.endswith(("/", ":")) or after.startswith(" ") else " "
            buffer.insert_text(item.text + space)

        self.quiet(insert)
        if item.text.endswith(("/", ":")) or (item.kind == "command" and not item.final):
            self._update()

    def close(self) -> bool:
        """Close the menu or the search; False when there was nothing to close."""
        if self.searching:
            self.searching = False
            draft = self._draft
            self.quiet(lambda: self._composer.set(draft))
            return True
        was_open = bool(self.menu.items)
        self._forget()
        return was_open

    def search_history(self) -> None:
        """Ctrl+R: what is typed narrows the history."""
        self._draft = self._composer.text
        self.searching = True
        self._update()

    def _update(self) -> None:
        if self._silent:
            return
        if self.searching:
            self._offer_history()
            return
        context = context_of(self._composer.buffer.document.text_before_cursor)
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if context is None:
            self._forget()
        elif context.kind == "at":
            self._task = asyncio.ensure_future(self._offer_paths(context))
        else:
            self._offer_commands(context)

    def _close_if_moved(self) -> None:
        if self._silent or self.searching or not self.menu.items:
            return
        if context_of(self._composer.buffer.document.text_before_cursor) is None:
            self._forget()

    def _offer_commands(self, context: Context) -> None:
        commands = list(self._commands())
        if context.kind == "command":
            self.menu = Menu(match_commands(commands, context.query), len(context.query) + 1)
            return
        command = next((c for c in commands if c.name == context.command), None)
        words = list(command.choices()) if command is not None and command.choices is not None else []
        self.menu = Menu(match_words(words, context.query), len(context.query))

    async def _offer_paths(self, context: Context) -> None:
        agents = match_agents(self._host.agents(), context.query)
        found = await self._host.resources(context.query)
        agents = [*(Item(f"@{text}", about, "resource") for text, about in found), *agents]
        if self._index is not None or agents:
            self._show(agents, await self._paths(context.query), context)
        loop = asyncio.get_running_loop()
        if loop.time() - self._indexed_at > _FRESH_S:
            self._indexed_at = loop.time()
            self._index = await asyncio.to_thread(FileIndex, await self._host.files())
            self._show(agents, await self._paths(context.query), context)

    async def _paths(self, query: str) -> list[Item]:
        found = await self._index.search(query) if self._index is not None else []
        return [Item(f"@{path}", "", "file") for path in found]

    def _show(self, agents: list[Item], files: list[Item], context: Context) -> None:
        if context_of(self._composer.buffer.document.text_before_cursor) == context:
            self.menu = Menu(agents_and_files(agents, files, context.query), len(context.query) + 1)
            self._redraw()

    def _offer_history(self) -> None:
        query = self._composer.text.lower()
        seen: dict[str, None] = {}
        for entry in reversed(self._composer.history.entries):
            if query in entry.lower():
                seen.setdefault(entry)
            if len(seen) >= _HISTORY_SHOWN:
                break
        self.menu = Menu([Item(entry, "", "history") for entry in seen], len(query))

    def _forget(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.menu = Menu()
