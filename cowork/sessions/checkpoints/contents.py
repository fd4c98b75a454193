"""File contents by name, in one growing file. The names are those git gives, so that git can hold some of them.

Each content follows a line with its name and length. What a crash left half written at the end is cut off.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Collection
from pathlib import Path

from cowork.sessions.private_files import open_private, private_folder

PACK = "contents.pack"
_HEADER = len("0" * 40 + " " + "0" * 12 + "\n")
_BUFFER = 4 * 1024 * 1024


def blob_name(data: bytes) -> str:
    """The name of a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Blobs:
    """Contents stored once each, up to `limit` bytes in all."""

    def __init__(self, folder: Path, *, limit: int) -> None:
        self.full = False  # something was refused
        self._path = folder / PACK
        self._limit = limit
        self._places: dict[str, tuple[int, int]] = {}
        self._waiting: list[tuple[str, bytes]] = []
        self._end = 0  # of the file, with what waits
        self._waiting_bytes = 0
        self._fd = -1
        if self._path.exists():
            self._open()

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def put(self, data: bytes, name: str = "") -> str:
        """Store a content; gives its name, or nothing when there is no room left. On disk it is after `flush`."""
        name = name or blob_name(data)
        if name in self._places:
            return name
        self._open()
        if self._end + _HEADER + len(data) > self._limit:
            self.full = True
            return ""
        self._places[name] = (self._end + _HEADER, len(data))
        self._waiting.append((name, data))
        self._waiting_bytes += len(data)
        self._end += _HEADER + len(data)
        if self._waiting_bytes > _BUFFER:
            self.flush()
        return name

    def get(self, name: str) -> bytes | None:
        """The content, if it is here and whole."""
        if name not in self._places:
            return None
        self.flush()
        data = _read(self._fd, *self._places[name])
        return data if blob_name(data) == name else None

    def flush(self) -> None:
        """Write what waits. If the disk is full, none of it was ever put."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        start = self._places[waiting[0][0]][0] - _HEADER
        try:
            _write(self._fd, b"".join(_entry(name, data) for name, data in waiting))
        except OSError:
            for name, _ in waiting:
                del self._places[name]
            os.ftruncate(self._fd, start)
            self._end = start
            raise

    def keep_only(self, names: Collection[str]) -> None:
        """Forget all other contents and give their room back."""
        if self._places.keys() <= set(names):
            return
        draft = self._path.with_name(f".{PACK}.{secrets.token_hex(4)}")
        fd = open_private(draft, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        try:
            for name in names:
                if (data := self.get(name)) is not None:
                    _write(fd, _entry(name, data))
            os.replace(draft, self._path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        self.close()
        self._open()

    def close(self) -> None:
        """Let the file go; what could not be written is forgotten."""
        if self._fd < 0:
            return
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
        while self._end + _HEADER <= size:
            name, _, length = (
                os.pread(self._fd, _HEADER, self._end).decode("ascii", "replace").rstrip("\n").partition(" ")
            )
            if not length.isdecimal() or self._end + _HEADER + int(length) > size:
                break
            self._places[name] = (self._end + _HEADER, int(length))
            self._end += _HEADER + int(length)
        if self._end < size:
            os.ftruncate(self._fd, self._end)


def _entry(name: str, data: bytes) -> bytes:
    return b"%s %012d\n%s" % (name.encode(), len(data), data)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _read(fd: int, offset: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length and (part := os.pread(fd, length, offset)):
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return b"".join(parts)
