"""The box commands run in: bubblewrap on Linux, seatbelt on macOS; else none, which is said and never hidden.

Inside: the workspace and a private /tmp can be written, protected paths and all else only read, secrets are not there,
no network unless the user wants it, no capabilities, no new privileges, own process and host-name spaces. A command
that was judged to only read is held to that: it can write nothing but its /tmp, and has no network whatever is set.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path

from cowork.core import spawn
from cowork.core.errors import ToolError, UserError
from cowork.core.frozen import frozen
from cowork.core.workspace import Workspace
from cowork.permissions.sandbox import landlock as fence
from cowork.permissions.sandbox.guarded import Guarded, guarded, worktree_of
from cowork.permissions.sandbox.masks import AGENTS, secrets, sockets
from cowork.permissions.sandbox.reasons import reasons
from cowork.permissions.sandbox.seatbelt import profile
from cowork.permissions.sandbox.temporary import Temporary

MODES = ("auto", "required", "off")

_NOT_THERE = "bubblewrap (bwrap) is not installed"
_PROBE_SECONDS = 5.0
_TMP = Path("/tmp")
_TMP_NAMES = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")
_COVERED = (_TMP, Path("/var/tmp"), Path("/run"), Path("/dev/shm"))  # empty inside, and one's own
_APART = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL")
_BARE = (*_APART, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
# /proc/sys is writable for root inside as outside, whatever capabilities it has lost.
_NO_SETTINGS = ("--ro-bind-try", "/proc/sys", "/proc/sys")
# A second box in the first one: all of that as it is, but for what is mounted on top.
_INNER = ("--die-with-parent", "--cap-drop", "ALL", "--dev-bind", "/", "/")
_FOR_ROOT = ("--cap-add", "CAP_SETFCAP")  # without it root can make no namespace in which it is root
# Who can make a user namespace has every capability in it.
_NO_NAMESPACES = ("--unshare-user", "--disable-userns")


class Sandbox:
    """Wraps the words of a command so that it runs in a box; `active` says whether there is one."""

    def __init__(
        self,
        *,
        workspace: Workspace,
        mode: str = "auto",
        network: bool = False,
        scratch: Path | None = None,
        environ: Mapping[str, str] | None = None,
        hidden: Sequence[Path] = (),
        temporary: Temporary | None = None,
    ) -> None:
        if mode not in MODES:
            raise UserError(f"{mode!r} is not a sandbox mode.", f"Modes: {', '.join(MODES)}.")
        self.mode = mode
        self.network = network
        self.workspace = workspace
        self.scratch = scratch
        self.temporary = temporary  # what commands have for /tmp; each its own if there is none
        self._environ = environ = environ or {}
        self.home = Path(environ.get("HOME") or os.path.expanduser("~"))
        own = environ.get("COWORK_HOME", "")
        self.hidden = (*hidden, *((Path(own),) if own else ()))
        self.held = False  # somebody makes the missing folders, so that none of bubblewrap's making stays
        self.known: Guarded | None = None  # what is guarded, if that was looked up for the very next command
        self.alone = True  # no other command is running that could move what is mounted for the next one
        self.online: Callable[[str, Path], bool] = lambda command, cwd: self.network  # rules may say otherwise
        # A program of the workspace, or of the folder one is in, is no sandbox.
        places = environ.get("PATH", os.defpath).split(os.pathsep)
        self._path = os.pathsep.join(p for p in places if os.path.isabs(p) and not workspace.may_write(Path(p)))

    @cached_property
    def _bwrap(self) -> str | None:
        return shutil.which("bwrap", path=self._path)

    @property
    def active(self) -> bool:
        """Whether commands run in a box."""
        return self.mode != "off" and not self._missing()

    @property
    def tight(self) -> bool:
        """Whether the box holds all it promises: an old bubblewrap leaves a way to namespaces with capabilities.

        Where no box can be made in a box, what is guarded could be moved by another command while it is mounted.
        """
        bwrap = self._bwrap
        return self.active and (bwrap is None or _nests(bwrap))

    @property
    def fenced(self) -> bool:
        """Whether commands that only read are at least kept from writing, where there is no box."""
        return self.mode == "auto" and not self.active and fence.version() > 0

    @property
    def refusal(self) -> str:
        """Why no command may run: a box is required and there is none."""
        return f"a sandbox is required and {self._missing()}" if self.mode == "required" and not self.active else ""

    def wrap(self, argv: Sequence[str], cwd: Path, command: str = "", *, reads: bool = False) -> Sequence[str]:
        """The words that run `argv`, which runs `command`, in the box; unchanged when none is there and required.

        `reads`: the command was judged to change nothing.
        """
        if self.refusal:
            raise ToolError("ACCESS_DENIED", f"The command was not run: {self.refusal}. Tell the user.")
        if not self.active:
            return [sys.executable, "-I", "-S", fence.__file__, *argv] if reads and self.fenced else argv
        network = not reads and self.online(command, cwd)
        if sys.platform == "darwin":
            return [
                "/usr/bin/sandbox-exec",
                "-p",
                profile(self.workspace, () if reads else self.writable(), self.secrets(), network=network),
                *argv,
            ]
        return [*self.box(cwd, network=network, reads=reads), "--", *argv]

    def explain(self, output: str, command: str, cwd: Path) -> list[str]:
        """What of a command's output the box is the reason for, in words for the model."""
        return reasons(output, cwd, self.roots, self.home, network=self.online(command, cwd)) if self.active else []

    def status(self) -> str:
        """What is on, in a line, for people who want to know."""
        if self.mode == "off":
            return "off: commands run with your own rights"
        if missing := self._missing():
            said = f"none: {missing}; commands run with your own rights"
            said += ", though those that only read can write no file (Landlock)" if self.fenced else ""
            return said + (" (required: none will run)" if self.refusal else "")
        name = "seatbelt" if sys.platform == "darwin" else "bubblewrap"
        network = "with network" if self.network else "no network"
        network += "" if self.tight else ", but namespaces are open or cannot be nested: nothing runs unasked for it"
        return f"{name}: only the workspace and a private /tmp can be written, secrets are hidden, {network}"

    def box(self, cwd: Path, *, network: bool, reads: bool = False) -> list[str]:
        """bubblewrap and its options.

        What is guarded lies where other commands can write: one could swap a folder for a link while it is mounted, and
        have a folder of its choice mounted instead. So where others run it is mounted in a second box inside the first,
        from which no link leads to more than the first one has.
        """
        bwrap = self._bwrap or "bwrap"
        extra = _probe(bwrap).extra
        hidden = self.secrets()
        places = self._places(hidden, network=network, reads=reads)
        guards = {} if reads else self._guards(places, hidden)
        words = [bwrap, *_BARE, "--new-session", "--hostname", "sandbox"]
        words += ["--share-net"] if network else []
        words += [word for name in AGENTS if name in self._environ for word in ("--unsetenv", name)]
        words += [word for name in _TMP_NAMES if name in self._environ for word in ("--setenv", name, str(_TMP))]
        if self.alone or not guards or not _nests(bwrap):
            words += [*_NO_SETTINGS, *extra, *_downwards(guards | places)]
        else:
            words += [*_outer(), *_downwards(places), "--", bwrap, *_INNER, *_NO_SETTINGS, *extra, *_downwards(guards)]
        return [*words, "--chdir", str(cwd)]

    def _places(self, hidden: Sequence[Path], *, network: bool, reads: bool) -> dict[Path, list[str]]:
        """Mounts that say what can be seen and written."""
        mounts: dict[Path, list[str]] = {place: ["--tmpfs", str(place)] for place in _COVERED}
        resolver = Path("/run/systemd/resolve")
        if network and resolver.is_dir():
            mounts[resolver] = ["--ro-bind", str(resolver), str(resolver)]
        for path in hidden:
            mounts[path] = ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]
        for folder in self.workspace.readable:
            mounts[folder] = ["--ro-bind-try", str(folder), str(folder)]
        for folder in self.writable():
            mounts[folder] = ["--ro-bind" if reads else "--bind", str(folder), str(folder)]
        # Commands that share it could move what is mounted there.
        movable = any(_TMP in path.parents for path in mounts)
        if not reads and not movable and self.temporary and (shared := self.temporary.folder()):
            mounts[_TMP] = ["--bind", str(shared), str(_TMP)]
        return mounts

    def _guards(self, places: Mapping[Path, object], hidden: Sequence[Path]) -> dict[Path, list[str]]:
        """Mounts that keep what is guarded as it is, what is missing from being made, and all mounts in their place."""
        what, self.known = self.known or guarded(self.roots), None
        mounts = {path: ["--ro-bind", str(path), str(path)] for path in what.fixed}
        for path in what.absent:
            if path.is_dir() or (not self.held and os.access(path.parent, os.W_OK)):  # else it was not to be held
                mounts[path] = ["--tmpfs", str(path), "--remount-ro", str(path)]
        tops = self.writable()
        tops = [top for top in tops if not set(top.parents) & set(tops)]
        for path in (*mounts, *places):
            parents = list(path.parents)
            top = next((number for number, above in enumerate(parents) if above in tops), 0)
            for above in parents[:top]:
                mounts.setdefault(above, ["--bind", str(above), str(above)])  # a mount cannot be renamed away
        seen = (path for path in mounts if path not in places and _nearest(path, places) not in hidden)
        return {path: mounts[path] for path in seen}

    @property
    def roots(self) -> list[Path]:
        """The folders of the run that commands may write."""
        return [folder for folder in self.workspace.writable if folder.is_dir() and folder != Path("/")]

    def writable(self) -> list[Path]:
        """Folders that can be written inside, at the same paths as outside."""
        found = self.roots
        if self.scratch and self.scratch.is_dir():
            found.append(Path(os.path.realpath(self.scratch)))
        return found + [common for root in self.workspace.writable if (common := worktree_of(root))]

    def secrets(self) -> list[Path]:
        """What exists on this machine and must not be seen inside."""
        wanted = (*self.hidden, *secrets(self.home), *sockets(self._environ, self.roots, _COVERED))
        found = dict.fromkeys(Path(os.path.realpath(path)) for path in wanted if os.path.exists(path))
        kept = self.writable()
        return [path for path in found if path not in kept and path not in (self.home, Path("/"))]

    def _missing(self) -> str:
        if sys.platform == "darwin":
            return "" if os.access("/usr/bin/sandbox-exec", os.X_OK) else "sandbox-exec is not there"
        bwrap = self._bwrap
        if bwrap is None:
            within = bool(shutil.which("bwrap", path=self._environ.get("PATH", os.defpath)))
            return "bubblewrap (bwrap) lies in a folder commands may write" if within else _NOT_THERE
        return _probe(bwrap).missing


