"""Plugins: a folder with a manifest that brings skills, commands, agents, hooks and MCP servers. Two layouts are read:
Agent Plugins 1.0 (`plugin.json`, `mcp.json`) and Claude's (`.claude-plugin/plugin.json`, `.mcp.json`). Installed ones
are pinned by commit and content; nothing of one is run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from cowork.core import spawn
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.front_matter import MAX_FILES, BadFile, Problem, json_of_file, leads_out, line_of
from cowork.core.frozen import frozen
from cowork.core.ports import AgentOrigin
from cowork.core.workspace import load_json, start_of
from cowork.extensions.finder import ExtensionFolder, Extensions, find
from cowork.private_files import write_private

SCHEMAS = "https://agent-plugins.org/schemas/1.0.0/"
MANIFESTS = ("plugin.json", ".claude-plugin/plugin.json")
NAME = re.compile(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
MARKETPLACE = ".claude-plugin/marketplace.json"
_MOST_NAMED = 20  # folders of a marketplace in a hint
_PARTS = ("skills", "commands", "agents", "hooks", "mcpServers")  # that Claude's manifest may name, or hold
_FIELDS = {"author": dict, "keywords": list}
_FIELDS |= dict.fromkeys(("version", "description", "homepage", "repository", "license"), str)
_SERVER_FIELDS: dict[str, tuple[str, ...]] = {"stdio": ("command", "args", "env", "cwd")}
_SERVER_FIELDS |= dict.fromkeys(("streamable-http", "sse"), ("url", "headers"))
_MOST_BYTES = 64 << 20
_GIT_URL = re.compile(r"(?:https?|ssh|git|file)://.+|[\w.-]+@[\w.-]+:.+")
_WITH_PATH = re.compile(r"\w+://[^/]*/.+|[\w.-]+@[\w.-]+:.+")
_CLONE_SECONDS = 300.0
_REF = re.compile(r"[A-Za-z0-9][\w./-]*")


@frozen
class Plugin:
    """A plugin as its manifest describes it."""

    name: str
    root: Path
    origin: AgentOrigin = "user"
    version: str = ""
    description: str = ""
    standard: bool = True  # Agent Plugins 1.0; False: Claude's layout
    parts: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)  # files and folders beside the usual ones


def read_plugin(root: Path, origin: AgentOrigin = "user") -> tuple[Plugin | None, list[Problem]]:
    """The plugin in a folder, or None, and what is wrong with its manifest."""
    path = next((root / name for name in MANIFESTS if (root / name).is_file()), None)
    if path is None:
        return None, [_no_manifest(root)]
    notes: list[Problem] = []
    try:
        standard, (found, text) = path == root / MANIFESTS[0], _object(path, root)
        if standard and found.get("$schema") != f"{SCHEMAS}plugin.schema.json":
            hint = f"Write {SCHEMAS}plugin.schema.json"
            raise BadFile(line_of(text, "$schema"), "$schema: is not a version known here", hint)
        name = found.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadFile(line_of(text, "name"), "name: use a-z, 0-9, single - or ., 1 to 64 characters")
        for key, value in found.items():
            wanted, wrong = _FIELDS.get(key), ""
            if wanted and not isinstance(value, wanted):
                wrong = f"{key}: must be {wanted.__name__}"
                if standard:
                    raise BadFile(line_of(text, key), wrong)
            elif not wanted and key not in ("$schema", "name", *(("extensions",) if standard else _PARTS)):
                wrong = f"{key}: is not {'a field of plugin.json' if standard else 'used here'}"
            notes += [Problem(path, line_of(text, key), wrong, fatal=False)] if wrong else []
    except BadFile as bad:
        return None, [bad.problem(path)]
    version, description = str(found.get("version") or ""), str(found.get("description") or "")
    parts: dict[str, tuple[Path, ...]] = {}
    for key in (key for key in _PARTS if key in found and not standard):
        parts[key], wrongs = _part(path, root, key, found[key])
        notes += [Problem(path, line_of(text, key), f"{key}: {wrong}") for wrong in wrongs]
    return Plugin(name, root, origin, version, description, standard, parts), notes


def _part(manifest: Path, root: Path, key: str, value: Any) -> tuple[tuple[Path, ...], list[str]]:
    """The files and folders that Claude's manifest names for a kind, or itself where it holds them; what is wrong."""
    if isinstance(value, dict) and key in ("hooks", "mcpServers"):
        return (manifest,), []
    named, wrong = list[Path](), list[str]()
    for name in value if isinstance(value, list) else [value]:
        if not isinstance(name, str):
            wrong.append("must be paths in the plugin")
        elif leads_out(root / name, root):
            wrong.append(f"{name} leads out of the plugin")
        elif not (root / name).exists():
            wrong.append(f"{name} is not there")
        else:
            named.append(root / name)
    return tuple(named), wrong


