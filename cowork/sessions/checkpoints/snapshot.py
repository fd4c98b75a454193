"""The state of a whole workspace at one moment, with its contents kept, as cheaply as can be.

What has not been touched since the last look is not read again; what git holds is not copied.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cowork.core.git_index import IndexEntry
from cowork.core.workspace import Workspace
from cowork.sessions.checkpoints.contents import Blobs, blob_name
from cowork.sessions.checkpoints.entries import MAX_FILE, Node, kind_of, stamp_of
from cowork.sessions.checkpoints.git_objects import GitObjects, has_filter
from cowork.sessions.checkpoints.gitignore import Chain
from cowork.sessions.checkpoints.walk import Stats, covers, rules_at, walk

Tree = dict[str, Node]
TICK_NS = 50_000_000  # a file touched this short before a look may change again without its times showing it


class Snapshots:
    """Looks at the folders of a workspace. Paths are relative to the first folder, whole in the others."""

    def __init__(self, workspace: Workspace, blobs: Blobs, *, skip: Sequence[Path] = ()) -> None:
        self._workspace = workspace
        self._blobs = blobs
        self._skip = frozenset(str(path) for path in skip)
        self._known: Tree = {}
        self._roots = _outermost(workspace.writable)
        self._git: dict[Path, GitObjects | None] = {}

    def take(self, *, keep: bool) -> Tree:
        """Everything there is now; with `keep`, every content can be had back afterwards."""
        tree: Tree = {}
        for root in self._roots:
            tree |= self._take(root, keep=keep)
        self._known = tree
        if keep:
            self._blobs.flush()
        return tree

    def covers(self, path: Path) -> bool:
        """Whether `take` would find this path, if it is there."""
        for root in self._roots:
            if path.is_relative_to(root) and path != root:
                git = self._repository(root)
                name = str(path.relative_to(root))
                return (git is not None and name in git.index()) or covers(root, name, rules=_rules(git))
        return False

    def content(self, name: str) -> bytes | None:
        """A content that was kept; one that only git has is copied, for git may forget it."""
        data = self._blobs.get(name)
        if data is None:
            data = self.adopt([name]).get(name)
        return data

    def adopt(self, names: Sequence[str]) -> dict[str, bytes]:
        """Copy contents from git that are not ours yet."""
        found: dict[str, bytes] = {}
        for git in self._git.values():
            missing = [n for n in names if n not in self._blobs and n not in found]
            if git and missing:
                found |= {n: data for n, data in git.contents(missing).items() if blob_name(data) == n}
        for name, data in found.items():
            self._blobs.put(data, name)
        self._blobs.flush()
        return found

    def _take(self, root: Path, *, keep: bool) -> Tree:
        git = self._repository(root)
        index = git.index() if git else {}
        now = time.time_ns()
        stats = walk(root, tracked=index, skip=self._skip, rules=_rules(git))
        held = git.holds() if git else {}
        trusted = git is not None and not _filtered(git, root, stats)
        prefix = "" if root == self._workspace.root else f"{root}/"
        tree: Tree = {}
        for path, status in stats.items():
            name = prefix + path
            known = self._known.get(name)
            stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            if known and known.stamp == stamp and (not keep or self._kept(known, held)):
                tree[name] = known
                continue
            entry = index.get(path) if trusted else None
            tree[name] = self._node(f"{root}/{path}", status, _clean(entry, status, held), held, now, keep=keep)
        return tree

    def _kept(self, node: Node, held: Mapping[str, int]) -> bool:
        return node.kind != "f" or node.content in self._blobs or node.content in held

    def _node(
        self, full: str, status: os.stat_result, clean: str, held: Mapping[str, int], now: int, *, keep: bool
    ) -> Node:
        kind, mode = kind_of(status), stat.S_IMODE(status.st_mode)
        stamp = stamp_of(status)
        if kind != "f":
            return Node(kind, mode, _target(full) if kind == "l" else "", stamp)
        content = clean or self._content(full, status, held, keep=keep)
        if content and max(status.st_mtime_ns, status.st_ctime_ns) >= now - TICK_NS:
            stamp = (-1, *stamp[1:])
        return Node(kind, mode, content, stamp)

    def _content(self, full: str, status: os.stat_result, held: Mapping[str, int], *, keep: bool) -> str:
        """The name of a file's content, kept if that is asked for; empty when it is too large for us."""
        data = _read(full, status)
        if data is None:
            return ""
        name = blob_name(data)
        if not keep or name in held:
            return name
        return self._blobs.put(data, name)

    def _repository(self, root: Path) -> GitObjects | None:
        """The repository of a folder, which may come and go; what is known of the same one is kept."""
        found, known = GitObjects.of(root), self._git.get(root)
        same = found and known and known.git_folder == found.git_folder
        self._git[root] = known if same else found
        return self._git[root]


def _rules(git: GitObjects | None) -> Chain:
    """What the user ignores everywhere, and in this repository without saying so in it."""
    everywhere = rules_at(os.path.expanduser("~/.config/git/ignore"))
    return (*rules_at(str(git.git_folder / "info" / "exclude")), *everywhere) if git else everywhere


def _filtered(git: GitObjects, root: Path, stats: Stats) -> bool:
    """Whether a filter may change contents between the files and git."""
    attributes = (p for p in stats if p.endswith(".gitattributes"))
    return git.filters() or any(has_filter(root / path) for path in attributes)


def _clean(entry: IndexEntry | None, status: os.stat_result, held: Mapping[str, int]) -> str:
    """The name of the content if the file is byte for byte what git holds.

    Line ends and encodings may differ between a file and git's copy of it, but then so do the sizes.
    """
    if entry and held.get(entry.content) == status.st_size and entry.matches(status):
        return entry.content
    return ""


def _read(full: str, status: os.stat_result) -> bytes | None:
    """The bytes of the very file the walk saw; None if it is another by now, or too large."""
    if status.st_size > MAX_FILE:
        return None
    try:
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if (found.st_ino, found.st_dev) != (status.st_ino, status.st_dev):
                return None
            data = os.read(fd, status.st_size + 1)
            while len(data) < found.st_size and (more := os.read(fd, MAX_FILE)):
                data += more
            return data if len(data) <= MAX_FILE else None
        finally:
            os.close(fd)
    except OSError:
        return None


def _outermost(roots: Sequence[Path]) -> list[Path]:
    """Each folder once, those inside another left out."""
    unique = list(dict.fromkeys(roots))
    return [r for r in unique if not any(r != other and r.is_relative_to(other) for other in unique)]


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
