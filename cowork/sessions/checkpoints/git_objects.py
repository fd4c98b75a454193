"""What git already holds of a workspace, so that it need not be copied. Only ever read; never the user's index,
stash or history touched. Nothing that a repository's configuration names is run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cowork.core import spawn
from cowork.core.git_index import IndexEntry, read_index
from cowork.core.hygiene import clean_environ
from cowork.core.plain_file import start_of

_TIMEOUT_S = 60
_NO_SIDE_EFFECTS = ("-c", "core.fsmonitor=false", "-c", "protocol.allow=never", "-c", "core.pager=cat")


@dataclass(slots=True)
class GitObjects:
    """The objects of one repository, seen from a folder in it."""

    root: Path
    git_folder: Path
    prefix: str  # of `root` in the repository, with a slash
    _index: dict[str, IndexEntry] = field(default_factory=dict)
    _version: tuple[int, int, int] = (0, 0, 0)  # of the index file
    _held_version: tuple[int, int, int] = (0, 0, 0)
    _held: dict[str, int] = field(default_factory=dict)  # content name -> its size, as git says

    @classmethod
    def of(cls, root: Path) -> GitObjects | None:
        """The repository `root` is in, if there is one and git is installed."""
        if not shutil.which("git"):
            return None
        for folder in (root, *root.parents):
            dot_git = folder / ".git"
            if dot_git.is_dir():
                return cls(root, dot_git, _prefix(folder, root))
            if dot_git.is_file():
                target = _pointed_to(dot_git)
                return cls(root, target, _prefix(folder, root)) if target else None
        return None

    def index(self) -> dict[str, IndexEntry]:
        """Relative path -> entry, for the files below `root`; empty when the index is of a kind not understood."""
        path = self.git_folder / "index"
        try:
            status = os.stat(path)
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if version != self._version:
                self._index = self._read(path, status.st_mtime_ns)
                self._version = version
        except (OSError, ValueError):
            self._index, self._version = {}, (0, 0, 0)
        return self._index

    def _read(self, path: Path, written: int) -> dict[str, IndexEntry]:
        """The files below `root`; git may have looked too early to see a change of the newest, so they never match."""
        found = {}
        for entry in read_index(path):
            if entry.path.startswith(self.prefix) and not entry.merging:
                fresh = entry.mtime >= written
                found[entry.path[len(self.prefix) :]] = entry._replace(mtime=0) if fresh else entry
        return found

    def filters(self) -> bool:
        """Whether attributes outside the tree may change contents on the way in and out."""
        return has_filter(self.git_folder / "info" / "attributes")

    def holds(self) -> dict[str, int]:
        """The contents git has of what is in the index, with their sizes."""
        index = self.index()
        if self._held_version == self._version:
            return self._held
        wanted = {entry.content for entry in index.values()}
        if asked := sorted(wanted - self._held.keys()):
            out = self._run("--batch-check=%(objectname) %(objecttype) %(objectsize)", asked)
            for line in out.decode("ascii", "replace").splitlines():
                name, _, rest = line.partition(" ")
                kind, _, size = rest.partition(" ")
                if kind == "blob" and size.isdecimal():
                    self._held[name] = int(size)
        for name in self._held.keys() - wanted:  # git may forget it any time
            del self._held[name]
        self._held_version = self._version
        return self._held

    def contents(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents git has of these."""
        asked = sorted(set(names))
        out = self._run("--batch", asked) if asked else b""
        found: dict[str, bytes] = {}
        at = 0
        while at < len(out):
            end = out.index(b"\n", at)
            name, _, rest = out[at:end].decode("ascii", "replace").partition(" ")
            kind, _, size = rest.partition(" ")
            at = end + 1
            if not size.isdecimal():
                continue  # "missing"
            length = int(size)
            if kind == "blob":
                found[name] = out[at : at + length]
            at += length + 1
        return found

    def _run(self, mode: str, names: list[str]) -> bytes:
        command = ["git", *_NO_SIDE_EFFECTS, f"--git-dir={self.git_folder}", "cat-file", mode]
        environ = {k: v for k, v in clean_environ(os.environ).items() if not k.startswith("GIT_")}
        environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            given = "\n".join(names).encode() + b"\n"
            done = spawn.run(command, environ=environ, seconds=_TIMEOUT_S, given=given)
        except OSError:
            return b""
        return done.stdout if done.returncode == 0 else b""


def has_filter(attributes: Path) -> bool:
    """Whether an attributes file names a filter, which may change a content without changing its size."""
    try:
        return b"filter" in start_of(attributes, 256 * 1024)
    except OSError:
        return False


def _prefix(top: Path, root: Path) -> str:
    inside = str(root.relative_to(top))
    return "" if inside == "." else inside + "/"


def _pointed_to(dot_git: Path) -> Path | None:
    """Where the `.git` file of a worktree or submodule points."""
    try:
        text = os.fsdecode(start_of(dot_git, 4096)).strip()
    except OSError:
        return None
    if not text.startswith("gitdir: "):
        return None
    target = Path(os.path.normpath(dot_git.parent / text.removeprefix("gitdir: ")))
    return target if target.is_dir() else None
