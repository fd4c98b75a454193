"""git for flows: reads and makes what they need, runs no hooks and asks nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from cowork.core.errors import UserError
from cowork.core.git_command import run_git


async def git(folder: Path, *words: str) -> str:
    """What a git command prints; a UserError when it fails."""
    done = await asyncio.to_thread(run_git, folder, *words, environ=os.environ)
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"]
        raise UserError(f"git {words[0]} in {folder}: {message[-1]}")
    return done.stdout.decode("utf-8", "replace")
