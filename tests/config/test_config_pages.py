"""What is made from the table of keys stays equal to it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cowork.config import files, render
from cowork.config.run_options import RunOptions, options_of
from cowork.config.sections import KEYS
from tests.config import settings_page

ROOT = Path(__file__).parents[2]


def test_the_example_file_holds_every_key_with_its_default(place: Any) -> None:
    text = (ROOT / "config.example.toml").read_text(encoding="utf-8")
    assert text == render.example(), "run: python -m tests.config.settings_page"
    found = files.read(ROOT / "config.example.toml", "example")
    assert found is not None
    entries, servers = found
    assert [entry.name for entry in entries] == list(KEYS)
    plain, laid = place.load(), place.user(text).load()
    assert all(plain.values[name] == laid.values[name] for name in KEYS)
    assert servers == {}


def test_the_reference_page_is_current() -> None:
    page = settings_page.PAGE.read_text(encoding="utf-8")
    assert page == settings_page.page(page), "run: python -m tests.config.settings_page"
    assert all(f"`{name.rsplit('.', 1)[1]}`" in page for name in KEYS)


def test_every_key_says_what_it_is_for() -> None:
    assert [name for name, key in KEYS.items() if not key.doc.endswith(".") or not key.takes] == []


def test_every_default_is_itself_allowed() -> None:
    assert {name: key.wrong(key.default) for name, key in KEYS.items() if key.wrong(key.default)} == {}


def test_the_starter_file_sets_the_chosen_and_nothing_else(place: Any) -> None:
    chosen = {"models.main.provider": "anthropic", "models.main.model": "claude-opus-5"}
    text = render.example(chosen)
    assert tomllib.loads(text)["models"]["main"] == {"provider": "anthropic", "model": "claude-opus-5"}
    place.user(text)
    found = files.read(place.user_file, "x")
    assert found is not None
    assert {entry.name: entry.value for entry in found[0]} == chosen
    for line in render.example().splitlines():
        assert line in text or f"# {line}" in text or line.startswith(("provider", "model ")), line


def test_flags_of_keys_exist() -> None:
    flags = {flag for _, _, _, option in options_of(chat=False) for flag in option.flags}
    assert {name: key.flag for name, key in KEYS.items() if key.flag and key.flag not in flags} == {}


def test_options_become_settings(place: Any) -> None:
    options = RunOptions(
        prompt="x",
        permission_mode="plan",
        allow=("Edit",),
        deny=("Read(.env)",),
        tools=("Read,Grep", "LS"),
        add_dirs=("/srv",),
        max_turns=3,
        max_cost=0.5,
        max_tokens=1000,
        timeout=9.5,
        no_session=True,
        log_file=Path("a.log"),
        script=Path("s.yaml"),
    )
    config = place.load(flags=options.flags())
    assert config.permissions.mode == "plan"
    assert config.permissions.allow == ("Edit",)
    assert config.permissions.deny == ("Read(.env)",)
    assert config.permissions.add_dirs == ("/srv",)
    assert config.tools.enabled == ("Read", "Grep", "LS")
    limits = config.limits
    assert (limits.max_turns, limits.max_cost_usd, limits.max_tokens, limits.timeout) == (3, 0.5, 1000, 9.5)
    assert (config.session.enabled, config.log.file, config.models.main.provider) == (False, "a.log", "scripted")
    assert RunOptions().flags() == {}


@pytest.mark.parametrize("module", ["cowork.config", "cowork.config.run_options"])
def test_importing_the_configuration_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(sorted(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


HEAVY = ("tomllib", "difflib", "typer", "rich", "asyncio", "json", "pydantic", "yaml", "httpx2", "prompt_toolkit")
