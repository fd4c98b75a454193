"""What of a workspace other programs run or obey: no command in the sandbox may change it, or make it anew."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cowork.core.frozen import frozen
from cowork.core.workspace import is_closed, protected

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
    found = [Path(entry.path) for entry in protected_entries(roots, gits) if entry.name != ".git" or entry.is_file()]
    trees = [tree for git in gits for tree in _folders(git / "worktrees") if not _inside(tree, roots)]
    found += [tree / name for tree in trees for name in GIT_FILES]
    closed = [*trees, *(root / ".config" for root in roots)]
    closed += [git / name for git in gits for name in ("", "modules", "worktrees")]
    found += [path for path in closed if is_closed(path)]
    return Guarded(tuple(dict.fromkeys(real for path in found if (real := _real(path, roots)))), gits)


def protected_entries(places: Iterable[Path], gits: Iterable[Path]) -> Iterator[os.DirEntry[str]]:
    """What is protected at the top of these folders, and what steers git in its own."""
    for place in places:
        yield from (entry for entry in scan(place) if protected(Path(entry.name)))
        yield from (entry for entry in scan(place / ".config") if protected(Path(".config", entry.name)))
    for git in gits:
        yield from (entry for entry in scan(git) if entry.name in (*GIT_FILES, *GIT_FOLDERS))


def repository_of(cwd: Path) -> tuple[Path, Path] | None:
    """The folder git keeps its own in for what lies here, and the top of its files; None outside a repository."""
    top = next((top for top in (cwd, *cwd.parents) if os.path.lexists(top / ".git")), None)
    git = _git_of(top) if top else None
    return (git, top) if git and top else None


def _git_of(top: Path) -> Path | None:
    """Where the `.git` of a folder leads."""
    entry = top / ".git"
    return _named(top, entry, "gitdir:") if os.path.isfile(entry) else Path(os.path.realpath(entry))


def common_of(git: Path) -> Path:
    """The folder a worktree's own shares with the others: configuration, objects and branches."""
    return _named(git, git / "commondir") or git


def worktree_of(root: Path) -> Path | None:
    """The repository a linked worktree belongs to, which commits write to; only if that one says so too."""
    pointer = root / ".git"
    folder = _named(root, pointer, "gitdir:") if os.path.isfile(pointer) and not os.path.islink(pointer) else None
    common = _named(folder, folder / "commondir") if folder else None
    if not folder or not common or folder.parent != common / "worktrees":
        return None
    real = all(os.path.exists(common / name) for name in ("HEAD", "objects", "refs"))
    return common if real and _named(folder, folder / "gitdir") == pointer else None


def _git_folders(root: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """Where git keeps its own of a folder, its submodules' too."""
    common = worktree_of(root)
    found = common or _git_of(root)
    if not found or not (common or (os.path.isdir(found) and any(found.is_relative_to(place) for place in roots))):
        return
    yield found
    queue = _folders(found / "modules")
    for module in queue:
        if is_closed(module):
            yield module
        elif any(os.path.isfile(module / name) for name in ("HEAD", "config")):  # a command can take the first away
            yield module
            queue += _folders(module / "modules")
        elif len(queue) < _MOST_MODULES:  # a submodule's name may hold slashes
            queue += _folders(module)
        if len(queue) > _MOST_MODULES:
            return


def _inside(tree: Path, roots: Sequence[Path]) -> bool:
    """Whether a worktree is checked out where commands may write, deeper than what is guarded: they may remove it."""
    pointer = _named(tree, tree / "gitdir")
    if not pointer or _named(pointer.parent, pointer, "gitdir:") != tree:
        return False
    return pointer.parent not in roots and any(pointer.is_relative_to(root) for root in roots)


def _real(path: Path, roots: Sequence[Path]) -> Path | None:
    """What is at a guarded place; for a link what it leads to, if commands could write that."""
    real = Path(os.path.realpath(path))
    held = real == path or (real not in roots and any(real.is_relative_to(root) for root in roots))
    return real if held and os.path.exists(path) else None


def _named(folder: Path, pointer: Path, label: str = "") -> Path | None:
    """The folder that a file of git names; None where it names none."""
    try:
        with pointer.open("rb") as file:
            text = os.fsdecode(file.read(_POINTER))
        return Path(os.path.realpath(folder / text.removeprefix(label).strip()))
    except (OSError, ValueError):
        return None


def _folders(folder: Path) -> list[Path]:
    return sorted(Path(entry.path) for entry in scan(folder) if entry.is_dir(follow_symlinks=False))[:_MOST_MODULES]


def scan(folder: Path | str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where it cannot be looked into."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
