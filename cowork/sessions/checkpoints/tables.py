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


class TableRow(NamedTuple):
    """An entry as a table holds it: its packed stat, the digest of its content, and where it leads if it is a link."""

    stat: bytes
    digest: bytes = UNKNOWN
    link: str = ""

    def node(self) -> Node:
        kind, mode, *stamp = STAT.unpack(self.stat)
        content = self.link if kind == b"l" else "" if self.digest == UNKNOWN else self.digest.hex()
        size, mtime, ctime, inode = stamp
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
    hidden: dict[str, set[str]] = field(default_factory=dict)  # folder -> names that git ignores
    _inodes: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return sum(len(table.stats) for table in self.tables.values()) // STAT.size

    def get(self, path: str) -> Node | None:
        folder, slash, name = path.rpartition("/")
        table = self.tables.get(folder + slash)
        row = table.rows().get(name) if table and name in table.names else None
        return row.node() if row else None

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
