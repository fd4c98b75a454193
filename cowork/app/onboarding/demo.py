"""`cowork demo`: the real chat on a scripted model in a scratch repository, typed by a hand that is not there.

The chat runs in a pseudo-terminal. What it prints goes to the viewer as it is, what the viewer presses goes to it, and
the player types the rest. It knows where the chat stands from its session log, as any program could.
"""

from __future__ import annotations

import contextlib
import fcntl
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
import tty
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cowork.app.onboarding.tour import FILES, ORDER, QUESTION, script
from cowork.core import spawn
from cowork.core.errors import UserError

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
        stage = _Stage(Path(folder))
        stage.build(pace=pace if watched else 0.15)
        chat = _Chat(stage, watched=watched, pace=pace)
        try:
            chat.start()
            with _signals(chat), _raw_input() if watched else contextlib.nullcontext():
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


@dataclass(slots=True)
class _Stage:
    """The scratch folder: a repository, a home of its own and the script."""

    folder: Path

    @property
    def repo(self) -> Path:
        return self.folder / "shop"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def build(self, pace: float) -> None:
        for name, text in FILES.items():
            path = self.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.home.mkdir()
        (self.folder / "script.json").write_text(json.dumps(script(pace)), encoding="utf-8")
        git = shutil.which("git")
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A small shop"]) if git else ():
            spawn.run(["git", *words], environ=self.environ(), seconds=LIMIT, cwd=self.repo)

    def environ(self) -> dict[str, str]:
        """Nothing of the user's own: no keys, no settings, no git identity."""
        kept = ("PATH", "TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TERM_PROGRAM", "COLORFGBG")
        given = {name: os.environ[name] for name in kept if name in os.environ}
        who = {"GIT_AUTHOR_NAME": "demo", "GIT_AUTHOR_EMAIL": "demo@example.org"}
        who |= {"GIT_COMMITTER_NAME": "demo", "GIT_COMMITTER_EMAIL": "demo@example.org"}
        home = {"HOME": str(self.home), "COWORK_HOME": str(self.home), "PYTHONDONTWRITEBYTECODE": "1"}
        return given | home | who | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@dataclass(slots=True)
class _Chat:
    """The chat at work: its terminal, its log, and what was typed into it."""

    stage: _Stage
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
        command = [sys.executable, "-P", "-m", "cowork", "--script", str(self.stage.folder / "script.json"), "--trust"]
        command += [word for rule in _RULES for word in ("--allow", rule)]
        environ = self.stage.environ() | {"TERM": os.environ.get("TERM", "") if self.watched else "dumb"}
        self.deadline = time.monotonic() + LIMIT
        self.pid, self.master = spawn.in_terminal(command, environ=environ, cwd=self.stage.repo)
        self.resize()
        if not self.watched:
            settings = termios.tcgetattr(self.master)
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(self.master, termios.TCSANOW, settings)

    def resize(self) -> None:
        """Give the chat the viewer's window."""
        size = os.get_terminal_size() if self.watched else os.terminal_size((100, 30))
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, _winsize(size.lines, size.columns))

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
        for log in sorted((self.stage.home / "sessions").glob("*/*.jsonl")):
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
            _write_all(sys.stdout.fileno(), data)
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


def _winsize(rows: int, columns: int) -> bytes:
    return rows.to_bytes(2, sys.byteorder) + columns.to_bytes(2, sys.byteorder) + bytes(4)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


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


@contextlib.contextmanager
def _raw_input() -> Iterator[None]:
    """The viewer's keys go through untouched, and the terminal is as before afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
