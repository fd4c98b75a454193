"""What the installed command does when the model service fails: one exit code, one clear line, no traceback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.command import COWORK, run_command
from tests.wire.server import FORMATS, Server, Turn, broken, call, say, status, turn

KEY = "test-key-0123456789"
RETRY = "[retry]\nmax_attempts = 3\nmax_delay = {delay}\nidle_timeout = {idle}\n"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def check(self, code: int) -> None:
        """The code, and nothing a person should not see."""
        assert self.code == code, self.err
        for text in (self.out, self.err):
            assert "Traceback" not in text
            assert KEY not in text
            assert "\x1b" not in text

    def complaint(self) -> str:
        """The one line that says what was wrong."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        told = [line for line in lines if "Trying again" not in line]
        failed = [line for line in told if "127.0.0.1" in line]
        assert len(failed) == 1, self.err
        return failed[0]


@dataclass
class Command:
    home: Path
    folder: Path
    idle: float = 30

    def start(self, *words: str, env: Mapping[str, str], delay: float = 0) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(COWORK), "run", "--non-interactive", *words],
            cwd=self.folder,
            env=self._prepare(delay, env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, env: Mapping[str, str], delay: float = 0) -> Ended:
        given = self._prepare(delay, env)
        done = run_command(["run", "--non-interactive", *words], cwd=self.folder, env=given, given=None, timeout=60)
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def _prepare(self, delay: float, env: Mapping[str, str]) -> dict[str, str]:
        """The settings, and the environment."""
        (self.home / "config.toml").write_text(RETRY.format(delay=delay, idle=self.idle))
        home = str(self.home)
        return {"PATH": os.environ["PATH"], "HOME": home, "COWORK_HOME": home, "LANG": "C.UTF-8", **env}

    def against(self, turns: list[Turn], format: str = "anthropic", *words: str, delay: float = 0) -> tuple[Ended, int]:
        """How a run against a service ended, and how many requests that took."""
        self.idle = 3 if any(turn.fault and turn.fault.kind in ("stall", "pings") for turn in turns) else 30
        with Server(turns, key=KEY) as server:
            ended = self.run("Look at a.py", *words, env=server.env(format), delay=delay)
            assert server.violations == []
            return ended, len(server.requests)


@pytest.fixture
def cowork(tmp_path: Path) -> Command:
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir(mode=0o700)
    folder.mkdir()
    (folder / "a.py").write_text("print('hello')\n")
    return Command(home, folder)


