"""File contents by digest, in one growing file. The digests are those git makes, so that git can hold some of them.

Each content follows a line with its digest and length. What a crash left half written at the end is cut off.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
from collections.abc import Collection
from pathlib import Path

from cowork.private_files import open_private, private_folder

PACK = "contents.pack"
_HEAD = re.compile(rb"([0-9a-f]{40}) ([0-9]{12})\n")
_HEAD_BYTES = 54
_BUFFER = 1024 * 1024
_LENGTHS = 1 << 32  # longer than any content


def digest_of(data: bytes) -> bytes:
    """The digest that stands for a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


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


def _entry(digest: bytes, data: bytes) -> bytes:
    return b"%s %012d\n%s" % (digest.hex().encode(), len(data), data)


def _write(fd: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
