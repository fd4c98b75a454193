"""Checks values against JSON Schemas that somebody else wrote, by `jsonschema`, which is loaded only for them.

Such a schema may be hostile: it loads nothing from elsewhere, and one with regular expressions is used in a process of
its own, since a pattern can take for ever.
"""

from __future__ import annotations

import json
from typing import Any

from cowork.core import spawn
from cowork.core.blocks import Json
from cowork.core.later import later
from cowork.tools import converter
from cowork.tools.arguments import path, walk

with later(__name__):
    from jsonschema import exceptions, validators
    from referencing import Registry
    from referencing import exceptions as reference_errors

SECONDS = 10
_SHOWN = 20  # problems
_LENGTH = 300  # characters of one
_DEEP = "$: nested too deeply to check"


def schema_problems(schema: object) -> list[str]:
    """What is wrong with a schema; empty when `validate` can use it."""
    try:
        kind = _kind(schema)
        kind.check_schema(schema)
        refs = [(place, ref) for place, ref in walk(schema) if place[-1:] == ("$ref",) and isinstance(ref, str)]
        return [
            f"{path(place)}: {ref} is not a definition in this schema" for place, ref in refs if not _leads(schema, ref)
        ]
    except RecursionError:
        return [_DEEP]
    except exceptions.SchemaError as error:
        return [_line(error)]


def validate(schema: Json | bool, value: object) -> list[str]:
    """What is wrong with the value, each with its JSON path; nothing is coerced."""
    try:
        if not any(place[-1:] in (("pattern",), ("patternProperties",)) for place, _ in walk(schema)):
            return _problems(schema, value)
        given = json.dumps([schema, value]).encode()
    except RecursionError:
        return [_DEEP]
    argv = converter.command(check_apart, seconds=SECONDS)
    try:
        done = spawn.run(argv, environ=converter.ENVIRON, seconds=SECONDS, given=given)
        found: list[str] = json.loads(done.stdout)
    except (OSError, ValueError):
        return ["$: the schema's patterns take too long to check"]
    return found


def check_apart(data: bytes) -> str:
    """The problems of a value as JSON, given it and its schema as JSON; runs in the child."""
    return json.dumps(_problems(*json.loads(data)))


def _problems(schema: Any, value: object) -> list[str]:
    try:
        # An empty registry: nothing is fetched that a $ref points to.
        checker = _kind(schema)(schema, registry=Registry())
        found = sorted(checker.iter_errors(value), key=lambda error: error.json_path)
    except RecursionError:
        return [_DEEP]
    except reference_errors.Unresolvable as error:
        return [f"$: the schema refers to {error.ref}, which does not exist"]
    return [_line(error) for error in found[:_SHOWN]]


def _kind(schema: Any) -> Any:
    """The draft a schema says it is of; else the newest, or draft-07 where only that takes it."""
    newest, older = validators.Draft202012Validator, validators.Draft7Validator
    if isinstance(schema, dict) and "$schema" in schema:
        return validators.validator_for(schema, default=newest)
    only_older = not newest(newest.META_SCHEMA).is_valid(schema) and older(older.META_SCHEMA).is_valid(schema)
    return older if only_older else newest


def _line(error: Any) -> str:
    return f"{error.json_path}: {error.message}"[:_LENGTH]


def _leads(here: Any, ref: str) -> bool:
    if not ref.startswith("#/"):
        return ref.startswith("#")
    for part in ref[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        elif isinstance(here, dict) and name in here:
            here = here[name]
        else:
            return False
    return isinstance(here, dict | bool)
