"""Takes snapshots of a workspace: first a walk that stats every entry, then the contents that are not known yet.

What has not been touched since the last snapshot is not read again; what git holds is not copied. A scan may run
beside a command: entries the command changed before the scan reached them are marked, never mistaken for old ones.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cowork.core.workspace import Workspace
from cowork.sessions.checkpoints.contents import Contents, digest_of
from cowork.sessions.checkpoints.entries import MAX_FILE
from cowork.sessions.checkpoints.git_objects import GitObjects, has_filter
from cowork.sessions.checkpoints.gitignore import Chain
from cowork.sessions.checkpoints.tables import (
    DIGEST,
    STAT,
    UNKNOWN,
    FolderTable,
    Snapshot,
    has_fresh,
    is_fresh,
    pack_stat,
    with_unknown_size,
)
from cowork.sessions.checkpoints.walk import Listing, covers, rules_at, walk

TICK_NS = 50_000_000  # a file touched this short before a look may change again without its times showing it
_NO_LINKS: Mapping[str, str] = {}


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
        self.late: dict[str, tuple[Listing, set[str]]] = {}  # folder -> entries the command may have made; all names

    def check(self) -> None:
        if self.stop:
            raise ScanStopped

    def leave(self, *, listed: bool) -> None:
        """End a scan that nobody waits for. What it has read is kept; a walk is for nothing where all is `listed`."""
        self.enough = True
        self.stop = self.stop or (listed and not self.reading)

    def is_late(self, changed_ns: int) -> bool:
        """Whether the command that overtook the scan may have made the change."""
        return self.overtaken is not None and changed_ns >= self.overtaken.earliest() - TICK_NS

    def set_aside(self, folder: str, full: str, listing: Listing) -> Listing:
        """What was in a folder before the command that overtook the scan; the rest is noted in `late`."""
        late = [item for item in listing if self.is_late(item[1].st_ctime_ns)]
        if late or self.is_late(_mtime(full)):
            self.late[folder] = late, {name for name, _ in listing}
        return [item for item in listing if item not in late]


class Scanner:
    """Takes snapshots of the folders of a workspace. Paths are relative to the first folder, whole in the others."""

    def __init__(self, workspace: Workspace, contents: Contents, *, skip: Sequence[Path] = ()) -> None:
        self.known = Snapshot()
        self.files = 0  # in it
        self.unread = 0  # contents that the last snapshot should have kept and did not
        self._workspace = workspace
        self._contents = contents
        self._skip = frozenset(str(path) for path in skip)
        self._roots = _outermost(workspace.writable)
        self._git: dict[Path, GitObjects | None] = {}

    def take(self, control: Control, *, keep: bool, most_read: int = 1 << 30) -> Snapshot:
        """Everything there is now; with `keep`, contents are copied. Contents beyond `most_read` stay unknown."""
        taken = Snapshot()
        unread: list[tuple[str, str, list[int]]] = []
        for root in self._roots:
            self._list(root, taken, unread, control, keep=keep)
        control.reading = True
        for folder, full, places in unread:
            table, may_read = taken.tables[folder], most_read > 0
            if may_read:
                table = self._read_contents(table, full, places, control, keep=keep)
                may_read = not control.enough
            control.unread -= len(places) if may_read else 0
            taken.tables[folder] = table._replace(kept=keep and may_read and table.kept)
            most_read -= len(places)
        if control.overtaken:
            self._fill_in_late(taken, control)
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

    def covers(self, path: Path) -> bool:
        """Whether `take` would find this path, if it is there."""
        for root in self._roots:
            if path.is_relative_to(root) and path != root:
                git = self._repository(root)
                folder, _, name = str(path.relative_to(root)).rpartition("/")
                if git and name in git.names(f"{folder}/" if folder else ""):
                    return True
                return covers(root, str(path.relative_to(root)), rules=_rules(git))
        return False

    def content(self, digest: bytes) -> bytes | None:
        """A content that was kept; one that only git has is copied, for git may forget it."""
        data = self._contents.get(digest)
        if data is None:
            self.adopt([digest])
            data = self._contents.get(digest) or self._from_git(digest)
        return data

    def adopt(self, digests: Sequence[bytes]) -> None:
        """Copy contents from git that are not ours yet, as far as there is room."""
        for git in filter(None, self._git.values()):
            missing = [digest for digest in digests if digest not in self._contents]
            for digest, data in git.contents(missing):
                if digest_of(data) == digest:
                    self._contents.put(data, digest)
        self._contents.flush()

    def _from_git(self, digest: bytes) -> bytes | None:
        found = (data for git in filter(None, self._git.values()) for _, data in git.contents([digest]))
        return next((data for data in found if digest_of(data) == digest), None)

    def _list(
        self,
        root: Path,
        taken: Snapshot,
        unread: list[tuple[str, str, list[int]]],
        control: Control,
        *,
        keep: bool,
    ) -> None:
        git = self._repository(root)
        if git:
            git.refresh(control.check)
        attributes: list[str] = []
        first = len(unread)
        above = "" if root == self._workspace.root else f"{root}/"
        for prefix, listing in walk(root, tracked=git, skip=self._skip, rules=_rules(git)):
            control.check()
            control.seen += len(listing)
            if control.overtaken:
                listing = control.set_aside(above + prefix, f"{root}/{prefix}", listing)
            if any(name == ".gitattributes" for name, _ in listing):
                attributes.append(f"{root}/{prefix}.gitattributes")
            folder, full = above + prefix, f"{root}/{prefix}"
            table, places = self._table(folder, full, listing, control, keep=keep)
            taken.tables[folder] = table
            if places:
                unread.append((folder, full, places))
                control.unread += 0 if git else len(places)
        if git and not (git.filters() or any(has_filter(Path(path)) for path in attributes)):
            known = (self._from_index(git, taken, item, len(above)) for item in unread[first:])
            unread[first:] = [item for item in known if item[2]]
        if git:
            control.unread += sum(len(places) for _, _, places in unread[first:])

    def _table(
        self, folder: str, full: str, listing: Listing, control: Control, *, keep: bool
    ) -> tuple[FolderTable, list[int]]:
        """The table of a folder, and the places of the entries whose contents are not known."""
        fresh_ns = time.time_ns() - TICK_NS
        old = self.known.tables.get(folder)
        names = "\0".join([name for name, _ in listing])
        packed = [pack_stat(status, fresh_ns) for _, status in listing]
        stats = b"".join(packed)
        settled = old is not None and (old.kept or not keep)
        if old and settled and old.names == names and old.stats == stats and not has_fresh(old):
            return old, []
        earlier = _by_name(old)
        digests, links, places = [UNKNOWN] * len(listing), {}, []
        for place, (name, status) in enumerate(listing):
            if stat.S_ISLNK(status.st_mode):
                links[name] = _target(full + name)
            if not stat.S_ISREG(status.st_mode):
                continue
            record, digest, _ = earlier.get(name, (b"", UNKNOWN, ""))
            known = settled or digest in self._contents
            if known and record == packed[place] and not is_fresh(record):
                digests[place] = digest
            elif status.st_size <= MAX_FILE:
                places.append(place)
        kept = keep or old is None or old.kept  # but for what is still to be read
        return FolderTable(names, stats, b"".join(digests), links or _NO_LINKS, kept), places

    def _from_index(
        self, git: GitObjects, taken: Snapshot, item: tuple[str, str, list[int]], above: int
    ) -> tuple[str, str, list[int]]:
        """Fill in the contents of files that are byte for byte what git holds; gives what is left to read."""
        folder, full, places = item
        tracked = git.names(folder[above:])
        if not tracked:
            return item
        table = taken.tables[folder]
        names, digests, left = table.names.split("\0"), bytearray(table.contents), []
        for place in places:
            entry = tracked.get(names[place])
            if entry and entry.is_clean(STAT.unpack_from(table.stats, place * STAT.size)):
                digests[place * DIGEST : (place + 1) * DIGEST] = entry.content
            else:
                left.append(place)
        taken.tables[folder] = table._replace(contents=bytes(digests))
        return folder, full, left

    def _read_contents(
        self, table: FolderTable, full: str, places: list[int], control: Control, *, keep: bool
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
            data, changed = _read(full + names[place], record)
            if changed:
                stats[at : at + STAT.size] = with_unknown_size(record)
            if data is None or (changed and control.overtaken):
                continue
            digest = digest_of(data)
            if not keep or self._contents.put(data, digest):
                digests[place * DIGEST : (place + 1) * DIGEST] = digest
        return table._replace(stats=bytes(stats), contents=bytes(digests))

    def _fill_in_late(self, taken: Snapshot, control: Control) -> None:
        """What the command changed before the scan came by is taken to have been as the last snapshot knew it."""
        looked_before = self.listed
        for folder, (late, names) in control.late.items():
            known = _by_name(self.known.tables.get(folder))
            found = _by_name(taken.tables.get(folder))
            for name, status in late:
                if name in known:
                    found[name] = known[name]
                elif not looked_before:  # it may have been there
                    found[name] = (pack_stat(status, 0), UNKNOWN, "")
            found |= {name: known[name] for name in known.keys() - names}
            taken.tables[folder] = _table_of(found)
        for folder in self.known.tables.keys() - taken.tables.keys():
            if control.is_late(_mtime(str(self._workspace.root / folder))):
                taken.tables[folder] = self.known.tables[folder]

    def _repository(self, root: Path) -> GitObjects | None:
        """The repository of a folder, which may come and go; what is known of the same one is kept."""
        found, known = GitObjects.of(root), self._git.get(root)
        same = found and known and known.git_folder == found.git_folder
        self._git[root] = known if same else found
        return self._git[root]


_Row = tuple[bytes, bytes, str]  # stat, digest, where a link leads


def _by_name(table: FolderTable | None) -> dict[str, _Row]:
    if table is None or not table.stats:
        return {}
    stats, digests, links = table.stats, table.contents, table.links
    return {
        name: (stats[n * STAT.size : (n + 1) * STAT.size], digests[n * DIGEST : (n + 1) * DIGEST], links.get(name, ""))
        for n, name in enumerate(table.names.split("\0"))
    }


def _table_of(rows: Mapping[str, _Row]) -> FolderTable:
    names = sorted(rows)
    stats, digests = b"".join(rows[name][0] for name in names), b"".join(rows[name][1] for name in names)
    links = {name: target for name in names if (target := rows[name][2])}
    return FolderTable("\0".join(names), stats, digests, links, kept=False)


def _mtime(folder: str) -> int:
    """When something last came or went in a folder, or in the nearest one above it that is there."""
    while True:
        try:
            return os.stat(folder).st_mtime_ns
        except OSError:
            folder = os.path.dirname(folder.rstrip("/"))


def _rules(git: GitObjects | None) -> Chain:
    """What the user ignores everywhere, and in this repository without saying so in it."""
    everywhere = rules_at(os.path.expanduser("~/.config/git/ignore"))
    return (*rules_at(str(git.git_folder / "info" / "exclude")), *everywhere) if git else everywhere


def _read(full: str, record: bytes) -> tuple[bytes | None, bool]:
    """The bytes of the file a walk saw, None if there is none or it is too large; and whether it changed since."""
    _, _, size, mtime, ctime, inode = STAT.unpack(record)
    try:
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if found.st_ino != inode or not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE:
                return None, True
            data = os.read(fd, found.st_size + 1)
            while len(data) < found.st_size and (more := os.read(fd, found.st_size + 1 - len(data))):
                data += more
            changed = (found.st_mtime_ns, found.st_ctime_ns) != (mtime, ctime) or size not in (-1, len(data))
            return data, changed
        finally:
            os.close(fd)
    except OSError:
        return None, True


def _outermost(roots: Sequence[Path]) -> list[Path]:
    """Each folder once, those inside another left out."""
    unique = list(dict.fromkeys(roots))
    return [r for r in unique if not any(r != other and r.is_relative_to(other) for other in unique)]


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
