"""The promise to programs: every end has its exit code, its object and its line; nothing hangs or is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cowork.app.result import EXIT_CODES
from tests.e2e.test_run_signals import gone, survivors
from tests.fakes.command import COWORK, Command, run_command
from tests.wire.server import FAULTS, FORMATS, WHERE, Seen, Server, Turn, broken, call, say, status, turn

SOAK = bool(os.environ.get("COWORK_SOAK"))
SEEDS = range(500) if SOAK else range(6)
WORDS = ("run", "--non-interactive", "--output", "json")
CONFIG = "[retry]\nmax_attempts = 3\nmax_delay = 0.05\nidle_timeout = 3\n"


@dataclass
class Headless:
    """`cowork run --non-interactive --output json` in a folder of its own, against a service."""

    folder: Path

    def __post_init__(self) -> None:
        for name in ("home", "work"):
            (self.folder / name).mkdir(mode=0o700)
        (self.folder / "home" / "config.toml").write_text(CONFIG)
        (self.folder / "work" / "a.txt").write_text("hello\n")

    def start(self, service: dict[str, str], *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(COWORK), *WORDS, *words, "go"],
            cwd=self.folder / "work",
            env=self._environ(service),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, service: dict[str, str], *words: str) -> tuple[int, dict[str, Any], str]:
        """(exit code, result, stderr) of a run to its end."""
        env = self._environ(service)
        done = run_command([*WORDS, *words, "go"], cwd=self.folder / "work", env=env, given=None)
        return done.returncode, json.loads(done.stdout), done.stderr.decode()

    def _environ(self, service: dict[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "COWORK_HOME": str(self.folder / "home"),
            "SURVIVOR_MARK": str(self.folder),
            "LANG": "C.UTF-8",
            **service,
        }


@pytest.fixture
def headless(tmp_path: Path) -> Headless:
    return Headless(tmp_path)


READ = turn(call("Read", file_path="a.txt"))
WRITE = turn(call("Write", file_path="b.txt", content="b"))
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'

# reason -> (what the service answers, words of the command line, a part of the line on stderr)
ENDS: dict[str, tuple[list[Turn], tuple[str, ...], str]] = {
    "completed": ([READ, say("Done.")], (), "done"),
    "max_turns": ([READ, READ, READ], ("--max-turns", "2"), "Turn limit"),
    "budget": ([READ, READ, READ], ("--max-tokens", "100"), "Token limit"),
    "denied": ([WRITE, say("I could not.")], (), "denied"),
    "schema": ([say("no JSON")] * 3, ("--output-schema", "../schema.json"), "schema"),
    "timeout": ([broken("stall")], ("--timeout", "0.5"), "Timed out"),
    "auth": ([status(401)], (), "401"),
    "api_error": ([status(404)], (), "404"),
    "unavailable": ([status(529)] * 3, (), "gave up after 3 tries"),
}
ELSEWHERE = {"interrupted", "terminated", "internal_error", "usage"}  # by signals, by bugs, before it begins


def test_every_end_is_in_the_table() -> None:
    assert set(ENDS) | ELSEWHERE == set(EXIT_CODES)


@pytest.mark.parametrize("reason", ENDS)
def test_an_end_has_its_code_its_object_and_its_line(headless: Headless, reason: str) -> None:
    turns, words, said = ENDS[reason]
    (headless.folder / "schema.json").write_text(SCHEMA)
    with Server(turns) as server:
        code, result, err = headless.run(server.env("anthropic"), *words)
    assert (code, result["terminal_reason"]) == (EXIT_CODES[reason], reason), err
    assert (result["status"] == "success") == (code == 0)
    assert (result["error"] is None) == (code == 0)
    assert "Traceback" not in err
    if reason != "completed":
        assert said in result["error"]["message"]


def test_a_run_with_a_child_at_work_is_no_success_yet(headless: Headless) -> None:
    """A background child is waited for, and its end is part of the result."""
    sends = call("Task", description="look", prompt="look", subagent_type="explore", run_in_background=True)
    routes = {r"# Task\nlook": [turn(call("Read", file_path="a.txt")), say("It says hello.")]}
    with Server([turn(sends), say("Sent."), say("It says hello, says the child.")], routes=routes) as server:
        code, result, err = headless.run(server.env("anthropic"))
        assert server.violations == []
    assert (code, [task["result"].count("hello") > 0 for task in result["tasks"]]) == (0, [True]), err


# ---------------------------------------------------------------- random faults


@dataclass
class Service:
    """Answers at random: a story with commands and children, and whatever can go wrong in it."""

    luck: random.Random
    steps: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, seen: Seen) -> Turn:
        with self.lock:
            if self.luck.random() < 0.25:
                return self._fault()
            is_child = r"# Task\nlook" in seen.opening
            self.steps[is_child] += 1
            return self._child() if is_child else self._main(self.steps[False])

    def _main(self, step: int) -> Turn:
        command = call("Bash", command=f"echo {step}; sleep 0.0{step % 10}", description="say")
        sends = call("Task", description="look", prompt="look", subagent_type="explore")
        options = [turn(call("Read", file_path="a.txt"), command), turn("Sending.", sends, sends), turn(command)]
        return self.luck.choice(options) if step < 4 else say("All done.")

    def _child(self) -> Turn:
        return self.luck.choice([turn(call("Grep", pattern="hello")), say("It is in a.txt."), say("It is in a.txt.")])

    def _fault(self) -> Turn:
        if self.luck.random() < 0.4:
            code = self.luck.choice([400, 401, 404, 408, 413, 429, 500, 502, 503, 529])
            return status(code, headers=self.luck.choice([{}, {"retry-after": "0"}, {"retry-after": "soon"}]))
        kind = self.luck.choice([kind for kind in FAULTS if kind not in ("status", "stall", "pings")])
        return broken(kind, self.luck.choice(WHERE))


def _interfere(process: subprocess.Popen[str], server: Server, luck: random.Random) -> Callable[[], str]:
    """Do something to the run when its n-th request comes; gives what it was."""
    what = luck.choice(["nothing", "SIGINT", "SIGTERM", "SIGKILL", "the reader leaves", "the service dies"])
    at = luck.randint(1, 6)
    done = threading.Event()

    def act() -> None:
        try:
            server.wait(at, 60)
        except AssertionError:  # the run ended before
            return
        done.set()
        if what.startswith("SIG"):
            process.send_signal(signal.Signals[what])
        elif what == "the reader leaves" and process.stdout is not None:
            process.stdout.close()
        elif what == "the service dies":
            server.close()

    if what != "nothing":
        threading.Thread(target=act, daemon=True).start()
    return lambda: what if done.is_set() else "nothing"


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_with_random_faults_keeps_every_promise(headless: Headless, seed: int) -> None:
    luck = random.Random(seed)
    format = luck.choice(FORMATS)
    with Server(Service(luck)) as server:
        stdin = luck.choice([subprocess.DEVNULL, subprocess.PIPE])  # a pipe that stays open and says nothing
        process = headless.start(server.env(format), "--permission-mode", "bypass", stdin=stdin)
        happened = _interfere(process, server, luck)
        out, err = _ended(process)
        assert server.violations == []
    _check(process.returncode, out, err, happened())
    assert gone(headless.folder), survivors(headless.folder)
    with Server([say("Going on.")]) as server:
        code, result, err = headless.run(server.env(format), "--continue")
        assert server.violations == []
    began = any((headless.folder / "home" / "sessions").glob("*/events.jsonl"))
    assert (code, result["result"]) == ((0, "Going on.") if began else (2, "")), err


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Its output, once it has ended of itself; the pipe of its stdin stays open all the while."""
    assert process.stderr is not None
    assert process.stdout is not None
    process.wait(timeout=100)
    out = "" if process.stdout.closed else process.stdout.read()
    return out, process.stderr.read()


