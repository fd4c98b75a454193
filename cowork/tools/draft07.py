"""A draft-07 validator to the letter: what is wrong with a value, each with its place. No coercion, no packages."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cowork.core.blocks import Json

Place = tuple[str | int, ...]
Problem = tuple[Place, str]

MAX_DEPTH = 100


def validate(schema: Json | bool, value: object) -> list[str]:
    """What is wrong with the value, each with its JSON path; nothing is coerced."""
    return [f"{path(place)}: {message}" for place, message in problems(schema, value)]


def schema_problems(schema: object) -> list[str]:
    """What is wrong with a schema somebody else wrote; empty when `validate` can use it."""
    found = validate(META, schema)
    if found or not isinstance(schema, dict):
        return found
    for place, inner in _subschemas(schema, ()):
        for pattern in [inner.get("pattern"), *inner.get("patternProperties", {})]:
            if pattern is not None and (why := _bad_pattern(pattern)):
                found.append(f"{path(place)}.pattern: {why}")
        ref = inner.get("$ref")
        if ref is not None and _resolve(schema, ref) is None:
            found.append(f"{path(place)}.$ref: {ref} is not a definition in this schema")
    return found


def problems(schema: Json | bool, value: object) -> Iterator[Problem]:
    """What is wrong with the value, as places and messages."""
    return _problems(schema, value, (), _Walk(schema))


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


class _Walk(NamedTuple):
    """What one validation knows: the whole schema for `$ref`, and how deep it is."""

    root: object
    depth: int = 0


def _problems(schema: Any, value: object, place: Place, walk: _Walk) -> Iterator[Problem]:
    if schema is True or schema == {}:
        return
    if schema is False:
        yield place, "nothing is allowed here"
        return
    if walk.depth >= MAX_DEPTH:
        yield place, "nested too deeply to check"
        return
    walk = _Walk(walk.root, walk.depth + 1)
    if "$ref" in schema:  # in draft-07 a $ref stands alone
        target = _resolve(walk.root, schema["$ref"])
        if target is None:
            yield place, f"the schema refers to {schema['$ref']}, which does not exist"
        else:
            yield from _problems(target, value, place, walk)
        return
    wrong = list(_of_type(schema, value, place))
    yield from wrong
    if wrong:  # what follows would only repeat it in other words
        return
    for keywords in (_of_value, _of_object, _of_array, _of_combination):
        yield from keywords(schema, value, place, walk)


def _of_type(schema: Json, value: object, place: Place) -> Iterator[Problem]:
    kinds = schema.get("type")
    if kinds is None:
        return
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(_is(kind, value) for kind in kinds):
        yield place, f"expected {' or '.join(_A.get(k, str(k)) for k in kinds)}, got {_say(value)}"


def _of_value(schema: Json, value: object, place: Place, walk: _Walk) -> Iterator[Problem]:
    if "const" in schema and not same(value, schema["const"]):
        yield place, f"must be {_show(schema['const'])}, got {_say(value)}"
    if "enum" in schema and not any(same(value, option) for option in schema["enum"]):
        yield place, f"must be one of {', '.join(_show(o) for o in schema['enum'])}; got {_say(value)}"
    if isinstance(value, str):
        yield from _of_string(schema, value, place)
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(schema, value, place)


def _of_string(schema: Json, value: str, place: Place) -> Iterator[Problem]:
    if len(value) < schema.get("minLength", 0):
        least = schema["minLength"]
        said = "must not be empty" if least == 1 else f"must have at least {least} characters, has {len(value)}"
        yield place, said
    if len(value) > schema.get("maxLength", math.inf):
        yield place, f"must have at most {schema['maxLength']} characters, has {len(value)}"
    pattern = schema.get("pattern")
    if pattern is None:
        return
    if why := _bad_pattern(pattern):
        yield place, f"the schema's pattern {_show(pattern)} cannot be used: {why}"
    elif not re.search(pattern, value):
        yield place, f"must match the pattern {_show(pattern)}, got {_say(value)}"


def _of_number(schema: Json, value: float, place: Place) -> Iterator[Problem]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        yield place, f"must be {_range(low, high)}, got {_show(value)}"
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is not None and value <= above:
        yield place, f"must be more than {_show(above)}, got {_show(value)}"
    if below is not None and value >= below:
        yield place, f"must be less than {_show(below)}, got {_show(value)}"
    step = schema.get("multipleOf")
    if step and not math.isclose(value / step, round(value / step), rel_tol=0, abs_tol=1e-9):
        yield place, f"must be a multiple of {_show(step)}, got {_show(value)}"


def _of_object(schema: Json, value: object, place: Place, walk: _Walk) -> Iterator[Problem]:
    if not isinstance(value, dict):
        return
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield (*place, name), "missing"
    if len(value) < schema.get("minProperties", 0):
        yield place, f"must have at least {schema['minProperties']} members, has {len(value)}"
    if len(value) > schema.get("maxProperties", math.inf):
        yield place, f"must have at most {schema['maxProperties']} members, has {len(value)}"
    for name, inner in value.items():
        known = [properties[name]] if name in properties else []
        known += [s for pattern, s in patterns.items() if not _bad_pattern(pattern) and re.search(pattern, name)]
        other = schema.get("additionalProperties", True)
        if not known and other is False:
            yield (*place, name), _unknown(name, list(properties))
            continue
        for subschema in known or [other]:
            yield from _problems(subschema, inner, (*place, name), walk)
        if "propertyNames" in schema:
            yield from _problems(schema["propertyNames"], name, (*place, name), walk)


def _of_array(schema: Json, value: object, place: Place, walk: _Walk) -> Iterator[Problem]:
    if not isinstance(value, list):
        return
    if len(value) < schema.get("minItems", 0):
        yield place, f"must have at least {schema['minItems']} items, has {len(value)}"
    if len(value) > schema.get("maxItems", math.inf):
        yield place, f"must have at most {schema['maxItems']} items, has {len(value)}"
    if schema.get("uniqueItems") and len({_identity(item) for item in value}) < len(value):
        yield place, "items must differ from each other"
    items = schema.get("items", True)
    for index, item in enumerate(value):
        subschema = items
        if isinstance(items, list):
            subschema = items[index] if index < len(items) else schema.get("additionalItems", True)
        yield from _problems(subschema, item, (*place, index), walk)
    if "contains" in schema and all(_first(schema["contains"], item, walk) for item in value):
        yield place, "no item is of the kind it must contain"


def _of_combination(schema: Json, value: object, place: Place, walk: _Walk) -> Iterator[Problem]:
    for subschema in schema.get("allOf", ()):
        yield from _problems(subschema, value, place, walk)
    for keyword in ("anyOf", "oneOf"):
        forms = schema.get(keyword, ())
        whys = [_first(form, value, walk) for form in forms]
        fitting = whys.count(None)
        if forms and not fitting:
            said = "; or ".join(f"{path(p)[2:]} {m}" if p else m for p, m in filter(None, whys[:4]))
            yield place, f"fits none of the {len(forms)} allowed forms: {said}"
        if keyword == "oneOf" and fitting > 1:
            yield place, f"fits {fitting} of the forms of which it must fit exactly one"
    if "not" in schema and _first(schema["not"], value, walk) is None:
        yield place, f"is of a form that is not allowed: {_say(value)}"
    if "if" in schema:
        branch = "then" if _first(schema["if"], value, walk) is None else "else"
        yield from _problems(schema.get(branch, True), value, place, walk)


def _first(schema: Any, value: object, walk: _Walk) -> Problem | None:
    return next(_problems(schema, value, (), walk), None)


def _is(kind: str, value: object) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return False


def same(a: object, b: object) -> bool:
    """Equality as JSON has it: 1 is 1.0, true is not 1."""
    return _identity(a) == _identity(b)


def _identity(value: object) -> object:
    match value:
        case dict():
            return ("object", frozenset((name, _identity(inner)) for name, inner in value.items()))
        case list():
            return ("array", tuple(_identity(item) for item in value))
        case bool() | str() | None:
            return (type(value).__name__, value)
    return ("number", value)


def _resolve(root: object, ref: object) -> Any:
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    here: Any = root
    for part in ref[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return here if isinstance(here, dict | bool) else None


def _bad_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression ({error})"
    return ""


_A = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def _unknown(name: str, known: list[str]) -> str:
    if not known:
        return "unknown (there are no parameters)"
    near = nearest(name, known)
    hint = f"did you mean `{near[0]}`? " if near else ""
    return f"unknown ({hint}allowed: {', '.join(known)})"


def _range(low: object, high: object) -> str:
    if low is not None and high is not None:
        return f"between {_show(low)} and {_show(high)}"
    return f"at least {_show(low)}" if low is not None else f"at most {_show(high)}"


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else text[:77] + "…"


def _say(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {_show(value)}"
        case int() | float():
            return f"the number {_show(value)}"
        case str():
            return f"the string {_show(value)}"
        case list():
            return f"an array of {len(value)}"
    return f"the object {_show(value)}"


# ---------------------------------------------------------------- schemas of schemas

_SELF: Json = {"$ref": "#"}
_STRING: Json = {"type": "string"}
_NUMBER: Json = {"type": "number"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_MANY: Json = {"type": "array", "items": _SELF, "minItems": 1}
_NAMED: Json = {"type": "object", "additionalProperties": _SELF}
_KIND: Json = {"enum": list(_A)}

META: Json = {
    "type": ["object", "boolean"],
    "properties": {
        "type": {"anyOf": [_KIND, {"type": "array", "items": _KIND, "minItems": 1}]},
        "enum": {"type": "array", "minItems": 1},
        "required": {"type": "array", "items": {"type": "string"}},
        "items": {"anyOf": [_SELF, {"type": "array", "items": _SELF}]},
        **dict.fromkeys(("properties", "patternProperties", "definitions", "$defs"), _NAMED),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), _MANY),
        **dict.fromkeys(("not", "if", "then", "else", "contains"), _SELF),
        **dict.fromkeys(("additionalProperties", "additionalItems", "propertyNames"), _SELF),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
        "multipleOf": {"type": "number", "exclusiveMinimum": 0},
        "uniqueItems": {"type": "boolean"},
        **dict.fromkeys(("pattern", "$ref", "description", "title"), _STRING),
    },
}
"""What `schema_problems` holds a schema against: the keywords `validate` knows."""

_SINGLE = ("not", "if", "then", "else", "contains", "additionalProperties", "additionalItems", "propertyNames", "items")


def _subschemas(schema: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    yield place, schema
    for keyword, inner in schema.items():
        if keyword in _SINGLE and isinstance(inner, dict):
            yield from _subschemas(inner, (*place, keyword))
        elif keyword in ("allOf", "anyOf", "oneOf", "items") and isinstance(inner, list):
            for index, item in enumerate(inner):
                if isinstance(item, dict):
                    yield from _subschemas(item, (*place, keyword, index))
        elif keyword in ("properties", "patternProperties", "definitions", "$defs"):
            for name, item in inner.items():
                if isinstance(item, dict):
                    yield from _subschemas(item, (*place, keyword, name))
