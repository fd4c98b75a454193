"""`cowork run` from the outside: what comes out where, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cowork.sessions.log.lock import Lock
from tests.cli.conftest import COWORK
from tests.fakes.command import run_command

HELLO = "- Hello, world."
READS = """
- say: I look.
  call: {Read: {file_path: a.txt}}
- It says hello.
"""


def run(cowork: Any, script: str, *words: str, **rest: Any) -> Any:
    return cowork("run", "--script", cowork.script(script), *words, **rest)


def test_the_answer_is_on_stdout_and_progress_on_stderr(cowork: Any) -> None:
    (cowork.folder / "a.txt").write_text("hello\n")
    done = run(cowork, READS, "what does a.txt say?")
    assert (done.returncode, done.stdout) == (0, "It says hello.\n")
    lines = done.stderr.splitlines()
    assert any(line.startswith("cowork: Read a.txt") for line in lines)
    assert lines[-1].startswith("cowork: done · 2 turns · ")


def test_quiet_leaves_only_the_answer(cowork: Any) -> None:
    done = run(cowork, HELLO, "hi", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello, world.\n", "")


def test_json_is_one_object(cowork: Any) -> None:
    done = run(cowork, HELLO, "hi", "--output", "json")
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert (result["type"], result["status"], result["result"]) == ("result", "success", "Hello, world.")
    assert done.stdout.count("\n") == 1


def test_stream_json_ends_with_the_result(cowork: Any) -> None:
    (cowork.folder / "a.txt").write_text("hello\n")
    done = run(cowork, READS, "what?", "--output", "stream-json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert events[0]["type"] == "session.started"
    assert events[-1]["type"] == "run.ended"
    assert events[-1]["result"] == "It says hello."
    assert [event["id"] for event in events] == sorted(event["id"] for event in events)


def test_what_is_piped_in_reaches_the_model_beside_the_prompt(cowork: Any) -> None:
    script = "- {say: seen, expect: {contains: [the diff, review this]}}"
    done = run(cowork, script, "review this", input="the diff")
    assert (done.returncode, done.stdout) == (0, "seen\n"), done.stderr


@pytest.mark.parametrize("words", [["-"], []])
def test_the_prompt_may_come_from_stdin(cowork: Any, words: list[str]) -> None:
    done = run(cowork, "- {say: seen, expect: {contains: from stdin}}", *words, input="from stdin")
    assert (done.returncode, done.stdout) == (0, "seen\n"), done.stderr


def test_without_a_terminal_plain_cowork_answers_stdin(cowork: Any) -> None:
    done = cowork("--script", cowork.script(HELLO), input="hi")
    assert (done.returncode, done.stdout) == (0, "Hello, world.\n"), done.stderr


def test_options_before_the_command_count(cowork: Any) -> None:
    done = cowork("--script", cowork.script(HELLO), "run", "--output", "json", "hi")
    assert json.loads(done.stdout)["result"] == "Hello, world.", done.stderr


def test_the_same_words_through_typer_do_the_same(cowork: Any) -> None:
    done = cowork("run", f"--script={cowork.script(HELLO)}", "-qo", "json", "--", "hi")
    assert json.loads(done.stdout)["result"] == "Hello, world.", done.stderr


@pytest.mark.parametrize(
    ("output", "interactive"),
    [("text", []), ("json", []), ("stream-json", []), ("json", ["--non-interactive"])],
)
def test_a_silent_open_pipe_does_not_hang_a_run(cowork: Any, output: str, interactive: list[str]) -> None:
    reading, writing = os.pipe()
    try:
        done = run(cowork, HELLO, "hi", "--output", output, *interactive, stdin=reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0, done.stderr
    assert "Hello, world." in done.stdout


@pytest.mark.parametrize(("closed", "output"), [("0<&-", "text"), ("0<&- 2>&-", "json"), ("2>&-", "text")])
def test_streams_that_are_closed_from_the_start_do_no_harm(cowork: Any, closed: str, output: str) -> None:
    script = cowork.script(HELLO)
    line = f"'{COWORK}' run --script {script} --output {output} hi {closed}"
    done = subprocess.run(["sh", "-c", line], cwd=cowork.folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "Hello, world." in done.stdout


@pytest.mark.parametrize("words", ["run --script script.yaml hi", "--version", "config path"])
def test_a_closed_stdout_from_the_start_still_ends(cowork: Any, words: str) -> None:
    cowork.script(HELLO)
    line = f"'{COWORK}' {words} >&-"
    done = subprocess.run(["sh", "-c", line], cwd=cowork.folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_reader_that_goes_away_is_exit_141_without_a_word(cowork: Any, output: str) -> None:
    command = [str(COWORK), "run", "--script", cowork.script(HELLO), "--output", output, "--quiet", "hi"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command, cwd=cowork.folder, stdout=writing, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=100
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", [["--help"], ["tools"], ["config", "show"], ["--version"]])
def test_a_reader_that_goes_away_from_a_listing_is_exit_141_too(cowork: Any, words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run_command(words, cwd=cowork.folder, env=os.environ, given=None, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


ENCODINGS = [
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii"},
]


@pytest.mark.parametrize("env", ENCODINGS, ids=lambda env: ",".join(f"{k}={v}" for k, v in env.items()))
@pytest.mark.parametrize("output", ["text", "json"])
def test_no_locale_can_break_a_run(cowork: Any, env: dict[str, str], output: str) -> None:
    done = run(cowork, "- Grüße ✓ 漢", "sag grüße", "--output", output, env=env, input=b"caf\xe9")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if output == "json":
        assert json.loads(done.stdout)["result"] == "Grüße ✓ 漢"


def test_a_prompt_that_is_not_utf_8_is_no_reason_to_fail(cowork: Any) -> None:
    line = [os.fsencode(COWORK), b"run", b"--script", cowork.script(HELLO).encode(), b"caf\xe9"]
    done = subprocess.run(line, cwd=cowork.folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=100)
    assert (done.returncode, done.stdout) == (0, b"Hello, world.\n"), done.stderr


def test_no_control_code_is_written_where_there_is_no_terminal(cowork: Any) -> None:
    done = run(cowork, '- "\\e[31mred\\e[0m \\e]0;title\\a"', "hi", "--non-interactive")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stdout + done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_run_with_their_code(cowork: Any, number: signal.Signals, code: int) -> None:
    script = cowork.script("- {say: never, delay_ms: 600000}")
    process = subprocess.Popen(
        [str(COWORK), "run", "--script", script, "--output", "stream-json", "hi"],
        cwd=cowork.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "session.started" in process.stdout.readline()
    started = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=100)
    assert process.returncode == code, err
    assert time.monotonic() - started < 50
    assert json.loads(out.splitlines()[-1])["type"] == "run.ended"
    assert "Traceback" not in err


def test_no_credentials_is_exit_3(cowork: Any) -> None:
    done = cowork("run", "--provider", "anthropic", "hi")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[0] == "cowork: no key for anthropic: ANTHROPIC_API_KEY is not set"


@pytest.mark.parametrize("output", ["json", "stream-json"])
@pytest.mark.parametrize(
    ("words", "code", "reason", "error"),
    [
        (["--provider", "anthropic"], 3, "auth", "auth"),
        (["--config", "none.toml"], 2, "usage", "usage"),
        (["--resume", "zzz"], 2, "usage", "usage"),
        (["--nope"], 2, "usage", "usage"),
        (["--max-turns", "many"], 2, "usage", "usage"),
    ],
)
def test_a_run_that_cannot_begin_still_gives_programs_their_object(
    cowork: Any, output: str, words: list[str], code: int, reason: str, error: str
) -> None:
    done = cowork("run", "--output", output, *words, "hi")
    last = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == code
    assert last["type"] == ("result" if output == "json" else "run.ended")
    assert (last["status"], last["terminal_reason"], last["error"]["code"]) == ("error", reason, error)
    assert done.stderr.startswith("cowork: ")


def test_a_session_in_use_is_no_internal_error(cowork: Any) -> None:
    first = json.loads(run(cowork, HELLO, "hi", "--output", "json").stdout)
    (log,) = Path(os.environ["HOME"]).rglob(first["session_id"])
    lock = Lock(next(log.glob("*lock*")))
    done = run(cowork, HELLO, "again", "--output", "json", "--resume", first["session_id"])
    copied = run(cowork, HELLO, "again", "--output", "json", "--resume", first["session_id"], "--fork")
    lock.release()
    assert f"cowork --resume {first['session_id']} --fork" in done.stderr
    assert (copied.returncode, json.loads(copied.stdout)["session_id"] != first["session_id"]) == (0, True)
    alone = run(cowork, HELLO, "again", "--fork")
    assert (alone.returncode, "--fork needs a session" in alone.stderr) == (2, True)
    result = json.loads(done.stdout)
    assert (done.returncode, result["terminal_reason"], result["error"]["code"]) == (2, "usage", "usage")
    assert f"in use by process {os.getpid()}" in result["error"]["message"]


def test_a_turn_limit_is_exit_4(cowork: Any) -> None:
    (cowork.folder / "a.txt").write_text("hello\n")
    done = run(cowork, READS, "what?", "--max-turns", "1", "--output", "json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["terminal_reason"] == "max_turns"


def test_a_time_limit_is_exit_124(cowork: Any) -> None:
    done = run(cowork, "- {say: never, delay_ms: 600000}", "hi", "--timeout", "0.3")
    assert done.returncode == 124


def test_a_denied_last_action_is_exit_5(cowork: Any) -> None:
    script = "- {call: {Write: {file_path: a, content: b}}}\n- I could not."
    done = run(cowork, script, "write a", "--non-interactive")
    assert done.returncode == 5
    assert "cowork: denied Write a: " in done.stderr
    assert not (cowork.folder / "a").exists()


def test_a_rule_on_the_command_line_allows(cowork: Any) -> None:
    script = "- {call: {Write: {file_path: a, content: b}}}\n- Done."
    done = run(cowork, script, "write a", "--non-interactive", "--allow", "Write(a)")
    assert done.returncode == 0, done.stderr
    assert (cowork.folder / "a").read_text() == "b"


def test_dumped_requests_hold_no_key(cowork: Any) -> None:
    key = "sk-ant-planted-secret"
    done = run(cowork, HELLO, "hi", "--dump-requests", "dump.jsonl", env={"ANTHROPIC_API_KEY": key, "LLM_API_KEY": key})
    assert done.returncode == 0, done.stderr
    stored = [file for file in Path(cowork.folder).rglob("*") if file.is_file()]
    assert all(key.encode() not in file.read_bytes() for file in stored)
    assert key not in done.stdout + done.stderr


def test_a_folder_deleted_under_the_person_is_said(cowork: Any) -> None:
    gone = cowork.folder / "gone"
    gone.mkdir()
    asked = [
        "run hi", "sessions list", "cost --here", "config show", "config check", "config path --all", "doctor", "trust",
        "permissions explain ls", "agents list",
    ]  # fmt: skip
    each = "; ".join(f'"{COWORK}" {words}; echo $?' for words in asked)
    done = subprocess.run(
        ["sh", "-c", f'cd "{gone}" && rmdir "{gone}"; {each}'],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout.split() == ["2"] * len(asked)
    said = [line for line in done.stderr.splitlines() if line.startswith("cowork: ")]
    assert said == ["cowork: The folder you are in was deleted."] * len(asked)


def test_two_sessions_to_go_on_with_are_refused(cowork: Any) -> None:
    done = run(cowork, HELLO, "hi", "--continue", "--resume", "abc")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--continue and --resume each name a session" in done.stderr
    assert "Leave one of them out." in done.stderr


def test_a_log_file_that_cannot_be_written_is_said_before_anything_is_logged(cowork: Any) -> None:
    done = run(cowork, HELLO, "hi", "--log-file", "missing/cowork.log")
    assert (done.returncode, done.stdout) == (2, "")
    assert "missing/cowork.log cannot be opened: No such file or directory" in done.stderr
