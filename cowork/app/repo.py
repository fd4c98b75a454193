"""Facts about the folder, read from files alone: nothing of a repository is executed to learn them."""

from __future__ import annotations

from pathlib import Path

from cowork.core.plain_file import start_of


def project_root(cwd: Path) -> Path:
    """The nearest folder upwards with a .git, else the folder itself."""
    return next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)


def branch_of(cwd: Path) -> str:
    """The checked-out branch or short commit, empty outside a repository."""
    root = project_root(cwd)
    try:
        git = root / ".git"
        if git.is_file():  # a worktree or submodule names its real folder
            git = root / _text(git).removeprefix("gitdir:").strip()
        head = _text(git / "HEAD").strip()
    except (OSError, ValueError):
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:8]


def _text(path: Path) -> str:
    return start_of(path, 4096).decode("utf-8", "replace")
