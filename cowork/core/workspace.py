"""Where file tools may go: resolve a path, judge it, then open exactly what was judged.

A path is resolved once, links and all. Opening walks the resolved path component by component without following
any link, so a link swapped in between check and open makes the open fail instead of leading elsewhere.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from cowork.core.errors import ToolError


class Workspace:
    """The folders of a run: `root` and `extra` may be read and written, `readable` only read."""

    def __init__(self, root: Path, extra: Sequence[Path] = (), readable: Sequence[Path] = ()) -> None:
        self.root = Path(os.path.realpath(root))
        self.writable = (self.root, *(Path(os.path.realpath(p)) for p in extra))
        self.readable = (*self.writable, *(Path(os.path.realpath(p)) for p in readable))

    def resolve(self, given: str, cwd: Path) -> Path:
        """The real path `given` stands for; a leaf that does not exist yet is fine."""
        if not given.strip():
            raise ToolError("INVALID_PARAM", "The path is empty. Give a file path.")
        if "\0" in given:
            raise ToolError("INVALID_PARAM", "The path holds a NUL character.")
        if given.startswith("file://"):
            given = unquote(given.removeprefix("file://").removeprefix("localhost"))
        path = Path(os.path.expanduser(given))
        try:
            return Path(os.path.realpath(cwd / path))
        except OSError as error:
            raise ToolError("NOT_FOUND", f"{given} cannot be resolved: {error.strerror}.") from error

    def may_read(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.readable)

    def may_write(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.writable)

    def show(self, path: Path) -> str:
        """The path as people and models like it: relative inside the workspace, whole outside."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def open(self, path: Path, flags: int, mode: int = 0o666) -> int:
        """A file descriptor of a resolved path; no link is followed and nothing blocks."""
        with self.parent(path) as (folder, leaf):
            return os.open(leaf, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=folder)

    @contextmanager
    def parent(self, path: Path) -> Iterator[tuple[int, str]]:
        """(descriptor of the folder, name in it) of a resolved path, reached without following a link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        here = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            *folders, leaf = path.parts[1:] or (".",)
            for name in folders:
                try:
                    inner = os.open(name, flags, dir_fd=here)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR) and os.path.islink(path.parent):
                        raise ToolError("ACCESS_DENIED", f"{path} changed while it was opened.") from error
                    raise
                os.close(here)
                here = inner
            yield here, leaf
        finally:
            os.close(here)
