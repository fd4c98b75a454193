"""One writer a session: a locked file that holds the writer's process id. A dead writer's lock frees itself."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path

from cowork.core.errors import UserError
from cowork.private_files import open_private

_NO_LOCKS_HERE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_PID_WAIT_S = 0.5  # how long a new holder may take to write its id


class Lock:
    """The right to write one session, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock, or raise a UserError that names the process that has it."""
        self.path = path
        while True:
            self._fd = open_private(path, os.O_RDWR | os.O_CREAT)
            try:
                _take(self._fd, path)
                there = os.stat(path, follow_symlinks=False)
            except FileNotFoundError:
                there = None
            except BaseException:
                os.close(self._fd)
                raise
            if there and os.path.samestat(there, os.fstat(self._fd)):
                return
            self.release()  # the session was removed under us and the name is new

    def release(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def holder(path: Path) -> int | None:
    """The process that holds the lock now, 0 if it cannot be told, None if nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _living_pid(fd) or 0
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
        return _living_pid(fd)
    finally:
        os.close(fd)


def _take(fd: int, path: Path) -> None:
    """Lock the file and write our process id into it. Where files cannot be locked, the id alone says whose it is."""
    deadline, can_lock = time.monotonic() + _PID_WAIT_S, True
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            pid = _living_pid(fd)
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            pid, can_lock = _living_pid(fd), False
            if pid is None:
                break
        if pid or time.monotonic() > deadline:
            raise _in_use(path, pid)
        time.sleep(0.005)  # the holder is about to write its id, or only looks
    with contextlib.suppress(OSError):  # on a full disk the lock holds, only nobody is told whose it is
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {_birth(os.getpid())}\n".encode(), 0)
    if not can_lock and (pid := _living_pid(fd)) not in (None, os.getpid()):
        raise _in_use(path, pid)  # another process came at the same moment, and its id is the last


def _in_use(path: Path, pid: int | None) -> UserError:
    who = f"process {pid}" if pid else "another process"
    hint = "Close it there first, or fork it to go on from here."
    return UserError(f"Session {path.parent.name} is in use by {who}.", hint)


def _living_pid(fd: int) -> int | None:
    """The process whose id is in the file, if it still runs."""
    number, _, birth = os.pread(fd, 64, 0).decode("ascii", "replace").strip().partition(" ")
    pid = int(number) if number.isdecimal() else 0
    if not pid:
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass  # alive, and someone else's
    return None if birth and birth != _birth(pid) else pid  # the number of a dead process may be another's by now


def _birth(pid: int) -> str:
    """When a process began, in the kernel's count; empty where that cannot be told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""
