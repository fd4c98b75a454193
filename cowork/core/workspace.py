"""Where file tools may go: resolve a path, judge it, then open exactly what was judged.

A path is resolved once, links and all. Opening walks the resolved path component by component without following
any link, so a link swapped in between check and open makes the open fail instead of leading elsewhere.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cowork.core.errors import ToolError
from cowork.core.secret_names import SECRET_GLOBS, fold_name

_PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)  # a folder that may be entered but not listed
_IGNORE_FILES, _EXCLUDES = (".gitignore", ".ignore", ".rgignore"), ".git/info/exclude"
_STUCK_S, _LOOK_S = 1.0, 6.0  # without an end before we look for what may keep a search waiting; and after the look
_HANDED_OVER = re.compile(r"/dev/stdin|/(dev|proc/self)/fd/\d+")  # such as <(jq .schema facts.json)
_NEVER = (Path("/proc"), Path("/sys"), Path("/dev"))  # other processes' memory and environment, devices, magic links

_PROTECTED_FOLDERS = {
    ".git": "git runs what is in it",
    ".husky": "git runs the hooks in it",
    ".devcontainer": "editors run what it says",
    ".cowork": "it steers cowork",
    **dict.fromkeys((".claude", ".agents"), "it steers agents"),
    **dict.fromkeys((".vscode", ".idea"), "editors run tasks from it"),
    **dict.fromkeys((".ssh", ".gnupg", ".aws"), "it holds keys"),
}
_PROTECTED_FILES = {
    ".mcp.json": "it starts programs",
    ".envrc": "direnv runs it",
    ".netrc": "it holds passwords",
    ".ripgreprc": "it can make searches run programs",
    **dict.fromkeys((".gitmodules", ".gitattributes", ".gitconfig"), "git obeys it"),
    **dict.fromkeys(("agents.md", "claude.md", "agents.local.md", "claude.local.md"), "agents obey it"),
}
_SHELL_FILES = re.compile(
    r"\.(?:bash(?:rc|_profile|_login|_logout|_aliases)|profile|z(?:shrc|shenv|profile|login|logout)|kshrc|mkshrc|t?cshrc|login"
    r"|inputrc|xprofile|xinitrc|pam_environment)"
)
_PROTECTED_CONFIG = {"git": "git obeys it", "fish": "the shell runs it", "cowork": "it steers cowork"}  # of ~/.config


class Workspace:
    """The folders of a run: `root` and `extra` may be read and written, `readable` only read."""

    def __init__(
        self, root: Path, extra: Sequence[Path] = (), readable: Sequence[Path] = (), own: Sequence[Path] = ()
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self.writable = (self.root, *(Path(os.path.realpath(p)) for p in extra))
        self.outputs = tuple(Path(os.path.realpath(p)) for p in readable)
        self.readable = (*self.writable, *self.outputs)
        self.own = tuple(Path(os.path.realpath(p)) for p in own)  # cowork's settings and state, which may lie in it
        self.unsearched: tuple[str, ...] = SECRET_GLOBS  # what searches of whole folders leave out

    def resolve(self, given: str, cwd: Path) -> Path:
        """The real path `given` stands for; a leaf that does not exist yet is fine."""
        if not given.strip():
            raise ToolError("INVALID_PARAM", "The path is empty. Give a file path.")
        if given[:7].casefold() == "file://":
            given = _from_url(given)
        if "\0" in given:
            raise ToolError("INVALID_PARAM", "The path holds a NUL character.")
        try:
            path = Path(os.path.realpath(cwd / os.path.expanduser(given)))
            if _is_link(path):  # realpath stops at a link that leads to itself
                raise ToolError("NOT_FOUND", f"{given} is a link that leads to itself.")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it holds characters no file name can have"
            raise ToolError("NOT_FOUND", f"{given[:200]!a} cannot be resolved: {why}.") from error
        return path

    def lend(self, folders: Iterable[Path]) -> None:
        """Let these be read too."""
        self.readable = tuple(dict.fromkeys((*self.readable, *(Path(os.path.realpath(p)) for p in folders))))

    def may_read(self, path: Path) -> bool:
        return _within(path, self.readable)

    def may_write(self, path: Path) -> bool:
        return _within(path, self.writable)

    def protects(self, path: Path) -> str:
        """Why writing this resolved path must always be asked here."""
        if _within(path, self.own) and not _within(path, self.outputs):
            return f"{path} is protected: it steers cowork"
        return find_protection(path)

    def show(self, path: Path) -> str:
        """The path as people and models like it: relative inside the workspace, whole outside."""
        return str(path).removeprefix(os.path.join(self.root, "")) if path != self.root else "."

    def open(self, path: Path, flags: int, mode: int = 0o666) -> int:
        """A file descriptor of a resolved path; no link is followed and nothing blocks."""
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        if not (self.may_write(path) if writes else self.may_read(path)):
            raise ToolError("ACCESS_DENIED", f"{path} is outside the folders of this run.")
        with self.parent(path) as (folder, leaf):
            try:
                _require_plain(os.stat(leaf, dir_fd=folder, follow_symlinks=False), path)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
            try:
                opened = os.open(leaf, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EMLINK):
                    raise _swap_error(path) from error
                raise
        try:
            _require_plain(os.fstat(opened), path)
        except ToolError:
            os.close(opened)
            raise
        return opened

    @contextmanager
    def parent(self, path: Path) -> Iterator[tuple[int, str]]:
        """(descriptor of the folder, name in it) of a resolved path, reached without following a link."""
        if not self.may_read(path):
            raise ToolError("ACCESS_DENIED", f"{path} is outside the folders of this run.")
        here = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            *folders, leaf = path.parts[1:] or (".",)
            for name in folders:
                inner = _step(name, here, path)
                os.close(here)
                here = inner
            yield here, leaf
        finally:
            os.close(here)


def protected_names() -> str:
    """All that `find_protection` goes by, but for .git itself, as a pattern of the plainest kind, in any case."""
    names = [re.escape(name) for name in (*_PROTECTED_FOLDERS, *_PROTECTED_FILES) if name != ".git"]
    names += [_SHELL_FILES.pattern.replace("(?:", "("), rf"\.config/({'|'.join(_PROTECTED_CONFIG)})"]
    return re.sub("[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", "|".join(names))


def find_protection(path: Path) -> str:
    """Why writing this resolved path must always be asked: something else runs or obeys it. Exists or not."""
    names = [fold_name(part) for part in path.parts]
    for at, name in enumerate(names):
        if why := _PROTECTED_FOLDERS.get(name):
            return f"{path.parts[at]} is protected: {why}"
        if name == ".config" and at + 1 < len(names) and (why := _PROTECTED_CONFIG.get(names[at + 1])):
            return f"{path.parts[at + 1]} is protected: {why}"
    leaf = names[-1] if names else ""
    if why := _PROTECTED_FILES.get(leaf):
        return f"{path.name} is protected: {why}"
    if _SHELL_FILES.fullmatch(leaf):
        return f"{path.name} is protected: the shell runs it"
    return ""


def start_of(path: Path, most: int) -> bytes:
    """The first bytes of a plain file; an OSError for anything else, without waiting for it."""
    if (real := os.path.realpath(path)).startswith(("/proc/", "/sys/", "/dev/")) and not real.startswith("/dev/shm/"):
        raise OSError(errno.EINVAL, "leads into the system", str(path))
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        return file.read(most)


def read_whole(path: Path, most: int = 8 << 20) -> bytes:
    """All of a plain file, or of a pipe that a shell hands over; an OSError for anything else, or for more bytes."""
    if _HANDED_OVER.fullmatch(str(path)):
        with open(path, "rb") as file:
            raw = file.read(most + 1)
    else:
        raw = start_of(path, most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MB", str(path))
    return raw


def load_json(path: Path, most: int = 8 << 20) -> Any:
    """What a small file of JSON holds; OSError where it cannot be read, ValueError where it is no JSON."""
    return parse_json(read_whole(path, most).decode("utf-8-sig"))


def parse_json(text: str | bytes) -> Any:
    """What a text of a file says; a ValueError for one that is no JSON, or is nested without end."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class IgnorePipes:
    """Ignore files that are named pipes. Git and ripgrep would wait for them for ever; fed, they read an empty file."""

    def __init__(self, top: Path) -> None:
        self.found: list[str] = []
        self.over = False
        self._top, self._began, self._looked = top, time.monotonic(), False

    def feed(self) -> None:
        """Let go what waits; does nothing in the first second, in which most programs are done."""
        if not self._looked and time.monotonic() - self._began > _STUCK_S:
            self._looked, self.found = True, [path for path in self._ignore_files() if _is_pipe(path)]
        for pipe in self.found:  # one behind another is opened later, so all of them each time
            with suppress(OSError):  # nobody waits for it now
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))

    def _ignore_files(self) -> Iterator[str]:
        """Below the folder, and in those above it, whose rules hold there too."""
        yield from (str(parent / name) for parent in self._top.parents for name in (*_IGNORE_FILES, _EXCLUDES))
        yield str(self._top / _EXCLUDES)
        for folder, _, files in os.walk(self._top):
            if self.over or time.monotonic() - self._began > _LOOK_S:
                return
            yield from (os.path.join(folder, name) for name in _IGNORE_FILES if name in files)


