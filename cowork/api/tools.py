"""Functions of a program as tools, and its types as JSON Schemas: dataclasses, TypedDicts, pydantic models."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints, overload

from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.ports import Effect, Family, ToolRecord, ok
from cowork.tools.base import Tool, ToolContext, gist, json_type, schema_of_call
from cowork.tools.json_schema import schema_problems

Function = Callable[..., Any]


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *, name: str = "", description: str = "", reads: bool = False, asks: bool = False, family: Family = "other"
) -> Callable[[Function], Tool]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    reads: bool = False,
    asks: bool = False,
    family: Family = "other",
) -> Any:
    """Make a tool of a function, async or not; a first parameter `ctx` receives the context of the call.

    What it returns is told to the model as text or JSON. `reads`: it changes nothing, so calls of it run side by side,
    in plan mode too. `asks`: rules and the permission mode judge its calls; otherwise they are allowed.
    """

    def make(function: Function) -> Tool:
        called = name or function.__name__
        parameters = inspect.signature(function).parameters
        in_context = next(iter(parameters), "") == "ctx"
        hints = get_type_hints(function, include_extras=True)
        taken = [p for p in parameters.values() if not (in_context and p.name == "ctx")]
        for parameter in taken:
            if parameter.name not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise UserError(f"The tool {called}: the parameter {parameter.name} needs a name and a type.")
        schema, names = schema_of_call(taken, function)
        effects = [Effect("none" if reads else "call", called)]

        async def run(ctx: ToolContext, **given: Any) -> ToolRecord:
            given = {key: value_as(hints[key], value) for key, value in given.items()}
            if in_context:
                given["ctx"] = ctx
            if inspect.iscoroutinefunction(function):
                return _record(await function(**given))
            return _record(await asyncio.to_thread(function, **given))

        about = description or inspect.getdoc(function) or called
        return Tool(called, about, schema, run, lambda ctx, args: effects, family, reads, python_names=names, asks=asks)

    return make if function is None else make(function)


def _record(value: Any) -> ToolRecord:
    """What a function returned, as the model and the person are told of it."""
    if isinstance(value, ToolRecord):
        record = value
    elif value is None:
        record = ok("Done.")
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        record = ok(text, value=value)
    told = {} if record.error else {"summary": gist(record.text)}
    return dataclasses.replace(record, display=told | record.display)


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
        for one in args:  # the first that takes it
            with suppress(TypeError, ValueError, KeyError, AttributeError):
                if one is not type(None):
                    return value_as(one, raw)
        return raw
    if origin in (list, tuple) and isinstance(raw, list):
        return origin(value_as(args[0], item) for item in raw)
    if origin is dict and isinstance(raw, dict):
        return {name: value_as(args[1], item) for name, item in raw.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return kind(**{name: value_as(hints[name], item) for name, item in raw.items()})
    return float(raw) if kind is float and isinstance(raw, int) else raw
