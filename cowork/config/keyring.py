"""Keys in the system's keyring (needs the `keyring` package), or else in a file that only its owner can read.

Each is kept under the name of the variable it would be in.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cowork.config import paths
from cowork.core.blocks import as_object
from cowork.core.errors import UserError
from cowork.core.workspace import load_json
from cowork.private_files import write_private

SERVICE = "cowork"


def read(name: str, environ: Mapping[str, str] | None = None) -> str:
    """The key kept under a name; empty where there is none, or no keyring that answers."""
    if not name:
        return ""
    if environ is not None and (kept := read_file(environ).get(name)):
        return kept
    try:
        return str(_call("get_password", name) or "").strip()
    except UserError:  # a locked or missing keyring is the same as no key
        return ""


def read_file(environ: Mapping[str, str]) -> dict[str, str]:
    """The names that were kept by `keep`, each with its key, empty where the keyring has it."""
    try:
        found = as_object(load_json(_file(environ)))
    except (OSError, ValueError):
        return {}
    return {str(name): str(key) for name, key in found.items()}


def keep(name: str, key: str, environ: Mapping[str, str]) -> Path | None:
    """Keep a key in the keyring, else in a file; gives the file if it is there, unencrypted."""
    try:
        store(name, key)
        secret = ""
    except UserError:
        secret = key
    path = _file(environ)
    write_private(path, json.dumps({**read_file(environ), name: secret}))
    return path if secret else None


def _file(environ: Mapping[str, str]) -> Path:
    return paths.config_dir(environ) / "credentials.json"


def store(name: str, key: str) -> None:
    """Keep a key; complains where there is no keyring."""
    _call("set_password", name, key)


def forget(name: str) -> None:
    """Remove a key."""
    _call("delete_password", name)


def _call(action: str, *words: str) -> Any:
    if importlib.util.find_spec("keyring") is None:
        raise UserError("The package keyring is not installed.", "pip install 'cowork[keyring]', or export the key.")
    try:
        return getattr(importlib.import_module("keyring"), action)(SERVICE, *words)
    except Exception as error:  # the backends share no error class
        raise UserError(f"The keyring refused: {type(error).__name__}: {error}", "Export the key instead.") from error
