"""What git would do in a repository: run what its configuration names, follow submodules, show tracked secrets."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from cowork.core.git_index import read_index
from cowork.core.hygiene import has_password
from cowork.core.plain_file import start_of
from cowork.core.workspace import sensitive
from cowork.permissions.sandbox.guarded import scan
from cowork.permissions.shell.checks import immodest

_MOST_CONFIG = 128 * 1024
_MOST_LOGIN = 4 * 1024 * 1024
_MOST_INDEX = 64 * 1024 * 1024
_UNKNOWN = "a tracked file (the index is not understood)"
_POINTER = 4096  # bytes of a file that names a folder
_MOST_ENTRIES = 8_000
_MOST_FOLDERS = 4_000
_UNREAD = frozenset({"hooks", "modules", "lfs", "annex"})  # where links are at home, and reading commands do not look
_CONFIGS = frozenset({"config", "config.worktree", ".gitconfig", ".gitmodules"})
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
    named = _named(entry, "gitdir: ") if entry.is_file() else entry
    if named is None:
        return "its .git file is not understood", None
    folder, common = named, common_of(named)
    if common is None:
        return "its file commondir is not understood", None
    if any(os.path.lexists(place / "config.worktree") for place in {folder, common}):
        return "it has a configuration per worktree", None
    if os.path.lexists(common / "hooks" / "post-index-change"):
        return "its hook post-index-change may run", None
    if os.path.lexists(common / "objects/info/alternates"):
        return "it shows objects of another repository", None
    if why := _known(_config, common / "config") or _known(_index, folder / "index"):
        return why, None
    if odd := next((found for place in {folder, common} if (found := _odd_entry(place))), ""):
        return f"{odd} in it is a link to another place, or no file", None
    if not os.path.lexists(folder / "HEAD"):
        return "", None
    valid = re.match(r"ref:\s*refs/|[0-9a-fA-F]{40}", head(folder / "HEAD", 256)) or (folder / "HEAD").is_symlink()
    if not (valid and (common / "objects").is_dir() and (common / "refs").is_dir()):
        return "it is only half a repository, which git may take for a whole one", None
    return "", folder


def common_of(folder: Path) -> Path | None:
    """The folder a worktree's own shares with the others: configuration, objects and branches; None if not certain."""
    return _named(folder / "commondir") if os.path.lexists(folder / "commondir") else folder


def _named(pointer: Path, label: str = "") -> Path | None:
    """The folder a file of git names, as git reads it: blanks are part of a name, and links come before `..`."""
    try:
        text = os.fsdecode(start_of(pointer, _POINTER))
    except OSError:
        return None
    name = text.removeprefix(label).rstrip("\r\n")
    whole = text.startswith(label) and len(os.fsencode(text)) < _POINTER
    if not whole or not name or name != name.strip() or re.search(r"[\0-\x1f]", name):
        return None
    return Path(os.path.realpath(pointer.parent / name))


def _odd_entry(git: Path) -> str:
    """What in a folder of git would be read elsewhere, or waited for: a link that leads out of it, a pipe, a device."""
    real, seen = os.path.realpath(git), 0
    waiting = [str(git)]
    while waiting:
        place = waiting.pop()
        deep = place == str(git / "objects")
        for entry in scan(Path(place)):
            seen += 1
            if entry.is_symlink():
                if not os.path.realpath(entry.path).startswith(f"{real}/"):
                    return entry.name
            elif entry.is_dir(follow_symlinks=False):
                if deep and len(entry.name) == 2:  # objects of their own, of which there may be thousands
                    if link := _known(_link_in, Path(entry.path)):
                        return link
                elif place != str(git) or entry.name not in _UNREAD:
                    waiting.append(entry.path)
            elif not entry.is_file(follow_symlinks=False) and not stat.S_ISSOCK(
                entry.stat(follow_symlinks=False).st_mode
            ):
                return entry.name
        if seen > _MOST_ENTRIES:
            return "something among too many files"
    return ""


def keeps_password(config: Path) -> bool:
    """Whether a configuration of git holds an address with a password, or what is sent instead of one."""
    return bool(_known(_login, config))


