"""What git knows of a workspace: which files it ignores, and which contents it holds, so that they need not be copied.

Git is only asked: the user's index, stash and history stay as they are, and nothing that a repository's configuration
names is run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import NamedTuple

from cowork.core import spawn
from cowork.core.git import IndexEntry, git_folder, project_root, read_index
from cowork.core.hygiene import clean_environ
from cowork.core.workspace import IgnorePipes
from cowork.private_files import private_folder, replace_private

_TIMEOUT_S = 60
_PIPE = 1_000  # names that fit into a pipe
_NO_SIDE_EFFECTS = ("-c", "core.fsmonitor=false", "-c", "protocol.allow=never", "-c", "core.pager=cat")
_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
_SIZES = ("cat-file", "--buffer", "--batch-check=%(objectname) %(objecttype) %(objectsize)")


class Repository(NamedTuple):
    """A working tree and the folder in which git keeps what it knows of it."""

    top: Path
    git_folder: Path

    @classmethod
    def of(cls, folder: Path) -> Repository | None:
        """The repository a folder is in."""
        top = project_root(folder)
        found = git_folder(top)
        return cls(top, found) if found else None

    @classmethod
    def empty(cls, top: Path, git_folder: Path) -> Repository:
        """One that knows nothing: it lets git read the .gitignore files of a folder that is in no repository."""
        if not (git_folder / "HEAD").exists():
            for name in ("objects", "refs"):
                private_folder(git_folder / name)
            replace_private(git_folder / "HEAD", b"ref: refs/heads/none\n")
        return cls(top, git_folder)

    def ignored_paths(self, folder: Path, check: Callable[[], None] = lambda: None) -> set[str] | None:
        """Paths in a folder that git ignores, not those in ignored folders; None if git cannot tell."""
        pipes = IgnorePipes(folder)

        def look() -> None:
            check()
            pipes.feed()

        out = self._ask(*_IGNORED, cwd=folder, check=look)
        found = sorted(os.fsdecode(path) for path in (out or b"").split(b"\0") if path)
        if out is None or found == ["./"]:  # the folder itself is ignored, and yet somebody works in it
            return None
        # A folder in which everything is ignored is listed as well as what is in it; it is not ignored itself.
        return {
            a.rstrip("/") for a, b in pairwise([*found, ""]) if a != "./" and not (a[-1] == "/" and b.startswith(a))
        }

    def index_size(self) -> int:
        """The length of the index; 0 where there is none, or filters may change files on their way to git."""
        filters = (self._ask("config", "--get-regexp", r"^filter\.") or b"").splitlines()
        try:
            size = os.stat(self.git_folder / "index").st_size
        except OSError:
            return 0
        return size if all(line.startswith(b"filter.lfs.") for line in filters) else 0

    def tracked_files(self, root: Path) -> Iterator[tuple[str, IndexEntry]]:
        """Tracked files with their paths from `root`, as far as git saw them long enough after their last change."""
        path = self.git_folder / "index"
        try:
            written = os.stat(path).st_mtime_ns
            prefix = "" if root == self.top else f"{root.relative_to(self.top)}/"
            for entry in read_index(path):
                if entry.path.startswith(prefix) and not entry.merging and entry.mtime < written:
                    yield entry.path.removeprefix(prefix), entry
        except (OSError, ValueError):
            return  # it is of a kind that is not understood

    def sizes(self, digests: Sequence[bytes]) -> dict[bytes, int]:
        """The sizes of the contents git has of these."""
        out = self._ask(*_SIZES, given="\n".join(digest.hex() for digest in digests).encode() + b"\n") or b""
        words = (line.split() for line in out.splitlines())
        return {bytes.fromhex(w[0].decode()): int(w[2]) for w in words if len(w) == 3 and w[1] == b"blob"}

    def contents(self, digests: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The contents git has of these, each with its digest."""
        words, environ = self._command("cat-file", "--batch")
        if not os.access(words[0], os.X_OK):
            return
        for start in range(0, len(digests), _PIPE):
            names = "".join(f"{digest.hex()}\n" for digest in digests[start : start + _PIPE])
            with spawn.start_streaming(words, environ=environ, cwd=Path("/"), given=names.encode()) as process:
                late = Timer(_TIMEOUT_S, process.kill)  # a pipe in place of an object would hold it up for ever
                late.start()
                try:
                    out = process.stdout
                    while out and (head := out.readline().split()):
                        if len(head) == 3:  # else it is missing
                            data = out.read(int(head[2]) + 1)
                            if head[1] == b"blob" and len(data) > int(head[2]):
                                yield bytes.fromhex(head[0].decode()), data[:-1]
                finally:
                    late.cancel()
                    process.kill()

    def _ask(
        self, *words: str, cwd: Path | str = "/", given: bytes = b"", check: Callable[[], None] = lambda: None
    ) -> bytes | None:
        command, environ = self._command(*words)
        try:
            done = spawn.run(command, environ=environ, seconds=_TIMEOUT_S, cwd=cwd, given=given, check=check)
        except OSError:  # there is no git
            return None
        return done.stdout if done.returncode == 0 else None

    def _command(self, *words: str) -> tuple[list[str], dict[str, str]]:
        environ = {k: v for k, v in clean_environ(os.environ).items() if not k.startswith("GIT_")}
        environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        places = (f"--git-dir={self.git_folder}", f"--work-tree={self.top}")
        return [spawn.program("git", environ), *_NO_SIDE_EFFECTS, *places, *words], environ
