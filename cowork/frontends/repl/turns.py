"""What happens to a line that was sent: a turn, a place in the queue, a command, a shell line or a note."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cowork.core.errors import UserError
from cowork.core.events import Event, Notice, PromptAdded
from cowork.core.format import one_line
from cowork.core.frozen import frozen
from cowork.frontends.host import Choose, Command, CommandResult, ContextUse, Draft, Host, PromptResult, Row
from cowork.frontends.repl.view.notes import context_lines, in_chat
from cowork.frontends.repl.view.scene import Scene
from cowork.frontends.repl.view.stream import markdown_lines
from cowork.frontends.repl.view.tool_lines import changes_lines
from cowork.frontends.styled import clip

_COMMAND = re.compile(r"[\w:-]+")  # what can be the name of one; a path or a comment is a message
_PATIENCE_S = 2.0  # with what is interrupted because the chat ends


@frozen
class Sent:
    """Something that waits for its turn. The text names its images: it is all that is needed to say it another time."""

    text: str
    images: tuple[Path, ...] = ()


@dataclass(slots=True)
class Turns:
    """Runs one thing at a time and keeps the rest in line. Nothing that was typed is ever lost."""

    host: Host
    scene: Scene
    own_commands: Callable[[], Sequence[Command]]
    on_end: Callable[[float], None]  # a turn ended after so many seconds
    give_back: Callable[[str], None]  # put text back into the input
    choose: Callable[[Choose], Awaitable[Row | None]] | None = None
    queue: list[Sent] = field(default_factory=list)
    steering: list[str] = field(default_factory=list)
    _begun: Sent | None = None  # it waited, and the log does not hold it yet
    _task: asyncio.Task[None] | None = None
    _interrupted: bool = False
    _closing: bool = False
    _chosen_s: float = 0.0  # how long the person took to choose; nobody need be called back for that
    _loose: set[asyncio.Task[Any]] = field(default_factory=set)
    _stoppable: bool = False  # what runs is a command's own work

    @property
    def working(self) -> bool:
        return self._task is not None

    def commands(self) -> dict[str, Command]:
        """Every slash command by name; a file of a project takes the place of none of the chat's own."""
        return {c.name: c for c in (*self.host.commands(), *self.own_commands())}

    def do_first(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this before anything that is sent; it waits in the queue meanwhile."""

        async def run() -> None:
            try:
                await work
            finally:
                self._task = None
                self._next()

        self._task = asyncio.ensure_future(run())

    def send(self, text: str, images: tuple[Path, ...] = ()) -> None:
        """Do what the line says, now or when its turn comes."""
        text = f"/{text}" if text in ("exit", "quit") else text
        command = self.commands().get(_name(text)) if text.startswith("/") else None
        if text and not self.working:
            self._start(Sent(text, images))
        elif command is not None and command.busy:
            self.spawn(self._command(text))
        elif text:
            self.queue.append(Sent(text, images))
            self._keep()

    def steer(self, text: str) -> None:
        """Say it before the next request instead of after the turn; when nothing runs it is a plain message."""
        if not self.working or self._mark(text):
            self.send(text)
            return
        self.steering.append(text)
        self.host.steer(text)
        self._keep()

    def recall(self) -> str:
        """Take the newest queued message back for editing."""
        recalled = self.queue.pop().text
        self._keep()
        return recalled

    def interrupt(self) -> bool:
        """Stop the turn; False when none runs."""
        if self._task is None:
            return False
        self._interrupted = True
        self.host.interrupt()
        if self._stoppable:
            self._task.cancel()
        return True

    def on_event(self, event: Event) -> None:
        if not isinstance(event, PromptAdded) or event.agent != "main":
            return
        if event.source == "steer" and event.text in self.steering:
            self.steering.remove(event.text)
        elif event.source == "user":
            self._begun = None
        self._keep()

    async def idle(self) -> None:
        """Wait until nothing runs and nothing is queued."""
        while self._task is not None or self._loose:
            await asyncio.wait([t for t in (self._task, *self._loose) if t is not None])

    async def close(self) -> None:
        """Stop whatever runs. What waits is not begun any more; the host has it for the next time."""
        self._closing = True
        tasks = [t for t in (self._task, *self._loose) if t is not None]
        if self._task is not None:
            self.host.interrupt()
            await asyncio.wait([self._task], timeout=_PATIENCE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keep(self) -> None:
        """Store what waits, in case the process dies."""
        begun = [self._begun.text] if self._begun else []
        self.host.keep_waiting([*begun, *self.steering, *(sent.text for sent in self.queue)])

    def _start(self, sent: Sent) -> None:
        self._interrupted = False
        self._task = asyncio.ensure_future(self._run(sent))

    async def _run(self, sent: Sent) -> None:
        started, self._chosen_s = self.scene.clock(), 0.0
        self.scene.begin()
        try:
            await self._guard(self._do(sent))
        finally:
            self.scene.finish()
            self._task = self._begun = None
            self.on_end(self.scene.clock() - started - self._chosen_s)
            self._next()
            if not self._closing:
                self._keep()

    async def _do(self, sent: Sent) -> None:
        rest = sent.text[1:].strip()
        match self._mark(sent.text):
            case "/":
                await self._command(sent.text)
            case "!":
                await self.host.run_shell(rest)
            case "#":
                await self._note(rest)
            case _:
                await self.host.submit(sent.text, sent.images)

    def _mark(self, text: str) -> str:
        """The mark that makes the text a command, a shell line or a note; empty for a message."""
        mark, rest, name = text[:1], text[1:].strip(), _name(text)
        if mark == "/":
            return mark if _COMMAND.fullmatch(name) or name in self.commands() else ""
        return mark if rest and (mark == "!" or (mark == "#" and "\n" not in rest)) else ""  # a note is one line

    def _next(self) -> None:
        """Start what waits, first what came too late to steer; after an interruption give it all back instead."""
        if self._closing:
            return
        self.queue[:0] = [Sent(text) for text in self.steering]
        self.steering = []
        if self.queue and self._interrupted:
            text = "\n".join(sent.text for sent in self.queue)  # what follows a command is no part of it
            self.give_back(f" {text}" if len(self.queue) > 1 and self._mark(text) else text)
            self.queue.clear()
        elif self.queue:
            self._begun = self.queue.pop(0)
            self._start(self._begun)

    async def _command(self, text: str) -> None:
        name = _name(text)
        rest, command = text[1 + len(name) :].strip(), self.commands().get(name)
        if command is None or not command.sends:
            line = one_line(text)
            self.scene.say("prompt", lambda columns, theme: [[("accent", "❯ "), ("dim", clip(line, columns - 3))]])
        if command is None:
            near = get_close_matches(name, self.commands(), n=1)
            hint = f"Did you mean /{near[0]}?" if near else "/help lists them all."
            raise UserError(f"There is no command /{name}.", hint)
        result = await self._work(command, command.run(rest))
        while isinstance(result, Choose):
            asked = self.scene.clock()
            row = await self.choose(result) if self.choose else None
            self._chosen_s += self.scene.clock() - asked
            if row is None:
                return
            result = await self._work(command, result.then(row))
        await self._show(result, text)

    async def _show(self, result: CommandResult, text: str) -> None:
        """What a command gave: a prompt to send, or something to print."""
        match result:
            case PromptResult():
                await self.host.submit(result.text, (), label=result.label or text)
            case Draft():
                self.give_back(result.text)
                await self._show(result.said, text)
            case list() as files:
                self.scene.say("output", lambda columns, theme: changes_lines(files, columns, theme))
            case ContextUse():
                self.scene.say("output", lambda columns, theme: context_lines(result, columns, theme))
            case str() if result:
                self.scene.say("output", lambda columns, theme: markdown_lines(result, columns, theme))

    async def _note(self, text: str) -> None:
        said = await self._guard(self.host.add_note(text))
        if isinstance(said, str):
            self.scene.apply(Notice(said))
        else:
            self.give_back(f"#{text}")  # it can be sent again

    async def _guard(self, work: Awaitable[CommandResult]) -> CommandResult:
        """A refusal is shown calmly; a bug in a command must not end the chat."""
        try:
            return await work
        except UserError as error:
            message, hint = error.message, error.hint
        except Exception as error:
            message, hint = f"That did not work: {type(error).__name__}: {error}", ""
        self.scene.apply(Notice(message, "error"))
        if hint:
            self.scene.apply(Notice(in_chat(hint)))
        return None

    async def _work(self, command: Command, work: Awaitable[CommandResult]) -> CommandResult:
        """What a command does by itself. Esc stops it, but never halfway between two conversations."""
        if command.resets or asyncio.current_task() is not self._task:
            return await self._guard(work)
        self._stoppable = True
        try:
            return await self._guard(work)
        except asyncio.CancelledError:
            self.scene.apply(Notice(f"/{command.name} was stopped"))
            raise
        finally:
            self._stoppable = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the turn."""
        task = asyncio.ensure_future(work)
        self._loose.add(task)
        task.add_done_callback(self._loose.discard)


def _name(text: str) -> str:
    """The word behind a slash."""
    return text[1:].split(maxsplit=1)[0] if text[:1] == "/" and text[1:2].strip() else ""
