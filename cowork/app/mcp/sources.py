"""Where servers are configured, which of a project's a person has approved, and the tokens of logins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path

from cowork.app.project import Project
from cowork.config import keyring, paths
from cowork.core.blocks import Json, as_object
from cowork.core.errors import UserError
from cowork.core.git import project_root
from cowork.core.hygiene import visible_line
from cowork.mcp.entries import ServerEntry, entries_of, entry_of, read_file, strongest
from cowork.private_files import write_private

PROJECT_FILE = ".mcp.json"


def user_file(environ: Mapping[str, str]) -> Path:
    """The person's servers, for everywhere and for single folders."""
    return paths.config_dir(environ) / "mcp.json"


def configured(place: Project) -> tuple[dict[str, ServerEntry], list[str]]:
    """(the servers of a run by name, what is wrong with their files)."""
    options, own, folder = place.options, user_file(place.environ), project_root(place.root)
    looks = [entries_of(place.config.mcp_servers, "config", "[mcp.servers] of config.toml")]
    looks.append(entries_of(place.invoker.extensions.servers, "user", "a plugin"))
    if not options.bare:
        looks += [read_file(own, "user"), read_file(own, "local", folder)]
        looks += [read_file(folder / PROJECT_FILE, "project")] if place.trusted else []
    if options.mcp_config is not None:
        if not options.mcp_config.is_file():
            raise UserError(f"--mcp-config: {options.mcp_config} is not a file.", 'It holds {"mcpServers": {…}}.')
        looks.append(read_file(options.mcp_config, "flag"))
    looks.append(entries_of(options.mcp_servers, "flag", "the program that runs cowork"))
    found = [entry for entries, _ in looks for entry in entries]
    problems = [problem for _, wrong in looks for problem in wrong]
    refused = place.config.mcp.disabled
    return {name: entry for name, entry in strongest(found).items() if name not in refused}, problems


class Approvals:
    """Which servers of projects a person has approved, as they were written then."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._file = paths.state_dir(environ) / "mcp_approved.json"

    def has(self, root: Path, entry: ServerEntry) -> bool:
        return as_object(self._read().get(str(project_root(root)), {})).get(entry.name) == entry.digest

    def add(self, root: Path, entry: ServerEntry) -> None:
        kept = self._read()
        kept.setdefault(str(project_root(root)), {})[entry.name] = entry.digest
        write_private(self._file, json.dumps(kept, indent=1))

    def _read(self) -> Json:
        try:
            return as_object(json.loads(self._file.read_bytes()))
        except (OSError, ValueError):
            return {}


class KeptTokens:
    """What a login to a server gave, where /login keeps keys: by its name and address, so no other gets it."""

    def __init__(self, entry: ServerEntry, environ: Mapping[str, str]) -> None:
        mark = hashlib.sha256(entry.url.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        self._name, self._environ = f"MCP_{entry.name}_{mark}", environ

    def get(self) -> Json:
        try:
            return as_object(json.loads(keyring.stored(self._name, self._environ) or "{}"))
        except ValueError:
            return {}

    def put(self, kept: Json) -> None:
        keyring.keep(self._name, json.dumps(kept) if kept else "", self._environ)


def why_not(name: str, raw: Json, taken: Collection[str]) -> str:
    """Why a server of another program is not taken over; empty where it can be."""
    try:
        entry_of(name, raw, "user")
    except ValueError as problem:
        return visible_line(str(problem))
    return "exists already and stays" if name in taken else ""


def change_file(path: Path, name: str, entry: Json | None, folder: Path | None = None) -> bool:
    """Write an entry to a file, or remove it; False when there was none to remove."""
    try:
        whole = json.loads(path.read_bytes()) if path.exists() else {}
        servers = whole
        for key in ("projects", str(folder), "mcpServers") if folder else ("mcpServers",):
            servers = servers.setdefault(key, {})
        if not isinstance(servers, dict):
            raise ValueError("mcpServers is not an object")
    except (OSError, ValueError, AttributeError) as error:
        said = "it does not hold objects" if isinstance(error, AttributeError) else error
        raise UserError(f"{path} cannot be read: {said}.", "Mend it first.") from error
    if entry is None and name not in servers:
        return False
    if entry is None:
        del servers[name]
    else:
        servers[name] = entry
    text = json.dumps(whole, indent=2, ensure_ascii=False)
    try:
        if path.name == PROJECT_FILE:  # others read it too
            path.write_text(text + "\n", encoding="utf-8")
        else:
            write_private(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from error
    return True
