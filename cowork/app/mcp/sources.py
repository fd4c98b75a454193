"""Where servers are configured, which of a project's a person has approved, and the tokens of logins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from cowork.app.project import Project
from cowork.config import keyring, paths
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.git import project_root
from cowork.mcp.content import table
from cowork.mcp.entries import Scope, ServerEntry, entries_of, read_file, strongest
from cowork.permissions.private import write_private

PROJECT_FILE = ".mcp.json"


def user_file(environ: Mapping[str, str]) -> Path:
    """The person's servers, for everywhere and for single folders."""
    return paths.config_dir(environ) / "mcp.json"


def configured(place: Project) -> tuple[dict[str, ServerEntry], list[str]]:
    """(the servers of a run by name, what is wrong with their files)."""
    flag = place.options.mcp_config
    found, problems = entries_of(place.config.mcp_servers, "config", "[mcp.servers] of config.toml")
    entries, wrong = entries_of(place.invoker.extensions.servers, "user", "a plugin")
    found, problems = found + entries, problems + wrong
    if not place.options.bare:
        own = user_file(place.environ)
        folder = project_root(place.root)
        sources: list[tuple[Path, Scope, Path | None]] = [(own, "user", None), (own, "local", folder)]
        if place.trusted:
            sources.append((folder / PROJECT_FILE, "project", None))
        for path, scope, only in sources:
            entries, wrong = read_file(path, scope, only)
            found, problems = found + entries, problems + wrong
    if flag is not None:
        if not flag.is_file():
            raise UserError(f"--mcp-config: {flag} is not a file.", 'It holds {"mcpServers": {…}}.')
        entries, wrong = read_file(flag, "flag")
        found, problems = found + entries, problems + wrong
    entries, wrong = entries_of(place.options.mcp_servers, "flag", "the program that runs cowork")
    found, problems = found + entries, problems + wrong
    refused = place.config.mcp.disabled
    return {name: entry for name, entry in strongest(found).items() if name not in refused}, problems


class Approvals:
    """Which servers of projects a person has approved, as they were written then."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._file = paths.state_dir(environ) / "mcp_approved.json"

    def has(self, root: Path, entry: ServerEntry) -> bool:
        return table(self._read().get(str(project_root(root)), {})).get(entry.name) == entry.digest

    def add(self, root: Path, entry: ServerEntry) -> None:
        kept = self._read()
        kept.setdefault(str(project_root(root)), {})[entry.name] = entry.digest
        write_private(self._file, json.dumps(kept, indent=1))

    def _read(self) -> Json:
        try:
            return table(json.loads(self._file.read_bytes()))
        except (OSError, ValueError):
            return {}


class KeptTokens:
    """What a login to a server gave, where /login keeps keys: by its name and address, so no other gets it."""

    def __init__(self, entry: ServerEntry, environ: Mapping[str, str]) -> None:
        mark = hashlib.sha256(entry.url.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        self._name, self._environ = f"MCP_{entry.name}_{mark}", environ

    def get(self) -> Json:
        try:
            return table(json.loads(keyring.stored(self._name, self._environ) or "{}"))
        except ValueError:
            return {}

    def put(self, kept: Json) -> None:
        keyring.keep(self._name, json.dumps(kept) if kept else "", self._environ)


def change_file(path: Path, name: str, entry: Json | None, folder: Path | None = None) -> bool:
    """Write an entry to a file, or remove it; False when there was none to remove."""
    try:
        whole = json.loads(path.read_bytes()) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}.", "Mend it first.") from error
    if not isinstance(whole, dict):
        raise UserError(f"{path} holds no table.", "Mend it first.")
    table = whole.setdefault("projects", {}).setdefault(str(folder), {}) if folder else whole
    servers = table.setdefault("mcpServers", {})
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
