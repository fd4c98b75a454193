"""Bad usage: exit 2, one or two lines, no traceback, and a way on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from cowork.core.hygiene import visible


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--nope", "x"], "no such option: --nope (Possible options: --model)"),
        (["run", "--outptu", "json", "x"], "no such option: --outptu (Possible options: --output, --output-schema)"),
        (
            ["run", "--output", "xml", "x"],
            "invalid value for '--output' / '-o': 'xml' is not one of 'text', 'json', 'stream-json'",
        ),
        (["run", "--max-turns", "many", "x"], "invalid value for '--max-turns': 'many' is not a valid int"),
        (["run", "--max-turns", "0.5", "x"], "invalid value for '--max-turns': '0.5' is not a valid int"),
        (["run", "--model"], "option '--model' requires an argument"),
        (["run", "a", "b"], "got unexpected extra argument(s) (b)"),
        (["fix", "it"], "No such command 'fix'."),
        (["confg"], "No such command 'confg'. Did you mean 'config'?"),
        (["config", "shwo"], "No such command 'shwo'. Did you mean 'show'?"),
        (["sessions", "show"], "missing argument 'ID'"),
        (["run"], "there is no prompt"),
        (["run", "-"], "there is no prompt"),
        (["run", ""], "the prompt is empty"),
        (["run", " \n"], "the prompt is empty"),
        ([], "there is no prompt"),
        (["run", "--max-turns", "-1", "x"], "config: flag --max-turns limits.max_turns must be at least 1, it is -1"),
        (
            ["run", "--max-cost", "nan", "x"],
            "config: flag --max-cost limits.max_cost_usd must be a finite number, it is nan",
        ),
        (["run", "--config", "none.toml", "x"], "config: none.toml does not exist"),
        (["sessions", "show", "zzz"], "There is no session zzz."),
        (["agents", "show", "nobody"], "there is no agent nobody"),
        (["tools", "Nope"], "there is no tool Nope"),
        (["run", "--cwd", "~nobody-1", "x"], "~nobody-1 is not a folder."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_usage_is_exit_2_in_two_lines(cowork: Any, words: list[str], message: str) -> None:
    done = cowork(*words)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert lines[0] == f"cowork: {message}"
    assert 1 <= len(lines) <= 2
    assert all(line.startswith("  ") for line in lines[1:])


def test_a_prompt_without_quotes_is_told_about_them(cowork: Any) -> None:
    assert 'in quotes: cowork "fix the bug"' in cowork("fix", "the", "bug").stderr


def test_an_error_nobody_foresaw_is_one_calm_line_and_a_file_without_keys(cowork: Any, clean_environment: Any) -> None:
    keys = {"ANTHROPIC_API_KEY": "sk-ant-planted-secret", "MY_PASSWORD": "hunter2hunter2", "DATABASE_URL": "pg-planted"}
    said = f"inside {' '.join(keys.values())}"
    code = f"import sys; from cowork.cli import main\nsys.excepthook = main._calm\nraise KeyError('{said}\x1b[2J')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | keys)
    log = clean_environment / ".local/state/cowork/crash.log"
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "cowork: an error inside cowork: KeyError: 'inside [redacted] [redacted] [redacted]\\x1b[2J'",
        "  The details are in ~/.local/state/cowork/crash.log; please report them.",
    ]
    assert "Traceback" in log.read_text()
    assert [key for key in keys.values() if key in log.read_text()] == []
    assert "\x1b" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_control_code_in_a_word_is_shown_not_obeyed(cowork: Any) -> None:
    done = cowork("run", "--no\x1b[31mpe", "x")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("deep.json", "batch deep.json --out out"),
        ("deep.json", "run --output-schema deep.json x"),
        ("deep.json", "run --script deep.json x"),
        ("deep.yaml", "run --script deep.yaml x"),
        ("deep.jsonl", "run --replay deep.jsonl x"),
        ("home/trust.json", "trust --list"),
        ("home/plugins/plugins.json", "plugin list"),
        ("home/rules.json", "permissions explain ls"),
    ],
)
def test_a_file_that_is_nested_without_end_or_a_pipe_is_told_in_a_line(cowork: Any, file: str, words: str) -> None:
    (cowork.folder / file).parent.mkdir(parents=True, exist_ok=True)
    (cowork.folder / file).write_text("[" * 100_000 + "\n")
    done = cowork(*words.split(), env={"COWORK_HOME": str(cowork.folder / "home")})
    assert (done.returncode, "inside cowork" in done.stderr, len(done.stderr) < 500) == (2, False, True)
    said = ("nested too deeply", "recursion depth", "is not a recording of this version")
    assert any(why in done.stderr for why in said)
    (cowork.folder / file).unlink()
    os.mkfifo(cowork.folder / file)
    done = cowork(*words.split(), env={"COWORK_HOME": str(cowork.folder / "home")})
    assert (done.returncode, "not a plain file" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["<(cat schema.json)", "/proc/self/fd/3 3< <(cat schema.json)"], ids=["bash", "zsh"])
def test_what_a_shell_hands_over_is_read(cowork: Any, name: str) -> None:
    if name.startswith("/proc") and not os.path.isdir("/proc/self/fd"):
        pytest.skip("zsh names them otherwise here")
    (cowork.folder / "schema.json").write_text('{"type": "object"}')
    words = ["run", "--script", cowork.script('["{}"]'), "--output-schema", name, "x"]
    line = " ".join([f"{sys.executable} -m cowork", *words])
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, cwd=cowork.folder, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr


def test_whoever_prints_nothing_that_steers_gets_through(cowork: Any) -> None:
    code = (
        "import sys, threading, warnings; from cowork.cli import standard_streams as streams; streams.prepare()\n"
        "bad = 'QZ\\x1b[2J\\x9b2J\\r\\u202e\\ud83d'\n"
        "print(bad); sys.stdout.writelines([bad, '\\n']); sys.stdout.write('👩'); print('\\u200d💻')\n"
        "warnings.warn(bad); threading.Thread(target=lambda: int(bad)).start()\n"
        "class Odd:\n    def __del__(self): raise KeyError(bad)\n"
        "Odd(); raise SystemExit(bad)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ | {"PYTHONUTF8": "1"})
    shown = "QZ\\x1b[2J\\x9b2J\\x0d\\u202e\\ud83d\n"
    assert done.stdout.decode() == f"{shown}{shown}👩\u200d💻\n"
    assert done.stderr.decode().count("QZ") >= 4
    assert visible(done.stderr.decode()) == done.stderr.decode()


@pytest.mark.parametrize("output", ["json", "stream-json"])
def test_programs_hear_of_an_error_nobody_foresaw(cowork: Any, output: str) -> None:
    code = (
        "import sys; from cowork.providers import scripted; from cowork.cli import main\n"
        "scripted.Scripted.stream = lambda self, request: 1 / 0\n"
        "main.run()"
    )
    words = ["run", "--script", cowork.script("- Hello."), "--output", output, "go"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        cwd=cowork.folder,
        stdin=subprocess.DEVNULL,
    )
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["status"], last["terminal_reason"]) == (1, "error", "internal_error")
    assert last["error"]["message"] == "An error inside cowork: ZeroDivisionError."
    assert last["type"] == ("result" if output == "json" else "run.ended")
    assert "crash.log" in done.stderr
    assert "Traceback" not in done.stderr
