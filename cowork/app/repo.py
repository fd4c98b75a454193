"""Facts about the folder, read from files alone: nothing of a repository is executed to learn them."""

from __future__ import annotations

from pathlib import Path


def project_root(cwd: Path) -> Path:
    """The nearest folder upwards with a .git, else the folder itself."""
    return next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)


def branch_of(cwd: Path) -> str:
    """The checked-out branch or short commit, empty outside a repository."""
    root = project_root(cwd)
    try:
        git = root / ".git"
        if git.is_file():  # a worktree or submodule names its real folder
            git = root / git.read_text(errors="replace")[:4096].removeprefix("gitdir:").strip()
        with (git / "HEAD").open(errors="replace") as file:
            head = file.read(4096).strip()
    except OSError:
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:8]
