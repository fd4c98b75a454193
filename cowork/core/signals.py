"""The signals that end a run, caught from the first line of the command to its last.

Until a run listens, a signal raises `Stopped`, wherever the program is: while it imports, or while it waits for stdin.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

REASONS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "terminated"}
EXIT_CODES = {"interrupted": 130, "terminated": 143}
PATIENCE = 3  # signals after which nothing is waited for

_listener: Callable[[str], None] | None = None
_count = 0


class Stopped(BaseException):
    """A signal came before anything could listen for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = EXIT_CODES[reason]


def catch() -> None:
    """Take over from the interpreter, whose own way is a traceback or a silent death."""
    for number in REASONS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup wants it ignored
            signal.signal(number, _received)


def listen(listener: Callable[[str], None]) -> None:
    """Call this with the reason when the first signal comes; it runs between two steps of whatever is at work."""
    global _listener
    _listener = listener


def release() -> None:
    """Give the signals back to the interpreter, for a chat that reads its keys itself."""
    for number in REASONS:
        if signal.getsignal(number) == _received:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _received(number: int, frame: FrameType | None) -> None:
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
