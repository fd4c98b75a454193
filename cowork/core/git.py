"""What cowork itself does with git: run it quietly, and read the branch and the index from files without running it."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cowork.core.errors import UserError
from cowork.core.hygiene import clean_environ
from cowork.core.later import later
from cowork.core.workspace import start_of

with later(__name__):
    from cowork.core import spawn

# No hooks, no file system monitor, no questions, and nothing of our keys.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat")
_AUTHOR = ("-c", "user.name=cowork", "-c", "user.email=cowork@localhost", "-c", "commit.gpgSign=false")

_MOST_BYTES = 128 << 20
_HEADER = struct.Struct("!4sII")
_ENTRY = struct.Struct("!IIIIIIIIII20sH")
_EXTENDED, _STAGE = 0x4000, 0x3000


def run_git(
    folder: Path, *words: str, environ: Mapping[str, str], given: bytes = b"", seconds: float = 1800
) -> spawn.Completed:
    """Run a git command in a folder to its end."""
    kept = {name: value for name, value in clean_environ(environ).items() if not name.startswith("GIT_")}
    kept |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return spawn.run(["git", *_QUIET, *_AUTHOR, *words], environ=kept, seconds=seconds, cwd=folder, given=given)


def git_output(folder: Path, *words: str, environ: Mapping[str, str]) -> str:
    """What a git command prints; a UserError when it fails."""
    done = run_git(folder, *words, environ=environ)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise UserError(f"git {words[0]} failed in {folder}: {''.join(said)}")
    return done.stdout.decode("utf-8", "surrogateescape")


def project_root(cwd: Path) -> Path:
    """The nearest folder upwards with a .git, else the folder itself."""
    return next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)


def folders_down_to(cwd: Path) -> list[Path]:
    """The folders from the top of the project down to one."""
    top = project_root(cwd)
    return [folder for folder in reversed((cwd, *cwd.parents)) if folder.is_relative_to(top)]


def branch_of(cwd: Path) -> str:
    """The checked-out branch or short commit, empty outside a repository."""
    folder = git_folder(project_root(cwd))
    try:
        head = start_of(folder / "HEAD", 4096).decode("utf-8", "replace").strip() if folder else ""
    except (OSError, ValueError):
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:8]


def git_folder(top: Path) -> Path | None:
    """Where git keeps what it knows of a working tree; that of a worktree or submodule says so in a file."""
    entry = top / ".git"
    folder = named_folder(top, entry, "gitdir:") if os.path.isfile(entry) else Path(os.path.realpath(entry))
    return folder if folder and os.path.isdir(folder) else None


def named_folder(base: Path, pointer: Path, label: str = "") -> Path | None:
    """The folder that a file of git names, as seen from another; None where it names none."""
    try:
        text = os.fsdecode(start_of(pointer, 4096))
        return Path(os.path.realpath(base / text.removeprefix(label).strip()))
    except (OSError, ValueError):
        return None


class IndexEntry(NamedTuple):
    """A tracked file: the name of its content and the stat git saw; `merging` entries are sides of a conflict."""

    path: str
    content: bytes
    size: int
    mtime: int
    ctime: int
    inode: int
    merging: bool


def read_index(path: Path) -> Iterator[IndexEntry]:
    """The entries of an index file; OSError or ValueError where it cannot be read or is not understood."""
    data = start_of(path, _MOST_BYTES)  # of a longer file the checksum is wrong, so it is refused
    if len(data) < _HEADER.size + 20:
        raise ValueError("too short for an index")
    signature, version, count = _HEADER.unpack_from(data)
    whole = data[-20:] in (bytes(20), hashlib.sha1(data[:-20], usedforsecurity=False).digest())
    if signature != b"DIRC" or version not in (2, 3, 4) or not whole:
        raise ValueError("not an index, or one with longer names")
    return _entries(data, version, count)


def _entries(data: bytes, version: int, count: int) -> Iterator[IndexEntry]:
    at, name = _HEADER.size, b""
    for _ in range(count):
        try:
            (cs, cn, ms, mn, _dev, inode, _mode, _uid, _gid, size, sha, flags) = _ENTRY.unpack_from(data, at)
            start, at = at, at + _ENTRY.size + (2 if flags & _EXTENDED else 0)
            if version == 4:
                strip, at = _varint(data, at)
                end = data.index(b"\0", at)
                name = name[: len(name) - strip] + data[at:end]
                at = end + 1
            else:
                end = data.index(b"\0", at)
                name = data[at:end]
                at = end + 8 - (end - start) % 8
        except (struct.error, IndexError) as error:
            raise ValueError("the index ends too early") from error
        stamps = ms * 10**9 + mn, cs * 10**9 + cn
        yield IndexEntry(os.fsdecode(name), sha, size, *stamps, inode, bool(flags & _STAGE))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1
