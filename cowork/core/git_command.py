"""Runs git for cowork itself: no hooks, no file system monitor, no questions, and nothing of our keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cowork.core import spawn
from cowork.core.errors import UserError
from cowork.core.hygiene import clean_environ

_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat")
_AUTHOR = ("-c", "user.name=cowork", "-c", "user.email=cowork@localhost", "-c", "commit.gpgSign=false")


def run_git(
    folder: Path, *words: str, environ: Mapping[str, str], given: bytes = b"", seconds: float = 1800
) -> spawn.Completed:
    """Run a git command in a folder to its end."""
    kept = {name: value for name, value in clean_environ(environ).items() if not name.startswith("GIT_")}
    kept |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return spawn.run(["git", *_QUIET, *_AUTHOR, *words], environ=kept, seconds=seconds, cwd=folder, given=given)


def git_output(folder: Path, *words: str, environ: Mapping[str, str]) -> str:
    """What a git command prints; a UserError when it fails."""
    done = run_git(folder, *words, environ=environ)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise UserError(f"git {words[0]} failed in {folder}: {''.join(said)}")
    return done.stdout.decode("utf-8", "surrogateescape")
