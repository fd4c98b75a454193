"""Runs the command many times for the price of one start: a process that has imported it forks for each run.

A run gets its own words, folder, environment and standard streams, or a terminal of which it is the session, and ends
as an interpreter does. What depends on how an interpreter starts (locale, `PYTHON…`, what is imported when, the words
of `ps`) needs the installed command itself.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_LOADED = (
    "cowork.__main__ cowork.cli.main cowork.cli.typer_app cowork.app.once cowork.app.build cowork.frontends.text "
    "cowork.frontends.json_output cowork.providers.open cowork.providers.scripted cowork.providers.offline.model "
    "cowork.app.chat.start cowork.app.chat.host cowork.app.chat.slash_commands cowork.app.chat.state_commands "
    "cowork.app.chat.pages cowork.app.onboarding.setup cowork.app.onboarding.doctor "
    "cowork.sessions.checkpoints.recorder cowork.sessions.log.resume_reader cowork.permissions.commands "
    "cowork.permissions.sandbox.box cowork.engine.changed_files cowork.tools.files.diff cowork.tools.files.match "
    "cowork.tools.files.atomic_write cowork.frontends.repl.repl cowork.frontends.repl.view.markdown "
    "tests.fakes.repl_host"
)
_AT_START = ("PYTHON", "LANG", "LC_", "COV")  # what an interpreter reads before it runs anything
_ORDINARY = {"LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a run in this environment is the same when it is forked; the soak starts every command anew."""
    if os.environ.get("COWORK_SOAK") or not hasattr(os, "fork"):
        return False
    return all(_ORDINARY.get(name) == value for name, value in env.items() if name.startswith(_AT_START))


def run(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], given: bytes | None, timeout: float, stdout: int
) -> subprocess.CompletedProcess[bytes]:
    """The command with these words and input (None: an empty one), to its end; `stdout` as in subprocess."""
    return _server().run([str(word) for word in words], str(cwd), dict(env), given, timeout, stdout)


def start_in_terminal(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int, rows: int
) -> ForkedTerminal:
    """The command with these words (or `python -m` and a module) as the session of a new terminal."""
    screen, keyboard = os.openpty()
    _set_size(keyboard, columns, rows)
    ours = _server().ask([str(word) for word in words], str(cwd), dict(env), [keyboard] * 3, terminal=True)
    os.close(keyboard)
    return ForkedTerminal(screen, ours)


class ForkedTerminal:
    """A run that has a terminal: the side on which a person types and reads."""

    def __init__(self, fd: int, control: socket.socket) -> None:
        self.fd = fd
        self._control = control
        self.pid = _receive_number(control)
        self._code: int | None = None

    @property
    def signalstatus(self) -> int | None:
        return -self._code if self._code is not None and self._code < 0 else None

    @property
    def exitstatus(self) -> int | None:
        return self._code if self._code is not None and self._code >= 0 else None

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.fd, data) :]

    def setwinsize(self, rows: int, columns: int) -> None:
        _set_size(self.fd, columns, rows)

    def isalive(self, wait: float | None = 0) -> bool:
        """Whether it still runs, after so many seconds at most (None: as long as it takes)."""
        if self._code is None and select.select([self._control], [], [], wait)[0]:
            self._code = _receive_number(self._control)
        return self._code is None

    def wait(self) -> None:
        self.isalive(None)

    def close(self, *, force: bool) -> None:
        """Close the window; who does not go by that is killed."""
        os.close(self.fd)
        if force and self.isalive(0.3):
            self._control.send(b"k")
        self.wait()
        self._control.close()


