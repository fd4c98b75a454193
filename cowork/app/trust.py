"""Which folders must be trusted for a run, and what in them would steer it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cowork.config import paths
from cowork.config.options import RunOptions
from cowork.core.git import project_root
from cowork.permissions.trust import STEERING, Trust, digest


def steering(root: Path) -> list[Path]:
    """The files and folders from the project's top down to `root` that would steer a run."""
    return [folder / name for folder in _on_the_way(root) for name in STEERING if _has_a_say(folder / name)]


def is_trusted(root: Path, environ: Mapping[str, str]) -> bool:
    """Whether the folder, and each above it in the project that has a say, is trusted as it is now."""
    trust = Trust(paths.trust_file(environ))
    return trust.is_trusted(root) and all(trust.is_trusted(folder) for folder in _with_a_say(root))


def is_trusted_now(root: Path, options: RunOptions, environ: Mapping[str, str]) -> bool:
    """Whether a run may use what steers in the folder: by the command line, for this chat, or for good."""
    if options.bare:
        return False
    if options.trust or is_trusted(root, environ):
        return True
    return bool(options.trusted_as) and options.trusted_as == fingerprint(root)


def fingerprint(root: Path) -> str:
    """What steers a run in the folder, as it is now."""
    return "\n".join(f"{folder}: {digest(folder)}" for folder in sorted({root, *_with_a_say(root)}))


def grant(root: Path, environ: Mapping[str, str]) -> None:
    """Trust the folder, and each above it in the project that has a say."""
    trust = Trust(paths.trust_file(environ))
    for folder in {root, *_with_a_say(root)}:
        trust.grant(folder)


def _with_a_say(root: Path) -> set[Path]:
    return {f for f in _on_the_way(root) if any(_has_a_say(f / name) for name in STEERING)}


def _has_a_say(path: Path) -> bool:
    """Whether something is there; an empty folder, as a command at work may need in its place, says nothing."""
    try:
        return path.is_symlink() or bool(os.listdir(path))
    except OSError:  # no folder, or none that can be looked into
        return os.path.lexists(path)


def _on_the_way(root: Path) -> list[Path]:
    top = project_root(root)
    return [folder for folder in reversed((root, *root.parents)) if folder.is_relative_to(top)]
