"""What a command in a box must not see: keys, passwords, and the sockets of programs that act for the user."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from cowork.core.git import read_index
from cowork.core.hygiene import has_password
from cowork.core.secret_names import sensitive_name, sensitive_names
from cowork.core.workspace import is_closed, start_of
from cowork.permissions.rules import Rule, Rules, path_matches
from cowork.permissions.sandbox.watch import scan

# Below the home folder: keys, passwords, sessions of browsers and of cowork itself.
_HOME_SECRETS = (
    ".ssh .gnupg .aws .azure .kube .docker .password-store .config/gh .config/gcloud .config/cowork"
    " .local/state/cowork .local/share/keyrings .mozilla .config/google-chrome .config/chromium .config/op .1password"
    " .terraform.d .oci .config/git/credentials .config/containers .local/share/kwalletd Library/Keychains"
    " .netrc .npmrc .pypirc .git-credentials .pgpass .my.cnf .s3cfg .boto .vault-token .bash_history .zsh_history"
    " .python_history .config/hub .cargo/credentials .cargo/credentials.toml .gem/credentials .dockercfg .Xauthority"
    " .ICEauthority"
)
# Variables that name another place for what lies in a folder of the home, and those that name keys by themselves.
_MOVED = {"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state", "XDG_DATA_HOME": ".local/share"}
_MOVED["CARGO_HOME"] = ".cargo"
_NAMED = (
    "COWORK_HOME GNUPGHOME AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE AWS_WEB_IDENTITY_TOKEN_FILE KUBECONFIG"
    " DOCKER_CONFIG NETRC NPM_CONFIG_USERCONFIG GH_CONFIG_DIR GLAB_CONFIG_DIR CLOUDSDK_CONFIG AZURE_CONFIG_DIR"
    " GOOGLE_APPLICATION_CREDENTIALS PASSWORD_STORE_DIR PGPASSFILE ANSIBLE_VAULT_PASSWORD_FILE SOPS_AGE_KEY_FILE"
    " HISTFILE"
)
# Variables that lead to agents, containers, the session bus or the screen; a value may hold a path to a socket.
AGENTS = (
    "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO GNOME_KEYRING_CONTROL DOCKER_HOST CONTAINER_HOST"
    " DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS XDG_RUNTIME_DIR DISPLAY WAYLAND_DISPLAY XAUTHORITY ICEAUTHORITY"
    " TMUX STY VSCODE_IPC_HOOK_CLI VSCODE_GIT_IPC_HANDLE SWAYSOCK I3SOCK NVIM NVIM_LISTEN_ADDRESS KITTY_LISTEN_ON"
    " WEZTERM_UNIX_SOCKET"
)
# What programs need of a home folder to run and to read: all else of it is not there in the read box.
_TOOLCHAINS = (
    ".gitconfig .config/git .local/bin .local/lib .local/share/uv .local/share/pipx .local/share/mise"
    " .local/share/pnpm .local/share/fnm .local/share/virtualenvs .cargo .rustup .nvm .pyenv .rbenv .asdf .sdkman .bun"
    " .deno .volta .nodenv .jenv .goenv .ghcup .opam .dotnet .tool-versions .python-version .node-version go bin"
    " miniconda3 anaconda3 .npm-global .yarn .pub-cache .cache/pip .m2/wrapper .gradle/wrapper"
)
_SYSTEM = ("/etc/shadow", "/etc/shadow-", "/etc/ssl/private")
# Much is in them, and none of it is a secret of the user: others published it.
_PUBLISHED = frozenset({".git", "node_modules", "site-packages", "__pycache__", ".tox", ".nox", ".mypy_cache"})
_MOST_ENTRIES, _MOST_MASKS, _MOST_SOCKETS = 400_000, 512, 256
_MOST_TABLE, _MOST_LOGIN, _CERTIFICATE = 4 << 20, 4 << 20, 64 << 10  # bytes


def machine_secrets(home: Path, environ: Mapping[str, str], roots: Sequence[Path], empty: Sequence[Path]) -> list[str]:
    """Keys and passwords of a home folder, or where variables say they are instead, those of root, and sockets."""
    secrets = _HOME_SECRETS.split()
    found = [f"{home}/{name}" for name in (*secrets, *sensitive_names([entry.name for entry in scan(home)]))]
    for variable, folder in _MOVED.items():
        if place := environ.get(variable):
            found += [place + name.removeprefix(folder) for name in secrets if name.startswith(f"{folder}/")]
    found += [path for variable in _NAMED.split() for path in environ.get(variable, "").split(os.pathsep)]
    if os.geteuid() == 0:
        found += [*_SYSTEM, *(entry.path for entry in scan("/etc/ssh") if entry.name.endswith("_key"))]
    found += sockets(environ, roots, empty)
    return [path for path in found if os.path.isabs(path) and os.path.exists(path)]


def other_homes(home: Path, kept: Sequence[Path]) -> list[Path]:
    """The homes of others, which only root can read, as root."""
    homes = [*(Path(entry.path) for entry in scan("/home")), Path("/root"), Path("/var/root")]
    others = (path for path in homes if not any(one.is_relative_to(path) for one in (home, *kept)))
    return [path for path in others if path.is_dir()] if os.geteuid() == 0 else []


def toolchains(home: Path, path: str) -> list[Path]:
    """What of a home folder the read box shows: what programs need, and where PATH leads."""
    wanted = dict.fromkeys(f"{home}/{name}" for name in _TOOLCHAINS.split())
    for place in map(os.path.normpath, path.split(os.pathsep)):
        if place.startswith(f"{home}/"):
            wanted[place if os.path.dirname(place) == str(home) else os.path.dirname(place)] = None
    there = [place for place in wanted if os.path.exists(place)]
    return [Path(place) for place in there if not any(place.startswith(f"{other}/") for other in there)]


class WorkspaceSecrets:
    """Finds what in the folders of a run must not be read, looking again only into folders that changed."""

    def __init__(self, roots: Callable[[], Sequence[Path]], root: Path, rules: Callable[[], Rules]) -> None:
        self._roots, self._root, self._rules = roots, root, rules
        self._folders: dict[str, tuple[int, list[str], list[str]]] = {}  # path -> ctime, secrets, folders in it
        self._ruled: tuple[Rule, ...] = ()

    def find(self, *, only_denied: bool = False) -> list[Path]:
        """What to hide: what looks like a secret or a rule denies, unless one such as `Read(.env)` lets it be read."""
        rules = self._rules()
        deny = tuple(rule for rule in rules.deny if rule.names_files("read"))
        if deny != self._ruled:
            self._folders, self._ruled = {}, deny
        if only_denied and not deny:
            return []
        found = dict.fromkeys(path for root in self._roots() for path in self._below(str(root)))
        hidden = (path for path in found if (self._is_denied(path) if only_denied else not self._let(path, rules)))
        return list(islice(hidden, _MOST_MASKS))

    def tracked_secret(self, git: Path, top: Path) -> str:
        """A file that looks like a secret and whose content git has, by its index."""
        names, rules = _secrets_in_index(str(git / "index"), _state(git / "index")), self._rules()
        return next((name for name in names if not self._let(top / name, rules)), "")

    def _let(self, path: Path, rules: Rules) -> bool:
        """Whether a rule lets it be read, or it holds nothing but certificates."""
        allow = (rule for rule in rules.allow if rule.names_files("read"))
        let = any(path_matches(rule, path, self._root, fold=False) for rule in allow) or _is_public(path)
        return let and not self._is_denied(path)

    def _below(self, top: str) -> Iterable[Path]:
        waiting, seen = [top], 0
        while waiting and seen < _MOST_ENTRIES:
            folder = waiting.pop()
            with suppress(OSError):
                changed = os.lstat(folder).st_ctime_ns  # which no command can set
                if self._folders.get(folder, (0,))[0] != changed:
                    self._folders[folder] = (changed, *self._look(folder))
                _, secret, inner = self._folders[folder]
                seen += len(secret) + len(inner) + 1
                yield from map(Path, secret)
                waiting += inner

    def _look(self, folder: str) -> tuple[list[str], list[str]]:
        if is_closed(folder):  # it is hidden whole: a command could open it again
            return [folder], []
        found = scan(folder)
        secret = {name for name in sensitive_names([entry.name for entry in found]) if _secret(name)}
        secret |= {entry.name for entry in found if self._ruled and self._is_denied(Path(entry.path))}
        folders = [e.path for e in found if e.is_dir(follow_symlinks=False) and e.name not in (_PUBLISHED | secret)]
        return [e.path for e in found if e.name in secret and not e.is_symlink()] if secret else [], folders

    def _is_denied(self, path: Path) -> bool:
        return any(path_matches(rule, path, self._root, fold=True) for rule in self._ruled)


_CODE = re.compile(
    r".*\.(?:pyi?|[cm]?[jt]sx?|go|rs|java|kt|rb|cs?|h|cc|[ch]pp|php|swift|md|rst|html|css|vue|svelte)", re.I
)
_OF_PROJECTS = frozenset({".docker", ".kube", "credentials"})  # as a folder of a project these hold its own files


def _secret(name: str) -> bool:
    return sensitive_name(name) and name not in _OF_PROJECTS and not _CODE.fullmatch(name)


def _is_public(path: Path) -> bool:
    """Whether a file that is named like a key holds only certificates or public keys."""
    text = _text(path, _CERTIFICATE) if path.suffix.casefold() in (".pem", ".asc", ".key") else ""
    heads = re.findall(r"-----BEGIN ([A-Z0-9 ]+)-----", text)
    return bool(heads) and len(text) < _CERTIFICATE and all(re.search("CERTIFICATE|PUBLIC", head) for head in heads)


def _text(path: Path | str, most: int) -> str:
    """The start of a file; nothing where it cannot be read."""
    with suppress(OSError):
        return start_of(Path(path), most).decode("latin-1")  # a character a byte, so that its length tells
    return ""


def _state(path: Path) -> tuple[int, ...]:
    with suppress(OSError):
        status = path.stat()
        return status.st_size, status.st_mtime_ns, status.st_ino
    return ()


@lru_cache(maxsize=16)
def _secrets_in_index(index: str, state: tuple[int, ...]) -> tuple[str, ...]:
    """The tracked names that look like secrets; of an index that is not understood, its own name."""
    if not state:
        return ("index",) if os.path.lexists(index) else ()
    try:
        paths = [one.path.split("/") for one in read_index(Path(index))]
    except (OSError, ValueError):
        return ("index",)
    named = ((path, (path[-1], *(folder for folder in path[:-1] if folder[:1] == "."))) for path in paths)
    return tuple("/".join(path) for path, telling in named if any(map(_secret, telling)))


def holds_password(path: Path) -> bool:
    """Whether a file of git holds an address with a password: its configuration, or its notes of what was pulled."""
    noted = "/logs/" in str(path) and ("/.git/" in str(path) or "/worktrees/" in str(path))
    named = path.name.casefold() in ("config", "config.worktree", ".gitconfig", ".gitmodules", "fetch_head")
    return (noted or named) and _login(str(path), _state(path))


@lru_cache(maxsize=256)
def _login(path: str, state: tuple[int, ...]) -> bool:
    text = _text(path, _MOST_LOGIN)
    return has_password(text) or bool(re.search(r"(?i)extraheader\s*=|://[^/\s@]{20,}@", text))


def git_passwords(git: Path) -> list[Path]:
    """Files of a repository that hold an address with a password."""
    logs = [Path(place) / name for place, _, found in os.walk(git / "logs") for name in found][:_MOST_MASKS]
    files = [*(git / name for name in ("config", "config.worktree", "FETCH_HEAD")), *logs]
    return [path for path in files if holds_password(path)]


def sockets(environ: Mapping[str, str], roots: Sequence[Path], covered: Sequence[Path]) -> list[str]:
    """Sockets that variables name, and all that programs of this machine have open and that can be seen inside."""
    named = [path for name in AGENTS.split() if name in environ for path in re.findall(r"/[^,:;]+", environ[name])]
    rows: list[str] = []
    with suppress(OSError), open("/proc/net/unix", "rb") as file:
        rows = os.fsdecode(file.read(_MOST_TABLE)).splitlines()
    opened = [words[7] for row in rows if len(words := row.split(None, 7)) == 8 and words[7].startswith("/")]
    others = (path for path in map(os.path.realpath, opened) if not _within(path, roots))
    found = dict.fromkeys((*map(os.path.realpath, named), *others))
    seen = []
    for path in (path for path in found if _within(path, roots) or not _within(path, covered)):
        with suppress(OSError):
            seen += [path] if stat.S_ISSOCK(os.lstat(path).st_mode) and all(map(_enters, Path(path).parents)) else []
    return seen[:_MOST_SOCKETS]


def _enters(folder: Path) -> bool:
    """Whether a command gets into a folder: root in a box has no rights in what is another's alone."""
    mode, owner, group = (status := folder.stat()).st_mode, status.st_uid, status.st_gid
    return bool(os.geteuid() or mode & stat.S_IXOTH or owner == 0 or group in (os.getegid(), *os.getgroups()))


def _within(path: str, folders: Sequence[Path]) -> bool:
    return any(path == str(folder) or path.startswith(f"{folder}/") for folder in folders)
