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
    from collections.abc import Iterator
    from typing import Any

CWD_FD, SCRIPT_FD = 3, 4
TERM_GRACE = 1.5  # seconds between TERM and KILL
GONE_GRACE = 1.0  # the same, when cowork is gone
EXIT_GRACE = 0.1  # what a shell left behind may end by itself
LEFT_GRACE = 0.5  # between TERM and KILL for that
KILL_TIME = 3.0
_GRACE = {b"T": TERM_GRACE, b"K": 0.0, b"gone": GONE_GRACE}
_LENGTH, _INT = 8, 4  # bytes
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
        if alarm in ready:
            _drain(alarm)
        if requests.fileno() in ready and deadline is None:
            data, descriptors = _handed(requests)
            if not data:
                deadline = time.monotonic() + 10
                for keeper in keepers:
                    _signal(keeper, signal.SIGCONT)  # one that was stopped must see the end too
            elif len(descriptors) == 2:
                keepers |= _fork_keeper(requests, alarm, *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
        for pid, _status in _reaped():
            keepers.discard(pid)
        _end_strays(keepers)
    _end_strays(set())


def keep(control: socket.socket, output: int) -> None:
    """Run one command and report on the control socket once none of its processes is left."""
    os.set_inheritable(output, False)
    os.set_inheritable(control.fileno(), False)
    alarm = _listen()
    _adopt_orphans()
    if (request := _receive(control)) is None:
        return
    control.sendall(packed({"keeper": os.getpid()}))
    cwd_out, cwd_in = os.pipe()
    os.set_blocking(cwd_out, False)
    try:
        shell = _start_shell(request, output, cwd_in)
    except OSError as error:
        control.sendall(packed({"error": f"{error.strerror}: {error.filename or request['argv'][0]}"}))
        return
    os.close(output)
    os.close(cwd_in)
    status: int | None = None
    order = b""
    while status is None and not order:
        ready = select.select([alarm, control.fileno()], [], [], None)[0]
        _drain(alarm)
        for pid, ended in _reaped():
            status = ended if pid == shell else status
        if control.fileno() in ready:
            order = _order(control)
    left = _names(_below(shell)) if status is not None else []
    sandbox = os.path.basename(request["argv"][0])[:15] if request["wrapped"] else ""
    if status is None:
        status = _end(alarm, shell, _GRACE[order], spared=sandbox)
    elif left:
        _wait(alarm, shell, EXIT_GRACE)
        left = [name for name in _names(_below(shell)) if name != sandbox]  # not left, only slow to go
        _end(alarm, shell, LEFT_GRACE)
    names, _, cwd = _drain(cwd_out).decode("utf-8", "surrogateescape").rpartition("\0")
    told = {"status": status, "cwd": cwd[:-1], "inside": names.splitlines(), "left": left}
    control.sendall(packed({**told, "survivors": _names(_below(shell))}))


def _fork_keeper(requests: socket.socket, alarm: int, control: int, output: int) -> set[int]:
    try:
        pid = os.fork()
    except OSError as error:
        try:  # noqa: SIM105
            socket.socket(fileno=os.dup(control)).sendall(packed({"error": f"{error.strerror}: too many processes"}))
        except OSError:
            pass
        return set()
    if pid:
        return {pid}
    try:
        requests.close()
        signal.set_wakeup_fd(-1)
        os.close(alarm)
        keep(socket.socket(fileno=control), output)
    except BrokenPipeError:  # cowork is gone, and so is everything that was to be ended
        pass
    finally:
        os._exit(0)


def _start_shell(request: dict[str, Any], output: int, cwd_in: int) -> int:
    """Start the shell in a session of its own; raises what kept it from starting."""
    script = _unnamed_file(request["script"].encode("utf-8", "replace"))
    sources = [_above(fd) for fd in (os.open(os.devnull, os.O_RDONLY), output, output, cwd_in, script)]
    actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(sources)]
    os.chdir(request["cwd"])
    argv = request["argv"]
    try:
        # Not fork and exec: copying this process would take longer than starting a shell.
        return os.posix_spawn(argv[0], argv, request["env"], file_actions=actions, setsid=True, setsigdef=_RESET)
    finally:
        os.chdir("/")
        for source in (*sources, script):
            os.close(source)


