"""What a command in the sandbox must not see: keys, passwords, and the sockets of programs that act for the user."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

# Below the home folder: keys, passwords, sessions of browsers and of cowork itself.
_FOLDERS = (
    ".ssh .gnupg .aws .azure .kube .docker .password-store .config/gh .config/gcloud .config/cowork"
    " .local/state/cowork .local/share/keyrings .mozilla .config/google-chrome .config/chromium .config/op .1password"
    " .terraform.d .oci .config/git/credentials .config/containers .local/share/kwalletd Library/Keychains"
)
_FILES = (
    ".netrc .npmrc .pypirc .git-credentials .pgpass .my.cnf .s3cfg .boto .vault-token .bash_history .zsh_history"
    " .python_history .config/hub .cargo/credentials .cargo/credentials.toml .gem/credentials .dockercfg .Xauthority"
    " .ICEauthority"
)
# Variables that lead to agents, containers, the session bus or the screen; a value may hold a path to a socket.
AGENTS = (
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "GNOME_KEYRING_CONTROL", "DOCKER_HOST", "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY",
    "XAUTHORITY", "ICEAUTHORITY", "TMUX", "STY", "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE", "SWAYSOCK", "I3SOCK",
    "NVIM", "NVIM_LISTEN_ADDRESS", "KITTY_LISTEN_ON", "WEZTERM_UNIX_SOCKET",
)  # fmt: skip
_MOST_SOCKETS = 256
_MOST_TABLE = 4 << 20


def secrets(home: Path) -> list[Path]:
    """Where keys and passwords may be, there or not."""
    return [home / name for name in (*_FOLDERS.split(), *_FILES.split())]


def sockets(environ: Mapping[str, str], roots: Sequence[Path], covered: Sequence[Path]) -> list[Path]:
    """Sockets that can be reached by path: those variables name, and all that programs of this machine have open.

    Not those in `covered` folders, which are not there inside, nor those the workspace has of its own.
    """
    named = [path for name in AGENTS for path in re.findall(r"/[^,:;]+", environ.get(name, ""))]
    found = dict.fromkeys(Path(os.path.realpath(path)) for path in named)
    opened = dict.fromkeys(Path(os.path.realpath(path)) for path in _open_sockets())
    found |= {path: None for path in opened if not _within(path, roots)}
    seen = [path for path in found if _within(path, roots) or not _within(path, covered)]
    return [path for path in seen if _is_socket(path)][:_MOST_SOCKETS]


def _open_sockets() -> list[str]:
    try:
        with open("/proc/net/unix", "rb") as file:
            rows = os.fsdecode(file.read(_MOST_TABLE)).splitlines()
    except OSError:
        return []
    return [words[7] for row in rows if len(words := row.split(None, 7)) == 8 and words[7].startswith("/")]


def _within(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
