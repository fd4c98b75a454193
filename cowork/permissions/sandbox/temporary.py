"""The /tmp that all commands of a run share in the sandbox: a folder of its own, gone when the run is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_PREFIX = "cowork-tmp-"
_NEW = 60.0  # seconds in which another run may not have locked its own yet


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
                self._lock = _locked(self._folder, fcntl.LOCK_SH)
            return self._folder
        return None

    def close(self) -> None:
        """Remove it with all it holds."""
        if self._folder is not None:
            _remove(self._folder)
            os.close(self._lock)
            self._folder = None


def _sweep(place: Path) -> None:
    """Remove what killed runs of this user left."""
    for path in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.geteuid() and status.st_ctime < time.time() - _NEW:
                lock = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
                os.close(lock)


def _locked(folder: Path, how: int) -> int:
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
        inner = [os.path.join(place, name) for name in folders]
        for path in (path for path in inner if not os.path.islink(path)):
            with contextlib.suppress(OSError):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
