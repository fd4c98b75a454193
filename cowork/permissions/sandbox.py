"""The box commands run in: bubblewrap on Linux, seatbelt on macOS; else none, which is said and never hidden.

Inside: the workspace and a private /tmp can be written, protected paths and all else only read, secrets are not there,
no network unless the user wants it, no capabilities, no new privileges, own process and host-name spaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
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
        self._path = environ.get("PATH", os.defpath)

    @property
    def active(self) -> bool:
        """Whether commands run in a box."""
        return self.mode != "off" and not self._missing()

    @property
    def refusal(self) -> str:
        """Why no command may run: a box is required and there is none."""
        return f"a sandbox is required and {self._missing()}" if self.mode == "required" and not self.active else ""

    def wrap(self, argv: Sequence[str], cwd: Path) -> Sequence[str]:
        """The words that run `argv` in the box; unchanged when there is none and none is required."""
        if self.refusal:
            raise ToolError("ACCESS_DENIED", f"The command was not run: {self.refusal}. Tell the user.")
        if not self.active:
            return argv
        if sys.platform == "darwin":
            return [
                "/usr/bin/sandbox-exec",
                "-p",
                profile(self.workspace, self.writable(), self.secrets(), network=self.network),
                *argv,
            ]
        return [*self.box(cwd), "--", *argv]

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

    def box(self, cwd: Path) -> list[str]:
        """bubblewrap and its options, in an order in which later mounts cover earlier ones."""
        bwrap = shutil.which("bwrap", path=self._path) or "bwrap"
        words = [
            bwrap,
            "--unshare-all",
            *(["--share-net"] if self.network else []),
            "--die-with-parent",
            "--new-session",
        ]
        words += ["--cap-drop", "ALL", "--hostname", "sandbox"]
        words += [
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/tmp",
            "--tmpfs",
            "/var/tmp",
            "--tmpfs",
            "/run",
        ]
        if self.network and os.path.exists("/run/systemd/resolve"):
            words += ["--ro-bind", "/run/systemd/resolve", "/run/systemd/resolve"]
        words += ["--tmpfs", "/dev/shm"]
        for folder in self.secrets():
            words += ["--tmpfs", str(folder)] if folder.is_dir() else ["--ro-bind", "/dev/null", str(folder)]
        for folder in self.writable():
            words += ["--bind", str(folder), str(folder)]
        for folder in self.workspace.readable:
            if folder not in self.workspace.writable and not any(folder.is_relative_to(w) for w in self.writable()):
                words += ["--ro-bind-try", str(folder), str(folder)]
        words += self._guards()
        return [*words, "--chdir", str(cwd)]

    def writable(self) -> list[Path]:
        """Folders that can be written inside, at the same paths as outside."""
        found = [folder for folder in self.workspace.writable if folder.is_dir() and folder != Path("/")]
        if self.scratch and self.scratch.is_dir():
            found.append(Path(os.path.realpath(self.scratch)))
        return found

    def secrets(self) -> list[Path]:
        """What exists on this machine and must not be seen inside."""
        names = [*_HIDDEN_FOLDERS.split(), *_HIDDEN_FILES.split()]
        found = [
            Path(os.path.realpath(path))
            for path in (*self.hidden, *(self.home / name for name in names))
            if path.exists()
        ]
        kept = self.writable()
        return [
            path
            for path in dict.fromkeys(found)
            if not any(place.is_relative_to(path) and place == path for place in kept)
        ]

    def _guards(self) -> list[str]:
        """Mounts that keep protected paths of the workspace as they are."""
        words: list[str] = []
        for root in self.workspace.writable:
            for name in (*_GUARDED_FOLDERS, *_GUARDED_FILES):
                path = root / name
                if path.is_symlink():
                    continue  # what a link leads to is guarded where it lies, if it lies in a guarded place
                if path.exists():
                    words += ["--ro-bind", str(path), str(path)]
        return words

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
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"bubblewrap does not work here: {said[0] if said else f'exit {done.returncode}'}"
