"""Types of Python as JSON Schemas, and JSON values as those types: dataclasses, TypedDicts, pydantic models."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.tools.base import json_type
from cowork.tools.json_schema import schema_problems


def schema_of(kind: Any) -> Json:
    """The JSON Schema of a type; one that is given as a mapping is taken as it is."""
    if isinstance(kind, Mapping):
        schema = dict(kind)
        if wrong := schema_problems(schema):
            raise UserError(f"schema is not a JSON Schema: {'; '.join(wrong[:3])}")
        return schema
    if hasattr(kind, "model_json_schema"):  # pydantic, which is not imported for it
        return cast(Json, kind.model_json_schema())
    try:
        return json_type(kind)
    except (TypeError, KeyError, NameError) as error:
        raise UserError(f"schema: {error}") from error


def value_as(kind: Any, raw: Any) -> Any:
    """A JSON value, valid under the schema of the type, as an instance of it."""
    if kind is None or isinstance(kind, Mapping):
        return raw
    if hasattr(kind, "model_validate"):
        return kind.model_validate(raw)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return value_as(args[0], raw)
    if origin in (Union, types.UnionType):
        return _one_of([a for a in args if a is not type(None)], raw)
    if origin in (list, tuple) and isinstance(raw, list):
        return origin(value_as(args[0], item) for item in raw)
    if origin is dict and isinstance(raw, dict):
        return {name: value_as(args[1], item) for name, item in raw.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return kind(**{name: value_as(hints[name], item) for name, item in raw.items()})
    return float(raw) if kind is float and isinstance(raw, int) else raw


def _one_of(kinds: list[Any], raw: Any) -> Any:
    """The value as the first of several types that takes it."""
    if raw is None:
        return None
    for kind in kinds:
        try:
            return value_as(kind, raw)
        except (TypeError, ValueError, KeyError, AttributeError):
            continue
    return raw
