"""Finds ripgrep and runs it: streaming, stopped as soon as enough was seen, killed when the call is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import functools
import os
import resource
import shutil
import signal
import stat
import sysconfig
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from cowork.core import spawn
from cowork.core.errors import ToolError
from cowork.core.frozen import frozen
from cowork.tools.base import ToolContext
from cowork.tools.files.access import missing
from cowork.tools.shell.terminal_text import plain

MISSING = "ripgrep is missing, so nothing can be searched. Tell the user to reinstall cowork, or to install ripgrep."
UNREADABLE = "Some files could not be read and were skipped."
SECONDS = 60.0
_PIPE = 1 << 20  # bytes rg may print before it has to wait for us
_PIECE = 64 * 1024  # what is looked at in one go: of more, the screen would stand still
_MOST_ERROR = 1 << 16  # bytes of its complaint that are kept
_REASON = 300  # characters of its complaint that are told
_MEMORY = 512 << 20  # bytes rg may hold; it holds the whole of a line, however long
_STUCK = 1.0  # seconds without an end before we look for what may keep it waiting
_LOOK = 5.0  # seconds that look may take
_RULES = (".gitignore", ".ignore", ".rgignore")
_PAUSE = 0.01  # seconds between looks at what it printed: waking for each line would slow the search itself
_STORES = (".git", ".hg", ".svn", ".jj")  # every glob costs time on every file, so the rare ones only where seen
_BASE = ("--no-config", "--no-require-git", "--no-ignore-global", "--hidden", "--null", "--no-messages")


@frozen
class RipgrepOutcome:
    """How a run ended. `stopped`: by us, at the limit or out of time."""

    code: int
    error: str
    stopped: Literal["", "limit", "time"]
    seconds: float = SECONDS  # it was given
    pipes: tuple[str, ...] = ()  # ignore files that can only be waited for

    @property
    def out_of_memory(self) -> bool:
        return self.code == -signal.SIGABRT

    def notes(self) -> list[str]:
        """What makes the result less than whole, as sentences."""
        out: list[str] = []
        if self.stopped == "time":
            out.append(f"The search was stopped after {self.seconds:.0f} s; name a folder in path to see the rest.")
        if self.code == 2 and not self.stopped:
            out.append(UNREADABLE)
        if self.out_of_memory:
            out.append("The search ran out of memory: a file has too long a line. Name other files in path or glob.")
        out += [f"{pipe} is a named pipe and was taken for an empty file." for pipe in self.pipes]
        return out


@functools.cache
def program() -> str:
    """Where ripgrep is: the one installed with cowork, else the system's; empty when there is none."""
    found = (shutil.which("rg", path=sysconfig.get_path("scripts")), shutil.which(spawn.program("rg", os.environ)))
    return next((path for path in found if path and os.path.isabs(path)), "")


async def run(
    arguments: Sequence[str], path: str, cwd: Path, take: Callable[[bytes], bool], *, seconds: float = SECONDS
) -> RipgrepOutcome:
    """Run rg over `path` and hand its output on in pieces, until `take` says False."""
    excluded = [f"-g!{name}" for name in _STORES if name == ".git" or os.path.lexists(cwd / path / name)]
    stopped: Literal["", "limit", "time"] = ""
    async with _running([*_BASE, *excluded, *arguments, "--", path], cwd) as search:
        pipes = _PipeFinder(cwd, path)
        feeding = asyncio.ensure_future(pipes.feed())
        try:
            async with asyncio.timeout(seconds):
                stopped = "" if await search.gather(take) else "limit"
        except TimeoutError:
            stopped = "time"
        finally:
            pipes.over = True
            feeding.cancel()
    text = bytes(search.error).decode("utf-8", "replace").strip()
    outcome = RipgrepOutcome(search.process.returncode or 0, text, stopped, seconds, pipes.names)
    if text and not stopped and not outcome.out_of_memory:
        raise ToolError("INVALID_PARAM", f"{_reason(text)}. Correct the call and try again.")
    return outcome


class _PipeFinder:
    """Unblocks a search that waits for an ignore file that is a named pipe, by opening the other end and closing it."""

    def __init__(self, cwd: Path, path: str) -> None:
        self._cwd = cwd
        self._top = cwd / path
        self._found: list[str] = []
        self.over = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(spelled(os.path.relpath(pipe, self._cwd)) for pipe in self._found)

    async def feed(self) -> None:
        await asyncio.sleep(_STUCK)
        self._found = await asyncio.to_thread(lambda: list(filter(_is_pipe, self._ignore_files())))
        while self._found:  # one behind another is opened later
            for pipe in self._found:
                with contextlib.suppress(OSError):  # nobody waits for it now
                    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
            await asyncio.sleep(_PAUSE)

    def _ignore_files(self) -> Iterator[str]:
        """Below the place that is searched, and in the folders above it, whose rules hold there too."""
        deadline = time.monotonic() + _LOOK
        for parent in dict.fromkeys((self._cwd, *self._cwd.parents, *self._top.parents)):
            yield from (str(parent / name) for name in (*_RULES, ".git/info/exclude"))
        for folder, _, files in os.walk(self._top):
            if self.over or time.monotonic() > deadline:
                return
            yield from (os.path.join(folder, name) for name in _RULES if name in files)


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.lstat(path).st_mode)
    except OSError:
        return False


