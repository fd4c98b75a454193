"""What a judgement of a command looks up on disk: where its paths lead, and what git would run in this repository."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

from cowork.core.errors import ToolError
from cowork.core.workspace import Workspace, sensitive
from cowork.permissions.sandbox.guarded import worktree_of
from cowork.permissions.shell.literal import Argument
from cowork.permissions.shell.repository import (
    common_of,
    head,
    is_commit,
    keeps_password,
    linked_folder,
    password_in,
    repository,
    secret,
    tracked_folder,
    tracked_secret,
)

_MOST_ENTRIES = 2_000
_MOST_MATCHES = 200
_MOST_SEARCHED = 4_000
_MOST_RULES = 65_536
_UNCLEAR = re.compile(r"\ufffd|[^\S \t\r\n]")  # no text, or a blank only to some
_BARE = (("HEAD", "objects", "refs"), ("HEAD", "commondir"))
_STEERING = (".gitattributes", ".gitignore", ".mailmap", ".gitmodules")
_RULES = (".gitignore", ".ignore", ".rgignore")
_PUBLISHED = frozenset({"node_modules", "site-packages"})  # what others published holds no secret of the user
# Programs that choose by files of the folder what they run under another name, or remember what they ran.
_SHIMS = frozenset(
    {"shims", ".volta", ".asdf", "mise", "rustup", "volta-shim", "aqua-proxy", "proto-shim", "snap", "ccache"}
)


class Lookup:
    """Answers for one command: the folder it runs in, the folders it may read, and whether they are trusted."""

    def __init__(self, workspace: Workspace, cwd: Path, *, trusted: bool) -> None:
        self.workspace = workspace
        self.cwd = cwd
        self._trusted = trusted
        self.top, self.repository = cwd, cwd  # of git, once it was asked for

    def path(self, argument: Argument) -> str:
        """Why this argument must not be read unasked."""
        texts, why = self._expanded(argument)
        return why or next((why for text in texts if (why := self._one(text))), "")

    def file(self, argument: Argument) -> str:
        """The same for a program that would read whole folders, also through links in them."""
        folder = next((text for text in self._expanded(argument)[0] if os.path.isdir(self.cwd / text)), "")
        return self.path(argument) or (f"{folder} is a folder, whose files it would read" if folder else "")

    def named(self, argument: Argument) -> str:
        """The same for a word that only names something if there is a file of that name."""
        there = not argument.glob and os.path.lexists(self.cwd / argument.text)
        return self.path(argument) if there else ""

    def program(self, name: str) -> str:
        """Why a program of this name is not the one it is known to be: the workspace brings its own."""
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            found = os.path.join(os.getcwd(), folder, name)
            if not os.path.lexists(found):
                continue
            real = os.path.realpath(found)
            for place in (found, real, os.path.join(os.path.realpath(os.path.dirname(found)), name)):
                if not os.path.isabs(folder) or any(
                    Path(place).is_relative_to(root) for root in self.workspace.writable
                ):
                    return f"{name} would be run from {os.path.dirname(place)}, which the workspace can change"
            if shim := _SHIMS & {os.path.basename(real), *Path(found).parts}:
                return f"{name} is run by {min(shim)}, which may obey files of the folder"
        return ""

    def search(self, argument: Argument, *, hidden: bool, wanted: Sequence[str] = ()) -> str:
        """Why what lies in this folder must not be searched unasked.

        `hidden`: also what is hidden or ignored; `wanted`: names that are searched even then.
        """
        for text in self._expanded(argument)[0]:
            real = Path(os.path.realpath(self.cwd / text))  # above this rg looks for rules
            above = [place for place in real.parents if self.workspace.may_read(place)]
            if odd := next((name for place in above for name in _RULES if _odd(place / name)), ""):
                return f"it would read {odd}, which is a link or a pipe"
            found = _not_to_search(real, wanted, hidden=hidden)
            if found is None:
                return f"{text} is too large to look at"
            if found:
                return f"it would read {found}"
        return ""

    def trusted(self) -> str:
        return "" if self._trusted else "the folder is not trusted"

    def at(self, folder: str) -> Lookup:
        """The same answers for another folder, as after `git -C`."""
        return Lookup(self.workspace, Path(os.path.realpath(self.cwd / folder)), trusted=self._trusted)

    def git(self) -> str:
        """Why git must not run here unasked."""
        if not self._trusted:
            return "git runs what a repository's configuration says, and this folder is not trusted"
        for place in (self.cwd, *self.cwd.parents):
            entry = place / ".git"
            if os.path.lexists(entry):
                why, found = repository(entry)
                if found and not (self._holds(found, place) or worktree_of(place)):
                    return "its .git leads to another repository"
                if why or found:
                    self.top, self.repository = place, found or entry
                    return why or self._steered()
            if any(all(os.path.lexists(place / name) for name in names) for names in _BARE):
                return "the folder is itself a bare git repository, whose configuration git would obey"
        return "there is no git repository here"

    def _steered(self) -> str:
        """Why a file that git obeys in what it reads is not of this repository, or none at all."""
        for name in _STEERING:
            file = self.top / name
            if os.path.lexists(file) and (_special(file) or not self._holds(file, self.top)):
                return f"{name} leads elsewhere, or is a pipe"
        return ""

    def _holds(self, folder: Path, place: Path) -> bool:
        real = Path(os.path.realpath(folder))
        return real.is_relative_to(os.path.realpath(place)) or self.workspace.may_read(real)

    def commits(self, named: Sequence[str], after: int | None) -> bool:
        """Whether what stands before the paths are commits: of any other object git shows all, whatever it is told."""
        before = named[:after] if after is not None else takewhile(lambda word: not self._is_file(word), named)
        return all(self._is_file(word) or is_commit(self.repository, word) for word in before)

    def shows(self, named: Sequence[str], after: int | None, *, commits: bool) -> str:
        """Why what git has of these words (of all, without any) must not be shown unasked.

        They are revisions, all of them `commits` or not, then paths; `after` so many comes `--`, if it was there.
        """
        files = list(named[after or 0 :])
        while files and after is None and not self._is_file(files[0]):
            files.pop(0)  # revisions come first
        for word in named:
            where = self.cwd / word
            if os.path.lexists(where) and not Path(os.path.realpath(where.parent)).is_relative_to(self.top):
                return f"{word} is not in the repository"
        if any(sensitive(Path(word.rpartition(":")[2])) for word in named):
            return "it would show a file that may hold secrets"
        if not self.workspace.may_read(self.top) and (not commits or not files or any(":" in word for word in named)):
            return "the repository is larger than the workspace; name files of it"
        if commits and files and all(self._is_file(word) for word in files):
            return ""  # nothing else is shown
        secret = tracked_secret(self.repository)
        return f"it may show {secret}, which may hold secrets" if secret else ""

    def _is_file(self, word: str) -> bool:
        """Whether this is one file to git, also as `REVISION:FILE`: no folder, no pattern, no magic as in `:!x`."""
        revision, colon, path = word.rpartition(":")
        if not re.fullmatch(r"|:[0-3]", revision) and not is_commit(self.repository, revision):
            return False  # of some folder, where this may be another file
        whole = bool(colon) and not path.startswith(".")  # from the top, but as a path from here
        if re.search(r"[*?\[\\]", word) or (whole and (path[:1] in "!^/" or (word[0] == ":" and self.top != self.cwd))):
            return False
        where = (self.top if whole else self.cwd) / path
        return os.path.isfile(where) and not tracked_folder(self.repository, os.path.relpath(where, self.top))

    def searches(self) -> str:
        """Why git must not search its tracked files unasked."""
        folder = linked_folder(self.repository, self.top)
        return f"it would search through {folder}, which leads elsewhere" if folder else ""

    def password(self) -> str:
        """Why what git knows of its remotes must not be shown unasked."""
        common = common_of(self.repository) or self.repository
        home = os.path.expanduser("~")
        own = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
        files = (f"{common}/config", "/etc/gitconfig", f"{home}/.gitconfig", f"{own}/git/config")
        return "an address git knows holds a password" if any(keeps_password(Path(file)) for file in files) else ""

    def logged(self) -> str:
        """Why what git noted of its commands must not be shown unasked: `git pull ADDRESS` is kept as it was typed."""
        folders = {self.repository, common_of(self.repository) or self.repository}
        logs = [file for folder in folders for file in (folder / "logs").rglob("*")]
        return "an address git noted holds a password" if any(password_in(file) for file in logs) else ""

    def enter(self, folder: Argument) -> str:
        """Go into a folder as `cd` would; why not, or nothing."""
        if folder.glob or folder.text in ("", "-"):
            return "cd to a folder only known at run time"
        where = Path(os.path.realpath(self.cwd / folder.text))
        if where != Path(os.path.normpath(self.cwd / folder.text)):
            return "cd through a link, where `..` means two things"
        if not self.workspace.may_read(where):
            return f"{folder.text} is outside the workspace"
        if not where.is_dir() or not os.access(where, os.X_OK):
            return f"{folder.text} is not a folder to go into"
        self.cwd = where
        return ""

    def _one(self, text: str) -> str:
        if text == "/dev/null":
            return ""
        try:  # by ./ a name such as ~ or file:///x stays the name it is to the program
            where = self.workspace.resolve(text if text.startswith("/") else f"./{text}", self.cwd)
        except ToolError as error:
            return error.text
        if not self.workspace.may_read(where):
            return f"{text} is outside the workspace"
        if sensitive(where) or sensitive(Path(text)) or password_in(where):
            return f"{text} may hold secrets"
        return f"{text} is a pipe, a socket or a device" if _special(where) else ""

    def _expanded(self, argument: Argument) -> tuple[list[str], str]:
        """The names a word stands for, as the shell would find them now, or why they are not looked at."""
        text = argument.text
        if not argument.glob:
            return [text], ""
        folders = [("/" if text.startswith("/") else "", Path("/") if text.startswith("/") else self.cwd)]
        for part in filter(None, text.split("/")):
            found: list[tuple[str, Path]] = []
            for shown, folder in folders:
                matching = [part] if not re.search(r"[*?]", part) else _matches(folder, part)
                if matching is None:
                    return [], f"{text} matches too many files to look at"
                found += [(f"{shown}{name}/", folder / name) for name in matching]
            if len(found) > _MOST_MATCHES:
                return [], f"{text} matches too many files to look at"
            folders = found
        texts = [shown.rstrip("/") for shown, _ in folders] or [text]
        flag = next((name for name in texts if name.startswith(("-", "+", "@"))), "")
        return texts, f"{text} matches {flag}, which could be taken for a flag" if flag else ""


def _special(path: Path) -> bool:
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return False
    return kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


def _known_kind(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink()


def _odd(path: Path) -> bool:
    return path.is_symlink() or _special(path)


def matches(name: str, pattern: str) -> bool:
    """Whether a shell may match a name: by its letters, or in the C locale by its bytes."""
    return fnmatchcase(name, pattern) or fnmatchcase(os.fsencode(name).decode("latin-1"), pattern)


def _matches(folder: Path, pattern: str) -> list[str] | None:
    """Names in a folder that match; None when the folder is too large."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_ENTRIES:
                    return None
                if not entry.name.startswith(".") and matches(entry.name, pattern):
                    names.append(entry.name)
    except OSError:
        return []
    return names


