"""kill -9 at any write of the session log, or at any instant: what was shown is kept, and the next request is valid."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cowork.core.events import EVENTS
from cowork.sessions.reading import read
from tests.wire.server import Server, say

SOAK = bool(os.environ.get("COWORK_SOAK"))
WRITES = 156  # as many as the session below makes
AT_WRITES = range(1, WRITES) if SOAK else (2, 9, 23, 41, 66, 97)
AT_INSTANTS = range(300) if SOAK else range(4)

# The real command, with a power cut built in: the process dies at the n-th write to an event log, whole or torn.
DRIVER = """
import os, signal, sys
from cowork.cli.main import main
at, torn = int(sys.argv[1]), sys.argv[2] == "torn"
real, count = os.write, 0
def write(fd, data):
    global count
    if os.readlink(f"/proc/self/fd/{fd}").endswith("events.jsonl"):
        count += 1
        if count == at:
            if torn:
                real(fd, bytes(data)[: max(1, len(data) // 2)])
            os.kill(os.getpid(), signal.SIGKILL)
    return real(fd, data)
os.write = write
sys.exit(main(sys.argv[3:]))
"""


def script() -> dict[str, Any]:
    look = {"call": {"Read": {"file_path": "a.txt"}}}
    ask = {"description": "look", "prompt": "look", "subagent_type": "explore"}
    send = {"calls": [{"name": "Task", "input": ask}, {"name": "Task", "input": {**ask, "prompt": "look again"}}]}
    edit = {"call": {"Edit": {"file_path": "a.txt", "old_string": "hello", "new_string": "hello hello"}}}
    run = {"call": {"Bash": {"command": "echo hi >> log.txt"}}}
    turns = [look, send, edit, run] * 5
    return {"main": [*turns, {"say": "Done."}], "agents": {"explore": [look, {"say": "a.txt:1"}]}}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("hello\n")
    (tmp_path / "script.json").write_text(json.dumps(script()))
    return tmp_path


def start(place: Path, *driver: str) -> subprocess.Popen[str]:
    run = [
        "run",
        "--script",
        str(place / "script.json"),
        "--permission-mode",
        "bypass",
        "--output",
        "stream-json",
        "go",
    ]
    return subprocess.Popen(
        [sys.executable, *driver, *run],
        cwd=place / "work",
        env={**os.environ, "COWORK_HOME": str(place / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check_that_nothing_shown_was_lost(place: Path, out: str) -> None:
    """Every durable event that reached the outside is in the log, and the session goes on with a valid request."""
    shown = [json.loads(line) for line in out.splitlines() if line.endswith("}")]
    durable = {e["id"] for e in shown if EVENTS[e["type"]].durable}
    logs = list((place / "home" / "sessions").glob("*/events.jsonl"))
    kept = {event.id for log in logs for event in read(log).events}
    assert durable - kept == set()
    if not any(e["type"] == "prompt.added" for e in shown):
        return
    with Server([say("Going on.")]) as server:
        done = subprocess.run(
            [sys.executable, "-m", "cowork", "run", "--continue", "--output", "json", "go on"],
            cwd=place / "work",
            env={**os.environ, "COWORK_HOME": str(place / "home"), **server.env("anthropic")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert server.violations == []
    assert len(server.requests) == 1
    replies = sum(e["type"] == "reply.added" and e["agent"] == "main" for e in shown)
    assert sum(m["role"] == "assistant" for m in server.bodies[0]["messages"]) >= replies
    assert json.loads(done.stdout)["result"] == "Going on."


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["whole", "torn"])
@pytest.mark.parametrize("at", AT_WRITES)
def test_death_at_a_write_loses_no_finished_turn(place: Path, at: int, kind: str) -> None:
    run = start(place, "-c", DRIVER, str(at), kind)
    out, err = run.communicate(timeout=60)
    assert run.returncode in (-9, 0), err
    check_that_nothing_shown_was_lost(place, out)


@pytest.mark.soak
@pytest.mark.parametrize("seed", AT_INSTANTS)
def test_death_at_a_random_instant_loses_no_finished_turn(place: Path, seed: int) -> None:
    lines = random.Random(seed).randrange(1, 260)
    run = start(place, "-m", "cowork")
    assert run.stdout is not None
    out = "".join(line for line, _ in zip(run.stdout, range(lines), strict=False))
    run.kill()
    out += run.stdout.read()
    run.communicate()
    check_that_nothing_shown_was_lost(place, out)
