"""What a judgement of a command looks up on disk: where its paths lead, and what git would run in this repository."""

from __future__ import annotations

import os
import re
import stat
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from cowork.core.errors import ToolError
from cowork.core.workspace import Workspace, sensitive
from cowork.permissions.literal import Argument

_MOST_ENTRIES = 2_000
_MOST_MATCHES = 200
_MOST_CONFIG = 128 * 1024
_MOST_INDEX = 64 * 1024 * 1024
_SUBMODULE = b"\x00\x00\xe0\x00"  # mode 160000 in the index

# Settings that cannot make git run a program, open a connection or follow another file.
_HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|abbrev|quotepath|compression|untrackedcache|splitindex|preloadindex|commitgraph|longpaths|sharedrepository"
    r"|protecthfs|protectntfs|checkstat|trustctime|bigfilethreshold|packedgitlimit|packedgitwindowsize|whitespace)"
    r"|remote\..*\.(?:url|pushurl|fetch|push|tagopt|prune|gh-resolved|skipdefaultupdate)"
    r"|branch\..*\.(?:remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base|github-pr-owner-number)"
    r"|user\.(?:name|email|signingkey|useconfigonly)|pull\.\w+|push\.\w+|init\.\w+|color\..*|fetch\.(?:prune|prunetags|parallel)"
    r"|advice\..*|rebase\.(?:autosquash|autostash|updaterefs)|rerere\.\w+|merge\.conflictstyle|merge\.ff|commit\.gpgsign"
    r"|tag\.gpgsign|gc\..*|pack\.\w+|index\.(?:version|threads)|feature\.\w+|lfs\.repositoryformatversion|log\.(?:date|decorate)"
    r"|status\.(?:short|branch|relativepaths|showuntrackedfiles|renames|aheadbehind|showstash)|diff\.(?:algorithm|renames|colormoved|mnemonicprefix|noprefix|context|interhunkcontext)|gui\.\w+"
    r"|extensions\.objectformat|submodule\..*\.(?:url|active|branch)|svn-remote\..*\.(?:url|fetch)|maintenance\.(?:auto|strategy)",
    re.IGNORECASE,
)


class Lookup:
    """Answers for one command: the folder it runs in, the folders it may read, and whether they are trusted."""

    def __init__(self, workspace: Workspace, cwd: Path, *, trusted: bool) -> None:
        self.workspace = workspace
        self.cwd = cwd
        self._trusted = trusted

    def path(self, argument: Argument) -> str:
        """Why this argument must not be read unasked."""
        return self._glob(argument.text) if argument.glob else self._one(argument.text)

    def program(self, name: str) -> str:
        """Why a program of this name is not the one it is known to be: the workspace brings its own."""
        for place in _programs(os.environ.get("PATH", ""), os.getcwd(), self.workspace.writable):
            if os.path.lexists(place / name):
                return f"{name} would be run from {place}, which the workspace can change"
        return ""

    def search(self, argument: Argument) -> str:
        """Why what lies directly in this folder must not be searched unasked."""
        names = [] if argument.glob else _matches(self.cwd / argument.text, "*", hidden=True)
        if names is None:
            return f"{argument.text} is too large to look at"
        secret = next((name for name in names if sensitive(Path(name))), "")
        return f"it would search {secret}, which may hold secrets" if secret else ""

    def trusted(self) -> str:
        return "" if self._trusted else "the folder is not trusted"

    def git(self, folder: str) -> str:
        """Why git must not run here unasked."""
        if not self._trusted:
            return "git runs what a repository's configuration says, and this folder is not trusted"
        where = Path(os.path.realpath(self.cwd / folder))
        for place in (where, *where.parents):
            entry = place / ".git"
            if os.path.lexists(entry):
                return _repository(entry)
            if all(os.path.lexists(place / name) for name in ("HEAD", "objects", "refs")):
                return "the folder is itself a bare git repository, whose configuration git would obey"
        return ""

    def enter(self, folder: Argument) -> str:
        """Go into a folder as `cd` would; why not, or nothing."""
        if folder.glob or folder.text in ("", "-"):
            return "cd to a folder only known at run time"
        where = Path(os.path.realpath(self.cwd / folder.text))
        if not self.workspace.may_read(where):
            return f"{folder.text} is outside the workspace"
        if not where.is_dir():
            return f"{folder.text} is not a folder"
        self.cwd = where
        return ""

    def _one(self, text: str) -> str:
        if text == "/dev/null":
            return ""
        try:
            where = self.workspace.resolve(text, self.cwd) if text else self.cwd
        except ToolError as error:
            return error.text
        if not self.workspace.may_read(where):
            return f"{text} is outside the workspace"
        if sensitive(where) or sensitive(Path(text)):
            return f"{text} may hold secrets"
        return f"{text} is a pipe, a socket or a device" if _special(where) else ""

    def _glob(self, text: str) -> str:
        """Expand a pattern as the shell would now, in a bounded way, and judge every match."""
        folders = [("/" if text.startswith("/") else "", Path("/") if text.startswith("/") else self.cwd)]
        parts = [part for part in text.split("/") if part]
        for part in parts:
            found: list[tuple[str, Path]] = []
            for shown, folder in folders:
                names = [part] if not re.search(r"[*?]", part) else _matches(folder, part)
                if names is None:
                    return f"{text} matches too many files to look at"
                found += [(f"{shown}{name}/", folder / name) for name in names]
            if len(found) > _MOST_MATCHES:
                return f"{text} matches too many files to look at"
            folders = found
        for shown, _ in folders:
            if shown.startswith("-"):
                return f"{text} matches a file whose name looks like a flag"
            if why := self._one(shown.rstrip("/")):
                return why
        return "" if folders else self._one(text)


