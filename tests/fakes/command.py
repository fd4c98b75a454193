"""The installed command in a folder and a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes import fork_server

COWORK = Path(sys.prefix) / "bin" / "cowork"
# On a machine on which no model server runs, whatever its owner runs there.
QUIET = {"COWORK_LOCAL_PORTS": ""}


def run_command(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    given: bytes | None,
    timeout: float = 200,
    stdout: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[bytes]:
    """The command to its end, with what it printed; forked where that is the same as started."""
    line = [str(COWORK), *words]
    if fork_server.can_fork(env):
        return fork_server.run(line, cwd=cwd, env=env, given=given, timeout=timeout, stdout=stdout)
    stdin = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
    return subprocess.run(line, cwd=cwd, env=env, stdout=stdout, stderr=subprocess.PIPE, timeout=timeout, **stdin)


@dataclass(frozen=True)
class Ended:
    """What a run left: exit code and output."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The object of `--output json`, or the last event of a stream."""
        return dict(json.loads(self.out.splitlines()[-1]))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def of(self, kind: str, agent: str | None = None) -> list[dict[str, Any]]:
        return [e for e in self.events if e["type"] == kind and agent in (None, e["agent"])]

    def record(self, name: str = "Task", agent: str = "main") -> dict[str, Any]:
        """The record of the only call of that tool."""
        (found,) = [e["record"] for e in self.of("tool.ended", agent) if e["name"] == name]
        return dict(found)


@dataclass
class Command:
    """`cowork run --non-interactive` with what a test wants."""

    folder: Path
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, prompt: str = "go", stdin: str | None = None, env: Mapping[str, str] = {}) -> Ended:
        return self.cowork("run", "--non-interactive", *words, prompt, stdin=stdin, env=env)

    def stream(self, *words: str, prompt: str = "go", env: Mapping[str, str] = {}) -> Ended:
        return self.run("--output", "stream-json", *words, prompt=prompt, env=env)

    def play(self, script: object, *words: str, prompt: str = "go", env: Mapping[str, str] = {}) -> Ended:
        """A stream of events with a scripted model."""
        path = self.folder.parent / "script.json"
        path.write_text(json.dumps(script))
        return self.stream("--script", str(path), *words, prompt=prompt, env=env)

    def cowork(self, *words: str, stdin: str | None = None, env: Mapping[str, str] = {}, timeout: float = 200) -> Ended:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", **QUIET, **self.env, **env}
        done = run_command(words, cwd=self.folder, env=env, given=stdin and stdin.encode(), timeout=timeout)
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def configure(self, text: str) -> None:
        """The user's config.toml."""
        path = self.home / ".config" / "cowork" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def agent(self, name: str, text: str) -> None:
        """An agent file of the project."""
        path = self.folder / ".cowork" / "agents" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
