"""`cowork config` as a user meets it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cowork.config.sections import KEYS
from tests.fakes.command import QUIET

KEY = "sk-ant-planted-secret"


@pytest.fixture
def user_file(clean_environment: Path) -> Path:
    file = clean_environment / ".config/cowork/config.toml"
    file.parent.mkdir(parents=True)
    return file


def test_show_prints_every_key_with_its_origin(cowork: Any, user_file: Path) -> None:
    user_file.write_text("[limits]\nmax_turns = 7\n")
    done = cowork("config", "show", env={"COWORK_UI_KEYS": "vi", "ANTHROPIC_API_KEY": KEY})
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert done.returncode == 0
    assert rows.keys() == KEYS.keys()
    assert rows["limits.max_turns"].split(maxsplit=2)[1:] == ["7", "~/.config/cowork/config.toml:2"]
    assert rows["ui.keys"].split(maxsplit=2)[1:] == ['"vi"', "environment COWORK_UI_KEYS"]
    assert rows["models.main.provider"].endswith("ANTHROPIC_API_KEY is set")
    assert rows["ui.theme"].split() == ["ui.theme", '"auto"', "default"]
    assert KEY not in done.stdout


def test_show_can_leave_out_the_defaults_and_speak_json(cowork: Any, user_file: Path) -> None:
    user_file.write_text("[ui]\ntheme = 'dark'\n[models.main.headers]\nAuthorization = 'Bearer x'\n")
    done = cowork("config", "show", "--set", "--json")
    found = json.loads(done.stdout)
    assert found["ui.theme"] == {"value": "dark", "origin": "~/.config/cowork/config.toml:2"}
    assert found["models.main.headers"]["value"] == "(hidden)"
    assert "ui.keys" not in found
    user_file.write_text('[pricing."a.b"]\ninput = 2\n')
    assert json.loads(cowork("config", "show", "--json").stdout)['pricing."a.b".input']["value"] == 2.0


def test_show_uses_a_projects_file_only_when_it_is_trusted(cowork: Any) -> None:
    (cowork.folder / ".cowork").mkdir()
    (cowork.folder / ".cowork/config.toml").write_text("limits.max_turns = 3\n")

    def turns(*words: str) -> Any:
        return json.loads(cowork("config", "show", "--json", *words).stdout)["limits.max_turns"]["value"]

    assert (turns(), turns("--trust")) == (0, 3)
    assert cowork("trust").returncode == 0
    assert (turns(), turns("--bare")) == (3, 0)
    (cowork.folder / ".cowork/config.toml").write_text("limits.max_turns = 2\n")
    assert turns() == 0, "a change ends the trust"


def test_options_before_the_command_count(cowork: Any) -> None:
    (cowork.folder / "own.toml").write_text("ui.bell = true\n")
    done = cowork("--config", "own.toml", "config", "show", "--set")
    assert "ui.bell" in done.stdout


def test_a_folder_may_be_called_like_the_home_of_nobody(cowork: Any) -> None:
    (cowork.folder / "~nobody-1/.cowork").mkdir(parents=True)
    (cowork.folder / "~nobody-1/.cowork/config.toml").write_text("limits.max_turns = 3\n")
    done = cowork("config", "show", "--set", "--trust", "--cwd", "~nobody-1")
    assert "limits.max_turns" in done.stdout


def test_check_judges_both_files_and_names_the_line(cowork: Any, user_file: Path) -> None:
    assert cowork("config", "check").returncode == 0
    user_file.write_text("[agent.subagent]\nmax_depth = 12\n")
    (cowork.folder / ".cowork").mkdir()
    (cowork.folder / ".cowork/config.toml").write_text("# x\npermissions.allow = ['Bash']\n")
    done = cowork("config", "check")
    assert done.returncode == 2
    assert (
        "✗ yours: config: ~/.config/cowork/config.toml:2 agent.subagent.max_depth cannot exceed 10 "
        "(stack overflow risk), it is 12" in done.stdout
    )
    assert ":2 permissions.allow cannot be set by a project" in done.stdout
    user_file.write_text("limits.max_turns = 3\n")
    (cowork.folder / ".cowork/config.toml").write_text("permissions.mode = 'bypass'\n")
    done = cowork("config", "check")
    assert done.returncode == 0
    assert "! project: " in done.stdout
    assert "a project may only tighten" in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('permissions.deny = ["Bash("]', ":1 permissions.deny: 'Bash(' is not a rule"),
        ('permissions.allow = ["Bash(ls && rm)"]', "is a compound command"),
        ('permissions.deny = ["Bsh(rm:*)"]', ":1 permissions.deny: 'Bsh(rm:*)' names no tool"),
        ('permissions.ask = ["mcp__git(x)"]', "mcp__git takes no pattern"),
        ('models.main.base_url = "http://[::1"', ":1 models.main.base_url is not an address"),
        ('models.main.base_url = "http:///v1"', "models.main.base_url is not an address"),
        ('models.light.base_url = "http://h:99999"', "models.light.base_url is not an address"),
    ],
)
def test_check_refuses_what_a_run_refuses(cowork: Any, user_file: Path, text: str, said: str) -> None:
    user_file.write_text(text + "\n")
    done = cowork("config", "check")
    assert (done.returncode, said in done.stdout, done.stderr) == (2, True, "")
    user_file.write_text('models.main.base_url = "http://h:${PORT}"\npermissions.deny = ["Bash(rm:*)"]\n')
    assert cowork("config", "check").returncode == 0


def test_a_tool_that_this_run_is_without_may_be_named(cowork: Any, user_file: Path) -> None:
    user_file.write_text(
        'permissions.deny = ["WebSearch", "WebFetch(domain:a.org)", "Skill", "mcp__git"]\n'
        'tools.disabled = ["WebSearch"]\nweb.fetch = false\n'
    )
    assert cowork("config", "check").returncode == 0
    assert cowork("run", "--script", cowork.script("- hi"), "hi").returncode == 0


def test_a_mistake_stops_every_run_with_exit_2(cowork: Any, user_file: Path) -> None:
    user_file.write_text("[permissions]\nmod = 'ask'\n")
    done = cowork("run", "--script", cowork.script("- hi"), "hi")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "cowork: config: ~/.config/cowork/config.toml:2 unknown key permissions.mod",
        "  Did you mean permissions.mode?",
    ]
    assert cowork("run", "--bare", "--script", "script.yaml", "hi").returncode == 0


def test_path_is_one_line_and_follows_cowork_home(cowork: Any, clean_environment: Path, tmp_path: Path) -> None:
    assert cowork("config", "path").stdout == f"{clean_environment}/.config/cowork/config.toml\n"
    assert cowork("config", "path", env={"COWORK_HOME": "/x"}).stdout == "/x/config.toml\n"
    assert cowork("config", "path", env={"COWORK_HOME": "/x\x1b"}).stdout == "/x\x1b/config.toml\n"  # for a program
    everything = cowork("config", "path", "--all").stdout
    assert "sessions" in everything
    assert "trust.json" in everything


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, {}),
        (
            {"ANTHROPIC_API_KEY": KEY},
            {"provider": "anthropic", "model": "claude-sonnet-5-5", "api_key_env": "ANTHROPIC_API_KEY"},
        ),
        ({"OPENAI_API_KEY": KEY}, {"provider": "openai", "model": "gpt-6-sol", "api_key_env": "OPENAI_API_KEY"}),
    ],
)
def test_init_writes_a_file_that_names_the_key_and_never_holds_it(
    cowork: Any, clean_environment: Path, env: dict[str, str], expected: dict[str, str]
) -> None:
    done = cowork("config", "init", env=env | QUIET)
    file = clean_environment / ".config/cowork/config.toml"
    assert done.returncode == 0, done.stderr
    assert tomllib.loads(file.read_text())["models"]["main"] == expected
    assert KEY not in file.read_text() + done.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert cowork("config", "check").returncode == 0


def test_init_does_not_replace_a_file_unless_told_and_then_keeps_the_old(cowork: Any, user_file: Path) -> None:
    user_file.write_text("ui.bell = true\n")
    done = cowork("config", "init")
    assert done.returncode == 2
    assert user_file.read_text() == "ui.bell = true\n"
    assert cowork("config", "init", "--force", env=QUIET).returncode == 0
    assert user_file.with_name("config.toml.bak").read_text() == "ui.bell = true\n"
    assert "[ui]" in user_file.read_text()
