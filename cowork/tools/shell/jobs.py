"""Commands under way: how they are started in the reaper, read, waited for and ended."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from cowork.core import spawn
from cowork.core.errors import ToolError
from cowork.core.frozen import frozen
from cowork.tools.base import Hold, NoHold, ToolContext, TreeState
from cowork.tools.shell import reaper as script
from cowork.tools.shell.output import Capture

_READ = 1 << 16
_LOOK = 1.0  # seconds between looks at what a running command made
_PATIENCE = 3.0  # seconds a keeper may take to end a command before it is ended itself
_DRAIN = 0.5  # seconds for the rest of the output: a pipe may be held by a process that is none of ours
_FOLLOWED: set[asyncio.Task[Ended]] = set()  # a loop forgets tasks, and after a cancel nobody else knows this one
TRIES = 5  # times a command or a server is started again when its sandbox failed
_QUIET = {
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER"), "cat"),
    **dict.fromkeys(("EDITOR", "GIT_EDITOR", "VISUAL"), "true"),
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
}
# The command comes by descriptor, so it may be of any length and no `pkill -f` of its own words hits the shell. It
# cannot see the descriptor on which the folder it ends in is told; the trap is for commands that call exit. What is
# still running gets a moment to finish, for a sandbox ends with its shell, and is told too, for nobody outside sees it.
_LINGER = (
    "for __i in {1..20}; do __kids=; read -r __kids </proc/$$/task/$$/children || :;"
    ' [ -z "$__kids" ] && break; sleep 0.01; done'
)
_NAMES = 'IFS=" "; for __i in $__kids; do read -r __i </proc/$__i/comm && echo "$__i"; done; printf "\\0"'
_TELL = f'{{ [ "${{__told-}}" ] || {{ {_LINGER}; {{ {_NAMES}; builtin pwd -P; }} >&{script.CWD_FD}; }}; }} 2>/dev/null'
_BASH = (
    f"printf B >&{script.CWD_FD}; trap '{_TELL}' EXIT; IFS= read -r -d '' -u {script.SCRIPT_FD} __command;"
    f' eval "$__command" {script.CWD_FD}>&- {script.SCRIPT_FD}<&-;'
    f' {{ set -- "$?"; set +eux; }} 2>/dev/null; {_TELL}; __told=1; exit "$1"'
)
_SH = (
    f"printf B >&{script.CWD_FD}; trap '{{ pwd -P >&{script.CWD_FD}; }} 2>/dev/null' EXIT;"
    f' command=$(cat <&{script.SCRIPT_FD}); eval "$command" {script.CWD_FD}>&- {script.SCRIPT_FD}<&-'
)


@frozen
class Ended:
    """How a command ended: its exit code or the signal that ended it, and what it left behind."""

    code: int | None = None
    signal: str = ""
    cwd: str = ""
    left: tuple[str, ...] = ()  # processes that were still running when the shell exited, and were ended
    survivors: tuple[str, ...] = ()  # processes that could not be ended
    error: str = ""  # why it did not even start


class Reaper:
    """The process that runs commands: one a session, gone when this process is."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            # A command can read its ancestors' environment, so this one's is empty.
            words = [sys.executable, "-I", "-S", script.__file__, str(theirs.fileno())]
            self.process = spawn.beside(words, descriptor=theirs.fileno())

    def open(self, request: int, *, server: bool = False) -> tuple[socket.socket, list[int]]:
        """(control socket, our ends of its pipes) of a new keeper for what is asked for in a file.

        A command has one pipe, for all it writes; a server three: what it reads, what it writes, what it complains of.
        """
        control, far = socket.socketpair()
        pipes = [os.pipe(), os.pipe(), os.pipe()] if server else [os.pipe()]
        ours, theirs = [out for out, _ in pipes], [into for _, into in pipes]
        if server:
            ours[0], theirs[0] = theirs[0], ours[0]
        try:
            socket.send_fds(self._socket, [b"c"], [far.fileno(), request, *theirs])
        except OSError:
            control.close()
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            far.close()
            for descriptor in theirs:
                os.close(descriptor)
        for descriptor in (control.fileno(), *ours):
            os.set_blocking(descriptor, False)
        return control, ours

    async def aclose(self) -> None:
        """Let it go; it ends once the commands have."""
        self._socket.close()
        await asyncio.to_thread(spawn.wait, self.process, _PATIENCE)


