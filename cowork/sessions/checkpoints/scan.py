"""Takes snapshots of a workspace: first a walk that stats every entry, then the contents that are not known yet.

What has not been touched since the last snapshot is not read again; what git holds is not copied. A scan may run
beside a command: entries the command changed before the scan reached them are marked, never mistaken for old ones.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from cowork.core.git import IndexEntry
from cowork.core.workspace import Workspace
from cowork.sessions.checkpoints.entries import (
    DIGEST,
    MAX_FILE,
    STAT,
    UNKNOWN,
    FolderTable,
    Snapshot,
    TableRow,
    digest_of,
    is_fresh,
    pack_stat,
    with_unknown_size,
)
from cowork.sessions.checkpoints.git import Repository
from cowork.sessions.checkpoints.store import Contents

MAX_ENTRIES = 500_000
TICK_NS = 50_000_000  # a file touched this short before a look may change again without its times showing it
_INDEX_A_FILE = 1_000  # bytes of git's index that are worth being read for a content that need not be
_AT_ONCE = 5_000  # files of the index that are looked at in one go
_NO_LINKS: dict[str, str] = {}

Listing = list[tuple[str, os.stat_result]]  # the entries of a folder, sorted by name


class TooManyFiles(Exception):
    """The tree is larger than a walk may be."""


class Moment:
    """A time to compare with those of files, which holds when the clock is set back later."""

    def __init__(self, wall: Callable[[], int] = time.time_ns) -> None:
        self.at = wall()
        self._wall = wall
        self._tick = time.monotonic_ns()

    def earliest(self) -> int:
        """The earliest time, in ns, that a file touched since can show."""
        return min(self.at, self._wall() - (time.monotonic_ns() - self._tick))


class ScanStopped(Exception):
    """Nobody waits for the scan any more."""


class Control:
    """What others may tell a scan that runs, and ask of it."""

    def __init__(self) -> None:
        self.stop = False
        self.enough = False  # what was not read by now need not be: the snapshot is complete without it
        self.overtaken: Moment | None = None  # when a command started without waiting for the scan
        self.seen = 0  # files so far
        self.unread = 0  # contents found so far that are still to be read
        self.reading = False  # the walk is over

    def check(self) -> None:
        if self.stop:
            raise ScanStopped

    def leave(self, *, listed: bool) -> None:
        """End a scan that nobody waits for. What it has read is kept; a walk is for nothing where all is `listed`."""
        self.enough = True
        self.stop = self.stop or (listed and not self.reading)


class Scanner:
    """Takes snapshots of the folders of a workspace. Paths are relative to the first folder, whole in the others."""

    def __init__(self, workspace: Workspace, contents: Contents, *, skip: Sequence[Path] = ()) -> None:
        self.known = Snapshot()
        self.files = 0  # in it
        self.unread = 0  # contents that the last snapshot should have kept and did not
        self._workspace = workspace
        self._contents = contents
        self._skip = frozenset(str(path) for path in skip)
        unique = list(dict.fromkeys(workspace.writable))
        self._roots = [r for r in unique if not any(r != other and r.is_relative_to(other) for other in unique)]

    def take(self, control: Control, *, keep: bool, most_read: int = 1 << 30) -> Snapshot:
        """Everything there is now; with `keep`, contents are copied. Contents beyond `most_read` stay unknown."""
        taken = Snapshot()
        unread: dict[str, list[int]] = {}  # folder -> places of entries whose contents are not known
        for root in self._roots:
            found = self._list(root, taken, control, keep=keep)
            unread |= self._ask_git(root, taken, found, control)
        control.unread = sum(map(len, unread.values()))
        control.reading = True
        for folder, places in unread.items():
            table, may_read = taken.tables[folder], most_read > 0
            if may_read:
                table = self._read_contents(table, folder, places, control, keep=keep)
                may_read = not control.enough
            control.unread -= len(places) if may_read else 0
            taken.tables[folder] = table._replace(kept=keep and may_read and table.kept)
            most_read -= len(places)
        if control.overtaken:
            self._fill_in_late(taken, control.overtaken.earliest() - TICK_NS)
        self.known, self.files = taken, control.seen
        if keep:
            self.unread = control.unread
            self._contents.flush()
        return taken

    @property
    def listed(self) -> bool:
        """Whether a snapshot was taken."""
        return bool(self.known.tables)

    @property
    def has_all_contents(self) -> bool:
        """Whether every file can be had back as the last snapshot saw it."""
        return self.listed and all(table.kept for table in self.known.tables.values())

    def ignored_paths(self, folder: Path, check: Callable[[], None] = lambda: None) -> set[str]:
        """The paths in a folder that a snapshot leaves out, not those in folders it leaves out."""
        root = next((root for root in self._roots if folder.is_relative_to(root)), folder)
        found = repository.ignored_paths(folder, check) if (repository := Repository.of(folder)) else None
        if found is None:
            found = Repository.empty(root, self._contents.folder / "no-repository").ignored_paths(folder, check)
        return found or set()

    def content(self, name: str) -> bytes | None:
        """A content that was kept, or that git has, by its digest in hexadecimal."""
        data = self._contents.get(digest := bytes.fromhex(name))
        return next(self._from_git([digest]), None) if data is None else data

    def adopt(self, digests: Sequence[bytes]) -> None:
        """Copy contents that only git has, as far as there is room, for git may forget them."""
        for _ in self._from_git(digests):
            pass
        self._contents.flush()

    def _from_git(self, digests: Sequence[bytes]) -> Iterator[bytes]:
        for repository in filter(None, map(Repository.of, self._roots)):
            missing = sorted({digest for digest in digests if digest not in self._contents})
            for digest, data in repository.contents(missing):
                if digest_of(data) == digest:
                    self._contents.put(data, digest)
                    yield data

    def _list(self, root: Path, taken: Snapshot, control: Control, *, keep: bool) -> dict[str, list[int]]:
        """The tables of all folders of a root; gives the places of entries whose contents are not known."""
        unread: dict[str, list[int]] = {}
        above = "" if root == self._workspace.root else f"{root}/"
        hidden: dict[str, set[str]] = {}
        ignored = partial(self.ignored_paths, check=control.check)
        for prefix, listing in walk(root, hidden, ignored=ignored, skip=self._skip):
            control.check()
            control.seen += len(listing)
            folder = above + prefix
            taken.tables[folder], places = self._table(folder, listing, keep=keep)
            if places:
                unread[folder] = places
        taken.hidden |= {above + prefix: names for prefix, names in hidden.items()}
        return unread

    def _table(self, folder: str, listing: Listing, *, keep: bool) -> tuple[FolderTable, list[int]]:
        """The table of a folder, and the places of the entries whose contents are not known."""
        fresh_ns = time.time_ns() - TICK_NS
        old = self.known.tables.get(folder)
        names = "\0".join([name for name, _ in listing])
        packed = [pack_stat(status, fresh_ns) for _, status in listing]
        stats = b"".join(packed)
        settled = old is not None and (old.kept or not keep)
        if old and settled and old.names == names and old.stats == stats and not old.has_fresh():
            return old, []
        earlier = old.rows() if old else {}
        digests, links, places = [UNKNOWN] * len(listing), {}, []
        for place, (name, status) in enumerate(listing):
            if stat.S_ISLNK(status.st_mode):
                with contextlib.suppress(OSError):
                    links[name] = os.readlink(self._full(folder) + name)
            if not stat.S_ISREG(status.st_mode):
                continue
            row = earlier.get(name, TableRow(b""))
            known = settled or row.digest in self._contents
            if known and row.stat == packed[place] and not is_fresh(row.stat):
                digests[place] = row.digest
            elif status.st_size <= MAX_FILE:
                places.append(place)
        kept = keep or old is None or old.kept  # but for what is still to be read
        return FolderTable(names, stats, b"".join(digests), links or _NO_LINKS, kept), places

    def _ask_git(
        self, root: Path, taken: Snapshot, unread: dict[str, list[int]], control: Control
    ) -> dict[str, list[int]]:
        """Fill in the contents of files that are byte for byte what git holds; gives what is left to read."""
        repository = Repository.of(root)
        count = sum(map(len, unread.values()))
        if not repository or not count or not 0 < repository.index_size() < count * _INDEX_A_FILE:
            return unread
        above = "" if root == self._workspace.root else f"{root}/"
        tracked = repository.tracked_files(root)
        while part := list(islice(tracked, _AT_ONCE)):
            control.check()
            sizes = repository.sizes([entry.content for _, entry in part])
            wanted: dict[str, dict[str, IndexEntry]] = {}
            for path, entry in part:
                folder, slash, name = path.rpartition("/")
                if sizes.get(entry.content) == entry.size:  # line ends and encodings differ in git only with the size
                    wanted.setdefault(above + folder + slash, {})[name] = entry
            for folder in wanted.keys() & unread.keys():
                taken.tables[folder], unread[folder] = _fill_in(taken.tables[folder], unread[folder], wanted[folder])
        return {folder: places for folder, places in unread.items() if places}

    def _read_contents(
        self, table: FolderTable, folder: str, places: list[int], control: Control, *, keep: bool
    ) -> FolderTable:
        names, stats, digests = table.names.split("\0"), bytearray(table.stats), bytearray(table.contents)
        for place in places:
            control.check()
            if keep and self._contents.full:
                break  # nothing more can be kept, so nothing more is read
            at = place * STAT.size
            record = bytes(stats[at : at + STAT.size])
            if control.enough and not is_fresh(record):
                continue  # its times tell whether it changed
            data, changed = _read(self._full(folder) + names[place], record)
            if changed:
                stats[at : at + STAT.size] = with_unknown_size(record)
            if data is None or (changed and control.overtaken):
                continue
            digest = digest_of(data)
            if not keep or self._contents.put(data, digest):
                digests[place * DIGEST : (place + 1) * DIGEST] = digest
        return table._replace(stats=bytes(stats), contents=bytes(digests))

    def _fill_in_late(self, taken: Snapshot, since: int) -> None:
        """What a command changed before the scan came by is taken to have been as the last snapshot knew it."""
        for folder in taken.tables.keys() | self.known.tables.keys():
            table, old = taken.tables.get(folder), self.known.tables.get(folder)
            late = table.changed_since(since) if table else set[str]()
            if table is old or not (late or (old and _mtime(self._full(folder)) >= since)):
                continue
            rows, known = table.rows() if table else {}, old.rows() if old else {}
            kept = {name: row for name, row in rows.items() if name not in late}
            if not self.listed:  # it may have been there
                kept |= {name: TableRow(with_unknown_size(rows[name].stat)) for name in late}
            taken.tables[folder] = FolderTable.of(known | kept)

    def _full(self, folder: str) -> str:
        """The whole path of a folder of a snapshot, with a slash."""
        return os.path.join(self._workspace.root, folder)


def walk(
    root: Path,
    hidden: dict[str, set[str]],
    *,
    ignored: Callable[[Path], Collection[str]],
    skip: Collection[str] = (),
    limit: int = MAX_ENTRIES,
) -> Iterator[tuple[str, Listing]]:
    """Each folder below `root` with its files, links and folders: one stat an entry, no content read.

    What is `ignored` is left out and noted in `hidden`, by folder; a repository inside is asked about by itself. `skip`
    holds whole paths of folders to stay out of. Other file systems, sockets, pipes and devices are left out.
    """
    top = str(root)
    device = os.lstat(top).st_dev
    waiting, count = [""], 0
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(os.path.join(top, prefix)) as opened:
                entries = sorted(opened, key=lambda entry: entry.name)
        except OSError:
            continue  # not ours to read, or gone by now
        if not prefix or any(entry.name == ".git" for entry in entries):
            for path in ignored(root / prefix):
                folder, slash, name = (prefix + path).rpartition("/")
                hidden.setdefault(folder + slash, set()).add(name)
        left_out = hidden.get(prefix, ())
        found: Listing = []
        for entry in entries:
            name = entry.name
            if name == ".git" or name in left_out:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                if status.st_dev != device or entry.path in skip:
                    continue
                waiting.append(f"{prefix}{name}/")
            elif not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                continue
            found.append((name, status))
        count += len(found)
        if count > limit:
            raise TooManyFiles
        yield prefix, found


def _fill_in(table: FolderTable, places: list[int], tracked: dict[str, IndexEntry]) -> tuple[FolderTable, list[int]]:
    """The table with the contents of entries that are as git saw them, and the places of the others."""
    names, digests, left = table.names.split("\0"), bytearray(table.contents), []
    for place in places:
        _, _, size, mtime, ctime, inode = STAT.unpack_from(table.stats, place * STAT.size)
        entry = tracked.get(names[place])
        seen = (size if size >= 0 else entry.size, mtime, ctime, inode & 0xFFFFFFFF) if entry else ()
        if entry and seen == (entry.size, entry.mtime, entry.ctime, entry.inode):
            digests[place * DIGEST : (place + 1) * DIGEST] = entry.content
        else:
            left.append(place)
    return table._replace(contents=bytes(digests)), left


def _mtime(folder: str) -> int:
    """When something last came or went in a folder, or in the nearest one above it that is there."""
    while True:
        try:
            return os.stat(folder).st_mtime_ns
        except OSError:
            folder = os.path.dirname(folder.rstrip("/"))


def _read(full: str, record: bytes) -> tuple[bytes | None, bool]:
    """The bytes of the file a walk saw, None if there is none or it is too large; and whether it changed since."""
    _, _, size, mtime, ctime, inode = STAT.unpack(record)
    try:
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if found.st_ino != inode or not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE:
                return None, True
            data = file.read(found.st_size + 1)
        changed = (found.st_mtime_ns, found.st_ctime_ns) != (mtime, ctime) or size not in (-1, len(data))
        return data, changed
    except OSError:
        return None, True
