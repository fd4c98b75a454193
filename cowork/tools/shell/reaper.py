"""Runs commands for cowork and lets none of their processes outlive them. A script of its own: standard library only.

It forks one keeper a command. A keeper is the reaper of every orphan below it, so children that fork twice or
start sessions of their own still come back to it; it ends them all when the shell exits, when it is told to, or when
cowork's end of the control socket closes, as it does on kill -9. A keeper that is killed itself leaves its orphans to
this process. Where the system has no such reaping (macOS), process groups and the process table have to do.
"""

from __future__ import annotations

# The first command may wait for this process, so it imports little.
import ctypes
import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

CWD_FD, SCRIPT_FD = 3, 4
TERM_GRACE = 1.5  # seconds between TERM and KILL
GONE_GRACE = 1.0  # the same, when cowork is gone
EXIT_GRACE = 0.1  # what a shell left behind may end by itself
LEFT_GRACE = 0.5  # between TERM and KILL for that
KILL_TIME = 3.0
PID_BYTES = 4  # a keeper first tells its number,
BEGUN, NOT_BEGUN = b"B", b"-"  # then whether the shell began, as its first byte says,
REPORT_AT = PID_BYTES + 1  # then how the command ended, and closes
LENGTH_BYTES = 8  # before a request, which the script follows in the same file
_MOST_HANDED = 5  # descriptors: a control socket, a request and three streams
_GRACE = {b"T": TERM_GRACE, b"K": 0.0, b"gone": GONE_GRACE}
_LINUX = sys.platform.startswith("linux")
_RESET = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD]


def main(fd: int) -> None:
    """Take commands from the socket until it closes, then wait for the keepers to finish."""
    requests = socket.socket(fileno=fd)
    os.set_inheritable(fd, False)
    alarm = _listen()
    _adopt_orphans()
    _leave_keyring()
    gc.disable()  # a keeper lives too briefly for it, and touching every object would copy the memory they share
    gc.freeze()
    keepers: set[int] = set()
    deadline = None
    while deadline is None or (keepers and time.monotonic() < deadline):
        waiting = [alarm] if deadline else [alarm, requests.fileno()]
        ready = select.select(waiting, [], [], 0.5 if deadline else None)[0]
        _drain(alarm)
        if requests.fileno() in ready:
            data, descriptors, _, _ = socket.recv_fds(requests, 1, _MOST_HANDED)
            if not data:
                deadline = time.monotonic() + 10
                for keeper in keepers:
                    _signal(keeper, signal.SIGCONT)  # one that was stopped must see the end too
            elif descriptors[2:]:
                keepers |= _fork_keeper(requests, alarm, descriptors[0], descriptors[1], descriptors[2:])
            for descriptor in descriptors:
                os.close(descriptor)
        ended, _ = _reap()
        keepers -= ended.keys()
        if any(ended.values()):  # one was killed, or gave up: its orphans came to us
            _kill(alarm, apart=keepers)
    _kill(alarm)


