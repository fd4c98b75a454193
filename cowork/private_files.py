"""Files only their owner can read: folders 0700, files 0600, whatever the umask says."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def private_folder(path: Path) -> Path:
    """Make the folder, and the missing ones above it, for the owner alone; gives the path back."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, FOLDER_MODE)
        except FileExistsError:
            if folder is not path:
                continue  # another process was faster
        own_mode(folder)
    return path


def own_mode(folder: Path) -> None:
    """Close a folder to others, for the umask may have taken bits we need; not what a link of the user's leads to."""
    if not folder.is_symlink():
        os.chmod(folder, FOLDER_MODE)


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file for the owner alone; links are not followed."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        os.fchmod(fd, FILE_MODE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def replace_private(path: Path, data: bytes, *, lasting: bool = False) -> None:
    """Write the whole file or leave the old one: readers never see a half, nor, if `lasting`, after a power cut."""
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    fd = open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_private(path: Path, text: str) -> None:
    """Replace a text the user wants kept; a folder that is there already stays as open as it is."""
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    replace_private(path, f"{text}\n".encode("utf-8", "surrogateescape"), lasting=True)
