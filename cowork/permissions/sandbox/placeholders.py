"""Keeps what is guarded from coming into being while commands run in the sandbox.

A missing folder is held: an empty one of ours stands in its place, over which the sandbox mounts one nobody can write.
Its lock says that a command still needs it; the last to let go removes it, and what a crash left is taken over. A
missing file cannot be held without being seen by all, so it is watched for: one that comes is renamed and said.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cowork.core.errors import ToolError
from cowork.core.workspace import is_placeholder, protected
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.guarded import GIT_FILES, Guarded, guarded, left_behind, scan
from cowork.permissions.shell.repository import repository

_TRIES = 100
_SET_ASIDE = ".set-aside"
_LONGEST = 100  # characters of a name that are kept
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOMENT = 0.001
_LOCK = struct.Struct("hhqqi")  # struct flock


class Holding:
    """Holds and watches for the commands of one run. `written`: paths file tools wrote, which were judged already."""

    def __init__(self, sandbox: Sandbox, written: Collection[str], say: Callable[[str, list[str]], None]) -> None:
        self._sandbox = sandbox
        self._written = written
        self._say = say
        self._running = 0
        self._known: dict[str, str] = {}  # what was there before commands ran
        self._watched: set[Path] = set()
        sandbox.held = True
        _sweep(sandbox.roots)

    def begin(self, cwd: Path) -> Hold:
        """Hold what is missing now, until the command that starts in `cwd` has ended."""
        boxed = self._sandbox.active and sys.platform != "darwin"  # seatbelt goes by name, whether it is there or not
        roots = self._sandbox.roots if boxed else []
        what = guarded(roots)
        places = dict.fromkeys((*roots, cwd) if boxed else ())
        locks, self._sandbox.alone = _shared(roots)
        self._sandbox.known = what
        if self._running == 0:
            self._known, self._watched = {}, set()  # what came while no command ran is the person's
        hold = Hold(self, what, tuple(places), locks)
        try:
            for path in what.absent:
                if (descriptor := _hold(path)) is not None:
                    hold.held[path] = descriptor
        except OSError as error:
            hold.drop()
            text = f"The command was not run: {error.filename} cannot be kept from it ({error.strerror})."
            raise ToolError("ACCESS_DENIED", text) from error
        here = _present(what, places)
        # In a folder that is watched already, what is new may be another command's work.
        self._known |= {path: goal for path, goal in here.items() if Path(path).parent not in self._watched}
        self._watched |= {*places, *what.gits}
        self._running += 1
        return hold

    def look(self, hold: Hold) -> list[str]:
        """Set aside what came since, and put back links that were changed; gives what the model should know."""
        told = []
        here = _present(hold.what, hold.places)
        for path, was in list(self._known.items()):
            if was and here.get(path) != was and Path(path).parent in hold.places:
                told += _set_aside(path) if path in here else []
                with contextlib.suppress(OSError), _really(Path(path).parent) as folder:
                    os.symlink(was, os.path.basename(path), dir_fd=folder)
                here[path] = was
        for path in sorted(here.keys() - self._known.keys() - set(self._written)):
            if Path(path).name != ".git" or _would_run(Path(path)):
                told += _set_aside(path)
        if told:
            text = f"Set aside what a command made: {'; '.join(told)}. Other programs or agents run or obey such files."
            self._say(text, told)
            return [f"{text} The user was told. Write them with a file tool, which asks, if they are wanted."]
        return []

    def end(self) -> None:
        self._running -= 1


@dataclass(slots=True)
class Hold:
    """What is held for one command. `look` now and then, `release` once its processes are gone."""

    holding: Holding
    what: Guarded
    places: tuple[Path, ...]
    locks: tuple[int, ...]  # say that a command runs in these folders
    held: dict[Path, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    released: bool = False

    def look(self) -> None:
        if not self.released:
            self.told += self.holding.look(self)

    def release(self) -> None:
        if not self.released:
            self.look()
            self.released = True
            self.holding.end()
            self.drop()

    def drop(self) -> None:
        for path, descriptor in self.held.items():
            _let_go(path, descriptor)
        self.held.clear()
        for lock in self.locks:
            os.close(lock)
        self.locks = ()


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


def _hold(path: Path) -> int | None:
    """The locked descriptor of an empty folder at `path`; None where there is something else, or can be nothing."""
    for _ in range(_TRIES):
        try:
            with _really(path.parent) as folder:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path.name, 0o1755, dir_fd=folder)
                descriptor = os.open(path.name, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            if path.parent.is_dir() and not path.parent.is_symlink():  # another command let go of it in this moment
                continue
            return None
        except OSError as error:
            if os.access(path.parent, os.W_OK) and not os.path.lexists(path):
                raise OSError(error.errno, error.strerror, str(path)) from error
            return None
        if _taken(descriptor):
            time.sleep(_MOMENT)
            continue
        status = os.fstat(descriptor)
        if not is_placeholder(status):
            os.close(descriptor)
            return None
        with contextlib.suppress(OSError):
            if os.lstat(path).st_ino == status.st_ino:
                return descriptor
        os.close(descriptor)
    raise OSError(0, "it comes and goes", str(path))


def _taken(descriptor: int) -> bool:
    """Whether another is about to remove this folder, which is then closed; else it is locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # not waiting: a command could keep it for ever
    except BlockingIOError:
        os.close(descriptor)
        return True
    except OSError:  # a file system without locks
        pass
    return False


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


def _sweep(roots: Iterable[Path]) -> None:
    """Remove what a killed run left behind, unless another holds it."""
    for path in left_behind(list(roots)):
        with contextlib.suppress(OSError):
            _let_go(path, os.open(path, _FOLDER))


def _let_go(path: Path, descriptor: int) -> None:
    """Remove the folder if nobody else holds it; one that was filled meanwhile is the person's."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        if os.listdir(descriptor):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~stat.S_ISVTX)
            return
        with _really(path.parent) as folder:
            if os.lstat(path.name, dir_fd=folder).st_ino == status.st_ino:
                _changed(folder, lambda: os.rmdir(path.name, dir_fd=folder))
    except OSError:
        pass
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


def _present(what: Guarded, places: Iterable[Path]) -> dict[str, str]:
    """What is protected at the top of these folders, and what steers git in its own; links with their goal."""
    found: dict[str, str] = {}
    for place in places:
        for entry in scan(place):
            if protected(Path(entry.name)) and Path(entry.path) not in what.absent:
                found[entry.path] = _goal(entry)
    for git in what.gits:
        found |= {entry.path: _goal(entry) for entry in scan(git) if entry.name in GIT_FILES}
    return found


def _goal(entry: os.DirEntry[str]) -> str:
    try:
        return os.readlink(entry.path) if entry.is_symlink() else ""
    except OSError:
        return ""


def _would_run(git: Path) -> bool:
    """Whether a repository that was made in the sandbox would make git run something."""
    if not git.is_dir() or git.is_symlink() or any(os.path.lexists(git / name) for name in GIT_FILES[1:]):
        return True
    if any(not entry.name.endswith(".sample") for entry in scan(git / "hooks")):
        return True
    why, _ = repository(git)
    return bool(why)


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
