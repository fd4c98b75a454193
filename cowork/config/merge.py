"""How one value gives way to the next: plain, added to, or (from a project) only ever tighter."""

from __future__ import annotations

from typing import Any

from cowork.config.key import Key
from cowork.core.errors import UserError


def plain(key: Key, value: Any) -> Any:
    """The value as the program keeps it: immutable, and a float where one is declared."""
    if key.kind == "tuple[str, ...]":
        return tuple(value)
    return float(value) if key.kind == "float" else value


def over(key: Key, old: Any, new: Any) -> Any:
    """What a stronger layer makes of the old value."""
    value = plain(key, new)
    return (*old, *(item for item in value if item not in old)) if key.extend else value


def tightest(key: Key, old: Any, new: Any) -> Any:
    """What a project makes of the user's value: never looser than it was."""
    value = plain(key, new)
    match key.project:
        case "add":
            return over(key, old, new)
        case "lower":
            return min((old, value), key=lambda number: key.zero_limit if number == 0 and key.zero else number)
        case "off":
            return old and value
        case "stricter":
            return max(old, value, key=key.stricter.index)
        case "narrow":
            # An empty list means everything, so a choice that leaves nothing must not become one.
            return tuple(item for item in value if item in old) or old if old else value
        case _:
            return value


def refuse_variables(name: str, value: Any, origin: str) -> None:
    """A project must not read the user's environment through its settings."""
    texts = value if isinstance(value, list) else [*value, *value.values()] if isinstance(value, dict) else [value]
    if any(isinstance(text, str) and "${" in text for text in texts):
        raise UserError(
            f"config: {origin} {name} holds ${{…}}, which is refused in project files",
            "Write the value out, or set it in your own config file.",
        )


def from_text(key: Key, text: str) -> Any:
    """The value an environment variable spells; text that does not fit is left for the check to refuse."""
    if key.kind == "tuple[str, ...]":
        return split_list(text)
    if key.kind == "bool":
        return _BOOLEANS.get(text.strip().lower(), text)
    if key.kind in ("int", "float", "Effort"):
        try:
            return float(text) if key.kind == "float" else int(text)
        except ValueError:
            return text
    return text


def split_list(text: str) -> list[str]:
    """Parts between commas and line ends; a comma inside brackets belongs to its rule."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "\n" or (character == "," and depth <= 0):
            parts.append("")
            depth = 0
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def show(value: Any) -> str:
    """A value as TOML would spell it, short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(show(item) for item in value) + "]"
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{show(name)} = {show(item)}" for name, item in value.items()) + "}"
    elif isinstance(value, float):
        text = f"{value:g}" if value == 0 or value >= 0.001 else f"{value:f}".rstrip("0")
    else:
        text = str(value)
    return text


_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
