"""What starting costs: which packages a command loads, and what its help says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[1] / "golden/help"
HEAVY = ("typer", "rich", "prompt_toolkit", "anthropic", "openai", "pydantic", "yaml")


def loaded(*words: str, cwd: Path, allowed: tuple[str, ...] = ()) -> set[str]:
    """The heavy packages a command line imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cowork", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-500:]
    names = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    return names & set(HEAVY) - set(allowed)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_loads_nothing(flag: str, tmp_path: Path) -> None:
    assert loaded(flag, cwd=tmp_path) == set()


def test_a_plain_run_loads_neither_typer_nor_anything_that_draws(cowork: Any) -> None:
    cowork.script('["hello"]', "script.json")
    words = ("run", "--script", "script.json", "--non-interactive", "--no-session", "hi")
    assert loaded(*words, cwd=cowork.folder, allowed=("yaml",)) == set()  # a script may be YAML


def test_help_loads_typer_alone(tmp_path: Path) -> None:
    assert loaded("run", "--help", cwd=tmp_path, allowed=("typer",)) == set()


def test_both_ways_of_asking_for_the_version_agree(cowork: Any) -> None:
    from cowork import __version__

    for words in (["--version"], ["-V"], ["--bare", "--version"]):
        done = cowork(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"cowork {__version__}\n", "")


COMMANDS = [
    (),
    ("run",),
    ("agents",),
    ("agents", "list"),
    ("agents", "show"),
    ("agents", "check"),
    ("tools",),
    ("sessions",),
    ("sessions", "list"),
    ("sessions", "show"),
    ("sessions", "rm"),
    ("cost",),
    ("config",),
    ("config", "show"),
    ("config", "check"),
    ("config", "path"),
    ("config", "init"),
    ("trust",),
    ("permissions",),
    ("permissions", "explain"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_says_what_it_should(cowork: Any, command: tuple[str, ...]) -> None:
    done = cowork(*command, "--help", env={"COLUMNS": "100"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "Examples:" in done.stdout or len(command) == 2
    file = GOLDEN / f"{'-'.join(('cowork', *command))}.txt"
    if os.environ.get("PYTEST_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(done.stdout, encoding="utf-8")
    assert done.stdout == file.read_text(encoding="utf-8"), "PYTEST_GOLDEN=1 writes it anew"


def test_help_needs_no_terminal_and_no_utf_8(cowork: Any) -> None:
    for env in ({"LC_ALL": "C", "TERM": "dumb"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = cowork("--help", env=env)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("words", "position", "expected"),
    [
        ("cowork ru", "1", "run"),
        ("cowork config ", "2", "init"),
        ("cowork run --permission-m", "2", "--permission-mode"),
        ("cowork run --permission-mode ", "3", "accept-edits"),
    ],
)
def test_the_shell_completes_commands_options_and_choices(
    cowork: Any, words: str, position: str, expected: str
) -> None:
    env = {"_COWORK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": position}
    done = cowork(env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert expected in done.stdout.split()


def test_a_completion_script_can_be_shown(cowork: Any) -> None:
    done = cowork("--show-completion", "bash")
    assert done.returncode == 0
    assert "_COWORK_COMPLETE" in done.stdout