def keep(control: socket.socket, given: int, streams: list[int]) -> bool:
    """Run a command (one stream) or a server (three), and report on the control socket once none of its processes is
    left, which is what it gives."""
    for descriptor in (control.fileno(), given, *streams):
        os.set_inheritable(descriptor, False)
    alarm = _listen()
    _adopt_orphans()
    control.sendall(os.getpid().to_bytes(PID_BYTES, "big"))
    request = marshal.loads(os.read(given, int.from_bytes(os.read(given, LENGTH_BYTES), "big")))
    cwd_out, cwd_in = os.pipe()
    os.set_blocking(cwd_out, False)
    try:
        shell = _start_shell(request, streams, cwd_in, given)
    except OSError as error:
        control.sendall(BEGUN + marshal.dumps({"error": f"{error.strerror}: {error.filename or request['argv'][0]}"}))
        return True
    for descriptor in (*streams, cwd_in):
        os.close(descriptor)
    status: int | None = None
    begun, order, gone = b"", b"", False
    while status is None and not order:
        ready = select.select([alarm, control.fileno(), *([] if begun else [cwd_out])], [], [], None)[0]
        status, gone = _wait(alarm, shell, 0)
        if control.fileno() in ready:
            order = _order(control)
        if cwd_out in ready or (status is not None and not begun):
            begun = _drain(cwd_out, 1) or NOT_BEGUN
            control.sendall(begun)
    if not begun:  # it was told to end first
        _drain(cwd_out, 1)
        control.sendall(BEGUN)
    left: list[str] = []
    sandbox = os.path.basename(request["argv"][0])[:15] if request["wrapped"] else ""
    if status is None:
        status = _end(alarm, shell, _GRACE[order], spared=sandbox)
    elif not gone and not _wait(alarm, shell, EXIT_GRACE)[1]:
        left = [name for name in _living(shell).values() if name != sandbox]  # not left, only slow to go
        _end(alarm, shell, LEFT_GRACE)
    names, _, cwd = _drain(cwd_out).decode("utf-8", "surrogateescape").rpartition("\0")
    survivors = [] if _wait(alarm, shell, 0)[1] else list(_living(shell).values())
    told = {"status": status, "cwd": cwd[:-1], "left": tuple(left or names.splitlines())}  # in a box the shell tells
    control.sendall(marshal.dumps(told | {"survivors": tuple(survivors)}))
    return not survivors


def _fork_keeper(requests: socket.socket, alarm: int, control: int, given: int, streams: list[int]) -> set[int]:
    try:
        pid = os.fork()
    except OSError as error:
        told = marshal.dumps({"error": f"{error.strerror}: too many processes"})
        try:  # noqa: SIM105
            os.write(control, bytes(PID_BYTES) + BEGUN + told)
        except OSError:
            pass
        return set()
    if pid:
        return {pid}
    alone = False
    try:
        requests.close()
        signal.set_wakeup_fd(-1)
        os.close(alarm)
        alone = keep(socket.socket(fileno=control), given, streams)
    finally:
        os._exit(not alone)


def _start_shell(request: dict[str, Any], streams: list[int], cwd_in: int, script: int) -> int:
    """Start the shell, or the server, in a session of its own; raises what kept it from starting."""
    if len(streams) == 1:
        streams = [os.open(os.devnull, os.O_RDONLY), *streams, *streams, cwd_in, script]
    # Copies above the numbers that descriptors of the shell get, closed on exec.
    sources = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 32) for descriptor in streams]
    actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(sources)]
    os.chdir(request["cwd"])
    argv = request["argv"]
    try:
        # Not fork and exec: copying this process would take longer than starting a shell.
        return os.posix_spawn(argv[0], argv, request["env"], file_actions=actions, setsid=True, setsigdef=_RESET)
    finally:
        os.chdir("/")
        for source in sources:
            os.close(source)


def _end(alarm: int, shell: int, grace: float, spared: str = "") -> int | None:
    """TERM, then KILL, until nothing is left; gives the shell's exit status if it came.

    A sandbox is spared the TERM: it would obey at once and take everything inside with it.
    """
    status = None
    if grace:
        for pid, name in _living(shell).items():
            if not spared or name != spared:
                _signal(pid, signal.SIGTERM)
                _signal(pid, signal.SIGCONT)
        status, _ = _wait(alarm, shell, grace)
    ended = _kill(alarm, shell)
    return status if ended is None else ended


