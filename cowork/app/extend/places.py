"""Where extensions are looked for: shipped, the user's own, those of installed plugins, and of a trusted project."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from cowork import prompts
from cowork.config import paths
from cowork.core.front_matter import Problem
from cowork.core.frozen import frozen
from cowork.core.git import project_root
from cowork.core.ports import AgentOrigin
from cowork.extensions.finder import ExtensionFolder, Extensions, find, plugins_in, stamp

SKILL_TOOL = "Skill"
_FOLDERS = (".claude", ".agents", paths.PROJECT_FOLDER)  # in each folder of a project, weakest first


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

    def stamp(self) -> frozenset[tuple[str, int, int]]:
        """Equal for as long as no file changes."""
        return stamp(self.folders)


def places(root: Path, environ: Mapping[str, str], *, trusted: bool, bare: bool) -> Places:
    """Those of a run in the folder; what a project holds counts only when it is trusted."""
    found, problems = [ExtensionFolder("shipped", prompts.data_root())], list[Problem]()
    own, home = paths.config_dir(environ), paths.home(environ)
    on_the_way = [f for f in reversed((root, *root.parents)) if f.is_relative_to(project_root(root))]
    layers: list[tuple[AgentOrigin, Path, tuple[Path, ...]]] = []
    if not bare:
        layers.append(("user", own / "plugins", (home / ".claude", home / ".agents", own)))
    if trusted and not bare:
        for folder in on_the_way:
            plugins = folder / paths.PROJECT_FOLDER / "plugins"
            layers.append(("project", plugins, tuple(folder / name for name in _FOLDERS)))
    for origin, plugins, folders in layers:
        installed, wrong = plugins_in(plugins, origin)
        found += [*installed, *(ExtensionFolder(origin, folder) for folder in folders)]
        problems += wrong
    seen = {place.folder: place for place in found}  # in a home that is a project, once: as the project's
    return Places(tuple(seen.values()), tuple(problems), paths.state_dir(environ) / "plugins")
