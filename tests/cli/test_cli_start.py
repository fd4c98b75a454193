"""What starting costs: which packages a command loads, and what its help says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cowork import __version__
from cowork.cli.typer_app import app
from tests.cli import help_page

HEAVY = ("typer", "rich", "prompt_toolkit", "anthropic", "openai", "pydantic", "yaml")


MOST_MODULES = 110  # of ours, in a run of one prompt that calls no tool


def imported(*words: str, cwd: Path) -> set[str]:
    """The modules a command line imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cowork", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=100,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-500:]
    return {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if "|" in line}


def loaded(*words: str, cwd: Path, allowed: tuple[str, ...] = ()) -> set[str]:
    """The heavy packages a command line imports."""
    names = {name.split(".")[0] for name in imported(*words, cwd=cwd)}
    return names & set(HEAVY) - set(allowed)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_loads_nothing(flag: str, tmp_path: Path) -> None:
    assert loaded(flag, cwd=tmp_path) == set()


def test_a_plain_run_loads_neither_typer_nor_anything_that_draws(cowork: Any) -> None:
    cowork.script('["hello"]', "script.json")
    words = ("run", "--script", "script.json", "--non-interactive", "--no-session", "hi")
    assert loaded(*words, cwd=cowork.folder, allowed=("yaml",)) == set()  # a script may be YAML


def test_a_plain_run_loads_what_it_uses_and_no_more(cowork: Any) -> None:
    cowork.script('["hello"]', "script.json")
    names = imported("run", "--script", "script.json", "--non-interactive", "hi", cwd=cowork.folder)
    ours = sorted(name for name in names if name.split(".")[0] == "cowork")
    assert len(ours) <= MOST_MODULES, ours


def test_help_loads_typer_alone(tmp_path: Path) -> None:
    assert loaded("run", "--help", cwd=tmp_path, allowed=("typer",)) == set()


def test_both_ways_of_asking_for_the_version_agree(cowork: Any) -> None:
    for words in (["--version"], ["-V"], ["--bare", "--version"]):
        done = cowork(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"cowork {__version__}\n", "")


@pytest.mark.parametrize("command", [(), ("run",), ("config",), ("sessions", "rm")], ids=" ".join)
def test_help_is_on_stdout(cowork: Any, command: tuple[str, ...]) -> None:
    for flag in ("--help", "-h"):
        done = cowork(*command, flag)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"Usage: {' '.join(('cowork', *command))} ")


def groups() -> dict[str, bool]:
    """The commands that have commands, and whether one of these is a list."""
    commands = get_command(app).commands.items()  # type: ignore[attr-defined]
    return {name: "list" in one.commands for name, one in commands if hasattr(one, "commands")}


@pytest.mark.parametrize("group", groups())
def test_a_command_of_commands_lists_when_alone_or_says_what_it_can(cowork: Any, group: str) -> None:
    alone = cowork(group)
    assert (alone.returncode, alone.stderr) == (0, "")
    if groups()[group]:
        assert alone.stdout == cowork(group, "list").stdout
        assert cowork(group, "--nonsense").returncode == 2
    else:
        assert alone.stdout.startswith(f"Usage: cowork {group} ")


def test_the_reference_page_holds_the_help_of_every_command_as_it_is() -> None:
    text = help_page.TARGET.read_text(encoding="utf-8")
    assert text == help_page.page(text), "run: python -m tests.cli.help_page"


def test_every_command_and_option_says_what_it_does() -> None:
    def walk(command: Any, name: str) -> None:
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", "") or parameter.param_type_name == "argument", (name, parameter.name)
        for child in getattr(command, "commands", {}).values():
            walk(child, f"{name} {child.name}")

    walk(get_command(app), "cowork")


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
