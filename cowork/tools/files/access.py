"""Opens files for tools: what was resolved and nothing else, never blocking, with words for whatever is in the way.

Their bytes become text and bytes again exactly: encodings, byte order marks and newlines survive every change.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cowork.core.errors import ToolError, ToolErrorCode
from cowork.core.frozen import frozen
from cowork.core.workspace import Workspace
from cowork.tools.arguments import nearest
from cowork.tools.base import AgentState, ToolContext

MAX_TEXT = 20_000_000  # what Edit and Write handle, and what Read hashes
MAX_COPIES = 8_000_000  # bytes an agent remembers of what it saw


@frozen
class FileSnapshot:
    """A file as it was at one moment."""

    data: bytes
    stat: os.stat_result
    hash: str


def label(workspace: Workspace, path: Path) -> str:
    """The path as it stands in results; a name that is no UTF-8 must not make them unsendable."""
    return printable(workspace.show(path))


@contextmanager
def open_file(workspace: Workspace, path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """(descriptor, stat) of a regular file, for reading; a ToolError says why not. Never blocks."""
    with explain_errors(workspace, path):
        fd = workspace.open(path, os.O_RDONLY)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            shown = label(workspace, path)
            raise ToolError("IS_DIRECTORY", f"{shown} is a directory. List it with LS, or give a file in it.")
        with explain_errors(workspace, path):
            yield fd, status
    finally:
        os.close(fd)


def snapshot(workspace: Workspace, path: Path) -> FileSnapshot:
    """The whole of a file small enough to edit."""
    with open_file(workspace, path) as (fd, status):
        data = read_up_to(fd, MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        said = f"{label(workspace, path)} is larger than {MAX_TEXT // 1_000_000} MB, too large to edit here."
        raise ToolError("INVALID_PARAM", f"{said} Change it with a command in Bash.")
    return FileSnapshot(data, status, digest(data))


def read_up_to(fd: int, size: int) -> bytes:
    """At most `size` bytes from here on; fewer only at the end of the file."""
    parts: list[bytes] = []
    while size > 0 and (part := os.read(fd, min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def digest(data: bytes) -> str:
    """The content's name in `AgentState.seen`."""
    return hashlib.sha256(data, usedforsecurity=False).hexdigest()


def remember(state: AgentState, path: Path, data: bytes) -> None:
    """This agent has now seen these bytes; a bounded copy is kept to show later what changed since."""
    key = str(path)
    state.seen[key] = digest(data)
    state.copies.pop(key, None)
    if len(data) > MAX_COPIES // 4:
        return
    state.copies[key] = data
    total = sum(map(len, state.copies.values()))
    while total > MAX_COPIES:
        total -= len(state.copies.pop(next(iter(state.copies))))


def missing(ctx: ToolContext, path: Path) -> ToolError:
    """NOT_FOUND with the nearest names there are."""
    near = [label(ctx.workspace, found) for found in _near(ctx.workspace, path)]
    advice = f"Nearest: {', '.join(near)}." if near else "Find it with Glob, or give another path."
    return ToolError("NOT_FOUND", f"{label(ctx.workspace, path)} does not exist. {advice}", nearest=near)


