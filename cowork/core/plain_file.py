"""Reading a file of a folder nobody vouches for: it may be a pipe that never answers, have no end, or be our memory."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def start_of(path: Path, most: int) -> bytes:
    """The first bytes of a plain file; an OSError for anything else, without waiting for it."""
    if os.path.realpath(path).startswith(("/proc/", "/sys/", "/dev/")):
        raise OSError(f"{path} leads into the system")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a plain file")
        return file.read(most)


def is_closed(folder: Path | str) -> bool:
    """Whether a folder cannot be listed or entered, as a command may have made it."""
    effective = os.access in os.supports_effective_ids
    return not os.access(folder, os.R_OK | os.X_OK, effective_ids=effective) and os.path.isdir(folder)
