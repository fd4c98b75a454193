"""A workspace at one moment, packed: about 80 bytes a file, a table a folder.

Two moments are compared table by table, so that only folders in which something changed are unpacked.
"""

from __future__ import annotations

import base64
import json
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cowork.sessions.checkpoints.entries import Node

STAT = struct.Struct("<cHqqqQ")  # kind, mode, size (-1: too fresh to tell a change by), mtime, ctime, inode
DIGEST = 20
UNKNOWN = bytes(DIGEST)  # of a content that was not read or not kept
_SIZE_AT = 3  # bytes before the size
_KINDS = {stat.S_IFDIR: b"d", stat.S_IFLNK: b"l"}


class FolderTable(NamedTuple):
    """The entries of one folder, sorted by name, and where its links lead."""

    names: str  # with a NUL between them
    stats: bytes
    contents: bytes  # a digest an entry, empty ones for folders and links
    links: Mapping[str, str]
    kept: bool  # every content can be had back, or never could be

    def nodes(self) -> dict[str, Node]:
        """The entries, unpacked."""
        found = {}
        for place, name in enumerate(self.names.split("\0") if self.stats else ()):
            kind, mode, *stamp = STAT.unpack_from(self.stats, place * STAT.size)
            digest = self.contents[place * DIGEST : (place + 1) * DIGEST]
            content = "" if digest == UNKNOWN else digest.hex()
            size, mtime, ctime, inode = stamp
            found[name] = Node(kind.decode(), mode, self.links.get(name, content), (size, mtime, ctime, inode))
        return found


def pack_stat(status: os.stat_result, fresh_ns: int) -> bytes:
    """The stat of an entry as a table holds it; one touched since `fresh_ns` has no size."""
    mode, mtime, ctime = status.st_mode, status.st_mtime_ns, status.st_ctime_ns
    size = status.st_size if mtime < fresh_ns and ctime < fresh_ns else -1
    return STAT.pack(_KINDS.get(mode & 0o170000, b"f"), mode & 0o7777, size, mtime, ctime, status.st_ino)


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
    _inodes: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return sum(len(table.stats) for table in self.tables.values()) // STAT.size

    def get(self, path: str) -> Node | None:
        folder, name = _split(path)
        table = self.tables.get(folder)
        if table is None or name not in table.names:
            return None
        return table.nodes().get(name)

    def differences(self, later: Snapshot) -> Iterator[tuple[str, Node | None, Node | None]]:
        """Paths whose entry is another in the later one; contents are for the caller to compare."""
        for folder in self.tables.keys() | later.tables.keys():
            old, new = self.tables.get(folder), later.tables.get(folder)
            if old is new or (old and new and old[:4] == new[:4] and not has_fresh(old)):
                continue
            before, after = old.nodes() if old else {}, new.nodes() if new else {}
            for name in before.keys() | after.keys():
                a, b = before.get(name), after.get(name)
                if a != b or (a and a.stamp[0] < 0):
                    yield folder + name, a, b

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


def has_fresh(table: FolderTable) -> bool:
    return any(byte >= 0x80 for byte in table.stats[_SIZE_AT + 7 :: STAT.size])


def _split(path: str) -> tuple[str, str]:
    folder, slash, name = path.rpartition("/")
    return folder + slash, name
