"""What git would do in a repository: run what its configuration names, follow submodules, show tracked secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from cowork.core.hygiene import has_password
from cowork.core.plain import start_of
from cowork.core.workspace import sensitive

_MOST_CONFIG = 128 * 1024
_MOST_INDEX = 64 * 1024 * 1024
_UNKNOWN = "a tracked file (the index is not understood)"
_SUBMODULE = b"\x00\x00\xe0\x00"  # mode 160000 in the index

# Settings that cannot make git run a program, open a connection or follow another file.
_HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|abbrev|quotepath|compression|untrackedcache|preloadindex|commitgraph|longpaths|sharedrepository"
    r"|protecthfs|protectntfs|checkstat|trustctime|bigfilethreshold|packedgitlimit|packedgitwindowsize|whitespace)"
    r"|remote\..*\.(?:url|pushurl|fetch|push|tagopt|prune|gh-resolved|skipdefaultupdate)"
    r"|branch\..*\.(?:remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base|github-pr-owner-number)"
    r"|user\.(?:name|email|signingkey|useconfigonly)|pull\.\w+|push\.\w+|init\.\w+|color\..*|fetch\.(?:prune|prunetags|parallel)"
    r"|advice\..*|rebase\.(?:autosquash|autostash|updaterefs)|rerere\.\w+|merge\.conflictstyle|merge\.ff|commit\.gpgsign"
    r"|tag\.gpgsign|gc\.(?:auto\w*|\w*expire\w*|packrefs)|pack\.\w+|index\.(?:version|threads)|feature\.\w+|lfs\.repositoryformatversion|log\.(?:date|decorate)"
    r"|status\.(?:short|branch|relativepaths|showuntrackedfiles|renames|aheadbehind|showstash)|diff\.(?:algorithm|renames|colormoved|mnemonicprefix|noprefix|context|interhunkcontext)|gui\.\w+"
    r"|submodule\..*\.(?:url|active|branch)|svn-remote\..*\.(?:url|fetch)|maintenance\.(?:auto|strategy)",
    re.IGNORECASE,
)


def repository(entry: Path) -> tuple[str, Path | None]:
    """Why git must not run unasked where this `.git` lies, and the folder it stands for if git takes it for one."""
    folder = entry
    if entry.is_file():
        pointer = head(entry, 4096)
        if not pointer.startswith("gitdir: "):
            return "its .git file is not understood", None
        folder = Path(os.path.normpath(entry.parent / pointer.removeprefix("gitdir: ").strip()))
    common = common_of(folder)
    if any(os.path.lexists(place / "config.worktree") for place in {folder, common}):
        return "it has a configuration per worktree", None
    if os.path.lexists(common / "hooks" / "post-index-change"):
        return "its hook post-index-change may run", None
    if os.path.lexists(common / "objects/info/alternates"):
        return "it shows objects of another repository", None
    if any((common / name).is_symlink() for name in ("objects", "objects/pack", "refs")):
        return "a part of it is a link to another place", None
    if why := _known(_config, common / "config") or _known(_index, folder / "index"):
        return why, None
    valid = re.match(r"ref:\s*refs/|[0-9a-f]{40}", head(folder / "HEAD", 256)) or (folder / "HEAD").is_symlink()
    whole = valid and (common / "objects").is_dir() and (common / "refs").is_dir()
    return "", folder if whole or entry.is_file() else None


def common_of(folder: Path) -> Path:
    """The folder a worktree's own shares with the others: configuration, objects and branches."""
    if (folder / "commondir").is_file():
        return Path(os.path.normpath(folder / head(folder / "commondir", 4096).strip()))
    return folder


def keeps_password(config: Path) -> bool:
    """Whether a configuration of git holds an address with a password, or what is sent instead of one."""
    return bool(_known(_login, config))


def tracked_secret(folder: Path) -> str:
    """The name of a tracked file that looks like a secret."""
    return _known(_secret_in, folder / "index")


def _known(says: Callable[[str, tuple[int, ...]], str], path: Path) -> str:
    """What is said of a file, looked at again only when it has changed."""
    try:
        status = path.stat()
    except OSError:
        return "one of its files is a link to nothing" if os.path.lexists(path) else ""
    return says(str(path), (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino))


@lru_cache(maxsize=64)
def _config(path: str, state: tuple[int, ...]) -> str:
    if state[0] > _MOST_CONFIG or not os.path.isfile(path):
        return "its git configuration is too large to look at"
    section = ""
    text = head(Path(path), _MOST_CONFIG)
    if re.search(r"[^\t\n\r -~\x80-\U0010ffff]", text):
        return "its git configuration holds control characters"
    for line in text.split("\n"):  # git knows no other line end
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.endswith("\\"):
            return "its git configuration is not understood"
        if line.startswith("["):
            header = re.fullmatch(r'\[([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\]\s*(.*)', line)
            if header is None:
                return "its git configuration is not understood"
            section = header[1] + (f".{header[2]}" if header[2] is not None else "")
            line = header[3]
            if not line or line[0] in "#;":
                continue
        key = f"{section}.{line.partition('=')[0].strip()}"
        if not _HARMLESS.fullmatch(key):
            return f"its git configuration sets {key}, which may run a program"
        value = line.partition("=")[2].strip()
        if "::" in value or value.startswith(("ext:", "fd:")):
            return f"its git configuration sets {key} to a remote helper"
    return ""


@lru_cache(maxsize=64)
def _login(path: str, state: tuple[int, ...]) -> str:
    text = head(Path(path), _MOST_CONFIG)
    return path if has_password(text) or re.search(r"(?i)extraheader\s*=", text) else ""


@lru_cache(maxsize=64)
def _index(path: str, state: tuple[int, ...]) -> str:
    if state[0] > _MOST_INDEX or not os.path.isfile(path):
        return "its index is too large to look at"
    try:
        split = any(name.startswith("sharedindex.") for name in os.listdir(os.path.dirname(path)))
        has = _SUBMODULE in start_of(Path(path), _MOST_INDEX)
    except OSError:
        return "its index cannot be looked at"
    if split:
        return "its index is split over several files"
    return "it has submodules, whose own configuration git would obey" if has else ""


@lru_cache(maxsize=64)
def _secret_in(path: str, state: tuple[int, ...]) -> str:
    try:
        data = start_of(Path(path), _MOST_INDEX)
    except OSError:
        return _UNKNOWN
    if data[:4] != b"DIRC" or data[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
        return _UNKNOWN
    at, found = 12, set()
    for _ in range(int.from_bytes(data[8:12], "big")):
        extended = data[at + 60 : at + 61] > b"\x3f" and data[at + 60] & 0x40
        start = at + (64 if extended else 62)  # an extended entry has two bytes more
        end = data.find(b"\0", start)
        if end < 0:
            return _UNKNOWN
        found.add(data[start:end])
        at += (end - at + 8) & ~7
    paths = (name.decode("utf-8", "replace") for name in found)
    return min((path for path in paths if _secret_path(path)), default="")


def _secret_path(path: str) -> bool:
    *folders, name = path.split("/")
    return secret(name) or any(secret(f"{folder}/x") for folder in folders if folder.startswith("."))


@lru_cache(maxsize=8192)
def secret(name: str) -> bool:
    return sensitive(Path(name))


def head(path: Path, most: int) -> str:
    """The first bytes of a file as text; nothing when it cannot be read."""
    try:
        return start_of(path, most).decode("utf-8", "replace")
    except OSError:
        return ""
