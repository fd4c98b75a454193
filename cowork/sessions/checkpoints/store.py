"""Checkpoints on disk: contents of files, what each turn changed, and the turn that runs, should a crash cut it off.

Contents are kept by digest in one growing file; the digests are those git makes, so that git can hold some of them.
Each content follows a line with its digest and length. What a crash left half written at the end is cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cowork.private_files import open_private, private_folder, replace_private
from cowork.sessions.checkpoints.entries import Node, Snapshot, digest_of, from_list

PACK = "contents.pack"
_HEAD = re.compile(rb"([0-9a-f]{40}) ([0-9]{12})\n")
_HEAD_BYTES = 54
_BUFFER = 1024 * 1024
_LENGTHS = 1 << 32  # longer than any content
JOURNAL = "journal.jsonl"
OPEN_TURN = "open-turn.json"
TREE = "open-tree.jsonl"
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)

Change = tuple[Node | None, Node | None]  # before and after
TurnChanges = tuple[int, dict[str, Change]]  # a prompt and what its answer changed


class Contents:
    """Contents stored once each by digest, up to `limit` bytes in all. Any thread may call."""

    def __init__(self, folder: Path, *, limit: int) -> None:
        self.folder = folder
        self.full = False  # something was refused
        self._path = folder / PACK
        self._limit = limit
        self._lock = threading.RLock()
        self._places: dict[bytes, int] = {}  # digest -> offset and length in one number, for there are many
        self._waiting = bytearray()  # to be written
        self._end = 0  # of the file, with what waits
        self._fd = -1
        if self._path.exists():
            self._open()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._places

    def put(self, data: bytes, digest: bytes = b"") -> bytes:
        """Store a content; gives its digest, or nothing when there is no room left. On disk it is after `flush`."""
        digest = digest or digest_of(data)
        with self._lock:
            if digest in self._places:
                return digest
            self._open()
            if self._end + _HEAD_BYTES + len(data) > self._limit:
                self.full = True
                return b""
            self._places[digest] = (self._end + _HEAD_BYTES) * _LENGTHS + len(data)
            self._waiting += _entry(digest, data)
            self._end += _HEAD_BYTES + len(data)
            if len(self._waiting) > _BUFFER:
                self.flush()
            return digest

    def flush(self) -> None:
        """Write what waits. If the disk is full, none of it was ever put."""
        with self._lock:
            waiting, self._waiting = self._waiting, bytearray()
            start = self._end - len(waiting)
            try:
                _write(self._fd, waiting)
            except OSError:
                self._places = {digest: place for digest, place in self._places.items() if place < start * _LENGTHS}
                self._end = start
                os.ftruncate(self._fd, start)
                raise

    def get(self, digest: bytes) -> bytes | None:
        """The content, if it is here and whole."""
        with self._lock:
            if digest not in self._places:
                return None
            self.flush()
            offset, length = divmod(self._places[digest], _LENGTHS)
            data = os.pread(self._fd, length, offset)
            return data if digest_of(data) == digest else None

    def keep_only(self, digests: Collection[bytes]) -> None:
        """Forget all other contents and give their room back."""
        if self._places.keys() <= set(digests):
            return
        draft = self._path.with_name(f".{PACK}.{secrets.token_hex(4)}")
        fd = open_private(draft, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        try:
            for digest in digests:
                if (data := self.get(digest)) is not None:
                    _write(fd, _entry(digest, data))
            os.replace(draft, self._path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        self.close()
        self._open()

    def close(self) -> None:
        """Let the file go; what cannot be written is forgotten."""
        if self._fd >= 0:
            try:
                self.flush()
            finally:
                os.close(self._fd)
                self._fd = -1

    def _open(self) -> None:
        if self._fd >= 0:
            return
        private_folder(self._path.parent)
        self._fd = open_private(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        size = os.fstat(self._fd).st_size
        self._places, self._end = {}, 0
        while head := _HEAD.fullmatch(os.pread(self._fd, _HEAD_BYTES, self._end)):
            start, length = self._end + _HEAD_BYTES, int(head[2])
            if start + length > size:
                break
            self._places[bytes.fromhex(head[1].decode())] = start * _LENGTHS + length
            self._end = start + length
        if self._end < size:
            os.ftruncate(self._fd, self._end)


@dataclass(slots=True)
class OpenTurn:
    """The turn that runs: the files tools said they would write, and everything if a command ran."""

    prompt_id: int
    touched: dict[str, Node | None] = field(default_factory=dict)
    before: Snapshot | None = None
    looked_at: int = 0  # when, in ns


class Journal:
    """The files of one checkpoint folder. Each note says its workspace, for a session may go on in another."""

    def __init__(self, store: Path, root: Path) -> None:
        self._store = store
        status = os.stat(root)
        self._here: list[str | int] = [str(root), status.st_dev, status.st_ino]
        self._written = Snapshot()  # what TREE holds
        self._written_id = ""  # and the name it has there
        self.elsewhere: set[str] = set()  # contents of turns in other folders, should the session go on there

    def load(self) -> list[TurnChanges]:
        """The turns that can be taken back here, oldest first; damaged lines are left out."""
        turns: list[TurnChanges] = []
        try:
            lines = (self._store / JOURNAL).read_bytes().splitlines()
        except OSError:
            return turns
        for line in lines:
            with contextlib.suppress(*_DAMAGED):
                raw = json.loads(line)
                here = self._is_here(raw)
                if "rewound" in raw:
                    turns = without(turns, raw["rewound"], raw.get("left", ())) if here else turns
                    continue
                changes = {p: (from_list(old), from_list(new)) for p, (old, new) in raw["changes"].items()}
                if here:
                    turns.append((int(raw["prompt"]), changes))
                else:
                    self.elsewhere |= {old.content for old, _ in changes.values() if old and old.kind == "f"}
        return turns

    def append(self, record: dict[str, object]) -> None:
        """Note what a turn changed, or that turns were taken back."""
        fd = open_private(private_folder(self._store) / JOURNAL, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            line = json.dumps(record | {"root": self._here}, separators=(",", ":")).encode() + b"\n"
            os.write(fd, b"\n" + line if torn else line)
        finally:
            os.close(fd)

    def write_tree(self, tree: Snapshot) -> None:
        """Write the snapshot of a turn that starts, unless it is what the last one was."""
        if not self._written_id or tree.tables != self._written.tables:
            name = secrets.token_hex(8)
            head = json.dumps(name).encode() + b"\n"
            replace_private(private_folder(self._store) / TREE, b"".join([head, *tree.to_lines()]))
            self._written_id = name
        self._written = tree

    def note_open(self, turn: OpenTurn) -> None:
        """So that a turn that a crash cuts off can be taken back too."""
        noted = {
            "prompt": turn.prompt_id,
            "at": turn.looked_at,
            "tree": self._written_id if turn.before else "",
            "touched": turn.touched,
            "root": self._here,
        }
        data = json.dumps(noted, separators=(",", ":")).encode()
        replace_private(private_folder(self._store) / OPEN_TURN, data)

    def left_open(self) -> OpenTurn | None:
        """The turn that a crash cut off, as far as it was noted."""
        with contextlib.suppress(*_DAMAGED):
            raw = json.loads((self._store / OPEN_TURN).read_bytes())
            if not self._is_here(raw):
                return None
            turn = OpenTurn(int(raw["prompt"]), {path: from_list(node) for path, node in raw["touched"].items()})
            with contextlib.suppress(*_DAMAGED):
                head, *lines = (self._store / TREE).read_bytes().splitlines()
                if raw["tree"] and json.loads(head) == raw["tree"]:
                    turn.before, turn.looked_at = Snapshot.from_lines(lines), int(raw["at"])
                    self._written, self._written_id = turn.before, raw["tree"]
            return turn
        return None

    def close_turn(self) -> None:
        """The turn came to its end."""
        (self._store / OPEN_TURN).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Leave nothing of a tree that no turn needs any more."""
        (self._store / TREE).unlink(missing_ok=True)
        self._written, self._written_id = Snapshot(), ""

    def _is_here(self, raw: dict[str, Any]) -> bool:
        """Whether a note is of this folder, which may have been moved; older notes do not say."""
        path, *identity = raw.get("root") or self._here
        return path == self._here[0] or identity == self._here[1:]


def without(turns: list[TurnChanges], prompt_id: int, left: Sequence[str]) -> list[TurnChanges]:
    """The turns after a rewind: of those that were taken back, only what became of the paths it could not put back."""
    kept = []
    for prompt, changes in turns:
        rest = changes if prompt < prompt_id else {path: changes[path] for path in left if path in changes}
        if rest:
            kept.append((prompt, rest))
    return kept


def _entry(digest: bytes, data: bytes) -> bytes:
    return b"%s %012d\n%s" % (digest.hex().encode(), len(data), data)


def _write(fd: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
