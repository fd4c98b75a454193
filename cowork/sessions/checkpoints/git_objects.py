"""What git already holds of a workspace, so that it need not be copied. Only ever read; never the user's index,
stash or history touched. Nothing that a repository's configuration names is run.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from cowork.core import spawn
from cowork.core.git import IndexEntry, read_index
from cowork.core.hygiene import clean_environ
from cowork.core.workspace import start_of

_TIMEOUT_S = 60
_AT_ONCE = 20_000  # names git is asked about in one go
_MOST_BYTES = 32 * 1024 * 1024  # contents it is asked for in one go
_NO_SIDE_EFFECTS = ("-c", "core.fsmonitor=false", "-c", "protocol.allow=never", "-c", "core.pager=cat")
_RECORD = struct.Struct("<20sqqqQq")
_Version = tuple[int, int, int]
_Item = TypeVar("_Item")


class TrackedFile(NamedTuple):
    """A file of the index: its content, the stat git saw, and how long git's copy is (-1: it has none)."""

    content: bytes
    size: int
    mtime: int
    ctime: int
    inode: int
    held: int

    def is_clean(self, stat: tuple[bytes, int, int, int, int, int]) -> bool:
        """Whether the file is byte for byte what git holds.

        Line ends and encodings may differ between a file and git's copy of it, but then so do the sizes.
        """
        _, _, size, mtime, ctime, inode = stat
        size = self.held if size < 0 else size  # a table keeps no size of a file touched a moment ago; its times tell
        seen = (size & 0xFFFFFFFF, mtime, ctime, inode & 0xFFFFFFFF)
        return self.held == size and seen == (self.size, self.mtime, self.ctime, self.inode)


@dataclass(slots=True)
class GitObjects:
    """The objects of one repository, seen from a folder in it."""

    root: Path
    git_folder: Path
    prefix: str  # of `root` in the repository, with a slash
    _tracked: dict[str, bytearray] = field(default_factory=dict)  # folder -> records and names, packed
    _version: _Version = (0, 0, 0)  # of the index file
    _decoded: tuple[str | None, dict[str, TrackedFile]] = (None, {})  # the folder asked for last

    @classmethod
    def of(cls, root: Path) -> GitObjects | None:
        """The repository `root` is in, if there is one and git is installed."""
        if not shutil.which("git"):
            return None
        for folder in (root, *root.parents):
            dot_git = folder / ".git"
            if dot_git.is_dir():
                return cls(root, dot_git, _prefix(folder, root))
            if dot_git.is_file():
                target = _pointed_to(dot_git)
                return cls(root, target, _prefix(folder, root)) if target else None
        return None

    def refresh(self, check: Callable[[], None] = lambda: None) -> None:
        """Read the index if it changed; `check` may raise to stop. One of a kind not understood tracks nothing."""
        path = self.git_folder / "index"
        try:
            status = os.stat(path)
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if version != self._version:
                self._tracked, self._version, self._decoded = {}, (0, 0, 0), (None, {})
                for part in _batched(self._entries(path), _AT_ONCE):
                    check()
                    self._add(part, written=status.st_mtime_ns)
                self._version = version
        except (OSError, ValueError):
            self._tracked, self._version, self._decoded = {}, (0, 0, 0), (None, {})

    def names(self, folder: str) -> dict[str, TrackedFile]:
        """The tracked files of a folder below `root`, which ends with a slash if it is not `root` itself."""
        if folder == self._decoded[0]:
            return self._decoded[1]
        data, at = self._tracked.get(folder, b""), 0
        found = {}
        while at < len(data):
            start = at + _RECORD.size
            end = data.index(0, start)
            found[os.fsdecode(bytes(data[start:end]))] = TrackedFile(*_RECORD.unpack_from(data, at))
            at = end + 1
        self._decoded = folder, found
        return found

    def folders(self) -> Collection[str]:
        """The folders that hold tracked files."""
        return self._tracked.keys()

    def _entries(self, path: Path) -> Iterator[IndexEntry]:
        return (entry for entry in read_index(path) if entry.path.startswith(self.prefix) and not entry.merging)

    def _add(self, entries: Sequence[IndexEntry], written: int) -> None:
        sizes = self._sizes([entry.content.hex() for entry in entries])
        for entry in entries:
            folder, slash, name = entry.path[len(self.prefix) :].rpartition("/")
            mtime = entry.mtime if entry.mtime < written else -1  # git may have looked too early to see a change
            stamp = (entry.size, mtime, entry.ctime, entry.inode, sizes.get(entry.content.hex(), -1))
            packed = _RECORD.pack(entry.content, *stamp)
            self._tracked.setdefault(folder + slash, bytearray()).extend(packed + os.fsencode(name) + b"\0")

    def filters(self) -> bool:
        """Whether attributes outside the tree may change contents on the way in and out."""
        return has_filter(self.git_folder / "info" / "attributes")

    def contents(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The contents git has of these, each with its digest; a few megabytes are in memory at a time."""
        for names in _batched(sorted({digest.hex() for digest in digests}), _AT_ONCE):
            waiting: list[str] = []
            total = 0
            for name, size in self._sizes(names).items():
                if total + size > _MOST_BYTES:
                    yield from self._read(waiting)
                    waiting, total = [], 0
                waiting.append(name)
                total += size
            yield from self._read(waiting)

    def _sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Content name -> size, of the blobs git has."""
        out = self._run("--batch-check=%(objectname) %(objecttype) %(objectsize)", names) if names else b""
        parts = (line.split(" ") for line in out.decode("ascii", "replace").splitlines())
        return {part[0]: int(part[2]) for part in parts if len(part) == 3 and part[1] == "blob" and part[2].isdecimal()}

    def _read(self, names: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
        out = self._run("--batch", names) if names else b""
        at = 0
        while at < len(out):
            end = out.index(b"\n", at)
            name, _, rest = out[at:end].decode("ascii", "replace").partition(" ")
            kind, _, size = rest.partition(" ")
            at = end + 1
            if size.isdecimal():  # else it is missing
                if kind == "blob":
                    yield bytes.fromhex(name), out[at : at + int(size)]
                at += int(size) + 1

    def _run(self, mode: str, names: Sequence[str]) -> bytes:
        command = ["git", *_NO_SIDE_EFFECTS, f"--git-dir={self.git_folder}", "cat-file", "--buffer", mode]
        environ = {k: v for k, v in clean_environ(os.environ).items() if not k.startswith("GIT_")}
        environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            given = "\n".join(names).encode() + b"\n"
            done = spawn.run(command, environ=environ, seconds=_TIMEOUT_S, given=given)
        except OSError:
            return b""
        return done.stdout if done.returncode == 0 else b""


def _batched(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Lists of at most so many items."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def has_filter(attributes: Path) -> bool:
    """Whether an attributes file names a filter, which may change a content without changing its size."""
    try:
        return b"filter" in start_of(attributes, 256 * 1024)
    except OSError:
        return False


def _prefix(top: Path, root: Path) -> str:
    inside = str(root.relative_to(top))
    return "" if inside == "." else inside + "/"


def _pointed_to(dot_git: Path) -> Path | None:
    """Where the `.git` file of a worktree or submodule points."""
    try:
        text = os.fsdecode(start_of(dot_git, 4096)).strip()
    except OSError:
        return None
    if not text.startswith("gitdir: "):
        return None
    target = Path(os.path.normpath(dot_git.parent / text.removeprefix("gitdir: ")))
    return target if target.is_dir() else None
