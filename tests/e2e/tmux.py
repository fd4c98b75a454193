"""A real terminal for tests: a program in a tmux of its own, which wraps old lines anew when its window changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest

from tests.e2e.terminal import KEYS, ROOT
from tests.fakes.command import QUIET

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A running program. Use it as a context manager; leaving ends the program and its tmux."""

    def __init__(
        self, command: Sequence[str], *, columns: int = 100, rows: int = 30, env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:  # fmt: skip
        self._folder = tempfile.TemporaryDirectory(prefix="tmux")
        self._environ = {
            **QUIET,
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "LANG": "C.UTF-8",
            **(env or {}),
        }
        self._run("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(cwd),
                  *command, ";", "set", "-g", "history-limit", "20000")  # fmt: skip

    def __enter__(self) -> Tmux:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run("kill-server", check=False)
        self._folder.cleanup()

    def type(self, *what: str) -> None:
        """Type texts; names of KEYS in angle brackets are keys."""
        for text in what:
            key = KEYS.get(text[1:-1]) if text.startswith("<") and text.endswith(">") else None
            self._run("send-keys", "-H", *(f"{byte:02x}" for byte in (text if key is None else key).encode()))

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> list[str]:
        return self._run("capture-pane", "-p").split("\n")[:-1]

    def screen_text(self) -> str:
        return "\n".join(self.screen())

    def scrollback(self) -> list[str]:
        """Everything, what scrolled away first, with wrapped lines whole; blank rows at the end left out."""
        return self._run("capture-pane", "-p", "-J", "-S", "-").rstrip().split("\n")

    def wait_until(self, holds: Callable[[], bool], deadline: float = 90.0, what: str = "") -> None:
        start = time.monotonic()
        while not holds():
            if time.monotonic() - start > deadline:
                raise AssertionError(f"{what or 'it'} did not happen in time:\n" + "\n".join(self.scrollback()))
            time.sleep(0.02)

    def wait_for(self, text: str, deadline: float = 90.0) -> None:
        self.wait_until(lambda: any(text in row for row in self.screen()), deadline, f"{text!r}")

    def _run(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(["tmux", "-S", f"{self._folder.name}/s", *arguments], env=self._environ, check=check,
                              capture_output=True, text=True, timeout=60)  # fmt: skip
        return done.stdout


def demo_in_tmux(columns: int = 100, rows: int = 30, **env: str) -> Tmux:
    """The chat over scripted answers."""
    return Tmux([sys.executable, "-m", "tests.fakes.repl_demo"], columns=columns, rows=rows, env=env)
