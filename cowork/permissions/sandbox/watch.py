"""Watches for what is guarded coming into being while commands run.

In the write box what is there is mounted so that nobody can write it. What is missing cannot be: something would have
to stand in its place, for all to see and for a killed run to leave. So what comes is given a name that nothing obeys,
and said. Where there is no box it is only said.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cowork.core.workspace import protected, start_of
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.guarded import FOLDERS, GIT_FILES, GIT_FOLDERS, Guarded, guarded, scan
from cowork.permissions.sandbox.reasons import listed

_SET_ASIDE = ".set-aside"
_MOST_CONFIG = 128 * 1024
# Settings of git that cannot make it run a program, open a connection or follow another file.
_HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol)"
    r"|remote\..*\.(?:url|pushurl|fetch)|branch\..*\.(?:remote|merge|rebase)|user\.(?:name|email)|init\.\w+|pull\.\w+"
    r"|submodule\..*\.(?:url|active)|gc\.auto\w*|lfs\.repositoryformatversion|commit\.gpgsign",
    re.IGNORECASE,
)
_LONGEST = 100  # characters of a name that are kept
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = struct.Struct("hhqqi")  # struct flock


class Watch:
    """Watches the commands of one run. `written`: paths file tools wrote, which were judged already."""

    def __init__(self, sandbox: Sandbox, written: Collection[str], say: Callable[[str, list[str]], None]) -> None:
        self._sandbox = sandbox
        self._written = written
        self._say = say
        self.running = 0
        self._known: dict[str, str] = {}  # what was there before commands ran
        self._watched: set[Path] = set()

    def begin(self, cwd: Path) -> WatchHold:
        """Note what is there now, for the command that starts in `cwd`."""
        roots = self._sandbox.roots
        what, places = guarded(roots), tuple(dict.fromkeys((*roots, cwd)))
        boxed = self._sandbox.active and sys.platform != "darwin"  # seatbelt goes by name, whether it is there or not
        locks: tuple[int, ...] = ()
        if boxed:
            locks, self._sandbox.alone = _shared(roots)
            self._sandbox.known = what
        if self.running == 0:
            self._known, self._watched = {}, set()  # what came while no command ran is the person's
        here = _present(what, places, inside=not boxed)
        # In a folder that is watched already, what is new may be another command's work.
        self._known |= {path: goal for path, goal in here.items() if Path(path).parent not in self._watched}
        self._watched |= {*places, *what.gits}
        self.running += 1
        return WatchHold(self, what, places, locks, boxed)

    def look(self, hold: WatchHold) -> list[str]:
        """Set aside what came since, and put back links that were changed; gives what the model should know."""
        here = _present(hold.what, hold.places, inside=not hold.boxed)
        if not hold.boxed:
            return self._tell(sorted(here.keys() - self._known.keys() - set(self._written)))
        told = []
        for path, was in list(self._known.items()):
            if was and here.get(path) != was and Path(path).parent in hold.places:
                told += _set_aside(path) if path in here else []
                with contextlib.suppress(OSError), _really(Path(path).parent) as folder:
                    os.symlink(was, os.path.basename(path), dir_fd=folder)
                here[path] = was
        for new in map(Path, sorted(here.keys() - self._known.keys() - set(self._written))):
            whole = new.name == ".git" or (new.parent in hold.what.gits and new.name in GIT_FOLDERS)
            if not whole or (_would_run(new) if new.name == ".git" else _has_hooks(new)):
                told += _set_aside(str(new))
        if told:
            text = f"Set aside what a command made: {'; '.join(told)}. Other programs or agents run or obey such files."
            self._say(text, told)
            return [f"{text} The user was told. Write them with a file tool, which asks, if they are wanted."]
        return []

    def _tell(self, made: list[str]) -> list[str]:
        """Say once what came where nothing can be set aside."""
        self._known |= dict.fromkeys(made, "")
        if not made:
            return []
        names = listed([self._sandbox.workspace.show(Path(path)) for path in made])
        text = f"A command made {names}: other programs or agents run or obey such files."
        self._say(f"{text} Look before you use them.", made)
        return [f"{text} The user was warned; say why, if you meant it."]


@dataclass(slots=True)
class WatchHold:
    """What is watched for one command. `look` now and then, `release` once its processes are gone."""

    watch: Watch
    what: Guarded
    places: tuple[Path, ...]
    locks: tuple[int, ...]  # say that a command runs in these folders
    boxed: bool  # what comes can be set aside, for its maker was held
    told: list[str] = field(default_factory=list)
    released: bool = False

    def look(self) -> None:
        if not self.released:
            self.told += self.watch.look(self)

    def release(self) -> None:
        if not self.released:
            self.look()
            self.released = True
            self.watch.running -= 1
            for lock in self.locks:
                os.close(lock)


def _shared(roots: Iterable[Path]) -> tuple[tuple[int, ...], bool]:
    """Locks that say that a command runs in these folders, and whether no other does, of this program or another."""
    locks, alone = [], True
    for root in roots:
        try:
            locks.append(os.open(root, _FOLDER))
            fcntl.fcntl(locks[-1], fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_RDLCK, 0, 0, 0, 0))
            other = fcntl.fcntl(locks[-1], fcntl.F_OFD_GETLK, _LOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
            alone = alone and _LOCK.unpack(other)[0] == fcntl.F_UNLCK
        except OSError:  # a file system without locks, or a folder one may not list
            alone = False
    return tuple(locks), alone


@contextlib.contextmanager
def _really(folder: Path) -> Iterator[int]:
    """The descriptor of a folder that is where it is said to be: a command may have put a link there, or above."""
    descriptor = os.open(folder, _FOLDER)
    try:
        if os.readlink(f"/proc/self/fd/{descriptor}") != str(folder):
            raise FileNotFoundError(errno.ENOENT, "it was moved", str(folder))
        yield descriptor
    finally:
        os.close(descriptor)


def _changed(folder: int, change: Callable[[], None]) -> None:
    """Change a name in a folder, also in one that a command has closed to its owner."""
    try:
        change()
    except PermissionError:
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        os.fchmod(folder, mode | stat.S_IRWXU)
        try:
            change()
        finally:
            os.fchmod(folder, mode)


def _present(what: Guarded, places: Iterable[Path], *, inside: bool) -> dict[str, str]:
    """What is protected at the top of these folders, and what steers git in its own; links with their goal.

    `inside`: also what lies in the protected folders.
    """
    found: dict[str, str] = {}
    for place in places:
        found |= {entry.path: _goal(entry) for entry in scan(place) if protected(Path(entry.name))}
        below = scan(place / ".config")
        found |= {entry.path: _goal(entry) for entry in below if protected(Path(".config", entry.name))}
        for folder in (*FOLDERS, ".git/hooks") if inside else ():
            found |= {entry.path: "" for entry in scan(place / folder) if not entry.name.endswith(".sample")}
    for git in what.gits:
        found |= {entry.path: _goal(entry) for entry in scan(git) if entry.name in (*GIT_FILES, *GIT_FOLDERS)}
    return found


def _goal(entry: os.DirEntry[str]) -> str:
    try:
        return os.readlink(entry.path) if entry.is_symlink() else ""
    except OSError:
        return ""


def _would_run(git: Path) -> bool:
    """Whether a repository that was made in the sandbox would make git run something."""
    if not os.path.isdir(git) or os.path.islink(git) or any(os.path.lexists(git / name) for name in GIT_FILES[1:]):
        return True
    if _has_hooks(git / "hooks"):
        return True
    section = ""
    for line in _lines(git / "config"):
        header = re.fullmatch(r'\[([\w.-]+)(?:\s+"([^"\\]*)")?\]', line)
        section = f"{header[1]}.{header[2]}" if header and header[2] else header[1] if header else section
        key, _, value = line.partition("=")
        if not header and not (_HARMLESS.fullmatch(f"{section}.{key.strip()}") and "::" not in value):
            return True
    return False


def _has_hooks(folder: Path) -> bool:
    """Whether something in a folder of git would run or be obeyed: all but the examples and the list of ignored."""
    return os.path.islink(folder) or any(
        not entry.name.endswith(".sample") and entry.name != "exclude" for entry in scan(folder)
    )


def _lines(config: Path) -> list[str]:
    try:
        text = start_of(config, _MOST_CONFIG).decode("utf-8", "replace")
    except OSError:
        return ["unreadable"]
    return [line.strip() for line in text.split("\n") if line.strip() and line.strip()[0] not in "#;"]


def _set_aside(path: str) -> list[str]:
    """Give it a name nothing obeys; says which."""
    name = os.path.basename(path)
    try:
        with _really(Path(path).parent) as folder:
            other = _free_name(folder, name)
            _changed(folder, lambda: os.rename(name, other, src_dir_fd=folder, dst_dir_fd=folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{path} could not be renamed: {error.strerror}"]
    return [f"{path} is now {other}"]


def _free_name(folder: int, name: str) -> str:
    taken = set(os.listdir(folder))
    names = [f"{name[:_LONGEST]}{_SET_ASIDE}{end}" for end in ("", *(f"-{number}" for number in range(2, 10)))]
    # A command could take all the names that can be guessed.
    return next((free for free in names if free not in taken), f"{name[:_LONGEST]}{_SET_ASIDE}-{os.urandom(8).hex()}")
