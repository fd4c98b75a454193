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
        self._claim: Path | None = None  # where files cannot be locked
        while True:
            self._fd = open_private(path, os.O_RDWR | os.O_CREAT)
            try:
                if not _take(self._fd, path):
                    self._claim = _take_claim(path)
            except BaseException:
                os.close(self._fd)
                raise
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._fd), os.stat(path, follow_symlinks=False)):
                    break
            self.release()  # the session was removed under us and the name is new
        with contextlib.suppress(OSError):  # on a full disk the lock holds, only nobody is told whose it is
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{_me()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
            if self._claim:
                _give_up(self._claim)
            os.close(self._fd)
            self._fd = -1


def holder(path: Path) -> int | None:
    """The process that holds the lock now, 0 if it cannot be told, None if nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        locked = _flock(fd, fcntl.LOCK_SH)
        if locked:
            return None
        return _living_pid(fd) or (None if locked is None else 0)
    finally:
        os.close(fd)


def _take(fd: int, path: Path) -> bool:
    """Lock the file; False where files cannot be locked and its last holder is gone."""
    deadline = time.monotonic() + _PID_WAIT_S
    while True:
        locked = _flock(fd, fcntl.LOCK_EX)
        if locked:
            return True
        pid = _living_pid(fd)
        if locked is None and pid is None:
            return False
        if pid or time.monotonic() > deadline:
            raise _in_use(path, pid)
        time.sleep(0.005)  # the holder is about to write its id, or only looks


def _flock(fd: int, how: int) -> bool | None:
    """Whether the file could be locked; None where files cannot be."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS_HERE:
            return None
        raise
    return True


def _in_use(path: Path, pid: int | None) -> UserError:
    who = f"process {pid}" if pid else "another process"
    return UserError(f"Session {path.parent.name} is in use by {who}.", "Close it there first.")


def _take_claim(path: Path) -> Path | None:
    """Take the right without locks: numbered links that name a process each, of which the highest counts.

    A link appears whole or not at all, so of two that try for the next number only one gets it; and as the highest
    always stays, one that was slow sees that it has been overtaken. None where there are no links either.
    """
    while True:
        claims = _claims(path)
        newest = max(claims, default=0)
        with contextlib.suppress(FileNotFoundError):
            if newest and (pid := _alive(os.readlink(claims[newest]))):
                raise _in_use(path, pid)
        mine = path.with_name(f"{path.name}.{newest + 1}")
        try:
            os.symlink(_me(), mine)
        except FileExistsError:
            continue
        except OSError:
            return None
        claims = _claims(path)
        if max(claims, default=0) > newest + 1:
            mine.unlink(missing_ok=True)
            continue
        for number, claim in claims.items():
            if number <= newest:
                claim.unlink(missing_ok=True)
        return mine


def _give_up(claim: Path) -> None:
    free = claim.with_name(f".{claim.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        os.symlink("free", free)
        os.replace(free, claim)


def _claims(path: Path) -> dict[int, Path]:
    parts = {name: name.partition(f"{path.name}.") for name in os.listdir(path.parent)}
    return {int(n): path.with_name(name) for name, (before, _, n) in parts.items() if not before and n.isdecimal()}


def _living_pid(fd: int) -> int | None:
    return _alive(os.pread(fd, 64, 0).decode("ascii", "replace"))


def _me() -> str:
    return f"{os.getpid()} {_birth(os.getpid())}"


def _alive(said: str) -> int | None:
    """The process that is meant, if it still runs."""
    number, _, birth = said.strip().partition(" ")
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
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""