def _nearest(path: Path, places: Mapping[Path, object]) -> Path | None:
    return next((place for place in (path, *path.parents) if place in places), None)


def _downwards(mounts: Mapping[Path, list[str]]) -> list[str]:
    """From the root down, so that a deeper one covers a higher one."""
    return [word for path in sorted(mounts, key=lambda place: len(place.parts)) for word in mounts[path]]


@frozen
class _Found:
    """What trying bubblewrap showed: why it does not work here, and what more it can do."""

    missing: str = ""
    extra: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def _probe(bwrap: str) -> _Found:
    """Run bubblewrap once, first with what old versions and some containers do not have."""
    for extra in (_NO_NAMESPACES, ()):
        try:
            said = _tried([bwrap, *_BARE, *_NO_SETTINGS, *extra, "true"])
        except OSError as error:
            return _Found(f"bubblewrap does not start: {error}")
        if not said:
            return _Found(extra=extra)
    return _Found(f"bubblewrap does not work here: {said}")


@lru_cache(maxsize=8)
def _nests(bwrap: str) -> bool:
    """Whether a box can be made in a box, and none in that."""
    inner = [bwrap, *_INNER, *_NO_SETTINGS, *_NO_NAMESPACES, "true"]
    return bool(_probe(bwrap).extra) and not _tried([bwrap, *_BARE, *_outer(), "--", *inner])


def _outer() -> tuple[str, ...]:
    return ("--unshare-user", *(_FOR_ROOT if os.geteuid() == 0 else ()))


def _tried(words: list[str]) -> str:
    """What went wrong."""
    done = spawn.run(words, environ={"PATH": os.defpath}, seconds=_PROBE_SECONDS)
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[0] if said else f"exit {done.returncode}"
