"""What of a workspace other programs run or obey, the watch over it while commands run, and why commands failed.

In the write box what is there is mounted so that nobody can write it. What is missing cannot be, so what comes is given
a name that nothing obeys, and said. Where there is no box it is only said.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from cowork.core.errors import ToolError
from cowork.core.git import git_folder, named_folder
from cowork.core.workspace import Workspace, find_protection, is_closed, start_of

if TYPE_CHECKING:
    from cowork.permissions.sandbox.box import Sandbox

GIT_FOLDERS = ("hooks", "info")
GIT_FILES = ("config", "config.worktree", "commondir", "gitdir")  # the last two say which other folder git obeys
_MOST_MODULES = 64
_SET_ASIDE = ".set-aside"
_MOST_CONFIG = 128 * 1024
# A line of a configuration of git that cannot make it run a program, open a connection or follow another file.
_HARMLESS = re.compile(
    r'[ \t]*(?:[#;].*|\[(?:core|remote|branch|user|init|pull|submodule|gc|commit)(?:\s+"[^"\\\n]*")?\]'
    r"|(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|url"
    r"|pushurl|fetch|remote|merge|rebase|name|email|defaultbranch|ff|active|auto\w*|gpgsign)\s*(?:=(?!.*::).*)?)?",
    re.IGNORECASE,
)
_LONGEST = 100  # characters of a name that are kept
_MOST = 16 * 1024  # characters of output that are looked at
_MOST_WORDS, _MOST_PARTS = 200, 8
_SHOWN = 6
_KEPT = re.compile(r"Read-only file system|Device or resource busy|\b(?:EROFS|EBUSY)\b|error writing to the directory")
_PATH = re.compile(r"(?<![\w.~@%+/-])[\w.~@%+/-]{1,300}(?![\w.~@%+/-])")
_SOCKETS = re.compile(
    r"connect to the Docker daemon|docker\.sock|podman\.sock|connect to bus|authentication agent"
    r"|(?:open|connect to) display"
)
_HERE, _FAILS = r"(?:localhost|127\.0\.0\.1|::1)\b", r"(?:refused|couldn't connect)"
_OFFLINE = re.compile(
    r"resolve host|in name resolution|Name or service not known|EAI_AGAIN|ENOTFOUND|Network is unreachable|ENETUNREACH"
    rf"|no such host|dns error|Failed to connect to (?!{_HERE})"
)
_LOOPBACK = re.compile(rf"(?i){_HERE}.{{0,200}}{_FAILS}|{_FAILS}.{{0,200}}{_HERE}")
_NO_NETWORK = 'The sandbox has no network. Call Bash again with needs: "network" and why; the user is then asked.'
_OWN_LOOPBACK = (
    "In the sandbox each command has a loopback of its own: start the server in the same command as its client, or call"
    ' Bash again with needs: "network" and why; the user is then asked.'
)
_NO_SOCKETS = (
    "The sandbox hides the sockets of containers, agents, the session bus and the screen."
    ' Call Bash again with needs: "outside" and why; the user is then asked.'
)
_OUTSIDE = (
    "In the sandbox only the workspace and /tmp can be written. Have caches there, such as XDG_CACHE_HOME=/tmp/cache,"
    ' or call Bash again with needs: "outside" and why; the user is then asked.'
)
_FLOCK = struct.Struct("hhqqi")  # struct flock


def guarded_paths(roots: Sequence[Path]) -> list[Path]:
    """What is there and stays in the folders commands may write."""
    gits = git_folders(roots)
    found = [
        Path(entry.path) for entry in protected_entries(roots, gits) if entry.name != ".git" or os.path.isfile(entry)
    ]
    kept = (entry for git in gits for entry in scan(git / "worktrees") if entry.is_dir(follow_symlinks=False))
    trees = [tree for tree in islice(sorted(Path(one.path) for one in kept), _MOST_MODULES) if not _inside(tree, roots)]
    found += [tree / name for tree in trees for name in GIT_FILES]
    closed = [*trees, *(root / ".config" for root in roots)]
    closed += [git / name for git in gits for name in ("", "modules", "worktrees")]
    found += [path for path in closed if is_closed(path)]
    fixed = dict[Path, None]()
    for path in filter(os.path.exists, found):  # for a link what it leads to, if commands could write that
        real = Path(os.path.realpath(path))
        if real == path or (real not in roots and any(real.is_relative_to(root) for root in roots)):
            fixed[real] = None
    return list(fixed)


def protected_entries(places: Iterable[Path], gits: Iterable[Path]) -> Iterator[os.DirEntry[str]]:
    """What is protected at the top of these folders, and what steers git in its own."""
    for place in places:
        yield from (entry for entry in scan(place) if find_protection(Path(entry.name)))
        yield from (entry for entry in scan(place / ".config") if find_protection(Path(".config", entry.name)))
    for git in gits:
        yield from (entry for entry in scan(git) if entry.name in (*GIT_FILES, *GIT_FOLDERS))


def repository_of(cwd: Path) -> tuple[Path, Path, Path] | None:
    """Where git keeps its own for what lies here, the top of its files, and what it shares with other worktrees."""
    top = next((top for top in (cwd, *cwd.parents) if os.path.lexists(top / ".git")), None)
    git = git_folder(top) if top else None
    return (git, top, named_folder(git, git / "commondir") or git) if git and top else None


def worktree_of(root: Path) -> Path | None:
    """The repository a linked worktree belongs to, which commits write to; only if that one says so too."""
    pointer = root / ".git"
    folder = named_folder(root, pointer, "gitdir:") if os.path.isfile(pointer) and not os.path.islink(pointer) else None
    common = named_folder(folder, folder / "commondir") if folder else None
    if not folder or not common or folder.parent != common / "worktrees":
        return None
    real = all(os.path.exists(common / name) for name in ("HEAD", "objects", "refs"))
    return common if real and named_folder(folder, folder / "gitdir") == pointer else None


def git_folders(roots: Sequence[Path]) -> list[Path]:
    """Where git keeps its own of these folders, their submodules' too."""
    return list(dict.fromkeys(git for root in roots for git in _git_folders(root, roots)))


