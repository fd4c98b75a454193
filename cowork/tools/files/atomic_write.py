"""Puts new content in place of old: compare with what was seen, write beside it, then rename. All of it or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from cowork.core.errors import ToolError
from cowork.core.workspace import Workspace
from cowork.tools.base import ToolContext
from cowork.tools.files.access import FileSnapshot, decode, digest, explain_errors, label, printable, remember, snapshot
from cowork.tools.files.diff import unified_diff

_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access")
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def current(ctx: ToolContext, path: Path) -> FileSnapshot:
    """The file as it is, provided this agent has seen exactly that; else CONFLICT says what to do."""
    now = snapshot(ctx.workspace, path)
    seen = ctx.state.seen.get(str(path))
    if seen is None:
        said = f"{label(ctx.workspace, path)} exists and you have not read it. Read it first, then repeat the call."
        raise ToolError("CONFLICT", said, reason="not_read")
    if seen != now.hash:
        raise _conflict(ctx, path, now)
    return now


def replace(ctx: ToolContext, path: Path, old: FileSnapshot | None, data: bytes) -> None:
    """Make `data` the content of `path`, which was `old` (None: no such file). There is no await in here on purpose:
    between the last look at the old content and the rename no other agent can run."""
    if not ctx.workspace.may_write(path):
        raise ToolError("ACCESS_DENIED", f"{label(ctx.workspace, path)} is outside the folders that may be written.")
    ctx.tree.before_write(path)
    try:
        with explain_errors(ctx.workspace, path), _folders(ctx.workspace, path.parent):
            _put(ctx, path, old, data)
    except FileNotFoundError as error:
        said = f"{label(ctx.workspace, path)} or its folder went away while it was written. Look again with LS."
        raise ToolError("CONFLICT", said) from error
    remember(ctx.state, path, data)
    ctx.tree.writers[str(path)] = ctx.agent
    ctx.tree.written[str(path)] = digest(data)


def _put(ctx: ToolContext, path: Path, old: FileSnapshot | None, data: bytes) -> None:
    shown = label(ctx.workspace, path)
    with ctx.workspace.parent(path) as (folder, leaf):
        if old and not os.access(leaf, os.W_OK, dir_fd=folder):
            raise ToolError("ACCESS_DENIED", f"{shown} is write-protected and was left alone. Ask the user about it.")
        temp = f".cowork-{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temp, flags, 0o600 if old else 0o666, dir_fd=folder)
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                if old:
                    _keep_metadata(fd, old.stat, folder, leaf)
                os.fsync(fd)
            finally:
                os.close(fd)
            if old:
                now = snapshot(ctx.workspace, path)  # some other program may have written while we did
                if now.hash != old.hash:
                    raise _conflict(ctx, path, now)
                os.replace(temp, leaf, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                _give_name(temp, leaf, folder)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(temp, dir_fd=folder)
            if isinstance(error, FileExistsError):
                said = f"{shown} came into being meanwhile. Read it first, then repeat the call."
                raise ToolError("CONFLICT", said) from error
            raise
        with contextlib.suppress(OSError):  # the new content is in place; how durably is the disk's affair
            os.fsync(folder)


def _keep_metadata(fd: int, old: os.stat_result, folder: int, leaf: str) -> None:
    """Owner, mode and attributes of the file that is replaced, as far as the system lets us."""
    mode = stat.S_IMODE(old.st_mode)
    for owner in ((-1, old.st_gid), (old.st_uid, -1)):  # a plain user may often keep the group, never the owner
        with contextlib.suppress(PermissionError):
            os.fchown(fd, *owner)
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # they would now lend the rights of somebody else
    with contextlib.suppress(PermissionError):  # a file system without modes
        os.fchmod(fd, mode)
    if not hasattr(os, "listxattr"):
        return
    with contextlib.suppress(OSError):
        source = os.open(leaf, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            for name in os.listxattr(source):
                if name.startswith(_KEPT_ATTRIBUTES):
                    os.setxattr(fd, name, os.getxattr(source, name))
        finally:
            os.close(source)


def _give_name(temp: str, leaf: str, folder: int) -> None:
    """Give a new file its name without ever taking it from another."""
    try:
        os.link(temp, leaf, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.replace(temp, leaf, src_dir_fd=folder, dst_dir_fd=folder)  # a file system without hard links
    with contextlib.suppress(OSError):  # the file has its name; another one is not worth a failure
        os.unlink(temp, dir_fd=folder)


@contextlib.contextmanager
def _folders(workspace: Workspace, folder: Path) -> Iterator[None]:
    """Makes what is missing on the way to the folder, following no link, and takes it back if the rest fails."""
    wanted: list[Path] = []
    while not os.path.lexists(folder):
        wanted.append(folder)
        folder = folder.parent
    made: list[Path] = []
    try:
        for missing in reversed(wanted):
            with workspace.parent(missing) as (fd, leaf), contextlib.suppress(FileExistsError):
                os.mkdir(leaf, dir_fd=fd)
                made.append(missing)
        yield
    except BaseException:
        for missing in reversed(made):
            with contextlib.suppress(OSError), workspace.parent(missing) as (fd, leaf):
                os.rmdir(leaf, dir_fd=fd)
        raise


def _conflict(ctx: ToolContext, path: Path, now: FileSnapshot) -> ToolError:
    """CONFLICT with what changed since this agent looked, and who did it when one of us did."""
    shown, key = label(ctx.workspace, path), str(path)
    writer = ctx.tree.writers.get(key, "") if ctx.tree.written.get(key) == now.hash else ""
    who = f"by {writer}" if writer and writer != ctx.agent else "by a command or another program"
    said = f"{shown} was changed {who} since you read it, so nothing was written. Read it again, then repeat the call "
    said += "with the new content in mind."
    before, after = decode(ctx.state.copies.get(key, b"")), decode(now.data)
    diff = ""
    if key in ctx.state.copies and before and after:
        diff = printable(unified_diff(before.text, after.text, "what you saw", "what is there now", max_lines=60).text)
        said = f"{said} What changed:\n{diff}".rstrip() if diff else said
    return ToolError("CONFLICT", said, reason="changed", changed_by=writer if writer != ctx.agent else "", diff=diff)