def _set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class _ForkServer:
    """The side of the tests: asks for a run and talks to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONDONT", "COV"))}
        program = "from tests.fakes.fork_server import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=theirs, cwd=_ROOT, env=env | {"LANG": "C.UTF-8"}
        )
        theirs.close()
        self._socket = ours
        atexit.register(self._end)

    def run(
        self, words: list[str], cwd: str, env: dict[str, str], given: bytes | None, timeout: float, stdout: int
    ) -> subprocess.CompletedProcess[bytes]:
        with contextlib.ExitStack() as open_ends:
            (in_read, in_write), (out_read, out_write), (err_read, err_write) = (os.pipe() for _ in range(3))
            if given is None:
                os.close(in_read)
                in_read = os.open(os.devnull, os.O_RDONLY)
            streams = [in_read, out_write if stdout == subprocess.PIPE else stdout, err_write]
            ours = open_ends.enter_context(self.ask(words, cwd, env, streams))
            for fd in (in_read, out_write, err_write):
                os.close(fd)
            _receive_number(ours)  # its process
            found = _talk(ours, in_write, given or b"", {out_read: b"", err_read: b""}, time.monotonic() + timeout)
            return subprocess.CompletedProcess(words, _receive_number(ours), found[out_read], found[err_read])

    def ask(
        self, words: list[str], cwd: str, env: dict[str, str], streams: list[int], *, terminal: bool = False
    ) -> socket.socket:
        """Start a run with these standard streams; its process and its exit code come out of the socket."""
        ours, theirs = socket.socketpair()
        asked = json.dumps([words, cwd, env, terminal]).encode()
        socket.send_fds(self._socket, [len(asked).to_bytes(4, "big")], [*streams, theirs.fileno()])
        self._socket.sendall(asked)
        theirs.close()
        return ours

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


def _talk(
    control: socket.socket, writing: int, given: bytes, found: dict[int, bytes], until: float
) -> dict[int, bytes]:
    """Give a run its input and read its outputs to their ends; one that takes too long is killed."""
    with selectors.DefaultSelector() as chosen:
        os.set_blocking(writing, False)
        chosen.register(writing, selectors.EVENT_WRITE)
        for fd in found:
            chosen.register(fd, selectors.EVENT_READ)
        while chosen.get_map():
            for key, _ in chosen.select(max(0.0, until - time.monotonic())) or _kill(control):
                if key.fd == writing:
                    with contextlib.suppress(BrokenPipeError):
                        given = given[os.write(writing, given) :] if given else b""
                        if given:
                            continue
                    data = b""
                else:
                    data = os.read(key.fd, 1 << 16)
                    found[key.fd] += data
                if not data:
                    chosen.unregister(key.fd)
                    os.close(key.fd)
    return found


def _kill(control: socket.socket) -> list[tuple[selectors.SelectorKey, int]]:
    control.send(b"k")
    raise TimeoutError("the command did not end in time")


def _receive(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise EOFError("the fork server is gone")
        data += more
    return data


def _receive_number(source: socket.socket) -> int:
    return int.from_bytes(_receive(source, 4), "big", signed=True)


def _send_number(target: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # whoever asked is gone
        target.send(number.to_bytes(4, "big", signed=True))


_running: _ForkServer | None = None


def _server() -> _ForkServer:
    global _running
    _running = _running or _ForkServer()
    return _running


# ---------------------------------------------------------------- the process that forks


def serve() -> None:
    """Fork for each run that is asked for on standard input, and tell its end; a fork leaves as the command does."""
    for name in _LOADED.split():
        importlib.import_module(name)
    gc.freeze()  # so that a fork does not copy what it only looks through
    asking = socket.socket(fileno=os.dup(0))
    waked, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}  # process -> whom to tell
    with selectors.DefaultSelector() as chosen:
        chosen.register(asking, selectors.EVENT_READ)
        chosen.register(waked, selectors.EVENT_READ)
        while True:
            for key, _ in chosen.select():
                if key.fd == waked:
                    os.read(waked, 1024)
                    _tell_ends(running, chosen)
                elif key.fileobj is not asking:
                    _stop(key, chosen, running)
                else:
                    size, fds, _, _ = socket.recv_fds(asking, 4, 4)
                    if not size:
                        return
                    asked = json.loads(_receive(asking, int.from_bytes(size, "big")))
                    pid = os.fork()
                    if pid == 0:
                        chosen.close()
                        _become(asked, fds, [asking.detach(), waked, wake, *(s.detach() for s in running.values())])
                        return
                    for fd in fds[:3]:
                        os.close(fd)
                    running[pid] = socket.socket(fileno=fds[3])
                    _send_number(running[pid], pid)
                    chosen.register(running[pid], selectors.EVENT_READ, pid)


def _tell_ends(running: dict[int, socket.socket], chosen: selectors.BaseSelector) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            told = running.pop(pid)
            with contextlib.suppress(KeyError):
                chosen.unregister(told)
            with told:
                _send_number(told, os.waitstatus_to_exitcode(status))


def _stop(key: selectors.SelectorKey, chosen: selectors.BaseSelector, running: dict[int, socket.socket]) -> None:
    """Whoever asked wants the run to end, or is gone."""
    chosen.unregister(key.fileobj)
    if key.data in running:
        os.kill(key.data, signal.SIGKILL)


def _become(asked: tuple[list[str], str, dict[str, str], bool], fds: list[int], foreign: list[int]) -> None:
    """Be the command with these words, to the end of this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for fd in foreign:
        os.close(fd)
    for place, fd in enumerate(fds[:3]):
        os.dup2(fd, place)
        os.close(fd)
    os.close(fds[3])
    words, cwd, env, terminal = asked
    if terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv[:] = words
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _open_output(1, "surrogateescape", line_buffering=terminal)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _open_output(2, "backslashreplace", line_buffering=True)  # type: ignore[misc]
    if words[1:2] == ["-m"]:
        sys.argv[:] = words[2:]
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
        return
    sys.path[:] = [place for place in sys.path if place]
    from cowork.__main__ import main

    sys.exit(main())


def _open_output(fd: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    """A standard stream as an interpreter opens it at its start."""
    return io.TextIOWrapper(open(fd, "wb", closefd=False), "utf-8", errors, line_buffering=line_buffering)
