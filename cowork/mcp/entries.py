"""Configured servers: entries of `.mcp.json` and its like, checked, and filled in from the environment."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from cowork.core.blocks import Json, as_object
from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.core.workspace import load_json

Scope = Literal["local", "project", "user", "config", "flag", "agent"]
MOST_BYTES = 1 << 20  # of a file of servers
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# What a project's file may not read, whatever a person says to its server: the keys of our own models.
_OURS = re.compile(r"(LLM|LIGHT_LLM|COWORK)_|(ANTHROPIC|OPENAI|OPENROUTER|AZURE_OPENAI|GEMINI|GROQ|MISTRAL)_API_KEY$")
_HEADER = re.compile(r"[\x20-\x7e\t]*")
_TYPES = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "http"}
_KINDS: Mapping[str, tuple[str, Any]] = {
    **dict.fromkeys(("type", "command", "cwd", "url"), ("text", str)),
    **dict.fromkeys(("args", "writable"), ("a list", list)),
    **dict.fromkeys(("env", "headers", "oauth"), ("a table", dict)),
    **dict.fromkeys(("alwaysLoad", "disabled", "box", "network"), ("true or false", bool)),
    "timeout": ("a number", int | float),
}
_FILLED = ("headers", "url", "command", "args", "env", "cwd", "writable", "oauth")
_FLAGS = {"always_load": "alwaysLoad", "box": "box", "network": "network"}


@frozen
class ServerEntry:
    """How to reach one server."""

    name: str
    scope: Scope
    raw: Json = field(repr=False)  # as written, `${VAR}` and all
    where: str = ""  # the file it is from
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 0.0  # seconds of silence; 0: as usual
    always_load: bool = False  # its tools are never deferred
    disabled: bool = False
    box: bool = False
    writable: tuple[str, ...] = ()  # folders, in the box
    network: bool = False  # in the box
    oauth: Mapping[str, str] = field(default_factory=dict)  # client_id, client_secret, scope
    missing: tuple[str, ...] = ()  # variables that are not set

    @property
    def digest(self) -> str:
        """What a person's yes is about: the name and all that is written of it."""
        text = json.dumps([self.name, self.raw], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def folder(self, root: Path) -> Path:
        """What its relative paths start from: the folder of a project's file, else the root of the run."""
        return Path(self.where).parent if self.scope == "project" else root

    @property
    def line(self) -> str:
        """What would be run or reached, as written."""
        if url := self.raw.get("url"):
            return str(url)
        return " ".join([str(self.raw.get("command", "")), *map(str, self.raw.get("args", ()))])


def read_file(path: Path, scope: Scope, folder: Path | None = None) -> tuple[list[ServerEntry], list[str]]:
    """(entries, problems) of a file; `folder` picks what the user's file holds for that folder alone."""
    try:
        found = load_json(path, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as error:
        return [], [f"{path} cannot be read: {error.strerror}"]
    except ValueError as error:
        return [], [f"{path} is not JSON: {error}"]
    if folder is not None:
        found = as_object(as_object(found).get("projects")).get(str(folder), {})
    servers = found.get("mcpServers", {}) if isinstance(found, dict) else None
    if not isinstance(servers, dict):
        return [], [f'{path} has no table "mcpServers"']
    return entries_of(servers, scope, str(path))


def entries_of(servers: Mapping[str, Any], scope: Scope, where: str) -> tuple[list[ServerEntry], list[str]]:
    """(entries, problems): one bad entry does not keep the others from loading."""
    entries, problems = [], []
    for name, raw in servers.items():
        try:
            entries.append(entry_of(str(name), raw, scope, where))
        except ValueError as problem:
            problems.append(f"{where}: server {str(name)[:64]!r} {problem}")
    return entries, problems


def entry_of(name: str, raw: Any, scope: Scope, where: str = "") -> ServerEntry:
    """One entry, checked; ValueError says what is wrong with it."""
    if not _NAME.fullmatch(name) or "__" in name:
        raise ValueError("needs a name of letters, digits, - and _ (no __), at most 64")
    if not isinstance(raw, dict):
        raise ValueError("must be a table")
    for key, value in raw.items():
        wanted, kind = _KINDS.get(key, ("", object))
        if not isinstance(value, kind) or (key == "timeout" and isinstance(value, bool)):
            raise ValueError(f"{key} must be {wanted}")
    way = _TYPES.get(str(raw.get("type") or ("http" if raw.get("url") else "stdio")))
    if way is None:
        raise ValueError(f"has the type {raw['type']!r}; cowork knows stdio and http")
    if not raw.get(needed := "url" if way == "http" else "command"):
        raise ValueError(f"needs a {needed}")
    texts = [*raw.get("args", ()), *raw.get("writable", ())]
    texts += [text for key in ("env", "headers", "oauth") for text in raw.get(key, {}).values()]
    if not all(isinstance(text, str | int) for text in texts):
        raise ValueError("holds something that is not text")
    return ServerEntry(name, scope, raw, where, disabled=bool(raw.get("disabled")))


def fill(entry: ServerEntry, environ: Mapping[str, str]) -> ServerEntry:
    """The entry with `${VAR}` and `${VAR:-default}` replaced; what is not set stays as it is written, and is named."""
    missing: dict[str, None] = {}

    def value_of(found: re.Match[str]) -> str:
        name, default = found.group(1), found.group(2)
        given = None if entry.scope in ("project", "agent") and _OURS.match(name) else environ.get(name)
        if given is None and default is None:
            missing[name] = None
            return found.group()
        return given or default or ""

    def fill_value(given: Any) -> Any:
        if isinstance(given, dict):
            return {str(name): fill_value(value) for name, value in given.items()}
        return tuple(map(fill_value, given)) if isinstance(given, list) else _VARIABLE.sub(value_of, str(given))

    raw = entry.raw
    texts: Json = {}
    for key in _FILLED:
        if key in raw and not (key == "command" and texts.get("url")):  # a command beside an address is never run
            texts[key] = fill_value(raw[key])
    headers, url = texts.get("headers", {}), texts.get("url", "")
    if bad := [name for name, value in headers.items() if not _HEADER.fullmatch(name + value) or ":" in name]:
        raise UserError(f"MCP server {entry.name}: the header {bad[0][:40]!r} holds characters a header cannot have.")
    if url and not _is_address(url):
        raise UserError(f"MCP server {entry.name}: {url[:100]} is no http:// or https:// address.")
    flags: Json = {name: bool(raw.get(key)) for name, key in _FLAGS.items()}
    timeout = float(raw.get("timeout", 0)) / 1000
    return replace(entry, **texts, **flags, timeout=timeout, missing=tuple(missing))


def _is_address(url: str) -> bool:
    try:
        return re.match(r"https?://[^/\s]+", url) is not None and urlsplit(url).port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        return False