def prepare(tree: TreeState) -> Reaper:
    """Start the reaper ahead of the first command, which then need not wait for it."""
    if tree.reaper is None:
        tree.reaper = Reaper()
    return cast(Reaper, tree.reaper)


@dataclass(slots=True)
class RunningCommand:
    """One command under way, in front or in the background. `wait` for it; `end` it; both may be called again."""

    command: str
    capture: Capture
    on_text: Callable[[str], None]
    hold: Hold
    _open: Callable[[], tuple[socket.socket, int]]  # starts it: a keeper's socket, and what the command writes
    _tries: int  # how often it may be started again because its sandbox failed
    _control: socket.socket = field(init=False)
    _output: int = field(init=False)
    _task: asyncio.Task[Ended] = field(init=False)
    _keeper: int = 0  # its process
    _began: asyncio.Event = field(default_factory=asyncio.Event)
    _drained: asyncio.Event = field(default_factory=asyncio.Event)
    ended: Ended | None = None
    started: float = field(default_factory=time.monotonic)
    stopped: float = 0.0
    id: str = ""  # of one in the background, and the agent that started it
    owner: str = ""
    position: int = 0  # how far the output of one in the background was read

    def start(self) -> None:
        """Start it, and follow it to its end."""
        self._control, self._output = self._open()
        self._task = asyncio.get_running_loop().create_task(self._run())
        _FOLLOWED.add(self._task)
        self._task.add_done_callback(_FOLLOWED.discard)

    @property
    def seconds(self) -> float:
        return (self.stopped or time.monotonic()) - self.started

    @property
    def running(self) -> bool:
        return self.ended is None

    async def settle(self, seconds: float) -> None:
        """Wait until it runs, and then a moment for it to fail."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._began.wait(), _PATIENCE)
            await asyncio.wait_for(self.wait(), seconds)

    async def wait(self) -> Ended:
        """The end of the command and of every process it started."""
        return await asyncio.shield(self._task)

    async def end(self, *, now: bool = False) -> Ended:
        """TERM and then KILL everything; `now` skips the TERM."""
        self._tries = 0
        with contextlib.suppress(OSError):
            self._control.send(b"K" if now else b"T")
        self._signal_keeper(signal.SIGCONT)  # the command may have stopped it
        if not (await asyncio.wait({self._task}, timeout=_PATIENCE))[0]:
            self._signal_keeper(signal.SIGKILL)  # deaf; the reaper ends what it leaves
        return await self.wait()

    def _signal_keeper(self, number: int) -> None:
        if self._keeper and self.running:
            with contextlib.suppress(OSError):
                os.kill(self._keeper, number)

    async def _run(self) -> Ended:
        """Follow it; where its box could not be made nothing ran, and a new one is made: what the last was to hide
        went away before it was mounted."""
        try:
            while (report := await self._follow()) is None:
                self._tries -= 1
                self._control, self._output = self._open()
            self.ended = _parse_report(report)
        except (ToolError, OSError) as error:
            self.ended = Ended(error=str(error))
        finally:
            self.hold.release()
            self.stopped = time.monotonic()
            self.on_text(self.capture.finish())
        return self.ended

    async def _follow(self) -> bytes | None:
        """The keeper's report, empty when it was killed; None where the command never began and may be tried again."""
        loop, report = asyncio.get_running_loop(), b""
        keeper, writer = await asyncio.open_connection(sock=self._control)
        try:
            with contextlib.suppress(ConnectionError):
                self._keeper = int.from_bytes(await keeper.read(script.PID_BYTES), "big")
                if await keeper.read(1) == script.NOT_BEGUN and self._tries:
                    return None
                self._began.set()
                loop.add_reader(self._output, self._on_output)
                while not keeper.at_eof():
                    with contextlib.suppress(TimeoutError):
                        report += await asyncio.wait_for(keeper.read(_READ), _LOOK)
                    self.hold.look()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), _DRAIN)
            return report
        finally:
            writer.transport.abort()
            loop.remove_reader(self._output)
            os.close(self._output)

    def _on_output(self) -> None:
        try:
            data = os.read(self._output, _READ)
        except BlockingIOError:
            return
        if data:
            self.on_text(self.capture.feed(data))
        else:
            asyncio.get_running_loop().remove_reader(self._output)
            self._drained.set()


