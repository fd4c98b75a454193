"""Runs git for cowork itself: no hooks, no file system monitor, no questions, and nothing of our keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cowork.core import spawn
from cowork.core.hygiene import clean_environ

_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat")
_AUTHOR = ("-c", "user.name=cowork", "-c", "user.email=cowork@localhost", "-c", "commit.gpgSign=false")


def run_git(
    folder: Path, *words: str, environ: Mapping[str, str], given: bytes = b"", seconds: float = 120
) -> spawn.Completed:
    """Run a git command in a folder to its end."""
    kept = {name: value for name, value in clean_environ(environ).items() if not name.startswith("GIT_")}
    kept |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return spawn.run(["git", *_QUIET, *_AUTHOR, *words], environ=kept, seconds=seconds, cwd=folder, given=given)
