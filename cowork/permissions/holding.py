"""Keeps what is guarded from coming into being while commands run in the sandbox.

A missing folder is held: an empty one of ours stands in its place, over which the sandbox mounts one nobody can write.
Its lock says that a command still needs it; the last to let go removes it, and what a crash left is taken over. A
missing file cannot be held without being seen by all, so it is watched for: one that comes is renamed and said.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cowork.core.errors import ToolError
from cowork.core.workspace import protected
from cowork.permissions.guarding import GIT_FILES, Guarded, guarded, is_placeholder, left_behind, scan
from cowork.permissions.repository import repository
from cowork.permissions.sandbox import Sandbox

_TRIES = 100
_SET_ASIDE = ".set-aside"


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
        if self._running == 0:
            self._known, self._watched = {}, set()  # what came while no command ran is the person's
        hold = Hold(self, what, tuple(places))
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
                with contextlib.suppress(OSError):
                    os.symlink(was, path)
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


def _hold(path: Path) -> int | None:
    """The locked descriptor of an empty folder at `path`; None where there is something else, or can be nothing."""
    for _ in range(_TRIES):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o1755)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            if path.parent.is_dir():  # another command let go of it in this moment
                continue
            return None
        except OSError:
            if os.access(path.parent, os.W_OK) and not os.path.lexists(path):
                raise
            return None
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        status = os.fstat(descriptor)
        if not is_placeholder(status):
            os.close(descriptor)
            return None
        with contextlib.suppress(OSError):
            if os.lstat(path).st_ino == status.st_ino:
                return descriptor
        os.close(descriptor)
    raise OSError(0, "it comes and goes", str(path))


def _sweep(roots: Iterable[Path]) -> None:
    """Remove what a killed run left behind, unless another holds it."""
    for path in left_behind(list(roots)):
        with contextlib.suppress(OSError):
            _let_go(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))


def _let_go(path: Path, descriptor: int) -> None:
    """Remove the folder if nobody else holds it; one that was filled meanwhile is the person's."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        if os.listdir(descriptor):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~stat.S_ISVTX)
        elif os.lstat(path).st_ino == status.st_ino:
            os.rmdir(path)
    except OSError:
        pass
    finally:
        os.close(descriptor)


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
    for number in range(1, _TRIES):
        other = f"{path}{_SET_ASIDE}" + (f"-{number}" if number > 1 else "")
        if os.path.lexists(other):
            continue
        try:
            os.rename(path, other)
        except OSError as error:
            return [] if error.errno == 2 else [f"{path} could not be renamed: {error.strerror}"]
        return [f"{path} is now {os.path.basename(other)}"]
    return [f"{path} could not be renamed"]