def _git_folders(root: Path, roots: Sequence[Path]) -> Iterator[Path]:
    common = worktree_of(root)
    found = common or git_folder(root)
    if not found or not (common or any(found.is_relative_to(place) for place in roots)):
        return
    yield found
    for place, folders, files in islice(os.walk(found / "modules"), _MOST_MODULES):  # names may hold slashes
        yield from (Path(place, name) for name in folders if is_closed(Path(place, name)))
        if {"HEAD", "config"} & {*files}:  # a command can take the first away
            yield Path(place)
            folders[:] = [name for name in folders if name == "modules"]


def _inside(tree: Path, roots: Sequence[Path]) -> bool:
    """Whether a worktree is checked out where commands may write, deeper than what is guarded: they may remove it."""
    pointer = named_folder(tree, tree / "gitdir") or tree
    deeper = pointer.parent not in roots and any(pointer.is_relative_to(root) for root in roots)
    return deeper and named_folder(pointer.parent, pointer, "gitdir:") == tree


def scan(folder: Path | str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where it cannot be looked into."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


class Watch:
    """Watches the commands of one run. `written`: paths file tools wrote, which were judged already."""

    def __init__(self, sandbox: Sandbox, written: Collection[str], say: Callable[[str, list[str]], None]) -> None:
        self._sandbox, self._written, self._say = sandbox, written, say
        self.running = 0
        self._known: dict[str, str] = {}  # what was there before commands ran
        self._watched: set[Path] = set()

    def begin(self, cwd: Path) -> WatchHold:
        """Note what is there now, for the command that starts in `cwd`."""
        roots = self._sandbox.roots
        gits, places = git_folders(roots), list(dict.fromkeys((*roots, cwd)))
        boxed = self._sandbox.active and sys.platform != "darwin"  # seatbelt goes by name, whether it is there or not
        locks, self._sandbox.alone = _lock(roots if boxed else [])
        if self.running == 0:
            self._known, self._watched = {}, set()  # what came while no command ran is the person's
        here = _present(places, gits, inside=not boxed)
        # In a folder that is watched already, what is new may be another command's work.
        self._known |= {path: goal for path, goal in here.items() if Path(path).parent not in self._watched}
        self._watched |= {*places, *gits}
        self.running += 1
        return WatchHold(self, places, gits, locks, boxed)

    def look(self, hold: WatchHold) -> list[str]:
        """Set aside what came since, and put back links that were changed; gives what the model should know."""
        here = _present(hold.places, hold.gits, inside=not hold.boxed)
        came, told = sorted(here.keys() - self._known.keys() - set(self._written)), list[str]()
        if not hold.boxed:  # nothing can be set aside: it is said once
            self._known |= dict.fromkeys(came, "")
            names = name_some([self._sandbox.workspace.show(Path(path)) for path in came])
            text = f"A command made {names}: other programs or agents run or obey such files."
            if came:
                self._say(f"{text} Look before you use them.", came)
            return [f"{text} The user was warned; say why, if you meant it."] if came else []
        for path, was in list(self._known.items()):
            if was and here.get(path) != was and Path(path).parent in hold.places:
                told += _set_aside(path) if path in here else []
                with suppress(OSError, ToolError), Workspace(Path(path).parent).parent(Path(path)) as (folder, name):
                    os.symlink(was, name, dir_fd=folder)
        for new in map(Path, came):
            whole = new.name == ".git" or (new.parent in hold.gits and new.name in GIT_FOLDERS)
            if not whole or (_would_run(new) if new.name == ".git" else _has_hooks(new)):
                told += _set_aside(str(new))
        if not told:
            return []
        text = f"Set aside what a command made: {'; '.join(told)}. Other programs or agents run or obey such files."
        self._say(text, told)
        return [f"{text} The user was told. Write them with a file tool, which asks, if they are wanted."]


@dataclass(slots=True)
class WatchHold:
    """What is watched for one command. `look` now and then, `release` once its processes are gone."""

    watch: Watch
    places: list[Path]
    gits: list[Path]
    locks: list[int]  # say that a command runs in these folders
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


def _lock(roots: Sequence[Path]) -> tuple[list[int], bool]:
    """Locks that say that a command runs in these folders, and whether no other does, of this program or another."""
    locks, free = [], 0
    for root in roots:
        with suppress(OSError):  # a file system without locks, or a folder one may not list
            locks.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
            fcntl.fcntl(locks[-1], fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, 0, 0, 0, 0))
            other = fcntl.fcntl(locks[-1], fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
            free += _FLOCK.unpack(other)[0] == fcntl.F_UNLCK
    return locks, free == len(roots)


def _present(places: Iterable[Path], gits: Iterable[Path], *, inside: bool) -> dict[str, str]:
    """What is protected, links with their goal. `inside`: also what lies in the protected folders."""
    found: dict[str, str] = {}
    for entry in protected_entries(places, gits):
        with suppress(OSError):
            found[entry.path] = os.readlink(entry.path) if entry.is_symlink() else ""
        below = scan(f"{entry.path}/hooks" if entry.name == ".git" else entry.path) if inside else []
        found |= {one.path: "" for one in below if not one.name.endswith(".sample")}
    return found


def _would_run(git: Path) -> bool:
    """Whether a repository that was made in the sandbox would make git run something."""
    with suppress(OSError):
        config = start_of(git / "config", _MOST_CONFIG).decode("utf-8", "replace")
        plain = os.path.isdir(git) and not os.path.islink(git) and not _has_hooks(git / "hooks")
        steered = any(os.path.lexists(git / name) for name in GIT_FILES[1:])
        return steered or not plain or not all(map(_HARMLESS.fullmatch, config.split("\n")))
    return True


def _has_hooks(folder: Path) -> bool:
    """Whether something in a folder of git would run or be obeyed: all but the examples and the list of ignored."""
    names = (entry.name for entry in scan(folder) if entry.name != "exclude")
    return os.path.islink(folder) or not all(name.endswith(".sample") for name in names)


def _set_aside(path: str) -> list[str]:
    """Give it a name nothing obeys; says which. Its folder is reached without following a link a command put there."""
    other = f"{os.path.basename(path)[:_LONGEST]}{_SET_ASIDE}"
    try:
        with Workspace(Path(path).parent).parent(Path(path)) as (folder, name):
            other += f"-{os.urandom(8).hex()}" if other in os.listdir(folder) else ""  # which cannot be guessed
            mode = stat.S_IMODE(os.fstat(folder).st_mode)
            if mode & stat.S_IRWXU != stat.S_IRWXU:  # a command has closed it to its owner
                os.fchmod(folder, mode | stat.S_IRWXU)
            os.rename(name, other, src_dir_fd=folder, dst_dir_fd=folder)
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                os.fchmod(folder, mode)
    except (FileNotFoundError, ToolError):  # it is gone, or its folder was moved
        return []
    except OSError as error:
        return [f"{path} could not be renamed: {error.strerror}"]
    return [f"{path} is now {other}"]


def reasons(
    output: str, cwd: Path, roots: Sequence[Path], home: Path, masked: Sequence[str], *, network: bool, reads: bool
) -> list[str]:
    """What of a command's output its box is the reason for."""
    output, told, kept, outside = output[-_MOST:], list[str](), dict[str, None](), False
    lines = (line for line in output.splitlines() if _KEPT.search(line))
    for word in islice((word for line in lines for word in _PATH.findall(line)), _MOST_WORDS):
        path = Path(os.path.normpath(home / word[2:] if word.startswith("~/") else cwd / word))
        root = next((root for root in roots if path.is_relative_to(root)), None)
        outside = outside or (root is None and "/" in word)
        parts = path.relative_to(root).parts[:_MOST_PARTS] if root else ()
        whole = (at for at in range(1, len(parts) + 1) if find_protection(Path(*parts[:at])))
        if at := next(whole, 0):  # as much of it as says what is protected
            kept[str(Path(*parts[: at + (parts[at - 1] == ".git")]))] = None
    if reads and _KEPT.search(output):
        told.append("It ran read-only.")
    elif kept:
        text = f"The sandbox keeps {name_some(list(kept))} as it is: other programs run or obey it."
        hint = " git -c name=value needs no file." if ".git/config" in kept else ""
        told.append(f"{text} Edit and Write can change it, after a question.{hint}")
    told += [_OUTSIDE] if outside and not reads else []
    told += [_NO_NETWORK] if not network and _OFFLINE.search(output) else []
    told += [_OWN_LOOPBACK] if not network and _LOOPBACK.search(output) else []
    told += [_NO_SOCKETS] if _SOCKETS.search(output) else []
    if masked:
        text = f"{name_some(masked)} is empty to commands: it looks like a secret, or a rule denies it."
        told.append(f"{text} The Read tool asks; a rule such as Read({masked[0]}) shows it.")
    return told


def name_some(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