def _not_to_search(folder: Path, wanted: Sequence[str], *, hidden: bool) -> str | None:
    """What below a folder must not be read, and why; None when there is too much to look at.

    Of a file that says what to leave out, lines are shown as errors: where it is a link, those of another file.
    """
    waiting, seen = [str(folder)], 0
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as listing:
                entries = list(listing)
        except OSError:
            continue
        seen += len(entries)
        for entry in entries:
            if secret(entry.name) and (hidden or _wants(wanted, entry.name) or _unignored(Path(place), entry.name)):
                return f"{entry.name}, which may hold secrets"
            if entry.name in _RULES and entry.is_symlink():
                return f"{entry.name}, which is a link"
            if (hidden or entry.name in _RULES) and not _known_kind(entry):
                return f"{entry.name}, which is a pipe, a socket or a device"
            if (hidden or not entry.name.startswith(".")) and password_in(Path(entry.path)):
                return f"{entry.name}, which may hold secrets"
            packed = entry.name == "objects" and "/.git" in place  # of git, which nobody can search
            skipped = (
                entry.name in _PUBLISHED
                or packed
                or (
                    entry.name.startswith(".")
                    and not (hidden or _wants(wanted, entry.name) or _unignored(Path(place), entry.name))
                )
            )
            if not skipped and entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
        if seen > _MOST_SEARCHED:
            return None if hidden else ""  # what git ignores is mostly what makes a folder large
    return ""


