"""What is asked and answered a line at a time: questions of a one-shot run, and the chat without a live region."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from cowork.core.format import one_line
from cowork.core.hygiene import inert, visible, visible_line
from cowork.core.later import later
from cowork.core.ports import Answer, Question
from cowork.frontends.dialog_choices import by_number, granted_text, steps_of

if TYPE_CHECKING:
    from cowork.frontends.repl.repl import Repl

with later(__name__):
    from cowork.frontends.host import Choose, Row
    from cowork.frontends.repl.input.dialogs import what_lines, why_lines
    from cowork.frontends.styled import plain

TERMINAL = "/dev/tty"
_SHOWN_LINES = 60
_LOOK_EVERY = 0.05


class LinePrompt:
    """The `Ask` port over a terminal. Questions of parallel children wait for one another."""

    def __init__(self, path: str = TERMINAL) -> None:
        self._path = path
        self._turn = asyncio.Lock()

    async def __call__(self, question: Question) -> Answer:
        async with self._turn:
            try:
                with _open_terminal(self._path) as terminal:
                    return await _ask(terminal.fileno(), question)
            except (OSError, termios.error):
                return Answer("no", "there is no terminal to ask on")


def available(path: str = TERMINAL) -> bool:
    """Whether a person is there to ask: one of our streams is a terminal, and we run in its foreground.

    A run whose streams all lead elsewhere was started by a program; its question would wait for ever, unseen.
    """
    if not any(map(os.isatty, (0, 1, 2))):
        return False
    try:
        with _open_terminal(path) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


async def _ask(terminal: int, question: Question) -> Answer:
    termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before the question is no answer to it
    _write(terminal, "\n".join(_body(question)) + "\n")
    if question.kind == "questions":
        return await _ask_steps(terminal, question)
    choices = _by_letter(question)
    while True:
        _write(terminal, "  ".join(f"[{key}] {words}" for key, (words, _) in choices.items()) + "\n> ")
        line = await _line(terminal)
        if line is None:
            return Answer("no", "the terminal was closed")
        word, _, rest = line.strip().partition(" ")
        key = word.lower()[:1]
        if key == "n":
            if not rest and question.kind != "trust":  # there no model is there yet to be told why
                _write(terminal, "why not? (goes to the model; Enter for none) > ")
                rest = await _line(terminal) or ""
            return Answer("no", rest.strip())
        if key in choices:
            return choices[key][1]


async def _ask_steps(terminal: int, question: Question) -> Answer:
    """Each question with its options numbered; any other text is an answer too, an empty line none."""
    answers: list[str] = []
    for step in steps_of(question):
        rows = [f"  {number} {choice.line}" for number, choice in enumerate(step.choices, 1) if not choice.writes]
        _write(terminal, "\n".join([visible_line(step.title), *rows]) + "\nnumber, or your answer > ")
        line = await _line(terminal)
        text = (line or "").strip()
        if not text:
            return Answer("no", "" if line is not None else "the terminal was closed")
        chosen = by_number(step, text)
        answers.append(chosen.label if chosen and not chosen.writes else text)
    return Answer("once", data={"answers": answers})


def _by_letter(question: Question) -> dict[str, tuple[str, Answer]]:
    choices: dict[str, tuple[str, Answer]] = {}
    if question.kind == "trust":
        choices["y"] = ("yes, trust it", Answer("always"))
    elif question.kind == "plan":
        for number, mode in enumerate(question.options, 1):
            choices[str(number)] = (f"yes, in mode {mode}", Answer("once", data={"mode": mode}))
    else:
        if question.once:
            choices["y"] = ("once", Answer("once"))
        if question.session_rule:
            choices["s" if question.once else "y"] = (f"this session: {granted_text(question)}", Answer("session"))
        if question.rule:
            choices["a"] = (f"always, adds rule {visible_line(question.rule)}", Answer("always"))
    return {**choices, "n": ("no", Answer("no"))}


def _body(question: Question) -> Iterator[str]:
    asked_by = "" if question.agent == "main" else f"   asked by {visible_line(question.agent)}"
    yield f"\n? {visible_line(question.title)}{asked_by}"
    columns = shutil.get_terminal_size().columns
    yield from map(plain, why_lines(question.reason, question.box, columns))  # first: a long diff is cut
    lines = [plain(line) for line in what_lines(replace(question, reason="", box=""), columns)]
    if question.kind == "plan":
        lines += [f"   {line}" for line in visible(str(question.display.get("text") or "")).split("\n")]
    yield from lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        yield f"   … {len(lines) - _SHOWN_LINES} more lines"


def _open_terminal(path: str) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC), "r+b", buffering=0)


def _write(terminal: int, text: str) -> None:
    raw = inert(text).encode("utf-8", "replace")
    while raw:
        raw = raw[os.write(terminal, raw) :]


async def _line(terminal: int) -> str | None:
    """The next line typed; None at the end of input. It looks now and then instead of blocking a thread, because a
    thread could not be cancelled and kqueue cannot watch a terminal."""
    raw = b""
    while not raw.endswith(b"\n"):
        while not select.select([terminal], [], [], 0)[0]:  # noqa: ASYNC110 - no event tells of a key
            await asyncio.sleep(_LOOK_EVERY)
        piece = os.read(terminal, 4096)
        if not piece:
            return None
        raw += piece
    return raw.decode("utf-8", "replace")


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
                title = f"{step.title} (asked by {question.agent.rpartition('/')[2]})"
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
            self._repl.turns.send(line.rstrip())
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
