"""Which folders the user trusts: the real path and a hash of the files in it that could run or steer."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from cowork.core.errors import UserError
from cowork.core.front_matter import with_imports
from cowork.core.workspace import load_json, start_of
from cowork.private_files import write_private

# What could run or steer, relative to the folder; a folder counts with all that is below it.
_NAMES = (
    ".cowork .claude/agents .claude/commands .claude/skills .claude/hooks .agents .claude/settings.json"
    " .claude/settings.local.json .mcp.json AGENTS.md CLAUDE.md AGENTS.local.md CLAUDE.local.md .claude/CLAUDE.md"
)
STEERING = tuple(_NAMES.split())
_LINKED = (".cowork", ".agents", "agents", "commands", "skills", "hooks")  # folders that are read through a link too
_MOST_FILES, _MOST_DEPTH, _MOST_BYTES = 2_000, 12, 16 << 20
_TOO_DEEP = "too deep"


class Trust:
    """The list of trusted folders, in one file."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def is_trusted(self, folder: Path) -> bool:
        """Whether the folder is trusted as it is now."""
        return self._as_trusted(folder) is True

    def has_changed(self, folder: Path) -> bool:
        """Whether it was trusted, but its files have changed since."""
        return self._as_trusted(folder) is False

    def _as_trusted(self, folder: Path) -> bool | None:
        kept = self._read().get(os.path.realpath(folder))
        return kept["digest"] == digest(folder) if kept else None

    def grant(self, folder: Path) -> None:
        """Trust the folder as it is now."""
        self._write(self._read() | {os.path.realpath(folder): {"digest": digest(folder), "at": time.time()}})

    def revoke(self, folder: Path) -> bool:
        """Trust the folder no more; False when it was not trusted."""
        kept = self._read()
        known = kept.pop(os.path.realpath(folder), None)
        if known:
            self._write(kept)
        return known is not None

    def list(self) -> list[tuple[Path, float]]:
        """Every trusted folder, by path, and since when it is."""
        return [(Path(folder), kept["at"]) for folder, kept in sorted(self._read().items())]

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            kept = load_json(self.store)["folders"]
            return {key: {"digest": str(one["digest"]), "at": float(one["at"])} for key, one in kept.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self.store} cannot be read: {error}.", "Delete it to trust folders anew.") from error

    def _write(self, kept: dict[str, dict[str, Any]]) -> None:
        write_private(self.store, json.dumps({"version": 1, "folders": dict(sorted(kept.items()))}, indent=1))


def digest(folder: Path) -> str:
    """A hash of the names, kinds and contents of what steers; one of its own each time when a limit is hit."""
    if not os.access(folder, os.R_OK | os.X_OK) or not folder.is_dir():
        return f"unreadable-{secrets.token_hex(8)}"
    total, files, size = hashlib.sha256(b"cowork trust 1"), 0, 0
    found = chain.from_iterable(_below(os.path.join(folder, name), name, 0) for name in STEERING)
    notes = (with_imports(folder / name)[1] for name in STEERING if name.endswith(".md"))
    # The first of these is the file itself.
    taken = ((str(path), "import", content) for read in notes for path, content in list(read.items())[1:])
    for shown, kind, content in chain(found, taken):
        files, size = files + 1, size + len(content)
        if files > _MOST_FILES or size > _MOST_BYTES or kind == _TOO_DEEP:
            return f"too-large-{secrets.token_hex(8)}"
        name, part = os.fsencode(shown), hashlib.sha256(content).hexdigest()
        if kind == "import":
            total.update(f"import:{hashlib.sha256(name).hexdigest()}:{part}\n".encode())
        elif kind != "folder":
            total.update(f"{len(name)}:".encode() + name + f":{kind}:{part}\n".encode())
    return total.hexdigest()


def _below(path: str, shown: str, depth: int) -> Iterator[tuple[str, str, bytes]]:
    """(name, kind, content) of a file, or of everything below a folder; a link counts with what it leads to."""
    kind = "file"
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            yield shown, "link", os.fsencode(os.readlink(path))
            kind, status = "linked", os.stat(path)
        if stat.S_ISREG(status.st_mode):
            yield shown, kind, start_of(Path(path), _MOST_BYTES + 1)
        elif stat.S_ISDIR(status.st_mode) and (kind == "file" or os.path.basename(path) in _LINKED):
            yield shown, "folder" if depth < _MOST_DEPTH else _TOO_DEEP, b""
            with os.scandir(path) as entries:
                found = sorted(entry.name for entry in islice(entries, _MOST_FILES + 1))
            for name in found:
                yield from _below(f"{path}/{name}", f"{shown}/{name}", depth + 1)
        else:
            yield shown, "special", b""
    except (FileNotFoundError, NotADirectoryError):
        if kind == "linked":
            yield shown, "dangling", b""
    except OSError as error:
        yield shown, f"error {error.errno}", b""