def _no_manifest(root: Path) -> Problem:
    """That a folder is no plugin; of a marketplace, where its plugins are."""
    with suppress(BadFile):
        listed = _object(root / MARKETPLACE, root)[0].get("plugins")
        sources = [one.get("source") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        folders = [source for source in sources if isinstance(source, str)]
        more = ", …" if len(folders) > _MOST_NAMED else ""
        hint = f"Add one of its folders: {', '.join(folders[:_MOST_NAMED])}{more}" if folders else "Add one of them"
        return Problem(root, 1, "it is a marketplace, a list of plugins", hint=hint)
    return Problem(root, 1, "there is no plugin.json", hint='Write {"$schema": "…", "name": "…"} into plugin.json')


def read_servers(plugin: Plugin, data: Path) -> tuple[dict[str, Json], list[Problem]]:
    """The MCP servers of a plugin by name, as `.mcp.json` spells them; a wrong one leaves the others."""
    usual = plugin.root / ("mcp.json" if plugin.standard else ".mcp.json")
    good: dict[str, Json] = {}
    problems: list[Problem] = []
    for path in dict.fromkeys((*([usual] if os.path.lexists(usual) else ()), *plugin.parts.get("mcpServers", ()))):
        found, wrong = _servers_of(plugin, path, data)
        good |= found
        problems += wrong
    return good, problems


def _servers_of(plugin: Plugin, path: Path, data: Path) -> tuple[dict[str, Json], list[Problem]]:
    try:
        found, text = _object(path, plugin.root)
        if plugin.standard and found.get("$schema") != f"{SCHEMAS}mcp.schema.json":
            hint = f"Write {SCHEMAS}mcp.schema.json"
            raise BadFile(line_of(text, "$schema"), "$schema: is not that of plugin.json", hint)
        servers = found.get("mcpServers", None if plugin.standard else found)  # Claude's may be bare
        if not isinstance(servers, dict):
            raise BadFile(1, "mcpServers: must be an object")
    except BadFile as bad:
        return {}, [bad.problem(path)]
    good: dict[str, Json] = {}
    problems: list[Problem] = []
    for name, server in servers.items():
        try:
            good[str(name)] = _server(plugin, server, data, line_of(text, name))
        except BadFile as bad:
            problems.append(Problem(path, bad.line, f"{name}: {bad.message}", hint=bad.hint))
    return good, problems


def _server(plugin: Plugin, given: Any, data: Path, line: int) -> Json:
    if not isinstance(given, dict):
        raise BadFile(line, "must be an object")
    if not plugin.standard:
        return {**_expand(given, plugin.root, data), "cwd": str(plugin.root)}
    kind = given.get("type")
    fields = _SERVER_FIELDS.get(str(kind))
    if fields is None:
        raise BadFile(line, f"type: {kind!r} is not known", f"Write {', '.join(_SERVER_FIELDS)}")
    if unknown := [key for key in given if key not in ("type", *fields)]:
        raise BadFile(line, f"{unknown[0]}: is not a field of {kind}")
    if fields[0] == "url":
        url = str(given.get("url", ""))
        local = re.match(r"http://(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?:[:/]|$)", url)
        if not (url.startswith("https://") or local) or "@" in url.partition("//")[2].partition("/")[0] or "#" in url:
            raise BadFile(line, "url: must be https, without user and fragment")
        return {**given, "type": "http" if kind == "streamable-http" else "sse"}
    command, env = given.get("command"), given.get("env", {})
    if not isinstance(command, str) or not re.fullmatch(r"\./.+|[^/\s]+", command):
        raise BadFile(line, "command: must be a program's name, or a path in the plugin that begins with ./")
    if {"PLUGIN_ROOT", "PLUGIN_DATA"} & set(env):
        raise BadFile(line, "env: PLUGIN_ROOT and PLUGIN_DATA are given, not set")
    if command.startswith("./") and leads_out(plugin.root / command, plugin.root):
        raise BadFile(line, "command: leads out of the plugin")
    server = _expand(given, plugin.root, data)
    cwd = str(given.get("cwd", "${PLUGIN_ROOT}"))
    base = data if cwd.startswith("${PLUGIN_DATA}") else plugin.root
    where = Path(server.get("cwd") or plugin.root)
    where = where if where.is_absolute() else plugin.root / where
    if not cwd.startswith(("./", "${PLUGIN_ROOT}", "${PLUGIN_DATA}")) or leads_out(where, base):
        raise BadFile(line, "cwd: must stay in ./, ${PLUGIN_ROOT} or ${PLUGIN_DATA}")
    own = {"PLUGIN_ROOT": str(plugin.root), "PLUGIN_DATA": str(data)}
    program = str(plugin.root / command) if command.startswith("./") else command
    return {**server, "command": program, "env": {**server.get("env", {}), **own}, "cwd": str(where)}


def _expand(given: Json, root: Path, data: Path) -> Json:
    """With the plugin's folders in args, env and cwd; Claude's spelling is known too, and also in command."""
    names = {"ROOT": json.dumps(str(root))[1:-1], "DATA": json.dumps(str(data))[1:-1]}
    text = json.dumps({key: given[key] for key in ("args", "env", "cwd", "command") if key in given})
    filled: Json = json.loads(re.sub(r"\$\{(?:CLAUDE_)?PLUGIN_(ROOT|DATA)\}", lambda m: names[m[1]], text))
    return {**given, **filled}


def digest(root: Path) -> str:
    """A hash of the names and contents of all files of a folder; git's own aside."""
    total, left = hashlib.sha256(b"cowork plugin 1"), _MOST_BYTES
    for path in plugin_files(root):
        name = os.fsencode(path.relative_to(root))
        content = os.fsencode(os.readlink(path)) if path.is_symlink() else start_of(path, left + 1)
        left -= len(content)
        if left < 0:
            raise BadFile(1, f"the plugin is larger than {_MOST_BYTES >> 20} MB")
        total.update(b"%d:%s:%s\n" % (len(name), name, hashlib.sha256(content).hexdigest().encode()))
    return total.hexdigest()


def plugin_files(root: Path) -> list[Path]:
    """Every file of a plugin, in a stable order; BadFile when there are too many."""
    found = []
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if name != ".git")
        found += [Path(folder, name) for name in sorted(names)]
        found += [Path(folder, name) for name in below if Path(folder, name).is_symlink()]
        if len(found) > 10 * MAX_FILES:
            raise BadFile(1, f"the plugin has more than {10 * MAX_FILES} files")
    return found