@lru_cache(maxsize=16)
def _programs(path: str, cwd: str, writable: tuple[Path, ...]) -> tuple[Path, ...]:
    """The folders of a PATH that are relative, or lie in folders that can be written."""
    found = []
    for folder in path.split(os.pathsep):
        place = Path(os.path.realpath(os.path.join(cwd, folder)))
        if not os.path.isabs(folder) or any(place.is_relative_to(root) for root in writable):
            found.append(place)
    return tuple(found)


def _special(path: Path) -> bool:
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return False
    return kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


def _matches(folder: Path, pattern: str, *, hidden: bool = False) -> list[str] | None:
    """Names in a folder that match; None when the folder is too large."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_ENTRIES:
                    return None
                skipped = entry.name.startswith(".") and not pattern.startswith(".") and not hidden
                if not skipped and fnmatchcase(entry.name, pattern):
                    names.append(entry.name)
    except OSError:
        return []
    return names


def _repository(entry: Path) -> str:
    """Why git must not run unasked in the repository whose `.git` this is."""
    folder = entry
    if entry.is_file():
        pointer = _head(entry, 4096)
        if not pointer.startswith("gitdir: "):
            return "its .git file is not understood"
        folder = Path(os.path.normpath(entry.parent / pointer.removeprefix("gitdir: ").strip()))
    common = folder
    if (folder / "commondir").is_file():
        common = Path(os.path.normpath(folder / _head(folder / "commondir", 4096).strip()))
    if any(os.path.lexists(place / "config.worktree") for place in {folder, common}):
        return "it has a configuration per worktree"
    if os.path.lexists(common / "hooks" / "post-index-change"):
        return "its hook post-index-change may run"
    if why := _config(common / "config"):
        return why
    return _index(folder / "index")


def _config(path: Path) -> str:
    try:
        status = path.lstat()
    except OSError:
        return ""
    return _config_says(str(path), status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=64)
def _config_says(path: str, changed: int, size: int, inode: int) -> str:
    if size > _MOST_CONFIG or not os.path.isfile(path):
        return "its git configuration is too large to look at"
    section = ""
    text = _head(Path(path), _MOST_CONFIG)
    if re.search(r"[^\t\n\r -~\x80-\U0010ffff]", text):
        return "its git configuration holds control characters"
    for line in text.split("\n"):  # git knows no other line end
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.endswith("\\"):
            return "its git configuration is not understood"
        if line.startswith("["):
            header = re.fullmatch(r'\[([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\]\s*(.*)', line)
            if header is None:
                return "its git configuration is not understood"
            section = header[1] + (f".{header[2]}" if header[2] is not None else "")
            line = header[3]
            if not line or line[0] in "#;":
                continue
        key = f"{section}.{line.partition('=')[0].strip()}"
        if not _HARMLESS.fullmatch(key):
            return f"its git configuration sets {key}, which may run a program"
        value = line.partition("=")[2].strip()
        if "::" in value or value.startswith(("ext:", "fd:")):
            return f"its git configuration sets {key} to a remote helper"
    return ""


def _index(path: Path) -> str:
    try:
        status = path.lstat()
    except OSError:
        return ""
    return _index_says(str(path), status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=64)
def _index_says(path: str, changed: int, size: int, inode: int) -> str:
    if size > _MOST_INDEX or not os.path.isfile(path):
        return "its index is too large to look at"
    with open(path, "rb") as file:
        has = _SUBMODULE in file.read(_MOST_INDEX)
    return "it has submodules, whose own configuration git would obey" if has else ""


def _head(path: Path, most: int) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
