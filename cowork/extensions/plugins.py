"""Plugins: a folder with a manifest that brings skills, commands, agents, hooks and MCP servers. Two layouts are read:
Agent Plugins 1.0 (`plugin.json`, `mcp.json`) and Claude's (`.claude-plugin/plugin.json`, `.mcp.json`)."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json
from cowork.core.front_matter import MAX_FILES, BadFile, Problem, json_of_file, leads_out, line_of
from cowork.core.frozen import frozen
from cowork.core.ports import AgentOrigin
from cowork.core.workspace import start_of

SCHEMAS = "https://agent-plugins.org/schemas/1.0.0/"
MANIFESTS = ("plugin.json", ".claude-plugin/plugin.json")
NAME = re.compile(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
_FIELDS: Mapping[str, type] = {
    "version": str, "description": str, "author": dict, "homepage": str, "repository": str, "license": str,
    "keywords": list,
}  # fmt: skip
_SERVER_FIELDS = {
    "stdio": ("command", "args", "env", "cwd"), "streamable-http": ("url", "headers"), "sse": ("url", "headers"),
}  # fmt: skip
_MOST_BYTES = 64 << 20


@frozen
class Plugin:
    """A plugin as its manifest describes it."""

    name: str
    root: Path
    origin: AgentOrigin = "user"
    version: str = ""
    description: str = ""
    standard: bool = True  # Agent Plugins 1.0; False: Claude's layout


def read_plugin(root: Path, origin: AgentOrigin = "user") -> tuple[Plugin | None, list[Problem]]:
    """The plugin in a folder, or None, and what is wrong with its manifest."""
    path = next((root / name for name in MANIFESTS if (root / name).is_file()), None)
    if path is None:
        wrong = BadFile(1, "there is no plugin.json", 'Write {"$schema": "…", "name": "…"} into plugin.json')
        return None, [wrong.problem(root)]
    standard = path.name == MANIFESTS[0] and path.parent == root
    try:
        found, text = _object(path, root)
        return _plugin(root, path, found, text, origin, standard=standard)
    except BadFile as bad:
        return None, [bad.problem(path)]


def _plugin(
    root: Path, path: Path, found: Json, text: str, origin: AgentOrigin, *, standard: bool
) -> tuple[Plugin, list[Problem]]:
    notes: list[Problem] = []
    if standard and found.get("$schema") != f"{SCHEMAS}plugin.schema.json":
        raise BadFile(
            line_of(text, "$schema"), "$schema: is not a version known here", f"Write {SCHEMAS}plugin.schema.json"
        )
    name = found.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadFile(line_of(text, "name"), "name: use a-z, 0-9, single - or ., 1 to 64 characters")
    for key, value in found.items():
        wanted = _FIELDS.get(key)
        if wanted and not isinstance(value, wanted):
            if standard:
                raise BadFile(line_of(text, key), f"{key}: must be {wanted.__name__}")
            notes.append(Problem(path, line_of(text, key), f"{key}: must be {wanted.__name__}", fatal=False))
        elif standard and not wanted and key not in ("$schema", "name", "extensions"):
            notes.append(Problem(path, line_of(text, key), f"{key}: is not a field of plugin.json", fatal=False))
    version, description = str(found.get("version") or ""), str(found.get("description") or "")
    return Plugin(name, root, origin, version, description, standard), notes


def read_servers(plugin: Plugin, data: Path) -> tuple[dict[str, Json], list[Problem]]:
    """The MCP servers of a plugin by name, as `.mcp.json` spells them; a wrong one leaves the others."""
    path = plugin.root / ("mcp.json" if plugin.standard else ".mcp.json")
    if not os.path.lexists(path):
        return {}, []
    try:
        found, text = _object(path, plugin.root)
        if plugin.standard and found.get("$schema") != f"{SCHEMAS}mcp.schema.json":
            raise BadFile(
                line_of(text, "$schema"), "$schema: is not that of plugin.json", f"Write {SCHEMAS}mcp.schema.json"
            )
        servers = found.get("mcpServers")
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
        return {**_expanded(given, plugin.root, data), "cwd": str(plugin.root)}
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
    server = _expanded(given, plugin.root, data)
    cwd = str(given.get("cwd", "${PLUGIN_ROOT}"))
    base = data if cwd.startswith("${PLUGIN_DATA}") else plugin.root
    where = Path(server.get("cwd") or plugin.root)
    where = where if where.is_absolute() else plugin.root / where
    if not cwd.startswith(("./", "${PLUGIN_ROOT}", "${PLUGIN_DATA}")) or leads_out(where, base):
        raise BadFile(line, "cwd: must stay in ./, ${PLUGIN_ROOT} or ${PLUGIN_DATA}")
    own = {"PLUGIN_ROOT": str(plugin.root), "PLUGIN_DATA": str(data)}
    program = str(plugin.root / command) if command.startswith("./") else command
    return {**server, "command": program, "env": {**server.get("env", {}), **own}, "cwd": str(where)}


def _expanded(given: Json, root: Path, data: Path) -> Json:
    """With the plugin's folders in args, env and cwd; Claude's spelling is known too, and also in command."""

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            names = {"ROOT": str(root), "DATA": str(data)}
            return re.sub(r"\$\{(?:CLAUDE_)?PLUGIN_(ROOT|DATA)\}", lambda m: names[m[1]], value)
        if isinstance(value, list):
            return [fill(one) for one in value]
        return {key: fill(one) for key, one in value.items()} if isinstance(value, dict) else value

    return {key: fill(value) if key in ("args", "env", "cwd", "command") else value for key, value in given.items()}


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
