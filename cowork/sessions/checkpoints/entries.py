"""The entries of a workspace: how to look at one and put it back, and all of them at one moment.

No link is followed on the way to an entry, so nothing outside the workspace is ever read or written through one.

A snapshot is packed, about 80 bytes a file, a table a folder. Two are compared table by table, so that only folders in
which something changed are unpacked.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cowork.core.errors import ToolError
from cowork.core.workspace import Workspace

MAX_FILE = 32 * 1024 * 1024  # larger files are not kept
OWNER = stat.S_IRWXU
_KINDS = {stat.S_IFREG: "f", stat.S_IFLNK: "l", stat.S_IFDIR: "d"}
_PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)

Stamp = tuple[int, int, int, int]  # size (-1: too fresh to tell a change by), mtime, ctime, inode
_NO_STAMP: Stamp = (-1, 0, 0, 0)
STAT = struct.Struct("<cHqqqQ")  # kind, mode, size (-1: too fresh to tell a change by), mtime, ctime, inode
DIGEST = 20
UNKNOWN = bytes(DIGEST)  # of a content that was not read or not kept
_SIZE_AT = 3  # bytes before the size


def digest_of(data: bytes) -> bytes:
    """The digest that stands for a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


class Node(NamedTuple):
    """`content` names a file's bytes (empty: not known) or is a link's target."""

    kind: str  # f, l or d; x for a pipe, socket or device, which is never ours
    mode: int
    content: str = ""
    stamp: Stamp = _NO_STAMP


def same(a: Node | None, b: Node | None) -> bool:
    """Whether two looks saw the same thing."""
    if a is None or b is None:
        return a is b
    if a.kind != b.kind or (a.kind != "l" and a.mode != b.mode):
        return False
    if a.kind == "d":
        return True
    if a.content and b.content:
        return a.content == b.content
    return a.stamp == b.stamp and a.stamp[0] >= 0


def from_list(raw: Any) -> Node | None:
    """A node as JSON gives it back."""
    if raw is None:
        return None
    kind, mode, content, (size, mtime, ctime, inode) = raw
    return Node(str(kind), int(mode), str(content), (size, mtime, ctime, inode))


def targets(path: Path) -> set[Path]:
    """What a write to this path may change: the entry itself, and what it leads to if it is a link."""
    entry = Path(os.path.realpath(path.parent), path.name)
    return {entry, Path(os.path.realpath(path))}


