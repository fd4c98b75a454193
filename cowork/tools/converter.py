"""Runs a function on data nobody vouches for in a process with limits: hostile data can eat any time and memory."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import resource
import sys
from collections.abc import Callable

from cowork.core import spawn

MEMORY = 2 << 30
ENVIRON = {"PYTHONUTF8": "1"}  # nothing of ours: it may hold keys


def command(function: Callable[..., str], *words: object, seconds: int) -> list[str]:
    """The program that calls a function of a module with its standard input and these words, and prints the result."""
    # -I: a file in the working directory must not be taken for a module.
    call = json.dumps([function.__module__, function.__name__, seconds, words])
    return [sys.executable, "-I", "-m", "cowork.tools.converter", call]


async def convert(function: Callable[..., str], *words: object, data: bytes, seconds: int) -> str:
    """What the function gives; a TimeoutError when it takes too long, a ValueError when it fails."""
    argv = command(function, *words, seconds=seconds)
    child = await spawn.piped(*argv, environ=ENVIRON, stderr=asyncio.subprocess.DEVNULL)
    try:
        text, _ = await asyncio.wait_for(child.communicate(data), seconds)
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if child.returncode:
        raise ValueError(f"{function.__module__} ended with {child.returncode}")
    return text.decode("utf-8", "replace")


def main(call: str) -> None:
    """The child."""
    module, name, seconds, words = json.loads(call)
    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, seconds)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))
    text = getattr(importlib.import_module(module), name)(sys.stdin.buffer.read(), *words)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main(sys.argv[1])