def _wants(patterns: Sequence[str], name: str) -> bool:
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)


def _unignored(folder: Path, name: str) -> bool:
    """Whether a search that leaves out hidden and ignored files would read this one, in doubt yes."""
    lines: list[tuple[Path, str]] = []
    places = [folder, *folder.parents]
    top = next((number for number, place in enumerate(places) if os.path.exists(place / ".git")), -1)
    for number, place in reversed(list(enumerate(places))):
        for file in (".gitignore", ".ignore", ".rgignore") if number <= top else (".ignore", ".rgignore"):
            text = head(place / file, _MOST_RULES)
            if len(text.encode()) >= _MOST_RULES or _UNCLEAR.search(text):  # rg reads on, no further, or another line
                return True
            lines += [(place, line.rstrip()) for line in text.split("\n")]
    ignored = name.startswith(".")
    for place, line in lines:
        pattern = line.lstrip("!").removeprefix("/")
        exact = "/" not in pattern and (place == folder or not line.lstrip("!").startswith("/"))
        if line.startswith("!"):  # whatever else says it is ignored: which file beats which is a rule of its own
            if re.search(r"[\[\\{]", pattern) or fnmatchcase(name, pattern.rstrip("/").rpartition("/")[2]):
                return True
        elif exact and not re.search(r"[\[\\{#]|\*\*", pattern) and fnmatchcase(name, pattern):
            ignored = True
    return not ignored
