"""What of a workspace other programs run or obey: no command in the sandbox may change it, or make it anew."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cowork.core.frozen import frozen
from cowork.core.workspace import is_closed, protected

FOLDERS = (
    ".cowork",
    ".claude",
    ".agents",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    ".config/git",
    ".config/fish",
)
GIT_FOLDERS = ("hooks", "info")
GIT_FILES = ("config", "config.worktree", "commondir", "gitdir")  # the last two say which other folder git obeys
_MOST_MODULES = 64
_POINTER = 4096  # bytes of a file that names a folder


@frozen
class Guarded:
    """What of some folders is guarded: `fixed` is there and stays.

    `gits` are the folders git keeps its own in, as far as commands may write there.
    """

    fixed: tuple[Path, ...]
    gits: tuple[Path, ...]


def guarded(roots: Sequence[Path]) -> Guarded:
    """What is guarded in the folders commands may write."""
    gits = tuple(dict.fromkeys(git for root in roots for git in _git_folders(root, roots)))
    entries = {root: scan(root) for root in roots}
    folders = [root / name for root in roots for name in FOLDERS]
    folders += [git / name for git in gits for name in GIT_FOLDERS]
    files = [Path(entry.path) for root in roots for entry in entries[root] if protected(Path(entry.name))]
    files = [path for path in files if path.name != ".git" or os.path.isfile(path)]
    files += [git / name for git in gits for name in GIT_FILES]
    trees = [tree for git in gits for tree in _entries(git / "worktrees") if not _inside(tree, roots)]
    files += [tree / name for tree in trees for name in GIT_FILES]
    closed = [root / ".config" for root in roots] + [
        git / name for git in gits for name in ("", "modules", "worktrees")
    ]
    closed = [path for path in (*closed, *trees) if is_closed(path)]
    fixed = [real for path in (*closed, *folders, *files) if (real := _real(path, roots))]
    return Guarded(tuple(dict.fromkeys(fixed)), gits)


def repository_of(cwd: Path) -> tuple[Path, Path] | None:
    """The folder git keeps its own in for what lies here, and the top of its files; None outside a repository."""
    for top in (cwd, *cwd.parents):
        entry = top / ".git"
        if os.path.lexists(entry):
            git = _git_of(top)
            return (git, top) if git else None
    return None


def _git_of(top: Path) -> Path | None:
    """Where the `.git` of a folder leads."""
    try:
        entry = top / ".git"
        return _named(top, entry, "gitdir:") if os.path.isfile(entry) else Path(os.path.realpath(entry))
    except (OSError, ValueError):
        return None


def common_of(git: Path) -> Path:
    """The folder a worktree's own shares with the others: configuration, objects and branches."""
    try:
        return _named(git, git / "commondir")
    except (OSError, ValueError):
        return git


def worktree_of(root: Path) -> Path | None:
    """The repository a linked worktree belongs to, which commits write to; only if that one says so too."""
    pointer = root / ".git"
    if os.path.islink(pointer) or not os.path.isfile(pointer):
        return None
    try:
        folder = _named(root, pointer, "gitdir:")
        common = _named(folder, folder / "commondir")
        back = _named(folder, folder / "gitdir")
    except (OSError, ValueError):
        return None
    real = folder.parent == common / "worktrees" and all(
        os.path.exists(common / name) for name in ("HEAD", "objects", "refs")
    )
    return common if real and back == pointer else None


def _git_folders(root: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """Where git keeps its own of a folder, its submodules' too."""
    common = worktree_of(root)
    found = common or _git_of(root)
    if not found or not (common or (os.path.isdir(found) and any(found.is_relative_to(place) for place in roots))):
        return
    yield found
    queue = list(_entries(found / "modules"))
    for module in queue:
        if is_closed(module):
            yield module
        elif any(os.path.isfile(module / name) for name in ("HEAD", "config")):  # a command can take the first away
            yield module
            queue += _entries(module / "modules")
        elif len(queue) < _MOST_MODULES:  # a submodule's name may hold slashes
            queue += _entries(module)
        if len(queue) > _MOST_MODULES:
            return


def _inside(tree: Path, roots: Sequence[Path]) -> bool:
    """Whether a worktree is checked out where commands may write, deeper than what is guarded: they may remove it."""
    try:
        pointer = _named(tree, tree / "gitdir")
        back = _named(pointer.parent, pointer, "gitdir:")
    except (OSError, ValueError):
        return False
    return back == tree and pointer.parent not in roots and any(pointer.is_relative_to(root) for root in roots)


def _real(path: Path, roots: Sequence[Path]) -> Path | None:
    """What is at a guarded place; for a link what it leads to, if commands could write that."""
    if not os.path.exists(path):
        return None
    real = Path(os.path.realpath(path))
    return real if real == path or (real not in roots and any(real.is_relative_to(root) for root in roots)) else None


def _named(folder: Path, pointer: Path, label: str = "") -> Path:
    with pointer.open("rb") as file:
        text = os.fsdecode(file.read(_POINTER))
    return Path(os.path.realpath(folder / text.removeprefix(label).strip()))


def _entries(folder: Path) -> list[Path]:
    return sorted(Path(entry.path) for entry in scan(folder) if entry.is_dir(follow_symlinks=False))[:_MOST_MODULES]


def scan(folder: Path | str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where it cannot be looked into."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