PASSING: dict[str, Turn] = {
    **{str(code): status(code) for code in (408, 409, 429, 500, 502, 503, 529)},
    "reset before headers": broken("reset", "headers"),
    "reset in the middle": broken("reset", "middle"),
    "end without a stop event": broken("truncated", "last"),
    "malformed chunk": broken("malformed", "middle"),
    "error event": broken("error", "middle"),
    "stall": broken("stall", "first"),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_passing_fault_is_survived(cowork: Command, name: str) -> None:
    ended, requests = cowork.against([PASSING[name], say("All good.")])
    ended.check(0)
    assert ended.out == "All good.\n"
    assert requests == 2
    assert ended.err.count("Trying again") == 1


@pytest.mark.parametrize("name", ["429", "500", "529", "reset before headers", "end without a stop event", "stall"])
def test_a_service_that_stays_broken_is_code_75(cowork: Command, name: str) -> None:
    ended, requests = cowork.against([PASSING[name]] * 3)
    ended.check(75)
    assert ended.out == ""
    assert requests == 3
    assert "gave up after 3 tries" in ended.complaint()
    if name in ("429", "529", "reset before headers"):
        (step,) = [line for line in ended.err.splitlines() if line.startswith("  ")]
        assert "`cowork doctor`" in step if name.startswith("reset") else "another model" in step


@pytest.mark.parametrize(
    ("format", "code", "exit"),
    [
        *(("anthropic", code, exit) for code, exit in [(400, 1), (401, 3), (403, 3), (404, 1), (413, 1)]),
        *((format, 401, 3) for format in FORMATS[1:]),
    ],
)
def test_a_refusal_is_said_once_and_not_tried_again(cowork: Command, code: int, exit: int, format: str) -> None:
    ended, requests = cowork.against([status(code)], format)
    ended.check(exit)
    assert (ended.out, requests) == ("", 1)
    assert str(code) in ended.complaint()


def test_a_wrong_key_is_code_3(cowork: Command) -> None:
    with Server([say("never")], key="the-right-key") as server:
        ended = cowork.run("hi", env={**server.env("openai"), "LLM_API_KEY": "wrong-key-987654321"})
    ended.check(3)
    assert "wrong-key" not in ended.err


def test_a_bad_certificate_is_code_1(cowork: Command) -> None:
    with Server([say("never")], tls=True) as server:
        ended = cowork.run("hi", env=server.env("anthropic"))
    ended.check(1)
    assert "certificate" in ended.complaint()


def test_nobody_listening_is_code_75(cowork: Command) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {
        "LLM_PROVIDER": "anthropic",
        "LLM_MODEL_ID": "m",
        "LLM_API_KEY": KEY,
        "LLM_BASE_URL": f"http://127.0.0.1:{port}",
    }
    ended = cowork.run("hi", env=env)
    ended.check(75)
    assert f"No connection to 127.0.0.1:{port}" in ended.complaint()


def test_a_short_retry_after_is_obeyed_and_an_hour_is_code_75_at_once(cowork: Command) -> None:
    short = status(429, headers={"retry-after-ms": "30"})
    ended, requests = cowork.against([short, say("ok")], delay=5)
    ended.check(0)
    assert (ended.out, requests) == ("ok\n", 2)
    ended, requests = cowork.against([status(429, headers={"retry-after": "3600"})], delay=5)
    ended.check(75)
    assert requests == 1
    assert "3600 s" in ended.complaint()


def test_a_spend_limit_is_not_tried_again(cowork: Command) -> None:
    body = {"error": {"type": "insufficient_quota", "message": "You exceeded your current quota."}}
    ended, requests = cowork.against([status(429, body=body)], "openai")
    ended.check(1)
    assert requests == 1


def test_a_fault_after_a_tool_ran_does_not_run_it_again(cowork: Command) -> None:
    read = turn(call("Read", file_path="a.py"))
    turns = [read, broken("reset", "middle"), status(529), say("It prints hello.")]
    ended, requests = cowork.against(turns, "anthropic", "--output", "stream-json")
    ended.check(0)
    events = [json.loads(line) for line in ended.out.splitlines()]
    kinds = [event["type"] for event in events]
    assert (kinds.count("tool.started"), kinds.count("tool.ended"), kinds.count("retry.scheduled")) == (1, 1, 2)
    assert kinds[-1] == "run.ended"
    assert requests == 4


@pytest.mark.parametrize(
    ("turns", "code", "reason", "error"),
    [
        ([status(529)] * 3, 75, "unavailable", "overloaded"),
        ([status(401)], 3, "auth", "auth"),
        ([status(404)], 1, "api_error", "not_found"),
        ([broken("truncated", "last")] * 3, 75, "unavailable", "broken_stream"),
    ],
)
def test_programs_get_the_same_as_json(cowork: Command, turns: list[Turn], code: int, reason: str, error: str) -> None:
    ended, _ = cowork.against(turns, "anthropic", "--output", "json")
    ended.check(code)
    result: dict[str, Any] = json.loads(ended.out)
    assert (result["type"], result["status"], result["terminal_reason"]) == ("result", "error", reason)
    assert result["error"]["code"] == error
    assert "\n" not in result["error"]["message"]


def test_a_signal_during_the_wait_for_a_retry_ends_it_at_once(cowork: Command) -> None:
    with Server([status(429, headers={"retry-after": "500"})], key=KEY) as server:
        process = cowork.start("hi", env=server.env("anthropic"), delay=600)
        server.wait(1)
        assert process.stderr is not None
        line = process.stderr.readline()
        while line and "Trying again" not in line:
            line = process.stderr.readline()
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 130
    assert time.monotonic() - started < 50
    assert "Traceback" not in err


def test_a_script_that_runs_out_is_one_clear_line(cowork: Command) -> None:
    script = cowork.folder / "s.yaml"
    script.write_text("- call: {Read: {file_path: a.py}}\n")
    ended = cowork.run("hi", "--script", str(script), env={})
    ended.check(1)
    assert "main: the script is out of turns, asked for turn 2" in ended.err


def test_a_recording_replays_without_a_service_and_says_where_it_parts(cowork: Command) -> None:
    turns = [broken("reset", "middle"), turn("Looking.", call("Read", file_path="a.py")), say("It prints hello.")]
    tape = str(cowork.folder.parent / "tape.jsonl")
    first, _ = cowork.against(turns, "anthropic", "--record", tape)
    first.check(0)
    assert KEY not in Path(tape).read_text()
    again = cowork.run("Look at a.py", "--replay", tape, env={})
    again.check(0)
    assert again.out == first.out == "It prints hello.\n"
    other = cowork.run("Look at b.py", "--replay", tape, env={})
    other.check(1)
    assert 'recorded "Look at a.py", now "Look at b.py"' in other.err.replace("…", "")
