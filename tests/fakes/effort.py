"""Effort that a busy machine cannot change: calls made and bytes read, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path


def calls(work: Callable[[], object]) -> int:
    """How many functions it calls, Python's own among them; the same number each time."""
    count = 0

    def step(frame: object, event: str, what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(step)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def bytes_read() -> int:
    """How much this process has read of files so far, cached or not."""
    (line,) = (line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar"))
    return int(line.split()[1])