def password_in(path: Path) -> bool:
    """The same of any file: whether it is such a configuration, or what git notes of its commands."""
    noted = "/logs/" in str(path) and ("/.git/" in str(path) or "/worktrees/" in str(path))
    return (noted or path.name.casefold() in _CONFIGS) and keeps_password(path)


def tracked_secret(folder: Path) -> str:
    """The name of a tracked file that looks like a secret."""
    index = folder / "index"
    return _known(_secret_in, index) if os.path.lexists(index) else _UNKNOWN  # as of a clone without its files


def tracked_folder(folder: Path, name: str) -> bool:
    """Whether git knows a folder of this name, though there may be a file by now."""
    index = folder / "index"
    try:
        folders = _folders_in(str(index), _state(index))
    except OSError:
        return False
    return folders is None or name in folders


def is_commit(folder: Path, word: str) -> bool:
    """Whether a revision, or each end of a range, surely is a commit: a branch, or counted back from anything."""
    return all(_is_commit(folder, part) for part in re.split(r"\.{2,3}", word.removeprefix("^")) if part)


def _is_commit(folder: Path, word: str) -> bool:
    if re.fullmatch(r"[^:{}]+?(?:[~^][0-9]*)+|(?:HEAD|@|ORIG_HEAD)|(?:HEAD)?@\{[0-9]+\}", word):
        return True
    name = re.sub(r"@\{[0-9]+\}$", "", word)
    common = common_of(folder) or folder
    packed = head(common / "packed-refs", _MOST_CONFIG)
    odd = not re.fullmatch(r"[\w./-]+", name) or re.fullmatch(r"[0-9a-f]{40,}", name)
    if odd or len(packed.encode()) >= _MOST_CONFIG:
        return False

    def known(*kinds: str) -> bool:
        return any(os.path.lexists(common / kind / name) or f" {kind}/{name}\n" in packed for kind in kinds)

    if name == "stash":
        return known("refs")
    return known("refs/heads", "refs/remotes") and not known("refs", "refs/tags") and not os.path.lexists(folder / name)


def linked_folder(folder: Path, top: Path) -> str:
    """A folder of tracked files that is a link by now, so that a search of them would read what it leads to."""
    index = folder / "index"
    try:
        folders = _folders_in(str(index), _state(index))
    except OSError:
        return ""
    if folders is None or len(folders) > _MOST_FOLDERS:
        return "a folder (there are too many, or the index is not understood)"
    return next((name for name in folders if os.path.islink(top / name)), "")


def _known(says: Callable[[str, tuple[int, ...]], str], path: Path) -> str:
    """What is said of a file, looked at again only when it has changed."""
    try:
        state = _state(path)
    except OSError:
        return "one of its files is a link to nothing" if os.path.lexists(path) else ""
    return says(str(path), state)


def _state(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


@lru_cache(maxsize=2_048)
def _link_in(path: str, state: tuple[int, ...]) -> str:
    return next((entry.name for entry in scan(Path(path)) if not entry.is_file(follow_symlinks=False)), "")


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
        if immodest(value):
            return f"its git configuration sets {key} to more than a machine can hold"
    return ""


@lru_cache(maxsize=64)
def _login(path: str, state: tuple[int, ...]) -> str:
    text = head(Path(path), _MOST_LOGIN)
    return path if has_password(text) or re.search(r"(?i)extraheader\s*=|://[^/\s@]{20,}@", text) else ""


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
    found = _tracked(path, state)
    return _UNKNOWN if found is None else min((name for name in found if _secret_path(name)), default="")


@lru_cache(maxsize=8)
def _folders_in(path: str, state: tuple[int, ...]) -> tuple[str, ...] | None:
    found = _tracked(path, state)
    return None if found is None else tuple(sorted({str(up) for name in found for up in Path(name).parents} - {"."}))


def _tracked(path: str, state: tuple[int, ...]) -> set[str] | None:
    """The names in an index; None when it is not understood."""
    try:
        return {entry.path for entry in read_index(Path(path), _MOST_INDEX)}
    except (OSError, ValueError):
        return None


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
