"""Questions of a one-shot run, asked on the terminal a line at a time, whatever stdin and stdout are used for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import termios
from collections.abc import Iterator

from cowork.core.hygiene import inert, visible, visible_line
from cowork.core.later import later
from cowork.core.ports import Answer, Question
from cowork.frontends.dialog_choices import by_number, granted_text, steps_of

with later(__name__):
    from cowork.frontends.repl.input.dialogs import what_lines

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
                    return await _ask(terminal, question)
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
            return os.tcgetpgrp(terminal) == os.getpgrp()
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
    """What each letter says and answers."""
    choices: dict[str, tuple[str, Answer]] = {}
    if question.kind == "trust":
        choices["y"] = ("yes, trust it", Answer("always"))
    elif question.kind == "plan":
        modes = question.options or ("ask",)
        answers = [(f"yes, in mode {mode}", Answer("once", data={"mode": mode})) for mode in modes]
        choices |= {str(number): answer for number, answer in enumerate(answers, 1)}
    else:
        choices["y"] = ("once", Answer("once"))
        if question.session_rule:
            choices["s"] = (f"this session: {granted_text(question)}", Answer("session"))
        if question.rule:
            choices["a"] = (f"always, adds rule {visible_line(question.rule)}", Answer("always"))
    return {**choices, "n": ("no", Answer("no"))}


def _body(question: Question) -> Iterator[str]:
    asked_by = "" if question.agent == "main" else f"   asked by {visible_line(question.agent)}"
    yield f"\n? {visible_line(question.title)}{asked_by}"
    lines = ["".join(text for _, text in line) for line in what_lines(question, shutil.get_terminal_size().columns)]
    if question.kind == "plan":
        lines += [f"   {line}" for line in visible(str(question.display.get("text") or "")).split("\n")]
    yield from lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        yield f"   … {len(lines) - _SHOWN_LINES} more lines"


@contextlib.contextmanager
def _open_terminal(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


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
