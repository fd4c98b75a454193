"""kill -9 at any write of a session, or at any instant: what was shown is kept, and the next request is valid.

One real run leaves a copy of its files before and after every write it makes, and one with half of the write done.
Those are the states a death at that write leaves behind, so resuming each of them stands for dying there; a dozen
real deaths show that it does.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cowork.core.events import EVENTS
from cowork.sessions.log.reader import read
from tests.fakes.command import run_command
from tests.wire.server import Server, say

SOAK = bool(os.environ.get("COWORK_SOAK"))
SHARES = 8
AT_WRITES = (2, 9, 16, 23, 41, 52, 66, 79, 97, 118, 131, 150) if SOAK else (23, 66)
AT_INSTANTS = range(300) if SOAK else range(2)

# The real command, watched: every write into its home is seen. It dies at the n-th one to an event log, whole or
# torn, or, with n = 0, copies its home at each.
DRIVER = """
import os, shutil, signal, sys
from pathlib import Path
from cowork.cli.main import main
at, torn, home = int(sys.argv[1]), sys.argv[2] == "torn", sys.argv[3]
write, replace, count, copies = os.write, os.replace, 0, 0

def copy(half=b"", target=""):
    global copies
    copies += 1
    place = Path(home).parent / "states" / f"{copies:04}"
    shutil.copytree(home, place / "home", symlinks=True)
    (place / "shown").write_text(str(os.fstat(1).st_size))
    if half:
        with open(place / "home" / os.path.relpath(target, home), "ab") as file:
            file.write(half)

def watched_write(fd, data):
    global count
    name = os.readlink(f"/proc/self/fd/{fd}")
    if not name.startswith(home + "/"):
        return write(fd, data)
    half = bytes(data)[: max(1, len(data) // 2)]
    count += name.endswith("events.jsonl")
    if at and count == at:
        write(fd, half if torn else data)
        os.kill(os.getpid(), signal.SIGKILL)
    if not at:
        copy()
        copy(half, name)
    return write(fd, data)

def watched_replace(*names, **rest):
    if not at and str(names[1]).startswith(home + "/"):
        copy()
    return replace(*names, **rest)

os.write, os.replace = watched_write, watched_replace
code = main(sys.argv[4:])
if not at:
    copy()
sys.exit(code)
"""


def script() -> dict[str, Any]:
    look = {"call": {"Read": {"file_path": "a.txt"}}}
    ask = {"description": "look", "prompt": "look", "subagent_type": "explore"}
    send = {"calls": [{"name": "Task", "input": ask}, {"name": "Task", "input": {**ask, "prompt": "look again"}}]}
    edit = {"call": {"Edit": {"file_path": "a.txt", "old_string": "hello", "new_string": "hello hello"}}}
    run = {"call": {"Bash": {"command": "echo hi >> log.txt"}}}
    turns = [look, send, edit, run] * 5
    return {"main": [*turns, {"say": "Done."}], "agents": {"explore": [look, {"say": "a.txt:1"}]}}


def prepared(place: Path) -> Path:
    (place / "work").mkdir()
    (place / "work" / "a.txt").write_text("hello\n")
    (place / "script.json").write_text(json.dumps(script()))
    return place


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return prepared(tmp_path)


def start(place: Path, *driver: str, out: Any = subprocess.PIPE) -> subprocess.Popen[str]:
    told = ["--script", str(place / "script.json"), "--permission-mode", "bypass", "--output", "stream-json"]
    return subprocess.Popen(
        [sys.executable, *driver, "run", *told, "go"],
        cwd=place / "work",
        env={**os.environ, "COWORK_HOME": str(place / "home")},
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
    )


@dataclass
class State:
    """A home as a death would leave it, and what had been shown by then."""

    home: Path
    shown: str


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[State]]]:
    """The folder it ran in and every state of one real run, oldest first."""
    place = prepared(tmp_path_factory.mktemp("states"))
    with (place / "out").open("w") as out:
        run = start(place, "-c", DRIVER, "0", "whole", str(place / "home"), out=out)
        _, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    shown = (place / "out").read_bytes()
    found = sorted((place / "states").iterdir())
    yield (
        place / "work",
        [State(f / "home", shown[: int((f / "shown").read_text())].decode("utf-8", "ignore")) for f in found],
    )
    shutil.rmtree(place)


def check_that_nothing_shown_was_lost(work: Path, home: Path, out: str) -> None:
    """Every durable event that reached the outside is in the log, and the session goes on with a valid request."""
    shown = [json.loads(line) for line in out.splitlines() if line.endswith("}")]
    durable = {e["id"] for e in shown if EVENTS[e["type"]].durable}
    logs = list((home / "sessions").glob("*/events.jsonl"))
    kept = {event.id for log in logs for event in read(log).events}
    assert durable - kept == set()
    if not any(e["type"] == "prompt.added" for e in shown):
        return
    with Server([say("Going on.")]) as server:
        words = ("run", "--continue", "--output", "json", "go on")
        env = {**os.environ, "COWORK_HOME": str(home), **server.env("anthropic")}
        done = run_command(words, cwd=work, env=env, given=None)
    assert done.returncode == 0, done.stderr
    assert server.violations == []
    assert len(server.requests) == 1
    replies = sum(e["type"] == "reply.added" and e["agent"] == "main" for e in shown)
    assert sum(m["role"] == "assistant" for m in server.bodies[0]["messages"]) >= replies
    assert json.loads(done.stdout)["result"] == "Going on."


@pytest.mark.soak
@pytest.mark.parametrize("share", range(SHARES) if SOAK else [0])
def test_every_state_that_a_death_at_a_write_leaves_goes_on(states: tuple[Path, list[State]], share: int) -> None:
    work, found = states
    assert len(found) > 300
    for number in range(share, len(found), SHARES if SOAK else len(found) // 4):
        state = found[number]
        try:
            check_that_nothing_shown_was_lost(work, state.home, state.shown)
        except AssertionError as error:
            raise AssertionError(f"state {number} of {len(found)}: {error}") from error


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["whole", "torn"])
@pytest.mark.parametrize("at", AT_WRITES)
def test_death_at_a_write_loses_no_finished_turn(place: Path, at: int, kind: str) -> None:
    run = start(place, "-c", DRIVER, str(at), kind, str(place / "home"))
    out, err = run.communicate(timeout=120)
    assert run.returncode == -9, err
    check_that_nothing_shown_was_lost(place / "work", place / "home", out)


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
    check_that_nothing_shown_was_lost(place / "work", place / "home", out)
