"""The chat without a live region, for dumb terminals and pipes: lines in, finished lines out."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cowork.core.format import one_line
from cowork.core.ports import Answer, Question
from cowork.frontends.dialog_choices import by_number, steps_of
from cowork.frontends.host import Choose, Row
from cowork.frontends.repl.input.dialogs import what_lines
from cowork.frontends.styled import plain

if TYPE_CHECKING:
    from cowork.frontends.repl.repl import Repl


def is_capable(environ: Mapping[str, str]) -> bool:
    """Whether there is a terminal on both sides that can move its cursor."""
    return environ.get("TERM", "") not in ("", "dumb", "unknown") and sys.stdin.isatty() and sys.stdout.isatty()


class LineChat:
    """Reads a line at a time and prints what is finished, without any control code."""

    def __init__(self, repl: Repl) -> None:
        self._repl = repl
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._unread: str | None = None  # a line that was no choice: it is the next thing said
        self._asking: asyncio.Lock = asyncio.Lock()
        self._left: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Until the input ends or the person leaves."""
        self.flush()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread, or no signals
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
        reader = asyncio.ensure_future(self._serve())
        reader.add_done_callback(lambda _: self.leave(0))
        try:
            return await self._left
        finally:
            reader.cancel()
            loop.remove_signal_handler(signal.SIGINT)

    def leave(self, code: int) -> None:
        if not self._left.done():
            self._left.set_result(code)

    def flush(self) -> None:
        """Print what is finished."""
        columns = max(20, shutil.get_terminal_size().columns)
        for line in self._repl.scene.take(columns - 1, self._repl.theme):
            print(plain(line).rstrip())
        sys.stdout.flush()

    async def ask(self, question: Question) -> Answer:
        """The question as text; the answer is a number, or text: the reason for a no, or the answer itself."""
        async with self._asking:
            self.flush()
            for line in what_lines(question, 79):
                print(plain(line).rstrip())
            answers: list[str] = []
            for step in steps_of(question):
                title = f"{step.title} (asked by {question.agent})"
                words = "number, or your answer" if question.kind == "questions" else "number, or why not"
                text = await self._offer(title, [choice.line for choice in step.choices], words)
                chosen = step.choices[0] if text.lower() in ("y", "yes") else by_number(step, text)
                if question.kind == "questions" and text:
                    chosen = by_number(step, text)
                    answers.append(chosen.label if chosen and not chosen.writes else text)
                elif chosen is not None:
                    return Answer(chosen.answer, data=chosen.data)
                else:
                    return Answer("no", "" if text in ("n", "no") else text)
        return Answer("once", data={"answers": answers})

    async def choose(self, choose: Choose) -> Row | None:
        """The list with numbers; a line that is no number of it chooses nothing and is taken as the next message."""
        async with self._asking:
            self.flush()
            rows = [f"{row.label} · {row.detail}" if row.detail else row.label for row in choose.rows]
            words = f"number, or {choose.write}" if choose.write else "number"
            text = await self._offer(choose.title, rows, f"{words} (Enter for none)")
        if text.isdecimal() and 1 <= int(text) <= len(choose.rows):
            return choose.rows[int(text) - 1]
        self._unread = None if choose.write else text or None
        return Row(text, text) if choose.write and text else None

    async def _offer(self, title: str, rows: Sequence[str], words: str) -> str:
        """Print what can be answered, numbered; gives the next line, empty at the end of the input."""
        numbered = [f"  {number} {one_line(row)}" for number, row in enumerate(rows, 1)]
        print("\n".join([one_line(title), *numbered]))
        print(f"{words}: ", end="", flush=True)
        return (await self._next_line() or "").strip()

    async def _serve(self) -> None:
        """One line at a time: while a turn works, the next line may be the answer to a question."""
        await self._repl.turns.idle()
        while True:
            print("> ", end="", flush=True)
            line, self._unread = self._unread or await self._next_line(), None
            if line is None:
                print()
                return
            self._repl.turns.send(line.strip())
            await self._repl.turns.idle()
            self.flush()

    async def _next_line(self) -> str | None:
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)  # the end stays the end
        return line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread: a line may take for ever."""
        with contextlib.suppress(RuntimeError, ValueError, OSError):  # the loop or the input is gone
            for line in sys.stdin:
                loop.call_soon_threadsafe(self._lines.put_nowait, line.rstrip("\n"))
            loop.call_soon_threadsafe(self._lines.put_nowait, None)

    def _interrupt(self) -> None:
        if not self._repl.turns.interrupt():
            self.leave(130)