@contextmanager
def explain_errors(workspace: Workspace, path: Path) -> Iterator[None]:
    """Errors of the system as ToolErrors about this path; a missing file stays FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        code, why = _REASONS.get(error.errno or 0, ("EXECUTION_ERROR", str(error.strerror or error)))
        raise ToolError(code, f"{label(workspace, path)}: {why}.") from error


_REASONS: dict[int, tuple[ToolErrorCode, str]] = {
    errno.EACCES: ("ACCESS_DENIED", "the system does not permit it (check the mode and owner with LS or Bash)"),
    errno.EPERM: ("ACCESS_DENIED", "the system does not permit it (check the mode and owner with LS or Bash)"),
    errno.EROFS: ("ACCESS_DENIED", "it is on a read-only file system"),
    errno.ELOOP: ("ACCESS_DENIED", "a link is in the way that was not there when the path was checked; try again"),
    errno.EAGAIN: ("ACCESS_DENIED", "reading it would block, so it was not read"),
    errno.EISDIR: ("IS_DIRECTORY", "it is a directory; list it with LS"),
    errno.ENOTDIR: ("NOT_FOUND", "a part of the path before the last is a file, not a directory"),
    errno.ENAMETOOLONG: ("INVALID_PARAM", "the name is too long for the file system"),
    errno.ENOSPC: ("EXECUTION_ERROR", "the disk is full, so nothing was changed; free some space and try again"),
    errno.EDQUOT: ("EXECUTION_ERROR", "the disk quota is used up, so nothing was changed; free some space first"),
}


# ---------------------------------------------------------------- nearest names

_LOOK_ENTRIES = 5_000
_LOOK_SECONDS = 0.03
_SKIPPED = frozenset({".git", "node_modules", ".venv", "__pycache__", ".hg", ".tox", "target"})


def _near(workspace: Workspace, path: Path) -> list[Path]:
    """Up to three existing paths like this one: beside it, else the same name elsewhere in the workspace."""
    folder, name = path.parent, path.name
    while not folder.is_dir() and folder != folder.parent:
        folder, name = folder.parent, folder.name
    if not workspace.may_read(folder):
        return []
    with suppress(OSError):
        found = [folder / near for near in nearest(name, os.listdir(folder)[:_LOOK_ENTRIES], 3)]
        deadline = time.monotonic() + _LOOK_SECONDS  # a hint is not worth a wait
        for place, folders, files in os.walk(workspace.root):
            if len(found) >= 3 or time.monotonic() > deadline:
                break
            if path.name in (*folders, *files) and Path(place, path.name) not in found:
                found.append(Path(place, path.name))
            folders[:] = [inner for inner in folders if inner not in _SKIPPED]
        return found[:3]
    return []


# ---------------------------------------------------------------- bytes as text

_BOMS = (  # the longer mark first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
SAMPLE = 8192
_CONTROL = bytes(set(range(32)) - {8, 9, 10, 12, 13, 27})


@frozen
class Content:
    """A text file's content: `text` without mark, newlines as they are, bytes that are no UTF-8 as surrogates."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    def encode(self) -> bytes:
        """The exact bytes; UnicodeEncodeError when the encoding has no room for a character."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.bom + self.text.encode(self.encoding, errors)


def decode(data: bytes) -> Content | None:
    """The text of these bytes; None when they are not text."""
    bom, encoding = mark(data)
    if bom:
        with suppress(UnicodeDecodeError):
            text = data[len(bom) :].decode(encoding, "surrogateescape" if encoding == "utf-8" else "strict")
            return None if "\0" in text[:SAMPLE] else Content(text, encoding, bom)
        return None
    if looks_binary(data[:SAMPLE]):
        return None
    with suppress(UnicodeDecodeError):
        return Content(data.decode("utf-8"))
    # Not clean UTF-8: mostly that with a few stray bytes, else cp1252, else latin-1.
    text = data.decode("utf-8", "surrogateescape")
    strays = len(_SURROGATE.findall(text))
    proper = len(text) - len(text.encode("ascii", "ignore")) - strays
    if proper >= strays:
        return Content(text)
    with suppress(UnicodeDecodeError):
        return Content(data.decode("cp1252"), "cp1252")
    return Content(data.decode("latin-1"), "latin-1")


def mark(data: bytes) -> tuple[bytes, str]:
    """The byte order mark at the start and the encoding it stands for; both empty without one."""
    return next(((bom, encoding) for bom, encoding in _BOMS if data.startswith(bom)), (b"", ""))


def looks_binary(sample: bytes) -> bool:
    """Whether the start of a file without a mark is not text: a NUL, or many control characters."""
    if b"\0" in sample:
        return True
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    return controls * 10 > len(sample)


def printable(text: str) -> str:
    """The text with NULs and bytes that had no meaning shown as �, so that it can be sent as UTF-8."""
    return text if text.isascii() and "\0" not in text else _UNSENDABLE.sub("�", text)


_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")
