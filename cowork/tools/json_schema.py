"""Checks values against JSON Schemas that somebody else wrote, by `jsonschema`, which is loaded only for them.

Such a schema may be hostile: it loads nothing from elsewhere, and one with regular expressions is used in a process of
its own, since a pattern can take for ever.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

from cowork.core import spawn
from cowork.core.blocks import Json
from cowork.tools import converter

SECONDS = 10
_SHOWN = 20  # problems
_LENGTH = 300  # characters of one
_DEEP = "$: nested too deeply to check"


def schema_problems(schema: object) -> list[str]:
    """What is wrong with a schema; empty when `validate` can use it."""
    try:
        kind = _kind(schema)
        kind.check_schema(schema)
        refs = [(place, ref) for place, table in _tables(schema) if isinstance(ref := table.get("$ref"), str)]
        lost = [(place, ref) for place, ref in refs if not _leads(schema, ref)]
        return [f"{place}.$ref: {ref} is not a definition in this schema" for place, ref in lost]
    except RecursionError:
        return [_DEEP]
    except _library().exceptions.SchemaError as error:
        return [_line(error)]


def validate(schema: Json | bool, value: object) -> list[str]:
    """What is wrong with the value, each with its JSON path; nothing is coerced."""
    try:
        if not any("pattern" in table or "patternProperties" in table for _, table in _tables(schema)):
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
    referencing: Any = importlib.import_module("referencing")
    try:
        # An empty registry: nothing is fetched that a $ref points to.
        checker = _kind(schema)(schema, registry=referencing.Registry())
        found = sorted(checker.iter_errors(value), key=lambda error: error.json_path)
    except RecursionError:
        return [_DEEP]
    except referencing.exceptions.Unresolvable as error:
        return [f"$: the schema refers to {error.ref}, which does not exist"]
    return [_line(error) for error in found[:_SHOWN]]


def _kind(schema: Any) -> Any:
    """The draft a schema says it is of; else the newest, or draft-07 where only that takes it."""
    library = _library()
    newest, older = library.Draft202012Validator, library.Draft7Validator
    if isinstance(schema, dict) and "$schema" in schema:
        return library.validators.validator_for(schema, default=newest)
    only_older = not newest(newest.META_SCHEMA).is_valid(schema) and older(older.META_SCHEMA).is_valid(schema)
    return older if only_older else newest


def _library() -> Any:
    return importlib.import_module("jsonschema")


def _line(error: Any) -> str:
    return f"{error.json_path}: {error.message}"[:_LENGTH]


def _tables(here: object, place: str = "$") -> Iterator[tuple[str, Json]]:
    """Every table in a schema, with its place."""
    if isinstance(here, list):
        for number, inner in enumerate(here):
            yield from _tables(inner, f"{place}[{number}]")
    if isinstance(here, dict):
        yield place, here
        for name, inner in here.items():
            yield from _tables(inner, f"{place}.{name}")


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
