"""One entry of a workspace at one moment: a file, a link or a folder, and how to look at it and put it back.

No link is followed on the way to an entry, so nothing outside the workspace is ever read or written through one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import Any, NamedTuple

from cowork.core.errors import ToolError
from cowork.core.workspace import Workspace
from cowork.sessions.checkpoints.contents import digest_of

MAX_FILE = 32 * 1024 * 1024  # larger files are not kept
OWNER = stat.S_IRWXU
_KINDS = {stat.S_IFREG: "f", stat.S_IFLNK: "l", stat.S_IFDIR: "d"}
_PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)

Stamp = tuple[int, int, int, int]  # size (-1: too fresh to tell a change by), mtime, ctime, inode
UNKNOWN: Stamp = (-1, 0, 0, 0)


class Node(NamedTuple):
    """`content` names a file's bytes (empty: not known) or is a link's target."""

    kind: str  # f, l or d; x for a pipe, socket or device, which is never ours
    mode: int
    content: str = ""
    stamp: Stamp = UNKNOWN


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
    kind, mode, content, stamp = raw
    size, mtime, ctime, inode = stamp
    return Node(str(kind), int(mode), str(content), (size, mtime, ctime, inode))


def targets(path: Path) -> set[Path]:
    """What a write to this path may change: the entry itself, and what it leads to if it is a link."""
    entry = Path(os.path.realpath(path.parent), path.name)
    return {entry, Path(os.path.realpath(path))}


def read_bytes(workspace: Workspace, path: Path, limit: int = MAX_FILE) -> bytes | None:
    """The bytes of a regular file, None if it is none, is gone, or is larger than `limit`."""
    try:
        fd = workspace.open(path, os.O_RDONLY)
    except (OSError, ToolError):
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        with contextlib.suppress(OSError):
            data = file.read(limit + 1)
            return data if len(data) <= limit else None
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
