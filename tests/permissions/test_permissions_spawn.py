"""Programs are started in one place, with an environment made for them."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cowork
from cowork.core import spawn
from tests.e2e.test_secrets_nowhere import SECRETS
from tests.fakes.command import COWORK

PACKAGE = Path(cowork.__file__).parent
# Processes of their own: the nursery has an empty environment, the Landlock box a command's.
MAY_START = {"core/spawn.py", "tools/shell/reaper.py", "permissions/sandbox/landlock.py"}
OS = ("exec", "spawn", "posix_spawn", "system", "popen", "fork", "startfile")


def starts(tree: ast.AST) -> Iterator[str]:
    """What in a module could start a program."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name in ("subprocess", "pty", "multiprocessing"))
            case ast.ImportFrom(module="subprocess" | "pty" | "multiprocessing" as module):
                yield str(module)
            case ast.ImportFrom(module="os", names=names):
                yield from (f"os.{name.name}" for name in names if name.name.startswith(OS))
            case ast.Attribute(value=ast.Name(id="os"), attr=attr) if attr.startswith(OS):
                yield f"os.{attr}"
            case ast.Attribute(attr="create_subprocess_exec" | "create_subprocess_shell" | "subprocess_exec" as attr):
                yield attr


def test_only_one_module_starts_programs() -> None:
    files = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py")}
    found = {name: sorted(set(starts(ast.parse(path.read_text(encoding="utf-8"))))) for name, path in files.items()}
    assert {name for name, what in found.items() if what} == MAY_START, found


def test_each_way_to_start_a_program_is_seen() -> None:
    for line in (
        "import subprocess", "from subprocess import run", "import os\nos.execve('a', [], {})", "from os import fork",
        "import os\nos.system('a')", "import pty", "import asyncio\nasyncio.create_subprocess_exec('a')",
    ):  # fmt: skip
        assert list(starts(ast.parse(line))), line
    assert not list(starts(ast.parse("import os\nos.environ")))


def test_what_doctor_starts_gets_no_keys_and_no_program_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    git = tmp_path / "bin/git"
    git.write_text(f'#!/bin/sh\n/usr/bin/env >> "{tmp_path}/seen"\nexec {shutil.which("git")} "$@"\n')
    git.chmod(0o755)
    evil = tmp_path / "work/git"
    evil.write_text(f'#!/bin/sh\ntouch "{tmp_path}/pwned"\n')
    evil.chmod(0o755)
    environ = {"PATH": f".::{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path), **SECRETS}
    words = [sys.executable, str(COWORK), "doctor"]
    done = subprocess.run(words, cwd=tmp_path / "work", env=environ, capture_output=True, text=True, timeout=60)
    assert "git version" in done.stdout, done.stderr
    seen = (tmp_path / "seen").read_text()
    assert "PATH=" in seen
    assert not [name for name, value in SECRETS.items() if name in seen or value in seen + done.stdout]
    assert not (tmp_path / "pwned").exists()


def test_no_program_of_a_project_is_taken_for_the_system_s(tmp_path: Path) -> None:
    """A command in a box can write into an environment that is active, which leads PATH."""
    places = [tmp_path / ".venv/bin", tmp_path / "node_modules/.bin"]
    for place in places:
        place.mkdir(parents=True)
        for name in ("git", "only-here"):
            (place / name).write_text(f'#!/bin/sh\ntouch "{tmp_path}/pwned"\n')
            (place / name).chmod(0o755)
    (tmp_path / ".venv/pyvenv.cfg").write_text("")
    environ = {"PATH": os.pathsep.join((*map(str, places), "bin", os.environ["PATH"]))}
    assert spawn.run(["git", "--version"], environ=environ, seconds=20, cwd=tmp_path).stdout.startswith(b"git version")
    assert spawn.on_terminal(["git", "--version"], environ=environ, cwd=tmp_path) == 0
    with pytest.raises(FileNotFoundError):
        spawn.run(["only-here"], environ=environ, seconds=20, cwd=tmp_path)
    assert not (tmp_path / "pwned").exists()
