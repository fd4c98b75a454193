"""File contents by name, in one growing file. The names are those git gives, so that git can hold some of them."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from cowork.sessions.private import open_private, private_folder

PACK = "contents.pack"
NAMES = "contents.names"
_BUFFER = 4 * 1024 * 1024


def blob_name(data: bytes) -> str:
    """The name of a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Blobs:
    """Contents stored once each, up to `limit` bytes in all. What is written first is found again after a crash."""

    def __init__(self, folder: Path, *, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self.full = False  # something was refused
        self._places: dict[str, tuple[int, int]] = {}
        self._fresh: list[str] = []  # lines of `names` not written yet
        self._waiting: list[tuple[str, bytes]] = []
        self._waiting_bytes = 0
        self._size = 0  # of the file
        self._fd = -1
        self._load()

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def put(self, data: bytes, name: str = "") -> str:
        """Store a content; gives its name, or nothing when there is no room left. On disk it is after `flush`."""
        name = name or blob_name(data)
        if name in self._places:
            return name
        self._open()
        offset = self._size + self._waiting_bytes
        if offset + len(data) > self._limit:
            self.full = True
            return ""
        self._places[name] = (offset, len(data))
        self._waiting.append((name, data))
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _BUFFER:
            self._write()
        return name

    def get(self, name: str) -> bytes | None:
        """The content, if it is here and whole."""
        if name not in self._places:
            return None
        self._write()
        offset, length = self._places[name]
        parts: list[bytes] = []
        while length and (part := os.pread(self._fd, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        data = b"".join(parts)
        return data if blob_name(data) == name else None

    def flush(self) -> None:
        """Make what was put findable after a crash."""
        self._write()
        if not self._fresh:
            return
        fd = open_private(self._folder / NAMES, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(fd, "wb") as file:
            file.write("".join(self._fresh).encode())
        self._fresh.clear()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.flush()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self) -> None:
        """Write what waits, in one go. If the disk is full, none of it was ever put."""
        self._open()
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        rest = memoryview(b"".join(data for _, data in waiting))
        length = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            for name, _ in waiting:
                del self._places[name]
            self._size = os.fstat(self._fd).st_size  # the next content starts after this half
            raise
        self._size += length
        self._fresh += [f"{name} {self._places[name][0]} {len(data)}\n" for name, data in waiting]

    def _open(self) -> None:
        if self._fd < 0:
            private_folder(self._folder)
            self._fd = open_private(self._folder / PACK, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            self._size = os.fstat(self._fd).st_size  # whatever a crash left at the end is skipped

    def _load(self) -> None:
        try:
            lines = (self._folder / NAMES).read_text("ascii", "replace").splitlines()
            self._size = (self._folder / PACK).stat().st_size
        except OSError:
            return
        for line in lines:
            name, _, place = line.partition(" ")
            offset, _, length = place.partition(" ")
            if len(name) == 40 and offset.isdecimal() and length.isdecimal():
                self._places[name] = (int(offset), int(length))