def _object(path: Path, root: Path) -> tuple[Json, str]:
    if leads_out(path, root):
        raise BadFile(1, "is a link out of the plugin")
    return json_of_file(path)


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

    def read_installed(self) -> dict[str, Json]:
        """What is known of each, by name."""
        try:
            return {str(name): dict(facts) for name, facts in load_json(self._list)["plugins"].items()}
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
            folder = Path(os.path.expanduser(source)).absolute()
            if not source.strip() or not folder.is_dir():
                raise UserError(f"{source!r} is neither a folder nor the address of a git repository.")
            where = str(folder)
        try:
            if not commit:
                _copy(Path(where), place)
            plugin, problems = read_plugin(place)
            if plugin is None:
                raise UserError(f"{source} is no plugin: {problems[0].message}", problems[0].hint)
            content = digest(place)
        except BadFile as bad:
            raise UserError(f"{source} cannot be installed: {bad.message}") from bad
        found = find([ExtensionFolder("user", place, plugin)], self.data)
        wrong = (*problems, *found.agents.problems, *found.problems)
        return FetchedPlugin(plugin, where, ref, commit, content, found, wrong)

    def keep(self, fetched: FetchedPlugin) -> Path:
        """Install what was fetched, in the place of an earlier version."""
        known, target = self.read_installed(), self.folder / fetched.plugin.name
        if digest(fetched.plugin.root) != fetched.digest:
            raise UserError("The plugin changed while you were asked.", "Add it again.")
        shutil.rmtree(target, ignore_errors=True)
        os.replace(fetched.plugin.root, target)
        facts = {"source": fetched.source, "ref": fetched.ref, "commit": fetched.commit, "digest": fetched.digest}
        self._save(known | {fetched.plugin.name: facts})
        return target

    def close(self) -> None:
        """Throw away what was fetched and not kept."""
        shutil.rmtree(self.folder / ".new", ignore_errors=True)

    def remove(self, name: str) -> None:
        """Uninstall a plugin; what it made for itself goes too."""
        known = self.read_installed()
        if not NAME.fullmatch(name) or (name not in known and not (self.folder / name).is_dir()):
            raise UserError(f"There is no plugin {name!r}.", "`cowork plugin list` has those that are installed.")
        for folder in (self.folder / name, self.data / name):
            shutil.rmtree(folder, ignore_errors=True)
        self._save({one: facts for one, facts in known.items() if one != name})

    def is_changed(self, name: str) -> bool:
        """Whether its files are not those that were installed."""
        with suppress(BadFile, OSError):
            return digest(self.folder / name) != self.read_installed().get(name, {}).get("digest")
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
    url, _, ref = source.rpartition("@")
    return (url, ref) if _WITH_PATH.fullmatch(url) and _REF.fullmatch(ref) else (source, "")


def _copy(folder: Path, place: Path) -> None:
    for path in plugin_files(folder):
        target = place / path.relative_to(folder)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.is_symlink():
            os.symlink(os.readlink(path), target)
        elif path.is_file():
            shutil.copy2(path, target)
