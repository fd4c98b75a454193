"""The signals that end a run, caught from the first line of the command to its last.

Until a loop listens, a signal raises `Stopped`, wherever the program is: while it imports, or while it waits for stdin.
Inside a loop that would land in whatever task is at work, and end only that one; so a command's coroutine goes
through `run`, or calls `listen` itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

REASONS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "terminated"}
EXIT_CODES = {"interrupted": 130, "terminated": 143}
PATIENCE = 3  # signals after which nothing is waited for

_listener: Callable[[str], None] | None = None
_count = 0


class Stopped(BaseException):
    """A signal ended the program, or what `run` ran."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = EXIT_CODES[reason]


def catch() -> None:
    """Take over from the interpreter, whose own way is a traceback or a silent death."""
    for number in REASONS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup wants it ignored
            signal.signal(number, _handle_signal)


def listen(act: Callable[[str], None]) -> None:
    """Call this on the running loop, with the reason, when the first signal comes."""
    import asyncio

    global _listener
    loop = asyncio.get_running_loop()

    def soon(reason: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: too late to change how it ended
            loop.call_soon_threadsafe(act, reason)

    _listener = soon


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a loop of its own. A signal cancels it; once it has cleaned up, `Stopped` is raised."""
    import asyncio

    reasons: list[str] = []

    async def stoppable() -> T:
        task = asyncio.current_task()
        assert task is not None

        def stop(reason: str) -> None:
            reasons.append(reason)
            task.cancel()

        listen(stop)
        return await work

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        if not reasons:
            raise
        raise Stopped(reasons[0]) from None


def release() -> None:
    """Give the signals back to the interpreter, for a chat that reads its keys itself."""
    for number in REASONS:
        if signal.getsignal(number) == _handle_signal:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _handle_signal(number: int, frame: FrameType | None) -> None:
    """The first signal ends the run, the second changes nothing, the third leaves behind whatever hangs."""
    global _count
    _count += 1
    reason = REASONS[signal.Signals(number)]
    if _count >= PATIENCE:
        os._exit(EXIT_CODES[reason])
    if _count > 1:
        return
    if _listener is None:
        raise Stopped(reason)
    _listener(reason)