async def start(ctx: ToolContext, command: str, capture: Capture, on_text: Callable[[str], None]) -> RunningCommand:
    """Run a shell command in the reaper, inside the sandbox if there is one."""
    tree, cwd = ctx.tree, ctx.state.cwd
    environ = {"PATH": os.defpath, **tree.environ, **_QUIET, **tree.call_environ(ctx.agent, ctx.tool_use_id)}
    shell = _shell(environ)
    hold = NoHold(cwd) if ctx.reads else tree.hold(cwd)  # what can write nothing need not be kept from anything
    tree.holds[:] = [*(other for other in tree.holds if not other.released), hold]

    def open() -> tuple[socket.socket, int]:
        program, *arguments = tree.wrap(shell, cwd, ctx.box)
        argv = [shutil.which(program, path=environ["PATH"]) or program, *arguments]
        request = {"argv": argv, "cwd": str(cwd), "env": environ, "wrapped": program != shell[0]}
        control, (output,) = open_control(tree, request, command)
        return control, output

    running = RunningCommand(command, capture, on_text, hold, open, TRIES if ctx.box != "outside" else 0)
    try:
        running.start()
    except BaseException:
        hold.release()
        raise
    return running


def open_control(
    tree: TreeState, request: dict[str, Any], command: str = "", *, server: bool = False
) -> tuple[socket.socket, list[int]]:
    """A new keeper for a request; a file that has no name hands it that and the command."""
    content = marshal.dumps(request)
    in_memory = hasattr(os, "memfd_create")
    with os.fdopen(os.memfd_create("command"), "w+b") if in_memory else tempfile.TemporaryFile() as file:
        file.write(len(content).to_bytes(script.LENGTH_BYTES, "big") + content + command.encode("utf-8", "replace"))
        file.seek(0)
        try:
            try:
                return prepare(tree).open(file.fileno(), server=server)
            except OSError:  # it was killed; a new one will do
                tree.reaper = None
                return prepare(tree).open(file.fileno(), server=server)
        except OSError as error:
            said = f"The command could not be started: {error.strerror}. Try again."
            raise ToolError("INTERNAL_ERROR", said) from error


async def close(tree: TreeState) -> None:
    """End every background command and the reaper."""
    await asyncio.gather(*(job.end() for job in tree.jobs.values() if job.running), return_exceptions=True)
    if tree.reaper is not None:
        await cast(Reaper, tree.reaper).aclose()
        tree.reaper = None
    for hold in tree.holds:
        hold.release()
    tree.closing()


def _shell(environ: Mapping[str, str]) -> list[str]:
    for bash in ("/bin/bash", "/usr/bin/bash", shutil.which("bash", path=environ["PATH"])):
        if bash and os.access(bash, os.X_OK):
            return [bash, "--noprofile", "--norc", "-c", _BASH, "bash"]
    return ["/bin/sh", "-c", _SH, "sh"]


def _parse_report(report: bytes) -> Ended:
    if not report:
        return Ended(signal="SIGKILL")
    told = marshal.loads(report)
    status = told.pop("status", 0)
    ended = Ended(**told)
    if ended.error:
        return ended
    code = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
    return replace(ended, code=code) if code >= 0 else replace(ended, signal=signal_name(-code) or f"signal {-code}")


def signal_name(number: int) -> str:
    """The name of a signal, empty where there is none of that number."""
    return signal.Signals(number).name if number in list(signal.Signals) else ""
