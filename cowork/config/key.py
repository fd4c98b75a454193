"""What a configuration key is: its type, default, bounds, meaning, and how far a project may change it."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

from cowork.core.errors import UserError

Project = Literal["never", "lower", "off", "stricter", "add", "narrow", "free"]
"""How a project file may set a key: not at all, to less, to false, to a later choice in `stricter`, by adding to
the list, by picking from it, or as it likes."""


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
        self.__dict__.update(facts)

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "COWORK_" + self.name.upper().replace(".", "_")

    @property
    def takes(self) -> str:
        """What is allowed, in words."""
        if self.kind == "Effort":
            return "off, low, medium, high or a number of tokens"
        if self.allowed:
            return "one of " + ", ".join(choice or '""' for choice in self.allowed)
        return (self.shape[1] if self.shape else _WORDS[self.kind]) + self._bounds()

    def _bounds(self) -> str:
        zero = f", or 0 ({self.zero})" if self.zero else ""
        if self.low is not None and self.high is not None:
            return f" from {self.low:,} to {self.high:,}{zero}"
        if self.low is not None:
            return f" of at least {self.low:,}{zero}"
        return zero

    def wrong(self, value: object) -> str:
        """Why the value will not do, as the words after the key; empty when it will."""
        if self.kind == "Effort":
            fine = value in ("off", "low", "medium", "high") or (_is_int(value) and _number(value) >= 1024)
            return "" if fine else "must be off, low, medium, high or a number of tokens from 1,024"
        if not _FITS[self.kind](value):
            return f"must be {_WORDS[self.kind]}"
        if self.allowed and value not in self.allowed:
            return "must be " + self.takes
        if self.kind in ("int", "float"):
            return self._out_of_range(_number(value))
        if self.shape and value and not re.fullmatch(self.shape[0], str(value)):
            return f"must be {self.shape[1]}"
        return ""

    def _out_of_range(self, number: float) -> str:
        if number != number or number in (float("inf"), float("-inf")):
            return "must be a finite number"
        if number == 0 and self.zero:
            return ""
        if self.low is not None and number < self.low:
            return self.too_low or f"must be at least {self.low:,}"
        if self.high is not None and number > self.high:
            return self.too_high or f"cannot exceed {self.high:,}"
        return ""


class Section:
    """A table of the file. Its keys are class attributes; an instance holds their values and cannot change."""

    table = ""  # its header in the file
    fields: tuple[Key, ...] = ()

    def __init_subclass__(cls, prefix: str = "", **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if not prefix:
            return
        cls.table = prefix
        found = []
        for name, kind in cls.__annotations__.items():
            key = cls.__dict__[name]
            key.name = f"{prefix}.{name}"
            key.kind = kind
            found.append(key)
        cls.fields = tuple(found)

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"the configuration is frozen: {name}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        secret = {key.name.rsplit(".", 1)[1] for key in self.fields if key.secret}
        shown = (f"{name}={'…' if name in secret and value else repr(value)}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({', '.join(shown)})"


def key(default: Any, doc: str, **rest: Any) -> Any:
    """Declare a key; the annotation beside it is its type."""
    return Key(default, doc, **rest)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_table(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for pair in value.items() for item in pair)


_FITS = {
    "str": lambda value: isinstance(value, str),
    "int": _is_int,
    "float": lambda value: _is_int(value) or isinstance(value, float),
    "bool": lambda value: isinstance(value, bool),
    "tuple[str, ...]": _is_texts,
    "dict[str, str]": _is_table,
}

_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple[str, ...]": "a list of text",
    "dict[str, str]": "a table of text",
    "Effort": "",
}


# ---------------------------------------------------------------- how one value gives way to the next


_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


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