def _check(code: int, out: str, err: str, happened: str) -> None:
    assert "Traceback" not in err
    if happened == "SIGKILL" and code == -signal.SIGKILL:
        return
    if happened == "the reader leaves" and code == 141:
        return
    if not out:  # its reader left after the end
        assert happened == "the reader leaves", err
        return
    result = json.loads(out)
    assert EXIT_CODES[result["terminal_reason"]] == code, err
    assert result["terminal_reason"] != "internal_error", err
    if happened in ("SIGINT", "SIGTERM") and code != 0:
        expected = {"SIGINT": 130, "SIGTERM": 143}[happened]
        assert code == expected or result["error"]["code"] not in ("interrupted", "terminated")


def test_a_name_with_blanks_stands_in_quotes_and_one_with_an_at_needs_none(command: Command) -> None:
    names = ["docs dir/my notes.md", "packages/@scope/index.ts", "icon@2x.txt", "app/[id]"]
    for name in names:
        (command.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (command.folder / name).write_text("x\n")
    (command.folder / "docs").mkdir()
    named = 'see @"docs dir/my notes.md", @packages/@scope/index.ts; (@icon@2x.txt) @"app/[id]"'
    prompt = f'{named} @"no such/a b.md" @"so what"'
    stream = command.play(["ok"], prompt=prompt)
    assert stream.of("prompt.added")[0]["attached"] == [f"{name} · 1 line" for name in names]
    assert stream.result["warnings"] == ["@no such/a b.md · not found"]


def test_a_prompt_attaches_the_files_it_names(command: Command) -> None:
    (command.folder / "a.py").write_text("x = 1\n")
    (command.folder / ".env").write_text("KEY=hidden\n")
    prompt = "explain @a.py, not @gone.py or @.env"
    stream = command.play([{"say": "It is x.", "expect": {"contains": "x = 1", "lacks": "hidden"}}], prompt=prompt)
    (added,) = stream.of("prompt.added")
    assert added["attached"] == ["a.py · 1 line"]
    left_out = ["@gone.py · not found", "@.env · not attached: .env may hold secrets"]
    assert stream.result["warnings"] == left_out
    text = command.cowork("-p", prompt, "--non-interactive", "--script", str(command.folder.parent / "script.json"))
    told = [line.removeprefix("cowork: ").removeprefix("warning: ") for line in text.err.splitlines()]
    assert (text.out.strip(), told[:3]) == ("It is x.", [*left_out, "@a.py · 1 line"])
