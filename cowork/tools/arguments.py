"""Checks the arguments of tool calls: exact, with forgiveness only for what cannot mean anything else.

`"5"` for 5 or null for an optional parameter is taken; no other guess is made, and every problem is named at once,
so that a model needs one more try and not five.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.later import later

with later(__name__):
    from cowork.tools import json_schema

Place = tuple[str | int, ...]
Problem = tuple[Place, str]


def check(schema: Json, args: object) -> Json:
    """The arguments as the tool may take them, or INVALID_PARAM that names every problem."""
    try:
        given = _forgive(schema, {} if args is None else args)
        found = [*problems(schema, given), *_unusable(given)]
        if not found and _foreign(schema):
            found = [((), problem) for problem in json_schema.validate(schema, given)]
    except RecursionError:
        found = [((), "nested too deeply to check")]
    if found:
        text = "; ".join(_about_parameter(place, message) for place, message in found)
        raise ToolError("INVALID_PARAM", f"Invalid input: {text}", problems=[f"{path(p)}: {m}" for p, m in found])
    return dict(given)


_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMES = ("file_path", "path")  # a file's name may hold bytes that are no UTF-8, which Python spells as surrogates
_TEXTS = ("content", "old_string", "new_string")  # what a file may hold, a file may be given


def _unusable(args: object) -> Iterator[Problem]:
    """Characters that no pattern, word or message can carry, wherever they are."""
    for place, value in walk(args):
        if not place or not isinstance(value, str):
            continue
        if place[-1] not in _NAMES and _SURROGATE.search(value):
            yield place, "holds half a character (a lone surrogate). Send it whole"
        if place[-1] not in _TEXTS and "\0" in value:
            yield place, "holds a NUL character. Leave it out"


def walk(value: object, place: Place = ()) -> Iterator[tuple[Place, object]]:
    """A JSON value and all that is in it, each with its place."""
    yield place, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        yield from walk(part, (*place, name))


def _forgive(schema: Any, value: object) -> Any:
    """The value as its schema can only mean it: `"5"` as 5, JSON in a string as what it says, null as not given."""
    if not isinstance(schema, dict):
        return value
    if "anyOf" in schema and any(problems(schema, value)):
        forgiven = (_forgive(kind, value) for kind in schema["anyOf"])
        return next((one for one in forgiven if not any(problems(schema, one))), value)
    kind = schema.get("type")
    if isinstance(value, str) and isinstance(kind, str) and kind not in ("string", "null"):
        with contextlib.suppress(ValueError, RecursionError):
            parsed = json.loads(value.lower() if kind == "boolean" else value)
            value = parsed if _is(kind, parsed) else value
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "array" and isinstance(value, list):
        return [_forgive(schema.get("items"), item) for item in value]
    if kind != "object" or not isinstance(value, dict):
        return value
    properties, required = schema.get("properties", {}), schema.get("required", ())
    optional = {name for name in properties if name not in required and any(problems(properties[name], None))}
    return {
        name: _forgive(properties.get(name), inner)
        for name, inner in value.items()
        if inner is not None or name not in optional
    }


def _about_parameter(place: Place, message: str) -> str:
    name = path(place)[2:] if place and isinstance(place[0], str) else path(place)
    if message == "missing":
        return f"missing field `{name}`"
    if message.startswith("unknown"):
        return message.replace("unknown", f"unknown parameter `{name}`", 1)
    return f"`{name}` {message}" if place else f"the arguments: {message}"


# ---------------------------------------------------------------- the keywords our own schemas use

_OWN = frozenset(("type", "properties", "required", "additionalProperties", "items", "enum", "minimum", "maximum"))
_OWN |= {"minLength", "description", "default", "anyOf"}


def problems(schema: Any, value: object, place: Place = ()) -> Iterator[Problem]:
    """What is wrong with a value, as places and messages, by the keywords that the schemas of our own tools use."""
    if not isinstance(schema, dict):
        return
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds or []
    if kinds and not any(_is(kind, value) for kind in kinds):
        expected = " or ".join(_TYPES[kind][0] if kind in _TYPES else str(kind) for kind in kinds)
        yield place, f"expected {expected}, got {_say(value)}"
        return  # what follows would only repeat it in other words
    if "enum" in schema and value not in schema["enum"]:
        yield place, f"must be one of {', '.join(map(_show, schema['enum']))}; got {_say(value)}"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        least = schema["minLength"]
        yield place, "must not be empty" if least == 1 else f"must have at least {least} characters, has {len(value)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if (low is not None and value < low) or (high is not None and value > high):
            wanted = f"at most {_show(high)}" if low is None else f"at least {_show(low)}"
            both = f"between {_show(low)} and {_show(high)}"
            yield place, f"must be {wanted if low is None or high is None else both}, got {_show(value)}"
    if "anyOf" in schema:
        yield from _of_any([list(problems(kind, value, place)) for kind in schema["anyOf"]], place)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from (((*place, name), "missing") for name in schema.get("required", ()) if name not in value)
        for name, inner in value.items():
            if name not in properties and schema.get("additionalProperties") is False:
                yield (*place, name), _unknown(name, list(properties))
            else:
                yield from problems(properties.get(name), inner, (*place, name))
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from problems(schema.get("items"), item, (*place, number))


def _of_any(found: list[list[Problem]], place: Place) -> Iterator[Problem]:
    """What is wrong by every one of several schemas: inside the one that was meant, else what each expected."""
    if not all(found):
        return
    inside = [problems for problems in found if problems[0][0] != place]
    if inside:
        yield from inside[0]
    else:
        yield place, ", or ".join(dict.fromkeys(problems[0][1].partition(", got")[0] for problems in found))


def _foreign(schema: object) -> bool:
    """Whether a schema says more than `problems` understands."""
    if not isinstance(schema, dict):
        return False
    known = _OWN.issuperset(schema) and schema.get("additionalProperties", False) in (True, False)
    kinds = schema.get("anyOf", ())
    inner = [*schema.get("properties", {}).values(), schema.get("items"), *kinds]
    return not known or True in kinds or False in kinds or any(map(_foreign, inner))


def nearest(name: str, known: Sequence[str], count: int = 1) -> list[str]:
    """The known names most like this one, case, `-` and `_` aside; empty when none is."""

    def plain(text: str) -> str:
        return re.sub(r"[^a-z0-9]", "", text.lower())

    by_plain = {plain(option): option for option in known}
    close = difflib.get_close_matches(plain(name), list(by_plain), count, 0.6)
    if not close and len(plain(name)) >= 3:
        close = [option for option in by_plain if plain(name) in option or option in plain(name)][:count]
    return [by_plain[option] for option in close]


def path(place: Place) -> str:
    """The place as a JSON path: `$.edits[0].old_string`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)


_TYPES: dict[str, tuple[str, type]] = {
    "string": ("a string", str),
    "integer": ("an integer", int),
    "number": ("a number", float),
    "boolean": ("true or false", bool),
    "array": ("an array", list),
    "object": ("an object", dict),
    "null": ("null", type(None)),
}


def _is(kind: str, value: object) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    if kind == "number":
        return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return kind in _TYPES and isinstance(value, _TYPES[kind][1])


def _unknown(name: str, known: list[str]) -> str:
    if not known:
        return "unknown (there are no parameters)"
    near = nearest(name, known)
    hint = f"did you mean `{near[0]}`? " if near else ""
    return f"unknown ({hint}allowed: {', '.join(known)})"


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else text[:77] + "…"


def _say(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    kinds = {bool: "boolean", int: "number", float: "number", str: "string"}
    return f"the {kinds.get(type(value), 'object')} {_show(value)}"
