"""Lists a workspace folder by folder, ignored files left out: one stat an entry, no content read."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Protocol

from cowork.sessions.checkpoints.gitignore import Chain, ignored, parse

MAX_ENTRIES = 500_000
_MAX_RULES_FILE = 256 * 1024

Listing = list[tuple[str, os.stat_result]]  # the entries of a folder, sorted by name


class TooManyFiles(Exception):
    """The tree is larger than a walk may be."""


class Tracked(Protocol):
    """The files git tracks, by folder; folders end with a slash, the outermost is empty."""

    def names(self, folder: str) -> Collection[str]: ...
    def folders(self) -> Collection[str]: ...


class NothingTracked:
    def names(self, folder: str) -> Collection[str]:
        return ()

    def folders(self) -> Collection[str]:
        return ()


def walk(
    root: Path,
    *,
    tracked: Tracked | None = None,
    skip: Collection[str] = (),
    rules: Chain = (),
    limit: int = MAX_ENTRIES,
) -> Iterator[tuple[str, Listing]]:
    """Each folder below `root` with its files, links and folders; `tracked` files are never ignored.

    `skip` holds whole paths of folders to stay out of. Other file systems, sockets, pipes and devices are left out.
    """
    tracked = tracked or NothingTracked()
    top = str(root)
    device = os.lstat(top).st_dev
    waiting: list[tuple[str, Chain]] = [("", rules)]
    visited: set[str] = set()
    count = 0
    while waiting:
        prefix, chain = waiting.pop()
        visited.add(prefix)
        try:
            with os.scandir(os.path.join(top, prefix)) as opened:
                entries = sorted(opened, key=lambda entry: entry.name)
        except OSError:
            continue  # not ours to read, or gone by now
        if any(entry.name == ".gitignore" for entry in entries):
            chain = _with_rules(os.path.join(top, prefix), prefix, chain)
        found: Listing = []
        for entry in entries:
            name = entry.name
            if name == ".git" or (chain and _is_ignored(entry, prefix, chain, tracked)):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                if status.st_dev != device or entry.path in skip:
                    continue
                waiting.append((f"{prefix}{name}/", chain))
            elif not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                continue
            found.append((name, status))
        count += len(found)
        if count > limit:
            raise TooManyFiles
        yield prefix, found
    yield from _tracked_elsewhere(top, tracked, visited)


def covers(root: Path, path: str, *, rules: Chain = ()) -> bool:
    """Whether a walk would find this relative path, if it is there."""
    chain, prefix = rules, ""
    *folders, leaf = path.split("/")
    for place, name in enumerate((*folders, leaf)):
        chain = _with_rules(os.path.join(root, prefix), prefix, chain)
        if name == ".git" or ignored(chain, name, prefix + name, folder=place < len(folders)):
            return False
        prefix += name + "/"
    return True


def rules_at(path: str) -> Chain:
    """The rules of one file, for a whole tree; none if it cannot be read."""
    return _add_rules(_read(path), 0, ())


def _is_ignored(entry: os.DirEntry[str], prefix: str, chain: Chain, tracked: Tracked) -> bool:
    is_folder = entry.is_dir(follow_symlinks=False)
    if not ignored(chain, entry.name, prefix + entry.name, folder=is_folder):
        return False
    return entry.name not in tracked.names(prefix)


def _with_rules(folder: str, prefix: str, chain: Chain) -> Chain:
    return _add_rules(_read(os.path.join(folder, ".gitignore")), len(prefix), chain)


def _add_rules(text: str, depth: int, chain: Chain) -> Chain:
    rules = parse(text)
    return ((rules, depth), *chain) if rules.negated else chain


def _tracked_elsewhere(top: str, tracked: Tracked, visited: Collection[str]) -> Iterator[tuple[str, Listing]]:
    """Tracked files in ignored folders. A folder that became a link leads elsewhere and is left out."""
    for prefix in tracked.folders():
        folder = os.path.join(top, prefix)
        if prefix in visited or os.path.realpath(folder) != folder.rstrip("/"):
            continue
        found: Listing = []
        for name in sorted(tracked.names(prefix)):
            try:
                status = os.lstat(folder + name)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                found.append((name, status))
        if found:
            yield prefix, found


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.fsdecode(file.read(_MAX_RULES_FILE))
