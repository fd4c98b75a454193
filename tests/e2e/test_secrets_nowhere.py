"""Planted secrets, whole runs and a crash: no byte of them in files, command lines or environments of children."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.fakes.command import COWORK
from tests.wire.server import Hold, Server, call, say, turn

SECRETS = {
    name: f"sk-PLANTED-{name.lower()}-0123456789"
    for name in ("LLM_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "MY_PASSWORD")
}
LOOK = "env; tr '\\0' '\\n' < /proc/self/environ; cat /proc/$PPID/environ /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A git repository, and a PATH on which every program first writes down what it was given."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("hi\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path / "work", check=True)
    (tmp_path / "bin").mkdir()
    for name in ("bwrap", "git", "bash", "sh", "env"):
        if real := shutil.which(name):
            spy = (
                f'#!/bin/sh\n{{ echo "{name} $*"; /usr/bin/env; }} >> "{tmp_path}/seen" 2>/dev/null\nexec {real} "$@"\n'
            )
            (tmp_path / "bin" / name).write_text(spy)
            (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def start(base: Path, server: Server) -> subprocess.Popen[bytes]:
    path = f"{base / 'bin'}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(base), "COWORK_HOME": str(base / "home"), "COWORK_LOG": "debug"}
    files = ["--record", "rec.jsonl", "--dump-requests", "dump.jsonl", "--log-file", "log.txt"]
    words = [str(base / word) if word.count(".") else word for word in files]
    return subprocess.Popen(
        [str(COWORK), "run", "--permission-mode", "bypass", "--output", "stream-json", *words, "go"],
        cwd=base / "work",
        env={**env, **server.env("anthropic"), **SECRETS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        umask=0,
    )


def found(base: Path, *outputs: bytes) -> list[str]:
    places = {str(path): path.read_bytes() for path in base.rglob("*") if path.is_file()}
    places |= {f"output {n}": data for n, data in enumerate(outputs)}
    return [f"{name} in {place}" for place, data in places.items() for name, v in SECRETS.items() if v.encode() in data]


@pytest.mark.parametrize("crash", [False, True], ids=["to the end", "crash"])
def test_planted_secrets_turn_up_nowhere(base: Path, crash: bool) -> None:
    hold = Hold("middle")
    turns = [
        turn(call("Bash", command=LOOK)),
        turn(call("Task", description="look", prompt="look", subagent_type="general-purpose")),
        turn(call("Bash", command=LOOK)),
        say("child done"),
        turn(call("Bash", command="echo more >> a.txt"), call("Grep", pattern="PLANTED", path=".")),
        say("the end", hold=hold),
    ]
    with Server(turns) as server:
        run = start(base, server)
        assert hold.reached.wait(60)
        commands = [Path(f"/proc/{run.pid}/cmdline").read_bytes()]
        if crash:
            run.send_signal(signal.SIGSEGV)
        hold.release.set()
        out, err = run.communicate(timeout=60)
        assert run.returncode == (-signal.SIGSEGV if crash else 0), err
        assert server.violations == []
        assert all(SECRETS["LLM_API_KEY"] in str(seen.headers) for seen in server.requests)
        bodies = [seen.raw for seen in server.requests]
    assert "bwrap" in (base / "seen").read_text()
    assert found(base, out, err, *commands, *bodies) == []
    loose = [p for p in (base / "home").rglob("*") if p.stat().st_mode & 0o077]
    assert loose == []
