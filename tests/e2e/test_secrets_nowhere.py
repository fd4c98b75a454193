"""Planted secrets, whole runs and a crash: no byte of them in files, command lines or environments of children."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK, run_command
from tests.wire.server import Hold, Server, call, say, status, turn

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


def start(base: Path, server: Server, format: str = "anthropic") -> subprocess.Popen[bytes]:
    path = f"{base / 'bin'}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(base), "COWORK_HOME": str(base / "home"), "COWORK_LOG": "debug"}
    files = ["--record", "rec.jsonl", "--dump-requests", "dump.jsonl", "--log-file", "log.txt"]
    words = [str(base / word) if word.count(".") else word for word in files]
    return subprocess.Popen(
        [str(COWORK), "run", "--permission-mode", "bypass", "--output", "stream-json", *words, "go"],
        cwd=base / "work",
        env={**env, **server.env(format), **SECRETS},
        stdin=subprocess.DEVNULL,
        stdout=(base / "out").open("wb"),
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
        turn(call("Bash", command=f"{LOOK}; {LOOK} >> spilled.txt; head -c 400000 /dev/zero | tr '\\0' x")),
        say("the end", hold=hold),
    ]
    with Server(turns) as server:
        run = start(base, server)
        assert hold.reached.wait(60)
        commands = [Path(f"/proc/{run.pid}/cmdline").read_bytes()]
        if crash:
            run.send_signal(signal.SIGSEGV)
        hold.release.set()
        _, err = run.communicate(timeout=60)
        assert run.returncode == (-signal.SIGSEGV if crash else 0), err
        assert server.violations == []
        assert all(SECRETS["LLM_API_KEY"] in str(seen.headers) for seen in server.requests)
        bodies = [seen.raw for seen in server.requests]
    assert "bwrap" in (base / "seen").read_text()
    said = [listed(base, "sessions", "show", newest(base), *rest) for rest in ([], ["--json"])]
    said += [listed(base, "doctor"), listed(base, "cost", "--json")]
    assert b"the end" in said[0] or crash
    assert list((base / "home").rglob("outputs/*")), "a long output goes to a file"
    assert found(base, err, *commands, *bodies, *said) == []
    loose = [p for p in (base / "home").rglob("*") if p.stat().st_mode & 0o077]
    assert loose == []


@pytest.mark.parametrize("format", ["anthropic", "openai", "openai-chat"])
def test_a_service_that_says_the_key_back_is_not_quoted(base: Path, format: str) -> None:
    key = SECRETS["LLM_API_KEY"]
    page = f"<html>you sent {key}</html>"
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": f"no such key: {key}"}}
    answers = [status(529, body=body), status(502, body=page), status(401, body=body, headers={"request-id": key})]
    with Server(answers) as server:
        run = start(base, server, format)
        _, err = run.communicate(timeout=60)
    assert run.returncode == 3, err
    assert found(base, err, listed(base, "sessions", "show", newest(base))) == []


def test_a_chat_keeps_no_secret_in_its_history_exports_and_screen(base: Path) -> None:
    env = {"PATH": f"{base / 'bin'}:{os.environ['PATH']}", "HOME": str(base), "COWORK_HOME": str(base / "home")}
    with (
        Server([say("the answer")]) as server,
        Terminal(
            [str(COWORK)], cwd=base / "work", env={**env, **server.env("anthropic"), **SECRETS}, forked=False
        ) as terminal,
    ):
        terminal.wait_for("/help", 30)
        for typed, shown in (("go", "the answer"), ("!env", "exit|line"), ("/export a.md", "a.md"),
                             ("/export a.json", "a.json"), ("/config", "LLM_API_KEY|hidden|log.file"),
                             ("/doctor", "sandbox")):  # fmt: skip
            terminal.wait_for("/help")
            terminal.type(typed, "<Enter>")
            terminal.wait_for_pattern(shown, 30)
        terminal.type("/exit", "<Enter>")
        terminal.wait_exit(30)
        drawn = bytes(terminal.raw)
    assert (base / "work" / "a.md").exists()
    assert (base / "work" / "a.json").exists()
    assert found(base, drawn) == []


def listed(base: Path, *words: str) -> bytes:
    env = {"PATH": os.environ["PATH"], "HOME": str(base), "COWORK_HOME": str(base / "home"), **SECRETS}
    done = run_command(words, cwd=base / "work", env=env, given=None)
    return done.stdout + done.stderr


def newest(base: Path) -> str:
    logs = sorted((base / "home" / "sessions").glob("*/events.jsonl"), key=lambda p: p.stat().st_mtime)
    return logs[-1].parent.name
