"""What carries the boxes: bubblewrap, tried once; a seatbelt profile on macOS; the /tmp commands of a run share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from cowork.core import spawn
from cowork.core.workspace import Workspace, protected_names
from cowork.permissions.sandbox.watch import GIT_FILES, GIT_FOLDERS

_APART = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL")
SEATBELT = "/usr/bin/sandbox-exec"
BARE = (*_APART, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
# A second box in the first one: all of that as it is, but for what is mounted on top.
INNER = ("--die-with-parent", "--cap-drop", "ALL", "--dev-bind", "/", "/")
# Who can make a user namespace has every capability in it.
NO_NAMESPACES = ("--unshare-user", "--disable-userns")
_IN_GIT = rf"\.git/({'|'.join(map(re.escape, (*GIT_FILES, *GIT_FOLDERS)))})"
_PREFIX = "cowork-tmp-"
_NEW = 60.0  # seconds in which another run may not have locked its own yet
_PROBE_SECONDS = 20.0  # a busy machine is no reason to go without


@lru_cache(maxsize=8)
def probe(bwrap: str) -> tuple[str, tuple[str, ...]]:
    """Why bubblewrap does not work here, and what it can do that old versions and some containers do not have."""
    for extra in (NO_NAMESPACES, ()):
        if not (said := _complaint([bwrap, *BARE, *settings(), *extra, "true"])):
            return "", extra
    return f"bubblewrap does not work here: {said}", ()


@lru_cache(maxsize=8)
def nests(bwrap: str) -> bool:
    """Whether a box can be made in a box, and none in that."""
    inner = [bwrap, *INNER, *settings(), *NO_NAMESPACES, "true"]
    return bool(probe(bwrap)[1]) and not _complaint([bwrap, *BARE, *outer(), "--", *inner])


def settings() -> tuple[str, ...]:
    """/proc/sys is writable for root inside as outside, whatever capabilities it has lost."""
    return ("--ro-bind-try", "/proc/sys", "/proc/sys") if os.geteuid() == 0 else ()


def outer() -> tuple[str, ...]:
    """Without that capability root can make no namespace in which it is root."""
    return ("--unshare-user", *(("--cap-add", "CAP_SETFCAP") if os.geteuid() == 0 else ()))


def _complaint(words: list[str]) -> str:
    try:
        done = spawn.run(words, environ={"PATH": os.defpath}, seconds=_PROBE_SECONDS)
    except OSError as error:
        return str(error)
    said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit {done.returncode}"]
    return said[0] if done.returncode else ""


def profile(workspace: Workspace, writable: Sequence[Path], secrets: Sequence[Path], *, network: bool) -> str:
    """Reading is free but for secrets, writing only in the workspace and temporary folders, no network by default."""
    lines = ["(version 1)", "(allow default)", "(deny file-write*)", "(allow file-write*"]
    lines += [f"  (subpath {_quote(p)})" for p in (*writable, Path("/private/tmp"), Path("/private/var/folders"))]
    lines += ['  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/fd/"))']
    guarded = f'#"/({_IN_GIT}|{protected_names()})(/|$)"'
    for root in map(_quote, workspace.writable):
        lines.append(f"(deny file-write* (require-all (subpath {root}) (regex {guarded})))")
    lines += [f"(deny file-read* file-write* (subpath {_quote(place)}))" for place in secrets]
    lines += [] if network else ["(deny network*)", "(allow network* (remote unix-socket))"]
    return "\n".join(lines) + "\n"


def _quote(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    if min(text) < " ":
        raise ValueError("a folder whose name holds control characters cannot be named in a profile")
    return f'"{text}"'


class Temporary:
    """Made when it is first asked for, and locked, so that what a killed run left is known by being free."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._lock = -1

    def folder(self) -> Path | None:
        """The folder; None where none can be made."""
        with contextlib.suppress(OSError):
            if self._folder is None or not self._folder.is_dir():
                self.close()
                _sweep(Path(tempfile.gettempdir()))
                self._folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX)))
                self._lock = _lock_folder(self._folder, fcntl.LOCK_SH)
            return self._folder
        return None

    def close(self) -> None:
        """Remove it with all it holds."""
        if self._folder is not None:
            _remove(self._folder)
            os.close(self._lock)
            self._folder = None


def _sweep(place: Path) -> None:
    for path in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.geteuid() and status.st_ctime < time.time() - _NEW:
                lock = _lock_folder(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
                os.close(lock)


def _lock_folder(folder: Path, how: int) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove(folder: Path) -> None:
    """Remove a folder nobody runs in any more, of which a command may have closed some to their owner."""
    for place, folders, _ in os.walk(folder):
        for path in (path for path in (os.path.join(place, name) for name in folders) if not os.path.islink(path)):
            with contextlib.suppress(OSError):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
