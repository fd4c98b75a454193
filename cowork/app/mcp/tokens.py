"""Keeps what logins to servers gave, where /login keeps keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from cowork.config import keyring
from cowork.core.blocks import Json
from cowork.mcp.entries import ServerEntry


class KeptTokens:
    """The token of one server, by its name and address: another address gets no token of this one."""

    def __init__(self, entry: ServerEntry, environ: Mapping[str, str]) -> None:
        mark = hashlib.sha256(entry.url.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        self._name, self._environ = f"MCP_{entry.name}_{mark}", environ

    def get(self) -> Json:
        try:
            found = json.loads(keyring.stored(self._name, self._environ) or "{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def put(self, kept: Json) -> None:
        keyring.keep(self._name, json.dumps(kept) if kept else "", self._environ)