@dataclass(slots=True)
class _Search:
    """An rg under way. Both its pipes are read in passing, so that neither can hold it up."""

    process: asyncio.subprocess.Process
    out: int
    err: int
    error: bytearray = field(default_factory=bytearray)

    async def gather(self, take: Callable[[bytes], bool]) -> bool:
        """Hand on what is printed until the end; False once `take` has had enough."""
        ended = asyncio.ensure_future(self.process.wait())
        last = False
        try:
            while not last:
                await asyncio.wait((ended,), timeout=_PAUSE)
                last = ended.done()
                while piece := _available(self.err):
                    self.error += piece[: _MOST_ERROR - len(self.error)]
                while piece := _available(self.out):
                    if not take(piece):
                        return False
                    await asyncio.sleep(0)
        finally:
            ended.cancel()
        return True


@contextlib.asynccontextmanager
async def _running(arguments: list[str], cwd: Path) -> AsyncIterator[_Search]:
    """A search that is over afterwards."""
    with _pipe() as (out, into), _pipe() as (err, complaints):
        with contextlib.suppress(OSError, AttributeError):  # a larger pipe is only faster
            fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, _PIPE)
        process = await _start(
            arguments, cwd, stdin=asyncio.subprocess.DEVNULL, stdout=into.fileno(), stderr=complaints.fileno()
        )
        into.close()
        complaints.close()
        with contextlib.suppress(OSError, AttributeError):  # where the system has it
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        try:
            yield _Search(process, out, err)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, BinaryIO]]:
    """The descriptor to read from without waiting, and the end to give away and close."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    with open(out, "rb", buffering=0), open(into, "wb", buffering=0) as given:
        yield out, given


def _available(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except BlockingIOError:
        return b""


async def matching(pattern: str, text: bytes) -> str:
    """The lines of a text that match, found outside this process so that no pattern can hold it up."""
    arguments = [*_BASE, "--color=never", "--engine=auto", "--text", f"-e{pattern}", "--", "-"]
    process = await _start(arguments, Path("/"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(SECONDS):
            out, error = await process.communicate(text)
    except TimeoutError:
        raise ToolError("TIMEOUT", "filter took too long. Use a simpler one.") from None
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode == 2:
        raise ToolError("INVALID_PARAM", f"{_reason(error.decode('utf-8', 'replace') or 'bad filter')}.")
    return out.decode("utf-8", "replace")


def shown(ctx: ToolContext, path: Path) -> str:
    """A path the way other tools take it back: relative to the working directory where it lies below, else whole."""
    return str(path.relative_to(ctx.state.cwd)) if path.is_relative_to(ctx.state.cwd) else str(path)


def called(ctx: ToolContext, path: Path) -> str:
    """The same, as it may stand in a sentence."""
    return spelled(shown(ctx, path))


def spelled(name: str) -> str:
    """A file name as text that can be printed and stored, whatever bytes it holds."""
    return plain(name.encode("utf-8", "backslashreplace").decode()).replace("\n", "\\n")


def may_read(ctx: ToolContext, path: Path) -> bool:
    """Whether no rule forbids to read what a search found."""
    return ctx.tree.may_read is None or ctx.tree.may_read(path)


def existing(ctx: ToolContext, given: str) -> Path:
    """The resolved path, or NOT_FOUND with the nearest names."""
    path = ctx.resolve(given)
    if not os.path.lexists(path):
        raise missing(ctx, path)
    return path


async def _start(
    arguments: list[str], cwd: Path, *, stdin: int, stdout: int, stderr: int = asyncio.subprocess.PIPE
) -> asyncio.subprocess.Process:
    environ = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}  # nothing of the user's environment steers a search
    try:
        if not program():
            raise FileNotFoundError
        return await spawn.piped(
            program(), *arguments, environ=environ, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr
        )
    except FileNotFoundError as error:
        raise ToolError("EXECUTION_ERROR", MISSING) from error
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise ToolError("INVALID_PARAM", "That is too long to search for. Search for a part of it.") from error
        raise ToolError("EXECUTION_ERROR", f"ripgrep could not be started: {error.strerror}.") from error


def _reason(text: str) -> str:
    """rg's complaint in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("error: "):
            return f"pattern is not a regular expression: {line.removeprefix('error: ').rstrip('.')}"
    return plain(lines[0].removeprefix("rg: ").rstrip("."))[:_REASON]
