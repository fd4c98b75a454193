"""Installed plugins: taken from a folder or a git repository, pinned by commit and content. Nothing of one is run."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cowork.core import spawn
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.front_matter import BadFile, Problem
from cowork.core.frozen import frozen
from cowork.extensions.finder import ExtensionFolder, Extensions, find
from cowork.extensions.plugins import NAME, Plugin, digest, plugin_files, read_plugin
from cowork.private_files import write_private

_GIT_URL = re.compile(r"(?:https?|ssh|git|file)://.+|[\w.-]+@[\w.-]+:.+")
_WITH_PATH = re.compile(r"\w+://[^/]*/.+|[\w.-]+@[\w.-]+:.+")
_CLONE_SECONDS = 300.0
_REF = re.compile(r"[A-Za-z0-9][\w./-]*")


@frozen
class FetchedPlugin:
    """A plugin that was brought here and not yet installed."""

    plugin: Plugin
    source: str
    ref: str
    commit: str
    digest: str
    adds: Extensions
    problems: tuple[Problem, ...]


class PluginStore:
    """The plugins of a user: a folder for each, and a list that says where it came from and what it was."""

    def __init__(self, folder: Path, data: Path, environ: Mapping[str, str]) -> None:
        self.folder, self.data, self.environ = folder, data, environ
        self._list = folder / "plugins.json"

    def installed(self) -> dict[str, Json]:
        """What is known of each, by name."""
        try:
            found = json.loads(self._list.read_text("utf-8"))
            return {str(name): dict(facts) for name, facts in found["plugins"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self._list} cannot be read: {error}.", "Correct or delete it.") from error

    def fetch(self, source: str) -> FetchedPlugin:
        """Bring a plugin here: PATH, GIT_URL or GIT_URL@REF. It counts only once it is kept."""
        place, commit, where, ref = self.folder / ".new", "", source, ""
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _GIT_URL.fullmatch(source):
            where, ref = _split_ref(source)
            commit = self._clone(where, ref, place)
        else:
            folder = Path(source).expanduser().absolute()
            if not folder.is_dir():
                raise UserError(f"{source} is neither a folder nor the address of a git repository.")
            where = str(folder)
            _copy(folder, place)
        try:
            plugin, problems = read_plugin(place)
            if plugin is None:
                raise UserError(f"{source} is no plugin: {problems[0].message}", problems[0].hint)
            content = digest(place)
        except BadFile as bad:
            raise UserError(f"{source} cannot be installed: {bad.message}") from bad
        found = find([ExtensionFolder("user", place, plugin)], self.data)
        return FetchedPlugin(
            plugin, where, ref, commit, content, found, (*problems, *found.agents.problems, *found.problems)
        )

    def keep(self, fetched: FetchedPlugin) -> Path:
        """Install what was fetched, in the place of an earlier version."""
        known, target = self.installed(), self.folder / fetched.plugin.name
        if digest(fetched.plugin.root) != fetched.digest:
            raise UserError("The plugin changed while you were asked.", "Add it again.")
        shutil.rmtree(target, ignore_errors=True)
        os.replace(fetched.plugin.root, target)
        facts = {"source": fetched.source, "ref": fetched.ref, "commit": fetched.commit, "digest": fetched.digest}
        self._save(known | {fetched.plugin.name: facts})
        return target

    def drop(self) -> None:
        """Throw away what was fetched and not kept."""
        shutil.rmtree(self.folder / ".new", ignore_errors=True)

    def remove(self, name: str) -> None:
        """Uninstall a plugin; what it made for itself goes too."""
        known = self.installed()
        if not NAME.fullmatch(name) or (name not in known and not (self.folder / name).is_dir()):
            raise UserError(f"There is no plugin {name!r}.", "`cowork plugin list` has those that are installed.")
        for folder in (self.folder / name, self.data / name):
            shutil.rmtree(folder, ignore_errors=True)
        known.pop(name, None)
        self._save(known)

    def changed(self, name: str) -> bool:
        """Whether its files are not those that were installed."""
        try:
            return digest(self.folder / name) != self.installed().get(name, {}).get("digest")
        except (BadFile, OSError):
            return True

    def _save(self, plugins: Mapping[str, Any]) -> None:
        write_private(self._list, json.dumps({"version": 1, "plugins": plugins}, indent=1))

    def _clone(self, url: str, ref: str, place: Path) -> str:
        """The commit of a fresh copy, without history and without anything of the repository being run."""
        safe = ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "core.symlinks=true"]
        self._git(["git", *safe, "clone", "--quiet", "--no-checkout", "--no-recurse-submodules", "--", url, str(place)])
        here = ["git", *safe, "-C", str(place)]
        commit = self._git([*here, "rev-parse", "--verify", "--end-of-options", f"{ref or 'HEAD'}^{{commit}}"]).strip()
        self._git([*here, "-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", commit])
        shutil.rmtree(place / ".git")
        return commit

    def _git(self, words: list[str]) -> str:
        try:
            done = spawn.run(words, environ=self.environ, seconds=_CLONE_SECONDS)
        except OSError as error:
            raise UserError(f"git could not be run: {error}.") from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
            raise UserError(f"git says: {said[-1]}", "Check the address and the name after @.")
        return done.stdout.decode("utf-8", "replace")


def _split_ref(source: str) -> tuple[str, str]:
    """The address and the branch, tag or commit after its last `@`, if that is one."""
    url, at, ref = source.rpartition("@")
    if at and _WITH_PATH.fullmatch(url) and _REF.fullmatch(ref):
        return url, ref
    return source, ""


def _copy(folder: Path, place: Path) -> None:
    try:
        files = plugin_files(folder)
    except BadFile as bad:
        raise UserError(f"{folder} cannot be installed: {bad.message}") from bad
    for path in files:
        target = place / path.relative_to(folder)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.is_symlink():
            os.symlink(os.readlink(path), target)
        elif path.is_file():
            shutil.copy2(path, target)
