"""`--record`, `--replay` and `--dump-requests` of the installed command, with children, here and in another folder."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from cowork.providers.recording.replay import settle
from tests.fakes.command import run_command
from tests.wire.server import Server, call, say, turn

KEY = "test-key-0123456789"
SCRIPT = """
model: tour-1
price: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}
main:
  - say: Two children will look.
    calls:
      - Task: {description: find auth, prompt: "Where is auth done?", subagent_type: explore}
      - Task: {description: find storage, prompt: "Where is storage done?", subagent_type: explore}
  - expect: [src/auth.py, src/store.py]
    say: Reading.
    call: {Read: {file_path: src/auth.py}}
  - expect: login
    say: Auth is in auth.py, storage in store.py.
agents:
  explore:
    - match: auth
      turns:
        - call: {Grep: {pattern: def login}}
        - say: src/auth.py
    - match: storage
      turns:
        - {call: {Grep: {pattern: class Store}}, delay_ms: 20}
        - say: src/store.py
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


def repo(folder: Path) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "auth.py").write_text("def login(): pass\n")
    (folder / "src" / "store.py").write_text("class Store: pass\n")
    return folder


def run(folder: Path, home: Path, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "COWORK_HOME": str(home), "LANG": "C.UTF-8", **(env or {})}
    done = run_command(["run", "--non-interactive", *words], cwd=folder, env=given, given=None, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def story(output: str) -> list[str]:
    """What the main agent lived through, sorted, without what a clock or chance put in; children end in any order."""
    events = [json.loads(line) for line in output.splitlines()]
    volatile = {"id", "at", "session_id", "duration_ms", "cwd", "record", "result", "tasks", "cost_by_subagent_type"}
    mine = [{k: v for k, v in e.items() if k not in volatile} for e in events if e["agent"] == "main"]
    return sorted(json.dumps(settle(event, {})) for event in mine)


def test_a_run_with_children_replays_the_same_here_and_in_another_folder(tmp_path: Path, home: Path) -> None:
    here, there = repo(tmp_path / "here"), repo(tmp_path / "over" / "there")
    script, tape = tmp_path / "script.yaml", tmp_path / "tape.jsonl"
    script.write_text(SCRIPT)
    stream = ("Where is it?", "--output", "stream-json")
    code, first, err = run(here, home, *stream, "--script", str(script), "--record", str(tape))
    assert code == 0, err
    assert stat.S_IMODE(tape.stat().st_mode) == 0o600
    for folder in (here, there):
        code, again, err = run(folder, home, *stream, "--replay", str(tape))
        assert code == 0, err
        assert story(again) == story(first)
        then, now = (json.loads(output.splitlines()[-1]) for output in (first, again))
        for field in ("result", "usage", "total_cost_usd", "num_turns", "model", "terminal_reason"):
            assert now[field] == then[field]
        assert now["total_cost_usd"] > 0


def test_a_workspace_that_changed_ends_the_replay_with_the_difference(tmp_path: Path, home: Path) -> None:
    here = repo(tmp_path / "here")
    script, tape = tmp_path / "script.yaml", tmp_path / "tape.jsonl"
    script.write_text(SCRIPT)
    run(here, home, "Where is it?", "--script", str(script), "--record", str(tape))
    (here / "src" / "auth.py").write_text("def login(): raise\n")
    code, _, err = run(here, home, "Where is it?", "--replay", str(tape))
    assert code == 1
    assert "login(): pass" in err
    assert "login(): raise" in err
    assert "Traceback" not in err


def test_the_dump_holds_what_the_service_got_and_no_key(tmp_path: Path, home: Path) -> None:
    here, dump = repo(tmp_path / "here"), tmp_path / "dump.jsonl"
    turns = [turn("Reading.", call("Read", file_path="src/auth.py")), say("It logs in.")]
    with Server(turns, key=KEY) as server:
        code, _, err = run(here, home, "What does auth do?", "--dump-requests", str(dump), env=server.env("anthropic"))
        assert code == 0, err
        assert [json.loads(line) for line in dump.read_text().splitlines()] == server.bodies
    assert KEY not in dump.read_text()
    assert stat.S_IMODE(dump.stat().st_mode) == 0o600
