"""The box commands run in: bubblewrap on Linux, seatbelt on macOS; else none, which is said and never hidden.

Inside: the workspace and a private /tmp can be written, protected paths and all else only read, secrets are not there,
no network unless the user wants it, no capabilities, no new privileges, own process and host-name spaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from cowork.core.errors import ToolError, UserError
from cowork.core.workspace import Workspace
from cowork.permissions.seatbelt import profile

MODES = ("auto", "required", "off")

# Below the home folder: keys, passwords, sessions of browsers and of cowork itself.
_HIDDEN_FOLDERS = (
    ".ssh .gnupg .aws .azure .kube .docker .password-store .config/gh .config/gcloud .config/cowork"
    " .local/state/cowork"
    " .local/share/keyrings .mozilla .config/google-chrome .config/chromium .config/op .terraform.d .oci"
    " .config/git/credentials"
    " Library/Keychains"
)
_HIDDEN_FILES = (
    ".netrc .npmrc .pypirc .git-credentials .pgpass .my.cnf .s3cfg .boto .vault-token .bash_history .zsh_history"
    " .python_history .config/hub .cargo/credentials .cargo/credentials.toml .gem/credentials .dockercfg"
)
# Inside a workspace: what other programs run or obey.
_GUARDED_FOLDERS = (".git/hooks", ".git/info", ".cowork", ".claude", ".vscode", ".idea", ".devcontainer", ".husky")
_GUARDED_FILES = (
    ".git/config", ".gitmodules", ".gitattributes", ".mcp.json", ".envrc", ".bashrc", ".bash_profile", ".profile",
    ".zshrc",
    ".zshenv", ".zprofile", "AGENTS.md", "CLAUDE.md",
)  # fmt: skip
_PROBE_SECONDS = 5.0


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
    ) -> None:
        if mode not in MODES:
            raise UserError(f"{mode!r} is not a sandbox mode.", f"Modes: {', '.join(MODES)}.")
        self.mode = mode
        self.network = network
        self.workspace = workspace
        self.scratch = scratch
        environ = environ or {}
        self.home = Path(environ.get("HOME") or os.path.expanduser("~"))
        own = environ.get("COWORK_HOME", "")
        self.hidden = (*hidden, *((Path(own),) if own else ()))
        self.online: Callable[[str, Path], bool] = lambda command, cwd: self.network  # rules may say otherwise
        # A relative place would take a program of the folder one is in for the sandbox.
        places = environ.get("PATH", os.defpath).split(os.pathsep)
        self._path = os.pathsep.join(place for place in places if os.path.isabs(place))

    @property
    def active(self) -> bool:
        """Whether commands run in a box."""
        return self.mode != "off" and not self._missing()

    @property
    def refusal(self) -> str:
        """Why no command may run: a box is required and there is none."""
        return f"a sandbox is required and {self._missing()}" if self.mode == "required" and not self.active else ""

    def wrap(self, argv: Sequence[str], cwd: Path, command: str = "") -> Sequence[str]:
        """The words that run `argv`, which runs `command`, in the box; unchanged when none is there and required."""
        if self.refusal:
            raise ToolError("ACCESS_DENIED", f"The command was not run: {self.refusal}. Tell the user.")
        if not self.active:
            return argv
        network = self.online(command, cwd)
        if sys.platform == "darwin":
            return [
                "/usr/bin/sandbox-exec",
                "-p",
                profile(self.workspace, self.writable(), self.secrets(), network=network),
                *argv,
            ]
        return [*self.box(cwd, network=network), "--", *argv]

    def status(self) -> str:
        """What is on, in a line, for people who want to know."""
        if self.mode == "off":
            return "off: commands run with your own rights"
        if missing := self._missing():
            return f"none: {missing}; commands run with your own rights" + (
                " (required: none will run)" if self.refusal else ""
            )
        name = "seatbelt" if sys.platform == "darwin" else "bubblewrap"
        network = "with network" if self.network else "no network"
        return f"{name}: only the workspace and a private /tmp can be written, secrets are hidden, {network}"

    def box(self, cwd: Path, *, network: bool) -> list[str]:
        """bubblewrap and its options; mounts go from the root down, so that a deeper one covers a higher one."""
        words = [
            shutil.which("bwrap", path=self._path) or "bwrap",
            "--unshare-all",
            "--die-with-parent",
            "--new-session",
        ]
        words += ["--share-net"] if network else []
        words += [
            "--cap-drop",
            "ALL",
            "--hostname",
            "sandbox",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
        ]
        mounts: dict[Path, list[str]] = {
            Path(place): ["--tmpfs", place] for place in ("/tmp", "/var/tmp", "/run", "/dev/shm")
        }
        resolver = Path("/run/systemd/resolve")
        if network and resolver.is_dir():
            mounts[resolver] = ["--ro-bind", str(resolver), str(resolver)]
        for path in self.secrets():
            mounts[path] = ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]
        for folder in self.workspace.readable:
            mounts[folder] = ["--ro-bind-try", str(folder), str(folder)]
        for folder in self.writable():
            mounts[folder] = ["--bind", str(folder), str(folder)]
        for root in self.workspace.writable:
            if (git := root / ".git").is_dir() and not git.is_symlink():
                mounts[git] = ["--bind", str(git), str(git)]  # a mount cannot be renamed away with its guards
        for path in self.guarded():
            mounts[path] = ["--ro-bind", str(path), str(path)]
        for hooks in self._missing_hooks():
            mounts[hooks] = ["--tmpfs", str(hooks), "--remount-ro", str(hooks)]
        for path in sorted(mounts, key=lambda place: len(place.parts)):
            words += mounts[path]
        return [*words, "--chdir", str(cwd)]

    def writable(self) -> list[Path]:
        """Folders that can be written inside, at the same paths as outside."""
        found = [folder for folder in self.workspace.writable if folder.is_dir() and folder != Path("/")]
        if self.scratch and self.scratch.is_dir():
            found.append(Path(os.path.realpath(self.scratch)))
        return found + [common for root in self.workspace.writable if (common := _worktree_of(root))]

    def secrets(self) -> list[Path]:
        """What exists on this machine and must not be seen inside."""
        names = [*_HIDDEN_FOLDERS.split(), *_HIDDEN_FILES.split()]
        wanted = (*self.hidden, *(self.home / name for name in names))
        found = dict.fromkeys(Path(os.path.realpath(path)) for path in wanted if os.path.exists(path))
        kept = self.writable()
        return [path for path in found if path not in kept and path not in (self.home, Path("/"))]

    def guarded(self) -> list[Path]:
        """What exists in writable folders that other programs run or obey, and so stays as it is."""
        found = []
        for root in self.workspace.writable:
            found += [root / name for name in (*_GUARDED_FOLDERS, *_GUARDED_FILES)]
            if common := _worktree_of(root):
                found += [root / ".git", common / "hooks", common / "config", common / "info"]
        # A link is left out: what it leads to is guarded where it lies, if it lies in a guarded place.
        return [path for path in found if os.path.realpath(path) == str(path) and path.exists()]

    def _missing_hooks(self) -> list[Path]:
        """Hook folders git would obey if a command made them."""
        return [root / ".git/hooks" for root in self.workspace.writable if _lacks_hooks(root / ".git")]

    def _missing(self) -> str:
        if sys.platform == "darwin":
            return "" if os.access("/usr/bin/sandbox-exec", os.X_OK) else "sandbox-exec is not there"
        bwrap = shutil.which("bwrap", path=self._path)
        if bwrap is None:
            return "bubblewrap (bwrap) is not installed"
        return _probe(bwrap)


@lru_cache(maxsize=8)
def _probe(bwrap: str) -> str:
    """Why bubblewrap does not work here, found by running it once."""
    words = [
        bwrap,
        "--unshare-all",
        "--cap-drop",
        "ALL",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "true",
    ]
    try:
        done = subprocess.run(  # without our environment, which may hold keys
            words,
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"bubblewrap does not work here: {said[0] if said else f'exit {done.returncode}'}"


def _lacks_hooks(git: Path) -> bool:
    return git.is_dir() and not git.is_symlink() and not os.path.lexists(git / "hooks")


def _worktree_of(root: Path) -> Path | None:
    """The repository a linked worktree belongs to, which commits write to; only if that one says so too."""
    pointer = root / ".git"
    if pointer.is_symlink() or not pointer.is_file():
        return None
    try:
        folder = Path(os.path.realpath(root / pointer.read_text()[:4096].removeprefix("gitdir:").strip()))
        common = Path(os.path.realpath(folder / (folder / "commondir").read_text()[:4096].strip()))
        back = Path(os.path.realpath((folder / "gitdir").read_text()[:4096].strip()))
    except (OSError, ValueError):
        return None
    real = folder.parent == common / "worktrees" and all(
        (common / name).exists() for name in ("HEAD", "objects", "refs")
    )
    return common if real and back == pointer else None