def _above(descriptor: int) -> int:
    """A copy above the numbers that descriptors of the shell get; closed on exec."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 32)


def _unnamed_file(content: bytes) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("command")
    else:
        path = f"/tmp/cowork-{os.urandom(12).hex()}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _end(alarm: int, shell: int, grace: float, spared: str = "") -> int | None:
    """TERM, then KILL, until nothing is left; gives the shell's exit status if it came.

    A sandbox is spared the TERM: it would obey at once and take everything inside with it.
    """
    status = None
    if grace:
        for pid in _below(shell):
            if not spared or _names([pid]) != [spared]:
                _signal(pid, signal.SIGTERM)
                _signal(pid, signal.SIGCONT)
        status = _wait(alarm, shell, grace)
    deadline = time.monotonic() + KILL_TIME
    while time.monotonic() < deadline:
        pids = _below(shell)
        if not pids:
            break
        for pid in pids:  # first all are stopped, so that none can fork while the others are being killed
            _signal(pid, signal.SIGSTOP)
        for pid in {*pids, *_below(shell)}:
            _signal(pid, signal.SIGKILL)
        ended = _wait(alarm, shell, 0.02)
        status = status if ended is None else ended
    return status


def _wait(alarm: int, shell: int, seconds: float) -> int | None:
    """Reap until nothing is left or the time is over."""
    status = None
    deadline = time.monotonic() + seconds
    while True:
        for pid, ended in _reaped():
            status = ended if pid == shell else status
        left = deadline - time.monotonic()
        if left <= 0 or not _below(shell):
            return status
        select.select([alarm], [], [], min(left, 0.1))
        _drain(alarm)


def _end_strays(keepers: set[int]) -> None:
    """Kill what came back from a keeper that was itself killed."""
    if not _LINUX:
        return
    for pid in set(_children(os.getpid())) - keepers:
        for below in [*_tree(pid), pid]:
            _signal(below, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    try:  # noqa: SIM105
        os.kill(pid, number)
    except OSError:
        pass


def _reaped() -> Iterator[tuple[int, int]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def _below(shell: int) -> list[int]:
    """Every living process of the command."""
    return _tree(os.getpid()) if _LINUX else _table(shell)


def _tree(pid: int) -> list[int]:
    found: list[int] = []
    queue = [pid]
    while queue:
        children = _children(queue.pop())
        found += children
        queue += children
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return found if found or os.path.exists("/proc/thread-self/children") else _children_by_parent(pid)
    except OSError:
        return found
    return [child for child in found if not _is_zombie(child)]


def _children_by_parent(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != b"Z":
                found.append(int(name))
    return found


def _is_zombie(pid: int) -> bool:
    """A main thread that ended before the others looks like a zombie too, but its process lives on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z" and len(os.listdir(f"/proc/{pid}/task")) < 2
    except OSError:
        return True


def _table(shell: int) -> list[int]:
    """Without /proc: the shell's group and what descends from it, as far as ps can tell."""
    import subprocess

    rows = subprocess.run(["ps", "-axo", "pid=,ppid=,pgid=,stat="], capture_output=True, text=True, check=False).stdout
    parents: dict[int, int] = {}
    found: set[int] = set()
    for row in rows.splitlines():
        pid, parent, group, state = row.split(None, 3)
        if not state.startswith("Z"):
            parents[int(pid)] = int(parent)
            if int(group) == shell:
                found.add(int(pid))
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found or parent == shell} - found
        found |= more
        grown = bool(more)
    return sorted(found)


def _names(pids: list[int]) -> list[str]:
    names = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                names.append(file.read().strip())
        except OSError:  # ended in this moment, or no /proc here
            if not _LINUX:
                names.append(str(pid))
    return names


def _adopt_orphans() -> None:
    if _LINUX:
        _call("prctl", 36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _leave_keyring() -> None:
    """Join a new and empty session keyring: the user's may hold keys, and what we start inherits it."""
    number = {"x86_64": 250, "aarch64": 219, "riscv64": 219}.get(os.uname().machine)
    if _LINUX and number:
        _call("syscall", number, 1, None)


def _call(name: str, *arguments: int | None) -> None:
    """A function of the C library."""
    ctypes.CDLL(None)[name](*arguments)


def _listen() -> int:
    """A descriptor that becomes readable when a child ends. Polite signals do not end us: our work is not done."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    os.set_blocking(into, False)
    signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    return out


def _drain(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def packed(message: dict[str, Any]) -> bytes:
    """A message as it goes over a control socket: its length and its content."""
    data = marshal.dumps(message)
    return len(data).to_bytes(_LENGTH, "big") + data


def unpacked(data: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """The messages that are whole, and what is there of the next."""
    messages: list[dict[str, Any]] = []
    while len(data) >= (end := _LENGTH + int.from_bytes(data[:_LENGTH], "big")) and len(data) >= _LENGTH:
        messages.append(marshal.loads(data[_LENGTH:end]))
        data = data[end:]
    return messages, data


def _receive(control: socket.socket) -> dict[str, Any] | None:
    messages, data = unpacked(b"")
    while not messages:
        if not (piece := control.recv(1 << 16)):
            return None
        messages, data = unpacked(data + piece)
    return messages[0]


def _handed(requests: socket.socket) -> tuple[bytes, list[int]]:
    """A byte, empty when cowork is gone, and the descriptors that came with it."""
    data, more, _, _ = requests.recvmsg(1, socket.CMSG_SPACE(2 * _INT))
    found = b"".join(part for _, kind, part in more if kind == socket.SCM_RIGHTS)
    return data, [int.from_bytes(found[at : at + _INT], sys.byteorder) for at in range(0, len(found), _INT)]


def _order(control: socket.socket) -> bytes:
    try:
        return control.recv(1) or b"gone"
    except OSError:
        return b"gone"


if __name__ == "__main__":
    main(int(sys.argv[1]))
