"""Which folders the user trusts: the real path and a hash of the files in it that could run or steer.

Nothing of the folder is run or parsed here. Reading is bounded, and a folder too large to be hashed
is one whose hash never matches, so it asks again.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.core.note_imports import told
from cowork.permissions.private import write_private

# What could run or steer, relative to the folder; a folder counts with all that is below it.
STEERING = (
    ".cowork",
    ".claude/agents",
    ".claude/commands",
    ".claude/skills",
    ".claude/hooks",
    ".agents",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".mcp.json",
    "AGENTS.md",
    "CLAUDE.md",
    "AGENTS.local.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
)
_LINKED = (".cowork", ".agents", "agents", "commands", "skills", "hooks")  # folders that are read through a link too
_MOST_FILES = 2_000
_MOST_BYTES = 16 << 20
_MOST_STORE = 8 << 20
_MOST_DEPTH = 12


@frozen
class Trusted:
    """A folder the user trusts, and since when."""

    folder: Path
    digest: str
    at: float


class Trust:
    """The list of trusted folders, in one file."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def is_trusted(self, folder: Path) -> bool:
        """Whether the folder is trusted as it is now."""
        kept = self._read().get(_key(folder))
        return kept is not None and kept.digest == digest(folder)

    def changed(self, folder: Path) -> bool:
        """Whether it was trusted, but its files have changed since."""
        kept = self._read().get(_key(folder))
        return kept is not None and kept.digest != digest(folder)

    def grant(self, folder: Path) -> None:
        """Trust the folder as it is now."""
        kept = self._read() | {_key(folder): Trusted(Path(_key(folder)), digest(folder), time.time())}
        self._write(kept)

    def revoke(self, folder: Path) -> bool:
        """Trust the folder no more; False when it was not trusted."""
        kept = self._read()
        if kept.pop(_key(folder), None) is None:
            return False
        self._write(kept)
        return True

    def steering_files(self, folder: Path) -> list[Path]:
        """What in the folder would run or steer, for the question whether to trust it."""
        return [Path(folder) / name for name in (*STEERING, ".git/config") if os.path.lexists(Path(folder) / name)]

    def list(self) -> list[Trusted]:
        """Every trusted folder, by path."""
        return [kept for _, kept in sorted(self._read().items())]

    def _read(self) -> dict[str, Trusted]:
        try:
            with open(self.store, "rb") as file:
                raw = json.loads(file.read(_MOST_STORE).decode("utf-8", "surrogateescape"))
            folders = raw["folders"].items()
            return {key: Trusted(Path(key), str(one["digest"]), float(one["at"])) for key, one in folders}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self.store} cannot be read: {error}.", "Delete it to trust folders anew.") from error

    def _write(self, kept: dict[str, Trusted]) -> None:
        folders = {key: {"digest": one.digest, "at": one.at} for key, one in sorted(kept.items())}
        write_private(self.store, json.dumps({"version": 1, "folders": folders}, indent=1))


def digest(folder: Path) -> str:
    """A hash of the names, kinds and contents of what steers; one of its own each time when a limit is hit."""
    total = hashlib.sha256(b"cowork trust 1")
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return f"unreadable-{secrets.token_hex(8)}"
    budget = _Budget()
    try:
        for name in STEERING:
            for shown, kind, content in _below(top, name, name, budget, 0):
                part = hashlib.sha256(content).hexdigest()
                total.update(f"{len(os.fsencode(shown))}:".encode() + os.fsencode(shown) + f":{kind}:{part}\n".encode())
        for path, content in _imported(Path(folder), budget):
            total.update(f"import:{hashlib.sha256(os.fsencode(path)).hexdigest()}".encode())
            total.update(f":{hashlib.sha256(content).hexdigest()}\n".encode())
    except _TooMuch:
        return f"too-large-{secrets.token_hex(8)}"
    finally:
        os.close(top)
    return total.hexdigest()


def _imported(folder: Path, budget: _Budget) -> Iterator[tuple[Path, bytes]]:
    """What the notes of the folder take in with `@path`."""
    for name in (name for name in STEERING if name.endswith(".md")):
        _, read = told(folder / name)
        for path, content in list(read.items())[1:]:  # the first is the file itself
            budget.take(len(content))
            yield path, content


class _TooMuch(Exception):
    pass


@dataclass(slots=True)
class _Budget:
    files: int = _MOST_FILES
    bytes: int = _MOST_BYTES

    def take(self, size: int) -> None:
        self.files -= 1
        self.bytes -= size
        if self.files < 0 or self.bytes < 0:
            raise _TooMuch


def _below(parent: int, name: str, shown: str, budget: _Budget, depth: int) -> Iterator[tuple[str, str, bytes]]:
    """(name, kind, content) of a file, or of everything below a folder; a link counts as where it points."""
    *folders, leaf = name.split("/")
    opened: list[int] = []
    try:
        for part in folders:
            parent = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
            opened.append(parent)
        status = os.stat(leaf, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            budget.take(0)
            yield shown, "link", os.fsencode(os.readlink(leaf, dir_fd=parent))
            yield from _linked(parent, leaf, shown, budget, depth)
        elif stat.S_ISREG(status.st_mode):
            yield shown, "file", _content(parent, leaf, budget, os.O_NOFOLLOW)
        elif stat.S_ISDIR(status.st_mode):
            yield from _folder(parent, leaf, shown, budget, depth)
        else:
            budget.take(0)
            yield shown, "special", b""
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield shown, f"error {error.errno}", b""
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _folder(
    parent: int, leaf: str, shown: str, budget: _Budget, depth: int, flags: int = os.O_NOFOLLOW
) -> Iterator[tuple[str, str, bytes]]:
    if depth > _MOST_DEPTH:
        raise _TooMuch
    here = os.open(leaf, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags, dir_fd=parent)
    try:
        names = []
        with os.scandir(here) as entries:
            for entry in entries:
                budget.take(0)
                names.append(entry.name)
        for name in sorted(names):
            yield from _below(here, name, f"{shown}/{name}", budget, depth + 1)
    finally:
        os.close(here)


def _linked(parent: int, leaf: str, shown: str, budget: _Budget, depth: int) -> Iterator[tuple[str, str, bytes]]:
    """What a link leads to: its change must ask again too."""
    try:
        mode = os.stat(leaf, dir_fd=parent).st_mode
    except OSError:
        yield shown, "dangling", b""
        return
    if stat.S_ISREG(mode):
        yield shown, "linked", _content(parent, leaf, budget, 0)
    elif stat.S_ISDIR(mode) and leaf in _LINKED:
        yield from _folder(parent, leaf, f"{shown}/", budget, depth + 1, 0)
    else:
        yield shown, "other", b""


def _content(parent: int, leaf: str, budget: _Budget, flags: int) -> bytes:
    descriptor = os.open(leaf, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags, dir_fd=parent)
    with open(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return b"\0special"
        budget.take(status.st_size)
        content = file.read(budget.bytes + status.st_size + 1)
        if len(content) > status.st_size:
            budget.take(len(content) - status.st_size)
        return content


def _key(folder: Path) -> str:
    return os.path.realpath(folder)