def read_bytes(workspace: Workspace, path: Path) -> bytes | None:
    """The bytes of a regular file, None if it is none, is gone, or is too large to be kept."""
    with contextlib.suppress(OSError, ToolError), os.fdopen(workspace.open(path, os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE:
            data = file.read(MAX_FILE + 1)
            return data if len(data) <= MAX_FILE else None
    return None


def look(workspace: Workspace, path: Path) -> Node | None:
    """The entry as it is now, its content named; None if there is none."""
    try:
        with workspace.parent(path) as (folder, leaf):
            status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "x")
            content = os.readlink(leaf, dir_fd=folder) if kind == "l" else ""
    except (OSError, ToolError):
        return None
    if kind == "f" and (data := read_bytes(workspace, path)) is not None:
        content = digest_of(data).hex()
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return Node(kind, stat.S_IMODE(status.st_mode), content, stamp)


def erase(workspace: Workspace, path: Path) -> None:
    """Delete a file or link, or a folder if it is empty; what is not there is fine."""
    with contextlib.suppress(FileNotFoundError), workspace.parent(path) as (folder, leaf):
        if stat.S_ISDIR(os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode):
            os.rmdir(leaf, dir_fd=folder)
        else:
            os.unlink(leaf, dir_fd=folder)


def put_back(workspace: Workspace, path: Path, node: Node, data: bytes) -> None:
    """Make the entry what the node says; a file or link appears whole or not at all."""
    with workspace.parent(path) as (folder, leaf):
        if node.kind == "d":
            with contextlib.suppress(FileExistsError):
                os.mkdir(leaf, dir_fd=folder)
            _set_mode(leaf, folder, node.mode)
            return
        draft = f".cowork-{secrets.token_hex(8)}.tmp"
        try:
            if node.kind == "l":
                os.symlink(node.content, draft, dir_fd=folder)
            else:
                _fill(draft, folder, node.mode, data, _owner(leaf, folder))
            os.replace(draft, leaf, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise


def open_up(workspace: Workspace, path: Path) -> int | None:
    """Let its owner into a folder that is closed to them; gives the mode it had, None if nothing was done."""
    with contextlib.suppress(OSError, ToolError), workspace.parent(path) as (folder, leaf):
        status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and mode & OWNER != OWNER:
            _set_mode(leaf, folder, mode | OWNER)
            return mode
    return None


def make_parents(workspace: Workspace, path: Path) -> None:
    """The folders above a path, where they are missing."""
    for parent in reversed([p for p in path.parents if not os.path.lexists(p)]):
        with contextlib.suppress(FileExistsError), workspace.parent(parent) as (folder, leaf):
            os.mkdir(leaf, dir_fd=folder)


def _set_mode(leaf: str, folder: int, mode: int) -> None:
    """The mode of a folder, even of one that may not be read."""
    fd = os.open(leaf, _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{fd}" if _PATH_ONLY else fd, mode)
    finally:
        os.close(fd)


def _owner(leaf: str, folder: int) -> tuple[int, int]:
    """Whose the file is: of the one it replaces, else of the folder."""
    try:
        status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        status = os.fstat(folder)
    return status.st_uid, status.st_gid


def _fill(name: str, folder: int, mode: int, data: bytes, owner: tuple[int, int]) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(OSError):  # only root may give files away
            os.fchown(fd, *owner)
        os.fchmod(fd, mode)
        os.fsync(fd)


class TableRow(NamedTuple):
    """An entry as a table holds it: its packed stat, the digest of its content, and where it leads if it is a link."""

    stat: bytes
    digest: bytes = UNKNOWN
    link: str = ""

    def node(self) -> Node:
        kind, mode, size, mtime, ctime, inode = STAT.unpack(self.stat)
        content = self.link if kind == b"l" else "" if self.digest == UNKNOWN else self.digest.hex()
        return Node(kind.decode(), mode, content, (size, mtime, ctime, inode))


class FolderTable(NamedTuple):
    """The entries of one folder, sorted by name, and where its links lead."""

    names: str  # with a NUL between them
    stats: bytes
    contents: bytes  # a digest an entry, empty ones for folders and links
    links: Mapping[str, str]
    kept: bool  # every content can be had back, or never could be

    @classmethod
    def of(cls, rows: Mapping[str, TableRow]) -> FolderTable:
        names = sorted(rows)
        links = {name: rows[name].link for name in names if rows[name].link}
        stats = b"".join(rows[name].stat for name in names)
        return cls("\0".join(names), stats, b"".join(rows[name].digest for name in names), links, kept=False)

    def rows(self) -> dict[str, TableRow]:
        names = self.names.split("\0") if self.stats else ()
        stats, digests = _cut(self.stats, STAT.size), _cut(self.contents, DIGEST)
        return {
            name: TableRow(stat, digest, self.links.get(name, ""))
            for name, stat, digest in zip(names, stats, digests, strict=False)
        }

    def changed_since(self, ns: int) -> set[str]:
        """The entries with a change time from then on."""
        places = [place for place, record in enumerate(STAT.iter_unpack(self.stats)) if record[4] >= ns]
        names = self.names.split("\0") if places else []
        return {names[place] for place in places}

    def has_fresh(self) -> bool:
        return any(byte >= 0x80 for byte in self.stats[_SIZE_AT + 7 :: STAT.size])


def pack_stat(status: os.stat_result, fresh_ns: int) -> bytes:
    """The stat of an entry as a table holds it; one touched since `fresh_ns` has no size."""
    mode, mtime, ctime = status.st_mode, status.st_mtime_ns, status.st_ctime_ns
    size = status.st_size if mtime < fresh_ns and ctime < fresh_ns else -1
    return STAT.pack(_KINDS.get(stat.S_IFMT(mode), "f").encode(), mode & 0o7777, size, mtime, ctime, status.st_ino)


def is_fresh(packed: bytes) -> bool:
    """Whether an entry may have changed again without its times showing it."""
    return packed[_SIZE_AT + 7] >= 0x80


def with_unknown_size(packed: bytes) -> bytes:
    """A packed stat that no other one equals in size."""
    return packed[:_SIZE_AT] + struct.pack("<q", -1) + packed[_SIZE_AT + 8 :]


@dataclass(slots=True)
class Snapshot:
    """Everything in a workspace at one moment. Folder names end with a slash; the workspace itself is ""."""

    tables: dict[str, FolderTable] = field(default_factory=dict)
    hidden: dict[str, set[str]] = field(default_factory=dict)  # folder -> names that git ignores
    _inodes: set[int] = field(default_factory=set)

    def get(self, path: str) -> Node | None:
        folder, slash, name = path.rpartition("/")
        table = self.tables.get(folder + slash)
        row = table.rows().get(name) if table and name in table.names else None
        return row.node() if row else None

    def lacks(self, path: str) -> bool:
        """Whether nothing was at the path, for sure: its folder was listed or not there, and nothing hides it."""
        folder, slash, _ = path.rpartition("/")
        if folder + slash in self.tables:
            return self.get(path) is None and not self.hides(path)
        return bool(folder) and self.lacks(folder)

    def hides(self, path: str) -> bool:
        """Whether the path was left out, or could have been there without being seen, because git ignores it."""
        while path:
            folder, slash, name = path.rpartition("/")
            if name in self.hidden.get(folder + slash, ()):
                return True
            path = folder
        return False

    def differences(self, later: Snapshot) -> Iterator[tuple[str, Node | None, Node | None]]:
        """Paths whose entry is another in the later one; contents are for the caller to compare."""
        for folder in self.tables.keys() | later.tables.keys():
            old, new = self.tables.get(folder), later.tables.get(folder)
            if old is new or (old and new and old[:4] == new[:4] and not old.has_fresh()):
                continue
            before, after = old.rows() if old else {}, new.rows() if new else {}
            for name in before.keys() | after.keys():
                a, b = before.get(name), after.get(name)
                if a != b or (a and is_fresh(a.stat)):
                    yield folder + name, a and a.node(), b and b.node()

    def inodes(self) -> set[int]:
        """The inode of every entry."""
        for table in self.tables.values() if not self._inodes else ():
            self._inodes.update(record[5] for record in STAT.iter_unpack(table.stats))
        return self._inodes

    def to_lines(self) -> Iterator[bytes]:
        """For a file: a JSON line a folder."""
        for folder, table in self.tables.items():
            packed = [base64.b64encode(part).decode() for part in (table.stats, table.contents)]
            yield json.dumps([folder, table.names, *packed, dict(table.links)]).encode() + b"\n"

    @classmethod
    def from_lines(cls, lines: Iterable[bytes]) -> Snapshot:
        """What `to_lines` wrote; ValueError where it is something else."""
        tables = {}
        for line in lines:
            folder, names, stats, contents, links = json.loads(line)
            stats, contents = base64.b64decode(stats), base64.b64decode(contents)
            if len(stats) % STAT.size or len(contents) * STAT.size != len(stats) * DIGEST:
                raise ValueError("not a table")
            tables[folder] = FolderTable(names, stats, contents, links, kept=False)
        return cls(tables)


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
