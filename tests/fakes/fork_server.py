"""Runs the command many times for the price of one start: a process that has imported it forks for each run.

A run gets its own words, folder, environment and standard streams, and ends as an interpreter does. What depends on
how an interpreter starts (locale, `PYTHON…`, a terminal, signals to its group) needs the installed command itself.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_LOADED = (
    "cowork.__main__ cowork.cli.main cowork.cli.typer_app cowork.app.once cowork.app.build cowork.frontends.text "
    "cowork.frontends.json_output cowork.providers.open cowork.providers.scripted"
)
_AT_START = ("PYTHON", "LANG", "LC_", "COV")  # what an interpreter reads before it runs anything
_ORDINARY = {"LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a run in this environment is the same when it is forked; the soak starts every command anew."""
    if os.environ.get("COWORK_SOAK") or not hasattr(os, "fork"):
        return False
    return all(_ORDINARY.get(name) == value for name, value in env.items() if name.startswith(_AT_START))


def run(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], given: bytes | None, timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """The command with these words and input (None: an empty one), to its end."""
    return _server().run([str(word) for word in words], str(cwd), dict(env), given, timeout)


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
        self, words: list[str], cwd: str, env: dict[str, str], given: bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        with contextlib.ExitStack() as open_ends:
            (in_read, in_write), (out_read, out_write), (err_read, err_write) = (os.pipe() for _ in range(3))
            if given is None:
                os.close(in_read)
                in_read = os.open(os.devnull, os.O_RDONLY)
            ours, theirs = socket.socketpair()
            open_ends.callback(ours.close)
            asked = json.dumps([words, cwd, env]).encode()
            fds = [in_read, out_write, err_write, theirs.fileno()]
            socket.send_fds(self._socket, [len(asked).to_bytes(4, "big")], fds)
            self._socket.sendall(asked)
            theirs.close()
            for fd in (in_read, out_write, err_write):
                os.close(fd)
            found = _talk(ours, in_write, given or b"", {out_read: b"", err_read: b""}, time.monotonic() + timeout)
            code = int.from_bytes(_receive(ours, 4), "big", signed=True)
            return subprocess.CompletedProcess(words, code, found[out_read], found[err_read])

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
                    chosen.register(running[pid], selectors.EVENT_READ, pid)


def _tell_ends(running: dict[int, socket.socket], chosen: selectors.BaseSelector) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            told = running.pop(pid)
            with contextlib.suppress(KeyError):
                chosen.unregister(told)
            with told, contextlib.suppress(OSError):
                told.send(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


def _stop(key: selectors.SelectorKey, chosen: selectors.BaseSelector, running: dict[int, socket.socket]) -> None:
    """Whoever asked wants the run to end, or is gone."""
    chosen.unregister(key.fileobj)
    if key.data in running:
        os.kill(key.data, signal.SIGKILL)


def _become(asked: tuple[list[str], str, dict[str, str]], fds: list[int], foreign: list[int]) -> None:
    """Be the command with these words, to the end of this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for fd in foreign:
        os.close(fd)
    for place, fd in enumerate(fds[:3]):
        os.dup2(fd, place)
        os.close(fd)
    os.close(fds[3])
    words, cwd, env = asked
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = words
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _open_output(1, "surrogateescape")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _open_output(2, "backslashreplace", line_buffering=True)  # type: ignore[misc]
    sys.path[:] = [place for place in sys.path if place]
    from cowork.__main__ import main

    sys.exit(main())


def _open_output(fd: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    """A standard stream as an interpreter opens it at its start."""
    return io.TextIOWrapper(open(fd, "wb", closefd=False), "utf-8", errors, line_buffering=line_buffering)
