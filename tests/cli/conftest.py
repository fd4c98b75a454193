"""The installed command, run as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.command import run_command

COWORK = Path(sys.executable).with_name("cowork")


class Shell:
    """Runs `cowork` in a folder of its own; nothing waits for ever."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str, input: str | bytes | None = None, **rest: Any) -> subprocess.CompletedProcess[str]:
        env = os.environ | rest.pop("env", {})
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # a command is started hundreds of times: compile it once
        given = input.encode() if isinstance(input, str) else input
        if rest:
            stdin = {"stdin": subprocess.DEVNULL} if given is None and "stdin" not in rest else {"input": given}
            done = subprocess.run(
                [COWORK, *words],
                **{"capture_output": True, "cwd": self.folder, "env": env, "timeout": 200, **stdin, **rest},
            )
        else:
            done = run_command(words, cwd=self.folder, env=env, given=given)
        out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def script(self, text: str, name: str = "script.yaml") -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


@pytest.fixture
def cowork(tmp_path: Path) -> Shell:
    folder = tmp_path / "work"
    folder.mkdir()
    return Shell(folder)