def _is_pipe(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISFIFO(os.lstat(path).st_mode)
    return False


def is_closed(folder: Path | str) -> bool:
    """Whether a folder cannot be listed or entered, as a command may have made it."""
    effective = os.access in os.supports_effective_ids
    return not os.access(folder, os.R_OK | os.X_OK, effective_ids=effective) and os.path.isdir(folder)


def _within(path: Path, roots: Sequence[Path]) -> bool:
    # By their texts: is_relative_to takes both apart, and a call asks this a dozen times.
    text = os.path.join(path, "")
    if any(text.startswith(f"{place}/") for place in _NEVER) or "/../" in text:
        return False
    return any(text.startswith(os.path.join(root, "")) for root in roots)


def _from_url(url: str) -> str:
    host, slash, rest = url[7:].partition("/")
    if host not in ("", "localhost", "127.0.0.1") or not slash:
        raise ToolError("INVALID_PARAM", "Only file:// URLs of this machine name a file.")
    return unquote("/" + rest, errors="surrogateescape")


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL):
            raise
        return False


def _step(name: str, here: int, path: Path) -> int:
    """Enter one folder of a resolved path, which was no link when it was judged."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            return os.open(name, os.O_RDONLY | flags, dir_fd=here)
        except PermissionError:
            return os.open(name, _PATH_ONLY | flags, dir_fd=here)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            try:
                linked = stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
            except OSError:
                linked = True  # gone again: it is being swapped
            if linked:
                raise _swap_error(path) from error
        raise


def _require_plain(status: os.stat_result, path: Path) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind in (stat.S_IFREG, stat.S_IFDIR):
        return
    if kind == stat.S_IFLNK:
        raise _swap_error(path)
    names = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a device", stat.S_IFCHR: "a device"}
    raise ToolError("ACCESS_DENIED", f"{path} is {names.get(kind, 'not a file')}, not a file. Name a regular file.")


def _swap_error(path: Path) -> ToolError:
    return ToolError("ACCESS_DENIED", f"{path} changed while it was opened. Try again.")
