"""Everything in a workspace that is not ignored: one look at each entry and no content read."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from cowork.core.workspace import keeps_a_place
from cowork.sessions.checkpoints.gitignore import Chain, ignored, parse

MAX_ENTRIES = 200_000
_MAX_RULES_FILE = 256 * 1024


class TooManyFiles(Exception):
    """The tree is larger than a walk may be."""


def walk(
    root: Path,
    *,
    tracked: Collection[str] = (),
    skip: Collection[str] = (),
    rules: Chain = (),
    limit: int = MAX_ENTRIES,
) -> dict[str, os.stat_result]:
    """Relative path -> stat of the files, links and folders below `root`, ignored ones left out.

    `tracked` paths are never ignored, `skip` holds whole paths of folders to stay out of. Other file systems,
    sockets, pipes and devices are left out.
    """
    top = str(root)
    device = os.lstat(top).st_dev
    found: dict[str, os.stat_result] = {}
    waiting: list[tuple[str, Chain]] = [("", rules)]
    while waiting:
        prefix, chain = waiting.pop()
        folder = os.path.join(top, prefix)
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            continue  # not ours to read, or gone by now
        if any(entry.name == ".gitignore" for entry in entries):
            chain = _with_rules(folder, prefix, chain)
        for entry in entries:
            name = entry.name
            if name == ".git":
                continue
            path = prefix + name
            is_folder = entry.is_dir(follow_symlinks=False)
            if chain and ignored(chain, name, path, folder=is_folder) and path not in tracked:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if is_folder:
                if (
                    status.st_dev != device
                    or entry.path in skip
                    or (status.st_mode & stat.S_ISVTX and keeps_a_place(Path(entry.path)))
                ):
                    continue
                waiting.append((path + "/", chain))
            elif not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                continue
            found[path] = status
        if len(found) > limit:
            raise TooManyFiles
    _add_tracked(top, tracked, found)
    return found


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
    text = _read(path)
    return ((parse(text), 0),) if text else ()


def _with_rules(folder: str, prefix: str, chain: Chain) -> Chain:
    text = _read(os.path.join(folder, ".gitignore"))
    return ((parse(text), len(prefix)), *chain) if text else chain


def _add_tracked(top: str, tracked: Collection[str], found: dict[str, os.stat_result]) -> None:
    """Tracked files that lie in ignored folders."""
    for path in tracked:
        if path in found:
            continue
        try:
            status = os.lstat(os.path.join(top, path))
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            found[path] = status


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.fsdecode(file.read(_MAX_RULES_FILE))


Stats = Mapping[str, os.stat_result]
