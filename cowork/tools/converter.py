"""Converts a document in a process with limits, since a hostile one can eat any amount of time and memory."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys

from cowork.core import spawn

MEMORY = 2 << 30


async def convert(module: str, *words: object, data: bytes, seconds: int) -> str:
    """What a module prints that reads the data; a TimeoutError when it takes too long, a ValueError when it fails."""
    child = await spawn.piped(
        # -I: a file in the working directory must not be taken for a module. No environment: it may hold keys.
        *(sys.executable, "-I", "-m", module, *map(str, words)),
        environ={"PYTHONUTF8": "1"},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        text, _ = await asyncio.wait_for(child.communicate(data), seconds)
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if child.returncode:
        raise ValueError(f"{module} ended with {child.returncode}")
    return text.decode("utf-8", "replace")


def set_limits(seconds: int) -> None:
    """Bound the memory and the time of this process; called in the child."""
    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, seconds)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))
