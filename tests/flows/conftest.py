"""Flow files that run on the scripted model, by the installed command or in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cowork.cli.main import main
from tests.fakes.command import COWORK, QUIET

assert COWORK.parent == Path(sys.executable).parent


class FlowPlace:
    """A folder with a script, a flow file, and the command that runs it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, printed: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._patch, self._printed = patch, printed
        self.work = folder / "work"
        self.home = folder / "home"
        self.work.mkdir()
        self.home.mkdir()

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", **QUIET}

    def script(self, agents: Any, main: Any = (), **head: Any) -> Path:
        path = self.folder / "script.json"
        price = {"input": 1.0, "output": 1.0}
        path.write_text(json.dumps({"main": list(main), "agents": agents, "price": price, **head}))
        return path

    def flow(self, text: str, name: str = "mine.py") -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def words(self, *words: str) -> list[str]:
        return [str(COWORK), *words]

    def cowork(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command in this process, which saves the half second that a fresh one takes to start."""
        self._patch.chdir(self.work)
        for name, value in self.env.items():
            self._patch.setenv(name, value)
        self._printed.readouterr()
        code = main(words)
        out, err = self._printed.readouterr()
        return subprocess.CompletedProcess(words, code, out, err)

    def run(self, file: str, *words: str, script: Path | None = None) -> subprocess.CompletedProcess[str]:
        chosen = ["--script", str(script or self.folder / "script.json")]
        return self.cowork("flow", "run", file, *words, "--output", "json", *chosen)

    def git(self, *words: str) -> str:
        names = ["-c", "user.name=t", "-c", "user.email=t@t"]
        done = subprocess.run(["git", *names, *words], cwd=self.work, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def repository(self, **files: str) -> None:
        self.git("init", "-q", "-b", "main")
        for name, text in files.items():
            (self.work / name.replace("_", ".")).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-qm", "first")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> FlowPlace:
    return FlowPlace(tmp_path, monkeypatch, capsys)
