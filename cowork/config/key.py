"""What a configuration key is: its type, default, bounds, meaning, and how far a project may change it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, Literal

from cowork.core.later import later

with later(__name__):
    from json import dumps

Project = Literal["never", "lower", "off", "stricter", "add", "narrow"]
"""How a project file may set a key: not at all, to less, to false, to a later choice in `stricter`, by adding to
the list, or by picking from it."""


class Key:
    """One setting: a default, a line that says what it is for, and those of the facts below that apply."""

    name = ""  # its dotted path, given by the section that holds it
    kind = ""
    allowed: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    too_low: str = ""  # the words for a value below `low`, where the plain ones would not do
    too_high: str = ""
    zero: str = ""  # what 0 means, when 0 is allowed although it is below `low`
    zero_limit: float = math.inf  # and the limit that is
    extend: bool = False  # a list that grows from layer to layer
    secret: bool = False  # never shown
    shape: tuple[str, str] | None = None  # (pattern, words) of a text; a wrong one is not shown
    project: Project = "never"
    stricter: tuple[str, ...] = ()  # the choices from loose to strict
    flag: str = ""

    def __init__(self, default: Any, doc: str, **facts: Any) -> None:
        if unknown := facts.keys() - Key.__annotations__.keys():
            raise TypeError(f"a key has no {', '.join(sorted(unknown))}")
        self.default = default
        self.doc = doc
        self.__dict__.update({"project": "stricter"} if "stricter" in facts else {}, **facts)

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "COWORK_" + self.name.upper().replace(".", "_")

    @property
    def takes(self) -> str:
        """What is allowed, in words."""
        if self.allowed:
            return "one of " + ", ".join(choice or '""' for choice in self.allowed)
        words = self.shape[1] if self.shape else _KINDS[self.kind][0]
        if self.low is not None:
            words += f" of at least {self.low:,}" if self.high is None else f" from {self.low:,} to {self.high:,}"
        return f"{words}, or 0 ({self.zero})" if self.zero else words

    def wrong(self, value: Any) -> str:
        """Why the value will not do, as the words after the key; empty when it will."""
        words, fits = _KINDS[self.kind]
        if not fits(value):
            return f"must be {words}" + (" from 1,024" if self.kind == "Effort" else "")
        if self.allowed and value not in self.allowed:
            return "must be " + self.takes
        if self.shape and value and not re.fullmatch(self.shape[0], value):
            return f"must be {self.shape[1]}"
        if self.kind not in ("int", "float") or (value == 0 and self.zero):
            return ""
        if abs(value) == math.inf or value != value:
            return "must be a finite number"
        if self.low is not None and value < self.low:
            return self.too_low or f"must be at least {self.low:,}"
        if self.high is not None and value > self.high:
            return self.too_high or f"cannot exceed {self.high:,}"
        return ""


class Section:
    """A table of the file. Its keys are class attributes; an instance holds their values and cannot change."""

    table = ""  # its header in the file
    fields: tuple[Key, ...] = ()

    def __init_subclass__(cls, prefix: str, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        inherited = {key.name.rsplit(".", 1)[1]: copy(key) for key in cls.fields}
        for key in inherited.values():
            key.flag = ""
        found: dict[str, Key] = inherited | {name: cls.__dict__[name] for name in cls.__annotations__}
        for name, key in found.items():
            key.name, key.kind = f"{prefix}.{name}", cls.__annotations__.get(name, key.kind)
        cls.table, cls.fields = prefix, tuple(found.values())
        TABLES.append(cls)

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"the configuration is frozen: {name}")


TABLES: list[type[Section]] = []  # in the order of the file


def key(default: Any, doc: str, **rest: Any) -> Any:
    """Declare a key; the annotation beside it is its type."""
    return Key(default, doc, **rest)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {  # in words, and whether a value is of the kind
    "str": ("text", lambda value: isinstance(value, str)),
    "int": ("a whole number", _is_int),
    "float": ("a number", lambda value: _is_int(value) or isinstance(value, float)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "tuple[str, ...]": ("a list of text", lambda value: isinstance(value, list | tuple) and _are_texts(value)),
    "dict[str, str]": ("a table of text", lambda v: isinstance(v, dict) and _are_texts((*v, *v.values()))),
    "Effort": (
        "off, low, medium, high or a number of tokens",
        lambda value: value in ("off", "low", "medium", "high") or (_is_int(value) and value >= 1024),
    ),
}
_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def normalize(key: Key, value: Any) -> Any:
    """The value as the program keeps it: immutable, and a float where one is declared."""
    if key.kind == "tuple[str, ...]":
        return tuple(value)
    return float(value) if key.kind == "float" else value


def overlay(key: Key, old: Any, new: Any) -> Any:
    """What a stronger layer makes of the old value."""
    value = normalize(key, new)
    return (*old, *(item for item in value if item not in old)) if key.extend else value


def tighten(key: Key, old: Any, new: Any) -> Any:
    """What a project makes of the user's value: never looser than it was."""
    value = normalize(key, new)
    match key.project:
        case "add":
            return overlay(key, old, new)
        case "lower":
            return min((old, value), key=lambda number: key.zero_limit if number == 0 and key.zero else number)
        case "off":
            return old and value
        case "stricter":
            return max(old, value, key=key.stricter.index)
        case _:  # narrow; an empty list means everything, so a choice that leaves nothing must not become one
            return tuple(item for item in value if item in old) or old if old else value


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
    if isinstance(value, float):
        return f"{value:g}" if value == 0 or value >= 0.001 else f"{value:f}".rstrip("0")
    return dumps(value, ensure_ascii=False, default=str)
