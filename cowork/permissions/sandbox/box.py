"""The boxes commands run in: bubblewrap on Linux, seatbelt on macOS; else none, which is said and never hidden.

Inside: no capabilities, no new privileges, own process and host-name spaces, a private /tmp, no keys of the home. The
read box can write nothing but its /tmp and sees no secret of the workspace; the write box sees them after a question.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import cowork
from cowork.core.errors import ToolError, UserError
from cowork.core.ports import BoxName
from cowork.core.workspace import Workspace, is_closed
from cowork.permissions.rules import Rules
from cowork.permissions.sandbox import carriers, landlock, masks
from cowork.permissions.sandbox.carriers import Temporary
from cowork.permissions.sandbox.watch import guarded_paths, reasons, repository_of, worktree_of

_TMP = Path("/tmp")
_EMPTY = str(Path(cowork.__file__).with_name("py.typed"))  # a file of ours that holds nothing
# Variables of caches that would lie in the home folder, which cannot be written inside; and of those that checkers keep
# beside the code, which cannot be written in the read box: ruff and mypy fail there, pytest warns.
_CACHES = "GOCACHE npm_config_cache YARN_CACHE_FOLDER PIP_CACHE_DIR UV_CACHE_DIR"
_CHECKERS = "RUFF_CACHE_DIR MYPY_CACHE_DIR"
_COVERED = (_TMP, Path("/var/tmp"), Path("/run"))  # empty inside, and one's own; so is all of /dev


class Sandbox:
    """Wraps the words of a command so that it runs in a box; `active` says whether there is one."""

    def __init__(
        self,
        *,
        workspace: Workspace,
        mode: str = "auto",
        network: bool = False,
        environ: Mapping[str, str] | None = None,
        temporary: Temporary | None = None,
        rules: Callable[[], Rules] = Rules,
    ) -> None:
        self.mode, self.network, self.workspace = mode, network, workspace
        self.temporary = temporary  # what commands have for /tmp; each its own if there is none
        self._environ, self._rules = environ or {}, rules
        self.home = Path(os.path.realpath(self._environ.get("HOME") or os.path.expanduser("~")))
        self._secrets = masks.WorkspaceSecrets(lambda: self.roots, workspace.root, rules)
        self.alone = True  # no other command runs that could move what is mounted for the next one
        self._serving = False  # nor a server that may write
        # A program of the workspace, or of the folder one is in, is no sandbox.
        places = self._environ.get("PATH", os.defpath).split(os.pathsep)
        self._path = os.pathsep.join(p for p in places if os.path.isabs(p) and not workspace.may_write(Path(p)))

    @cached_property
    def _bwrap(self) -> str | None:
        return shutil.which("bwrap", path=self._path)

    def _missing(self) -> str:
        if sys.platform == "darwin":
            return "" if os.access(carriers.SEATBELT, os.X_OK) else "sandbox-exec is not there"
        if self._bwrap:
            return carriers.probe(self._bwrap)[0]
        within = bool(shutil.which("bwrap", path=self._environ.get("PATH", os.defpath)))
        return f"bubblewrap (bwrap) {'lies in a folder commands may write' if within else 'is not installed'}"

    @property
    def active(self) -> bool:
        """Whether commands run in a box."""
        return self.mode != "off" and not self._missing()

    @property
    def fenced(self) -> bool:
        """Whether Landlock carries the read box, where bubblewrap cannot."""
        return self.mode == "auto" and not self.active and landlock.version() > 0

    @property
    def boxes(self) -> Literal["both", "read", ""]:
        """Which boxes hold all they promise here: an old bubblewrap cannot close the way to namespaces, or nest."""
        if self.active and (self._bwrap is None or carriers.nests(self._bwrap)):
            return "both"
        return "read" if self.active or self.fenced else ""

    @property
    def refusal(self) -> str:
        """Why no command may run: a box is required and there is none."""
        return f"a sandbox is required and {self._missing()}" if self.mode == "required" and not self.active else ""

    def wrap(self, argv: Sequence[str], cwd: Path, box: BoxName = "write") -> Sequence[str]:
        """The words that run `argv` in a box; unchanged outside, and where there is no box and none is required."""
        if self.refusal:
            raise ToolError("ACCESS_DENIED", f"The command was not run: {self.refusal}. Tell the user.")
        if self.fenced and box == "read":
            hidden = [str(path) for path in (*self.secrets(), *self._masks("read", cwd))]
            tools = [path for home in self._homes(reads=True) for path in masks.toolchains(home, self._path)]
            shown = [str(path) for path in (*self.workspace.readable, *tools)]
            return landlock.words(argv, home=str(self.home), shown=shown, hidden=hidden)
        if not self.active or box == "outside":
            return argv
        reads, masked = box == "read", self._masks(box, cwd)
        network = box == "network" or (self.network and not reads)
        if sys.platform == "darwin":
            writable, hidden = () if reads else self.writable(), [*self.secrets(), *masked]
            profile = carriers.profile(self.workspace, writable, hidden, network=network)
            return [carriers.SEATBELT, "-p", profile, *argv]
        for root in filter(is_closed, self.roots):
            raise ToolError("ACCESS_DENIED", f"{root} cannot be looked into. The user can: chmod u+rwx {root}")
        places = self._places(self.secrets(), self._homes(reads=reads), network=network)
        if reads:
            return self._around(argv, cwd, places, masked, network=network)
        # Commands that share it could move what is mounted there.
        movable = any(_TMP in path.parents for path in places)
        if not movable and self.temporary and (shared := self.temporary.folder()):
            places[_TMP] = ["--bind", str(shared), str(_TMP)]
        # What deny rules for edits name, as far as it is there: a folder with all in it, or a file.
        patterns = [rule.pattern for rule in self._rules().deny if rule.names_files("write")]
        names = filter(None, (re.split(r"[*?]", pattern)[0].rstrip("/") for pattern in patterns))
        named = (Path(os.path.realpath(self.workspace.root / name)) for name in names)
        denied = [path for path in named if {*self.roots} & {*path.parents} and os.path.exists(path)]
        fixed = [path for path in dict.fromkeys((*guarded_paths(self.roots), *denied)) if path not in self.roots]
        nested = self._serving or not self.alone
        return self._around(argv, cwd, places, masked, fixed, self.writable(), network=network, nested=nested)

    def explain(self, output: str, command: str, cwd: Path, box: BoxName) -> list[str]:
        """What of a command's output its box is the reason for, in words for the model."""
        if not (self.active or (self.fenced and box == "read")) or box == "outside":
            return []
        masked = [self.workspace.show(path) for path in self._masks(box, cwd) if path.name in command]
        network = box == "network" or (self.network and box != "read")
        return reasons(output, cwd, self.roots, self.home, masked, network=network, reads=box == "read")

    def hides_git(self, cwd: Path) -> str:
        """The file for which the read box hides what git has here: a tracked secret, or an address with a password."""
        git, top, common = repository_of(cwd) or (None, cwd, cwd)
        return self._secrets.tracked_secret(git, top) or next(map(str, masks.git_passwords(common)), "") if git else ""

    def status(self) -> str:
        """What is on, in a line, for people who want to know."""
        if self.mode == "off":
            return "off: commands run with your own rights"
        if missing := self._missing():
            said = f"none: {missing}; commands run with your own rights"
            said += ", though those that only look are held to that (Landlock)" if self.fenced else ""
            return said + (" (required: none will run)" if self.refusal else "")
        name = "seatbelt" if sys.platform == "darwin" else "bubblewrap"
        loose = ", but namespaces are open or cannot be nested: nothing runs unasked for it"
        said = f"{name}: only the workspace and a private /tmp can be written, secrets are hidden, "
        return f"{said}{'with' if self.network else 'no'} network{loose if self.boxes != 'both' else ''}"

    def wrap_server(self, argv: Sequence[str], cwd: Path, *, writable: Sequence[Path], network: bool) -> list[str]:
        """The words that run a server in a box of its own: as the write box, with a /tmp of its own, and writing only
        the `writable` folders but for what is protected there. UserError where there is no box to hold it."""
        if self.boxes != "both":
            why = "the sandbox is off" if self.mode == "off" else self._missing() or "it does not hold here"
            raise UserError(f"{argv[0]} cannot run in a box: {why}.", "See `cowork doctor`, or set box = false.")
        folders = [Path(os.path.realpath(folder)) for folder in writable]
        for folder in folders:
            if not os.path.isdir(folder) or self.home.is_relative_to(folder):
                raise UserError(f"{folder} cannot be writable in a box.", "Name folders that exist, below your home.")
        hidden, masked = [path for path in self.secrets() if path not in folders], self._secrets.find()
        if sys.platform == "darwin":
            profile = carriers.profile(self.workspace, folders, [*hidden, *masked], network=network)
            return [carriers.SEATBELT, "-p", profile, *argv]
        places = self._places(hidden, masks.other_homes(self.home, self.roots), network=network)
        self._serving = self._serving or bool(folders)
        return self._around(argv, cwd, places, masked, guarded_paths(folders), folders, network=network, nested=True)

    def _around(
        self,
        argv: Sequence[str],
        cwd: Path,
        places: Mapping[Path, list[str]],
        masked: Sequence[Path],
        fixed: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        *,
        network: bool,
        nested: bool = False,
    ) -> list[str]:
        """bubblewrap with these places, of which some can be written, but for what is masked or fixed.

        Another command could swap a folder there for a link while it is mounted, to have one of its choice mounted
        instead. So where others run that is done in a second box inside the first (`nested`), from which no link leads
        to more than the first one has; alone, one box is half the time.
        """
        bwrap = self._bwrap or "bwrap"
        hidden = [path for path, words in places.items() if words[0] == "--tmpfs" or words[1] == _EMPTY]
        places = {**places, **{folder: ["--bind", str(folder), str(folder)] for folder in writable}}
        hiding = {}
        for path in masked:  # on itself first, which fails if it is gone: else bubblewrap would make it, for all to see
            empty = ["--tmpfs", str(path), "--remount-ro"] if os.path.isdir(path) else ["--ro-bind", _EMPTY]
            hiding[path] = ["--ro-bind", str(path), str(path), *empty, str(path)]
        # Masks count as places, for a folder with one in it must not become one that is not searched.
        guards = _guards(places | hiding, hidden, fixed, writable) | hiding
        words = [bwrap, *carriers.BARE, "--new-session", "--hostname", "sandbox", *(["--share-net"] if network else [])]
        words += [word for name in masks.AGENTS.split() if name in self._environ for word in ("--unsetenv", name)]
        values = {name: str(_TMP) for name in ("TMPDIR", "TMP", "TEMP", "TEMPDIR") if name in self._environ}
        values |= {name: f"{_TMP}/.cache/{name}" for name in f"{_CACHES} {'' if writable else _CHECKERS}".split()}
        values |= {} if writable else {"PYTEST_ADDOPTS": "-W ignore::pytest.PytestCacheWarning"}
        values = {name: value for name, value in values.items() if name not in self._environ or value == str(_TMP)}
        words += [word for name, value in values.items() for word in ("--setenv", name, value)]
        if nested and guards and carriers.nests(bwrap):
            inner = [bwrap, *carriers.INNER, *carriers.settings(), *carriers.NO_NAMESPACES]
            if any(Path(_EMPTY).is_relative_to(place) for place in _COVERED):  # the second box takes it from the first
                places = {**places, Path(_EMPTY): ["--ro-bind", _EMPTY, _EMPTY]}
            words += [*carriers.outer(), *_downwards(places), "--", *inner, *_downwards(guards)]
        else:
            words += [*carriers.settings(), *carriers.probe(bwrap)[1], *_downwards(guards | places | hiding)]
        return [*words, "--chdir", str(cwd), "--", *argv]

    def _masks(self, box: BoxName, cwd: Path) -> list[Path]:
        """What of the workspace this box hides: its secrets, unless a question was answered, and git's copy of them."""
        found = self._secrets.find(only_denied=box == "write")
        if box == "read" and (repository := repository_of(cwd)):
            git, top, common = repository
            objects = [common / "objects"] if self._secrets.tracked_secret(git, top) else []
            found += [path for path in (*objects, *masks.git_passwords(common)) if path not in found]
        return found

    def _places(self, hidden: Sequence[Path], homes: Sequence[Path], *, network: bool) -> dict[Path, list[str]]:
        """Mounts that say what can be seen; nothing of it can be written yet."""
        mounts: dict[Path, list[str]] = {place: ["--tmpfs", str(place)] for place in _COVERED}
        resolver = Path("/run/systemd/resolve")
        if network and resolver.is_dir():
            mounts[resolver] = ["--ro-bind", str(resolver), str(resolver)]
        for home in homes:
            shown = masks.toolchains(home, self._path)
            mounts[home] = ["--tmpfs", str(home)]
            mounts |= {path: ["--ro-bind-try", str(path), str(path)] for path in shown}
            hidden = [path for path in hidden if not path.is_relative_to(home) or _nearest(path, mounts) in shown]
        for path in hidden:
            mounts[path] = ["--tmpfs", str(path)] if os.path.isdir(path) else ["--ro-bind", _EMPTY, str(path)]
        for folder in (*self.workspace.readable, *self.writable()):
            mounts[folder] = ["--ro-bind-try", str(folder), str(folder)]
        return mounts

    def _homes(self, *, reads: bool) -> list[Path]:
        """Home folders of which only what programs need is there: one's own in the read box, those of others in all."""
        own = reads and len(self.home.parts) > 1 and os.path.isdir(self.home) and self.home not in self.roots
        others = masks.other_homes(self.home, [*self.writable(), *self.workspace.readable])
        return [self.home, *others] if own else others

    @property
    def roots(self) -> list[Path]:
        """The folders of the run that commands may write."""
        return [folder for folder in self.workspace.writable if os.path.isdir(folder) and folder != Path("/")]

    def writable(self) -> list[Path]:
        """Folders that can be written inside, at the same paths as outside."""
        return [*self.roots, *(common for root in self.workspace.writable if (common := worktree_of(root)))]

    def secrets(self) -> list[Path]:
        """What exists on this machine and must not be seen inside."""
        found = masks.machine_secrets(self.home, self._environ, self.roots, (*_COVERED, Path("/dev/shm")))
        kept = {*map(str, self.writable()), str(self.home), "/"}
        return [Path(path) for path in dict.fromkeys(map(os.path.realpath, found)) if path not in kept]


def _guards(
    places: Mapping[Path, object], hidden: Sequence[Path], fixed: Sequence[Path], tops: Sequence[Path]
) -> dict[Path, list[str]]:
    """Mounts that keep what is fixed as it is, and all mounts in their place below the folders that are written."""
    mounts = {path: ["--ro-bind", str(path), str(path)] for path in fixed}
    tops = [top for top in tops if not set(top.parents) & set(tops)]
    for path in (*mounts, *places):
        parents = list(path.parents)
        top = next((number for number, above in enumerate(parents) if above in tops), 0)
        for above in parents[:top]:
            mounts.setdefault(above, ["--bind", str(above), str(above)])  # a mount cannot be renamed away
    seen = (path for path in mounts if path not in places and _nearest(path, places) not in hidden)
    return {path: mounts[path] for path in seen}


def _nearest(path: Path, places: Mapping[Path, object]) -> Path | None:
    return next((place for place in (path, *path.parents) if place in places), None)


def _downwards(mounts: Mapping[Path, list[str]]) -> list[str]:
    """From the root down, so that a deeper one covers a higher one."""
    return [word for path in sorted(mounts, key=lambda place: len(place.parts)) for word in mounts[path]]
