"""Watches for what is guarded coming into being while commands run.

In the write box what is there is mounted so that nobody can write it. What is missing cannot be: something would have
to stand in its place, for all to see and for a killed run to leave. So what comes is given a name that nothing obeys,
and said. Where there is no box it is only said.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cowork.core.workspace import start_of
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.guarded import GIT_FILES, GIT_FOLDERS, Guarded, guarded, protected_entries, scan
from cowork.permissions.sandbox.reasons import listed

_SET_ASIDE = ".set-aside"
_MOST_CONFIG = 128 * 1024
# A configuration of git that cannot make it run a program, open a connection or follow another file.
_HARMLESS = re.compile(
    r'(?:[ \t]*+(?:[#;].*|\[(?:core|remote|branch|user|init|pull|submodule|gc|lfs|commit)(?:\s+"[^"\\\n]*")?\]'
    r"|(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|url"
    r"|pushurl|fetch|remote|merge|rebase|name|email|defaultbranch|ff|active|auto\w*|gpgsign)\s*(?:=(?!.*::).*)?)?(?:\n|\Z))*+",
    re.IGNORECASE,
)
_LONGEST = 100  # characters of a name that are kept


class Watch:
    """Watches the commands of one run. `written`: paths file tools wrote, which were judged already."""

    def __init__(self, sandbox: Sandbox, written: Collection[str], say: Callable[[str, list[str]], None]) -> None:
        self._sandbox, self._written, self._say = sandbox, written, say
        self.running = 0
        self._known: dict[str, str] = {}  # what was there before commands ran
        self._watched: set[Path] = set()

    def begin(self, cwd: Path) -> WatchHold:
        """Note what is there now, for the command that starts in `cwd`."""
        what, places = guarded(self._sandbox.roots), tuple(dict.fromkeys((*self._sandbox.roots, cwd)))
        boxed = self._sandbox.active and sys.platform != "darwin"  # seatbelt goes by name, whether it is there or not
        self._sandbox.known = what if boxed else None
        if self.running == 0:
            self._known, self._watched = {}, set()  # what came while no command ran is the person's
        here = _present(what, places, inside=not boxed)
        # In a folder that is watched already, what is new may be another command's work.
        self._known |= {path: goal for path, goal in here.items() if Path(path).parent not in self._watched}
        self._watched |= {*places, *what.gits}
        self.running += 1
        return WatchHold(self, what, places, boxed)

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
        if not told:
            return []
        text = f"Set aside what a command made: {'; '.join(told)}. Other programs or agents run or obey such files."
        self._say(text, told)
        return [f"{text} The user was told. Write them with a file tool, which asks, if they are wanted."]

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


@contextlib.contextmanager
def _really(folder: Path) -> Iterator[int]:
    """The descriptor of a folder that is where it is said to be: a command may have put a link there, or above."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.readlink(f"/proc/self/fd/{descriptor}") != str(folder):
            raise FileNotFoundError(errno.ENOENT, "it was moved", str(folder))
        yield descriptor
    finally:
        os.close(descriptor)


def _present(what: Guarded, places: Iterable[Path], *, inside: bool) -> dict[str, str]:
    """What is protected, links with their goal. `inside`: also what lies in the protected folders."""
    found: dict[str, str] = {}
    for entry in protected_entries(places, what.gits):
        with contextlib.suppress(OSError):
            found[entry.path] = os.readlink(entry.path) if entry.is_symlink() else ""
        below = scan(f"{entry.path}/hooks" if entry.name == ".git" else entry.path) if inside else []
        found |= {one.path: "" for one in below if not one.name.endswith(".sample")}
    return found


def _would_run(git: Path) -> bool:
    """Whether a repository that was made in the sandbox would make git run something."""
    if not os.path.isdir(git) or os.path.islink(git) or any(os.path.lexists(git / name) for name in GIT_FILES[1:]):
        return True
    try:
        config = start_of(git / "config", _MOST_CONFIG).decode("utf-8", "replace")
    except OSError:
        return True
    return _has_hooks(git / "hooks") or not _HARMLESS.fullmatch(config)


def _has_hooks(folder: Path) -> bool:
    """Whether something in a folder of git would run or be obeyed: all but the examples and the list of ignored."""
    return os.path.islink(folder) or any(
        not entry.name.endswith(".sample") and entry.name != "exclude" for entry in scan(folder)
    )


def _set_aside(path: str) -> list[str]:
    """Give it a name nothing obeys; says which."""
    name = os.path.basename(path)
    other = f"{name[:_LONGEST]}{_SET_ASIDE}"
    try:
        with _really(Path(path).parent) as folder:
            other += f"-{os.urandom(8).hex()}" if other in os.listdir(folder) else ""  # which cannot be guessed
            mode = stat.S_IMODE(os.fstat(folder).st_mode)
            if mode & stat.S_IRWXU != stat.S_IRWXU:  # a command has closed it to its owner
                os.fchmod(folder, mode | stat.S_IRWXU)
            os.rename(name, other, src_dir_fd=folder, dst_dir_fd=folder)
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                os.fchmod(folder, mode)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{path} could not be renamed: {error.strerror}"]
    return [f"{path} is now {other}"]
