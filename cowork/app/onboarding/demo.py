"""`cowork demo`: the real chat on a scripted model in a scratch repository, typed by a hand that is not there.

The chat runs in a pseudo-terminal. What it prints goes to the viewer as it is, what the viewer presses goes to it, and
the player types the rest. It knows where the chat stands from its session log, as any program could.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cowork.app.chat.own_command import raw_keys, write_all
from cowork.core import spawn
from cowork.core.errors import UserError
from cowork.prompts import data_root

QUESTION = "why do refunds fail for guest orders?"
ORDER = "fix it and run the tests"
LIMIT = 110.0  # seconds; the tour ends itself long before
_CLEAR = b"\x05\x15"  # Ctrl-E, Ctrl-U
_KEY_PAUSE = 0.035
_LOOK = 2.5  # how long a dialog stands before the player answers it
_CONTROL = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_=>])")
_RULES = ("Bash(python3 -m unittest:*)",)  # the child's own test run needs no second question


def play(pace: float = 1.0) -> int:
    """Show the tour and clean up; 0 when it came to its end. `pace` stretches its pauses."""
    watched = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    with tempfile.TemporaryDirectory(prefix="cowork-demo-") as folder:
        _build(Path(folder), pace if watched else 0.15)
        chat = _Chat(Path(folder), watched=watched, pace=pace)
        try:
            chat.start()
            with _signals(chat), raw_keys() if watched else contextlib.nullcontext():
                code = _tour(chat)
        finally:
            chat.stop()
    if code == 0:
        print(
            "\nThat was the tour, on a scripted model. `cowork` starts a chat here; `cowork config init` finds a model."
        )
    return code


def _tour(chat: _Chat) -> int:
    """Question, fix, cost, rewind; each step waits for the chat to be done with the one before."""
    chat.wait(lambda: chat.count("session.started") > 0, 20)
    chat.rest(1.2)
    chat.say(QUESTION)
    chat.wait(lambda: chat.turns >= 1, 60)
    chat.rest(3.0)
    chat.say(ORDER)
    chat.wait(lambda: chat.turns >= 2, 60)
    chat.rest(2.5)
    for command, pause in (("/cost", 3.0), ("/rewind 2 both", 3.0), ("/diff", 2.0)):
        chat.say(command)
        chat.rest(pause)
    chat.say("/exit")
    chat.wait(lambda: chat.ended, 20)
    return 0 if chat.count("session.rewound") else 130  # the viewer left before the end


def _build(folder: Path, pace: float) -> None:
    """Make the scratch folder: the repository, a home of its own and the script."""
    given = data_root() / "demo"
    shutil.copytree(given / "shop", folder / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "home").mkdir()
    script = json.loads((given / "script.json").read_text("utf-8"), object_hook=lambda turn: _paced(turn, pace))
    (folder / "script.json").write_text(json.dumps(script), encoding="utf-8")
    git = shutil.which("git")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A small shop"]) if git else ():
        spawn.run(["git", *words], environ=_environ(folder), seconds=LIMIT, cwd=folder / "shop")


def _paced(turn: dict[str, Any], pace: float) -> dict[str, Any]:
    return turn | {"delay_ms": round(turn["delay_ms"] * pace)} if "delay_ms" in turn else turn


def _environ(folder: Path) -> dict[str, str]:
    """Nothing of the user's own: no keys, no settings, no git identity."""
    kept = ("PATH", "TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TERM_PROGRAM", "COLORFGBG")
    given = {name: os.environ[name] for name in kept if name in os.environ}
    who = {f"GIT_{who}_{what}": word for who in ("AUTHOR", "COMMITTER")
           for what, word in (("NAME", "demo"), ("EMAIL", "demo@example.org"))}  # fmt: skip
    home = {"HOME": str(folder / "home"), "COWORK_HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    return given | home | who | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@dataclass(slots=True)
class _Chat:
    """The chat at work: its terminal, its log, and what was typed into it."""

    folder: Path
    watched: bool
    pace: float = 1.0
    pid: int = 0
    master: int = -1
    ended: bool = False
    deadline: float = 0.0
    answered: int = 0  # questions the player has dealt with
    asked_at: dict[int, float] = field(default_factory=dict)
    tail: bytes = b""

    def start(self) -> None:
        command = [sys.executable, "-P", "-m", "cowork", "--script", str(self.folder / "script.json"), "--trust"]
        command += [word for rule in _RULES for word in ("--allow", rule)]
        environ = _environ(self.folder) | {"TERM": os.environ.get("TERM", "") if self.watched else "dumb"}
        self.deadline = time.monotonic() + LIMIT
        self.pid, self.master = spawn.in_terminal(command, environ=environ, cwd=self.folder / "shop")
        self.resize()
        if not self.watched:
            settings = termios.tcgetattr(self.master)
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(self.master, termios.TCSANOW, settings)

    def resize(self) -> None:
        """Give the chat the viewer's window."""
        size = termios.tcgetwinsize(sys.stdout.fileno()) if self.watched else (30, 100)
        termios.tcsetwinsize(self.master, size)

    def stop(self) -> None:
        """End the chat if it has not ended, and everything it started."""
        if not self.pid:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.ended:
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            until = time.monotonic() + 5
            while not self.ended and time.monotonic() < until:
                self._pump(0.05)
        with contextlib.suppress(OSError):
            os.close(self.master)

    def say(self, text: str) -> None:
        """Type a line, like a person where one looks on."""
        if not self.watched:
            self._type(f"{text}\n".encode())
            return
        self._type(_CLEAR)  # a rewind puts the old prompt back into the input
        for letter in text:
            self._type(letter.encode())
            self.rest(_KEY_PAUSE)
        self.rest(0.4)
        self._type(b"\r")

    def rest(self, seconds: float) -> None:
        """Let the viewer look; without one, only as long as the chat needs."""
        until = time.monotonic() + (seconds * self.pace if self.watched else min(seconds, 0.6))
        while not self.ended and time.monotonic() < until:
            self._pump(min(0.05, max(0.0, until - time.monotonic())))

    def wait(self, done: Callable[[], bool], most: float) -> None:
        """Until something is so; questions that come up meanwhile are answered after a moment."""
        until = min(time.monotonic() + most, self.deadline)
        while not done():
            if self.ended:
                return
            if time.monotonic() > until:
                raise UserError("The demo got stuck and was ended.", "`cowork doctor` may say why.")
            self._pump(0.05)
            self._answer_questions()

    @property
    def turns(self) -> int:
        """Prompts that were answered to the end."""
        return sum(1 for e in self.events() if e.get("type") == "turn.ended" and e.get("agent") == "main")

    def count(self, kind: str) -> int:
        return sum(1 for event in self.events() if event.get("type") == kind)

    def events(self) -> list[Mapping[str, object]]:
        found: list[Mapping[str, object]] = []
        for log in sorted((self.folder / "home" / "sessions").glob("*/*.jsonl")):
            for line in log.read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
        return found

    def _answer_questions(self) -> None:
        """Say yes to the oldest open question once it stood long enough; the viewer may be quicker."""
        asked, told = self.count("question.asked"), self.count("question.answered")
        self.answered = max(self.answered, told)
        if asked <= self.answered:
            return
        since = self.asked_at.setdefault(self.answered, time.monotonic())
        if time.monotonic() - since >= (max(1.0, _LOOK * self.pace) if self.watched else 0.2):
            self._type(b"\r" if self.watched else b"1\n")
            self.answered += 1

    def _type(self, data: bytes) -> None:
        if not self.ended:
            with contextlib.suppress(OSError):  # it ended this moment; the next look says so
                os.write(self.master, data)

    def _pump(self, seconds: float) -> None:
        """Carry bytes both ways for a moment."""
        sources = [self.master, sys.stdin.fileno()] if self.watched else [self.master]
        ready, _, _ = select.select(sources, [], [], seconds)
        if self.master in ready:
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                data = b""
            if not data:
                self._reap()
                return
            self._show(data)
        if self.watched and sys.stdin.fileno() in ready and (pressed := os.read(sys.stdin.fileno(), 1024)):
            self._type(pressed)

    def _show(self, data: bytes) -> None:
        if self.watched:
            write_all(sys.stdout.fileno(), data)
            return
        *whole, self.tail = (self.tail + data).split(b"\n")
        for line in whole:
            shown = _CONTROL.sub("", line.decode("utf-8", "replace")).rstrip()
            if shown != ">":  # the prompt of the line chat
                print(shown, flush=True)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.ended = True


@contextlib.contextmanager
def _signals(chat: _Chat) -> Iterator[None]:
    """A resize goes on to the chat; being told to end still cleans up."""

    def leave(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    handlers = {signal.SIGTERM: leave, signal.SIGHUP: leave, signal.SIGWINCH: lambda number, frame: chat.resize()}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
