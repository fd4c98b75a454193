"""Keys in the system's keyring, under the name of the variable they would be in. Needs the `keyring` package."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from cowork.core.errors import UserError

SERVICE = "cowork"


def stored(name: str) -> str:
    """The key kept under a name; empty where there is none, or no keyring that answers."""
    if not name or importlib.util.find_spec("keyring") is None:
        return ""
    try:
        return str(_keyring().get_password(SERVICE, name) or "").strip()
    except Exception:  # a locked or missing backend is the same as no key; the backends share no error class
        return ""


def store(name: str, key: str) -> None:
    """Keep a key; complains where there is no keyring."""
    _changed("set_password", name, key)


def forget(name: str) -> None:
    """Remove a key."""
    _changed("delete_password", name)


def _changed(action: str, *words: str) -> None:
    if importlib.util.find_spec("keyring") is None:
        raise UserError("The package keyring is not installed.", "pip install 'cowork[keyring]', or export the key.")
    try:
        getattr(_keyring(), action)(SERVICE, *words)
    except Exception as error:  # as above
        raise UserError(f"The keyring refused: {type(error).__name__}: {error}", "Export the key instead.") from error


def _keyring() -> Any:
    return importlib.import_module("keyring")
