"""What in the folders of a project would steer a run: what must be trusted, and where extensions are looked for."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from cowork import prompts
from cowork.config import paths
from cowork.config.run_options import RunOptions
from cowork.core.front_matter import Problem
from cowork.core.frozen import frozen
from cowork.core.git import folders_down_to
from cowork.core.ports import AgentOrigin
from cowork.extensions.finder import ExtensionFolder, Extensions, find, plugins_in
from cowork.permissions.trust import STEERING, Trust, digest

SKILL_TOOL = "Skill"
UNTRUSTED = "This folder is not trusted: its settings, agents, servers and notes are not used"
UNTRUSTED += " (`cowork trust`, or --trust for one run)."
_FOLDERS = (".claude", ".agents", paths.PROJECT_FOLDER)  # in each folder of a project, weakest first


def steering(root: Path) -> list[Path]:
    """The files and folders from the project's top down to `root` that would steer a run."""
    return [folder / name for folder in folders_down_to(root) for name in STEERING if _has_a_say(folder / name)]


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


def left_out(root: Path, options: RunOptions, environ: Mapping[str, str]) -> str:
    """The line to say where the folder holds what would steer a run if it were trusted."""
    return "" if options.bare or is_trusted_now(root, options, environ) or not steering(root) else UNTRUSTED


def fingerprint(root: Path) -> str:
    """What steers a run in the folder, as it is now."""
    return "\n".join(f"{folder}: {digest(folder)}" for folder in sorted({root, *_with_a_say(root)}))


def grant(root: Path, environ: Mapping[str, str]) -> None:
    """Trust the folder, and each above it in the project that has a say."""
    trust = Trust(paths.trust_file(environ))
    for folder in {root, *_with_a_say(root)}:
        trust.grant(folder)


def _with_a_say(root: Path) -> set[Path]:
    return {f for f in folders_down_to(root) if any(_has_a_say(f / name) for name in STEERING)}


def _has_a_say(path: Path) -> bool:
    """Whether something is there; an empty folder, as a command at work may need in its place, says nothing."""
    try:
        return path.is_symlink() or bool(os.listdir(path))
    except OSError:  # no folder, or none that can be looked into
        return os.path.lexists(path)


@frozen
class Places:
    """The folders of one look, weakest first, and what is wrong with plugins among them."""

    folders: tuple[ExtensionFolder, ...]
    problems: tuple[Problem, ...]
    data: Path  # where plugins keep what they make

    def find(self, known_tools: Collection[str]) -> Extensions:
        """What is in them now."""
        found = find(self.folders, self.data, {*known_tools, SKILL_TOOL} if known_tools else ())
        return replace(found, problems=(*self.problems, *found.problems))


def places(root: Path, environ: Mapping[str, str], *, trusted: bool, bare: bool) -> Places:
    """Those of a run in the folder; what a project holds counts only when it is trusted."""
    found, problems = [ExtensionFolder("shipped", prompts.data_root())], list[Problem]()
    own, home = paths.config_dir(environ), paths.home(environ)
    layers: list[tuple[AgentOrigin, Path, tuple[Path, ...]]] = []
    if not bare:
        layers.append(("user", own / "plugins", (home / ".claude", home / ".agents", own)))
    if trusted and not bare:
        for folder in folders_down_to(root):
            plugins = folder / paths.PROJECT_FOLDER / "plugins"
            layers.append(("project", plugins, tuple(folder / name for name in _FOLDERS)))
    for origin, plugins, folders in layers:
        installed, wrong = plugins_in(plugins, origin)
        found += [*installed, *(ExtensionFolder(origin, folder) for folder in folders)]
        problems += wrong
    seen = {place.folder: place for place in found}  # in a home that is a project, once: as the project's
    return Places(tuple(seen.values()), tuple(problems), paths.state_dir(environ) / "plugins")