def _kill(alarm: int, shell: int = 0, apart: Collection[int] = ()) -> int | None:
    """KILL all below this process, but for those apart, until nothing is left; the shell's exit status if it came."""
    status = None
    deadline = time.monotonic() + KILL_TIME
    # A look misses one that starts another and ends while the table is read; the next look does not.
    while time.monotonic() < deadline and (pids := _living(shell, apart) or _living(shell, apart)):
        for pid in pids:  # first all are stopped, so that none can fork while the others are being killed
            _signal(pid, signal.SIGSTOP)
        for pid in {*pids, *_living(shell, apart)}:
            _signal(pid, signal.SIGKILL)
        if not shell:
            time.sleep(0.01)
            continue
        ended, _ = _wait(alarm, shell, 0.02)
        status = status if ended is None else ended
    return status


def _wait(alarm: int, shell: int, seconds: float) -> tuple[int | None, bool]:
    """Reap until nothing is left or the time is over: the shell's exit status if it came, and whether all are gone."""
    status, deadline = None, time.monotonic() + seconds
    while True:
        _drain(alarm)
        ended, gone = _reap()
        status = ended.get(shell, status)
        gone = gone if _LINUX else not _living(shell)
        left = deadline - time.monotonic()
        if left <= 0 or gone:
            return status, gone
        select.select([alarm], [], [], min(left, 0.1))


def _reap() -> tuple[dict[int, int], bool]:
    """(how children ended, whether none is left); who adopts orphans has one as long as anything lives below it."""
    ended: dict[int, int] = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    except ChildProcessError:
        return ended, True
    return ended, False


def _signal(pid: int, number: int) -> None:
    try:  # noqa: SIM105
        os.kill(pid, number)
    except OSError:
        pass


def _living(shell: int, apart: Collection[int] = ()) -> dict[int, str]:
    """What lives below this process, with its name, without those `apart` and what is below them.

    Where orphans do not come back to us: what lives below the shell and in its group.
    """
    table = _table()
    found = {pid: name for pid, (_, name, group) in table.items() if group == shell and not _LINUX}
    below: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        below.setdefault(parent, []).append(pid)
    queue = [os.getpid() if _LINUX else shell, *found]
    while queue:
        inner = [pid for pid in below.get(queue.pop(), ()) if pid not in found and pid not in apart]
        found |= {pid: table[pid][1] for pid in inner}
        queue += inner
    return found


def _table() -> dict[int, tuple[int, str, int]]:
    """(parent, name, group) of every process that is not just waiting to be reaped."""
    if not _LINUX:
        return _table_by_ps()
    found = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as file:
                before, _, after = file.read().rpartition(")")
            state, parent, group = after.split(None, 3)[:3]
            # A main thread that ended before the others looks like a zombie too, but its process lives on.
            if state != "Z" or len(os.listdir(f"/proc/{number}/task")) > 1:
                found[int(number)] = int(parent), before.partition("(")[2], int(group)
        except OSError:  # ended in this moment
            continue
    return found


def _table_by_ps() -> dict[int, tuple[int, str, int]]:
    import subprocess

    words = ["ps", "-axo", "pid=,ppid=,pgid=,stat=,comm="]
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    rows = [row.split(None, 4) for row in told.splitlines()]
    return {int(row[0]): (int(row[1]), row[4], int(row[2])) for row in rows if not row[3].startswith("Z")}


def _adopt_orphans() -> None:
    if _LINUX:
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _leave_keyring() -> None:
    """Join a new and empty session keyring: the user's may hold keys, and what we start inherits it."""
    number = {"x86_64": 250, "aarch64": 219, "riscv64": 219}.get(os.uname().machine)
    if _LINUX and number:
        ctypes.CDLL(None).syscall(number, 1, None)


def _listen() -> int:
    """A descriptor that becomes readable when a child ends. Polite signals do not end us: our work is not done."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    os.set_blocking(into, False)
    signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    return out


def _drain(descriptor: int, most: int = 1 << 16) -> bytes:
    try:
        return os.read(descriptor, most)
    except BlockingIOError:
        return b""


def _order(control: socket.socket) -> bytes:
    try:
        return control.recv(1) or b"gone"
    except OSError:
        return b"gone"


if __name__ == "__main__":
    main(int(sys.argv[1]))
