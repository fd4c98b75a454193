"""Checks the arguments of tool calls: exact, with forgiveness only for what cannot mean anything else.

`"5"` for 5 or null for an optional parameter is taken; no other guess is made, and every problem is named at once,
so that a model needs one more try and not five.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.tools.draft07 import Place, Problem, nearest, path, problems, schema_problems, validate

__all__ = ["check", "nearest", "schema_problems", "validate"]


def check(schema: Json, args: object) -> Json:
    """The arguments as the tool may take them, or INVALID_PARAM that names every problem."""
    given = _forgive(schema, {} if args is None else args)
    found = [*problems(schema, given), *_unusable(given, ())]
    if found:
        text = "; ".join(_about_parameter(place, message) for place, message in found)
        raise ToolError("INVALID_PARAM", f"Invalid input: {text}", problems=[f"{path(p)}: {m}" for p, m in found])
    return dict(given)


_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMES = ("file_path", "path")  # a file's name may hold bytes that are no UTF-8, which Python spells as surrogates
_TEXTS = ("content", "old_string", "new_string")  # what a file may hold, a file may be given


def _unusable(value: object, place: Place) -> Iterator[Problem]:
    """Characters that no pattern, word or message can carry, wherever they are."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _unusable(inner, (*place, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _unusable(inner, (*place, number))
    elif isinstance(value, str):
        if place[-1:] and place[-1] not in _NAMES and _SURROGATE.search(value):
            yield place, "holds half a character (a lone surrogate). Send it whole"
        if place[-1:] and place[-1] not in _TEXTS and "\0" in value:
            yield place, "holds a NUL character. Leave it out"


_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,18})?")


def _forgive(schema: Any, value: object) -> Any:
    if not isinstance(schema, dict):
        return value
    kind = schema.get("type")
    if isinstance(value, str) and isinstance(kind, str) and kind in _FROM_STRING:
        value = _FROM_STRING[kind](value.strip(), value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "array" and isinstance(value, list):
        return [_forgive(schema.get("items"), item) for item in value]
    if kind == "object" and isinstance(value, dict):
        return _forgive_object(schema, value)
    return value


def _forgive_object(schema: Json, value: Json) -> Json:
    properties, required = schema.get("properties", {}), schema.get("required", ())
    out: Json = {}
    for name, inner in value.items():
        if inner is None and name in properties and name not in required and not _takes_null(properties[name]):
            continue
        out[name] = _forgive(properties.get(name), inner)
    return out


def _takes_null(schema: Any) -> bool:
    return not any(problems(schema, None))


def _number_from(text: str, value: str) -> object:
    if not _NUMBER.fullmatch(text):
        return value
    return float(text) if "." in text else int(text)


def _boolean_from(text: str, value: str) -> object:
    return {"true": True, "false": False}.get(text.lower(), value)


def _container_from(text: str, value: str) -> object:
    if text[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return value


_FROM_STRING: dict[str, Callable[[str, str], object]] = {
    "integer": _number_from,
    "number": _number_from,
    "boolean": _boolean_from,
    "array": _container_from,
    "object": _container_from,
}


def _about_parameter(place: Place, message: str) -> str:
    name = path(place)[2:] if place and isinstance(place[0], str) else path(place)
    if message == "missing":
        return f"missing field `{name}`"
    if message.startswith("unknown"):
        return message.replace("unknown", f"unknown parameter `{name}`", 1)
    return f"`{name}` {message}" if place else f"the arguments: {message}"
