"""Old outputs of commands go, once a day at most; conversations stay."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from cowork.core.format import plural
from cowork.private_files import replace_private
from cowork.sessions.log.lock import holder
from cowork.sessions.log.writer import LOCK, is_id

OUTPUTS = "outputs"  # in the folder of a session: results too long to be shown
STAMP = ".outputs-looked-at"
DAY = 86_400


def drop_old_outputs(sessions: Path, days: int, now: float | None = None) -> str:
    """Delete outputs older than `days` of sessions that nobody writes; gives a line that says so, or nothing."""
    now = time.time() if now is None else now
    with contextlib.suppress(OSError):
        if 0 <= now - os.stat(sessions / STAMP).st_mtime < DAY:
            return ""
    files = size = 0
    with contextlib.suppress(OSError):
        replace_private(sessions / STAMP, b"")
        os.utime(sessions / STAMP, (now, now))
        for name in filter(is_id, os.listdir(sessions)):
            with contextlib.suppress(OSError):
                if holder(sessions / name / LOCK) is None:
                    gone = _drop(sessions / name / OUTPUTS, before=now - days * DAY)
                    files, size = files + gone[0], size + gone[1]
    if not files:
        return ""
    what = f"{plural(files, 'output')} of commands older than {plural(days, 'day')} ({size / 1e6:,.1f} MB)"
    return f"Removed {what}; output_days under [session] sets how long they are kept."


def _drop(folder: Path, before: float) -> tuple[int, int]:
    files = size = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if entry.is_file(follow_symlinks=False) and status.st_mtime < before:
                    os.unlink(entry.path)
                    files, size = files + 1, size + status.st_size
    return files, size
