"""Signals at any point of a run: the right exit code, nobody left behind, and a log one can go on with."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cowork.core.transcript import fold
from cowork.sessions.log.reader import read
from tests.fakes.wire_rules import violations

SOAK = bool(os.environ.get("COWORK_SOAK"))
POINTS = range(1, 51) if SOAK else (1, 3, 8, 17, 28, 38)

SCRIPT: dict[str, Any] = {
    "main": [
        {
            "say": "I will look and run things.",
            "chunks": 6,
            "calls": [
                {"name": "Read", "input": {"file_path": "a.txt"}},
                {"name": "Bash", "input": {"command": "sleep 0.05; echo one"}},
                {"name": "Task", "input": {"description": "look", "prompt": "look", "subagent_type": "explore"}},
                {"name": "Task", "input": {"description": "look too", "prompt": "too", "subagent_type": "explore"}},
            ],
        },
        {"call": {"Bash": {"command": "for i in 1 2 3 4 5 6; do echo $i; sleep 0.02; done; sleep 300"}}},
        {"say": "Never said."},
    ],
    "agents": {"explore": [{"call": {"Grep": {"pattern": "hello"}}}, {"say": "a.txt:1", "chunks": 3, "delay_ms": 5}]},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("hello\n")
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    return tmp_path


def start(place: Path, *extra: str, stdout: Any = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cowork", "run", "--script", "script.json", "--permission-mode", "bypass"]
    environ = {**os.environ, "COWORK_HOME": str(place / "home"), "SURVIVOR_MARK": str(place)}
    return subprocess.Popen(
        [*command, *extra, "go"], cwd=place, env=environ, text=True, stdout=stdout, stderr=subprocess.PIPE
    )


def survivors(place: Path) -> list[str]:
    """Processes that carry the mark of this run."""
    mark = f"SURVIVOR_MARK={place}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


def gone(place: Path) -> bool:
    deadline = time.monotonic() + 100
    while survivors(place):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def conversation(place: Path) -> Any:
    (log,) = (place / "home" / "sessions").glob("*/events.jsonl")
    loaded = read(log)
    assert loaded.damage == []
    return fold(loaded.events)


@pytest.mark.soak
@pytest.mark.parametrize("point", POINTS)
def test_an_interrupt_after_any_event_ends_with_130_and_a_valid_log(place: Path, point: int) -> None:
    run = start(place, "--output", "stream-json")
    assert run.stdout is not None
    for _ in range(point):
        assert run.stdout.readline()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=100)
    assert run.returncode == 130, err
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["terminal_reason"]) == ("run.ended", "interrupted")
    assert "Traceback" not in err
    assert gone(place), survivors(place)
    assert violations(conversation(place).messages()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_end_is_143(place: Path, number: signal.Signals) -> None:
    run = start(place, "--output", "stream-json")
    assert run.stdout is not None
    run.stdout.readline()
    run.send_signal(number)
    out, err = run.communicate(timeout=100)
    assert run.returncode == 143, err
    assert json.loads(out.splitlines()[-1])["terminal_reason"] == "terminated"
    assert gone(place)


def test_a_reader_that_goes_away_is_141_and_quiet(place: Path) -> None:
    run = start(place, "--output", "stream-json")
    assert run.stdout is not None
    run.stdout.readline()
    run.stdout.close()
    assert run.wait(timeout=100) == 141
    assert run.stderr is not None
    assert run.stderr.read() == ""
    assert gone(place)


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_reader_that_goes_away_while_a_command_runs_is_141_too(place: Path, output: str) -> None:
    run = start(place, "--output", output, "--quiet")
    until(lambda: any("sleep 300" in line for line in survivors(place)))
    hang_up(run)
    assert gone(place), survivors(place)


def test_a_reader_that_goes_away_while_the_model_is_silent_is_141_too(place: Path) -> None:
    (place / "script.json").write_text(json.dumps([{"say": "Never said.", "delay_ms": 60_000}]))
    run = start(place, "--output", "text", "--quiet", "--dump-requests", "asked.jsonl")
    until(lambda: (place / "asked.jsonl").is_file() and (place / "asked.jsonl").stat().st_size > 0)
    hang_up(run)


def test_a_socket_whose_reader_goes_away_is_141_too(place: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        run = start(place, "--output", "json", "--quiet", stdout=theirs)
        until(lambda: any("sleep 300" in line for line in survivors(place)))
        theirs.close()
        ours.close()
        assert run.wait(timeout=100) == 141
    assert gone(place), survivors(place)


def hang_up(run: subprocess.Popen[str]) -> None:
    """Stop reading; the run must end of itself, without a word."""
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    assert run.wait(timeout=100) == 141
    assert run.stderr.read() == ""


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_third_signal_waits_for_nothing(place: Path) -> None:
    hangs = (
        "import asyncio; from cowork.app.run import Run; from cowork.__main__ import main\n"
        "async def close(self): print('closing', flush=True); await asyncio.sleep(3600)\n"
        "Run.close = close\n"
        "main()"
    )
    (place / "script.json").write_text(json.dumps([{"say": "Never said.", "delay_ms": 60_000}]))
    words = ["run", "--script", "script.json", "--output", "stream-json", "go"]
    run = subprocess.Popen(
        [sys.executable, "-c", hangs, *words],
        cwd=place,
        env={**os.environ, "COWORK_HOME": str(place / "home")},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert run.stdout is not None
    assert "session.started" in run.stdout.readline()
    run.send_signal(signal.SIGINT)
    while run.stdout.readline() != "closing\n":
        assert run.poll() is None
    until(lambda: run.poll() is not None or bool(run.send_signal(signal.SIGINT)))  # signals sent at once may be one
    assert run.returncode == 130


def test_a_run_that_takes_too_long_is_124(place: Path) -> None:
    run = start(place, "--output", "json", "--timeout", "0.5")
    out, _ = run.communicate(timeout=100)
    assert run.returncode == 124
    assert json.loads(out)["terminal_reason"] == "timeout"
    assert gone(place)


def test_kill_9_leaves_nobody_behind_and_the_session_goes_on(place: Path) -> None:
    run = start(place, "--output", "stream-json")
    assert run.stdout is not None
    until(lambda: any("sleep 300" in line for line in survivors(place)))
    run.kill()
    run.communicate()
    assert gone(place), survivors(place)
    (place / "script.json").write_text(json.dumps([{"say": "Going on."}]))
    again = start(place, "--continue", "--output", "json")
    out, err = again.communicate(timeout=100)
    assert again.returncode == 0, err
    assert json.loads(out)["result"] == "Going on."
    assert violations(conversation(place).messages()) == []


LOADING = {
    "the command's words are parsed": "cowork.cli.quick_parser",
    "the event loop loads": "asyncio.base_events",
    "the run is put together": "cowork.app.build",
    "the model's side loads": "cowork.providers.open",
    "the output loads": "cowork.frontends.json_output",
    "the first command is about to run": "cowork.tools.shell.jobs",
}


EITHER = ("SIGINT", "SIGTERM")
LOADED_AT = [(moment, name) for n, moment in enumerate(LOADING) for name in (EITHER if SOAK else EITHER[n % 2 :][:1])]


@pytest.mark.soak
@pytest.mark.parametrize(("moment", "name"), LOADED_AT)
def test_a_signal_while_something_loads_still_gives_the_result(place: Path, moment: str, name: str) -> None:
    number = signal.Signals[name]
    hook = place / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Look:\n"  # a finder, for `import_module` audits nothing
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        f"        if name == {LOADING[moment]!r}:\n"
        "            sys.meta_path.remove(Look)\n"
        f"            os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Look)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "cowork", "run", "--script", "script.json", "--output", "json", "go"],
        cwd=place,
        env={**os.environ, "COWORK_HOME": str(place / "home"), "PYTHONPATH": str(hook)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
    )
    reason, code = ("interrupted", 130) if number == signal.SIGINT else ("terminated", 143)
    assert (done.returncode, json.loads(done.stdout)["terminal_reason"]) == (code, reason), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_while_a_silent_pipe_is_waited_for_gives_the_result(place: Path, number: int) -> None:
    """Without an argument the prompt is to come on stdin, which stops in the middle of it."""
    command = [sys.executable, "-m", "cowork", "run", "--script", "script.json", "--output", "json"]
    with subprocess.Popen(
        command,
        cwd=place,
        env={**os.environ, "COWORK_HOME": str(place / "home")},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        assert run.stdin is not None
        pipe = run.stdin
        pipe.write("half a prompt")
        pipe.flush()
        until(lambda: _drained(pipe.fileno()))
        run.send_signal(number)
        assert run.wait(timeout=100) in (130, 143)
        assert run.stdout is not None
        assert run.stderr is not None
        assert json.loads(run.stdout.read())["terminal_reason"] in ("interrupted", "terminated")
        assert "Traceback" not in run.stderr.read()


def _drained(pipe: int) -> bool:
    """Whether all that was written to the pipe has been read."""
    waiting = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] == 0
