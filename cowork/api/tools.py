"""Functions of a program as tools, its types (dataclasses, TypedDicts, pydantic models) as JSON Schemas, and values of
them from JSON and to it."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, EnumMeta
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, overload

from cowork.api.result import TaskFailed, data_of
from cowork.core.blocks import Json
from cowork.core.errors import ToolError, UserError
from cowork.core.ports import Effect, Family, ToolRecord, ok
from cowork.tools.arguments import path, problems
from cowork.tools.base import Tool, ToolContext, fields_of, gist, json_type, schema_of_call, with_definitions
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
        try:
            schema, names = schema_of_call(taken, function)
        except TypeError as error:
            raise UserError(f"The tool {called}: {error}") from error
        effects = [Effect("none" if reads else "call", called)]

        async def run(ctx: ToolContext, **given: Any) -> ToolRecord:
            try:
                given = {key: value_as(hints[key], value) for key, value in given.items()}
            except ValueError as error:
                raise ToolError("INVALID_PARAM", f"Invalid input: {error}") from error
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
        value = plain(value)
        record = ok(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), value=value)
    told = {} if record.error else {"summary": gist(record.text)}
    return dataclasses.replace(record, display=told | record.display)


def plain(value: Any) -> Any:
    """A value as JSON holds it: dataclasses and models as objects, an Enum's members as their values, sets as lists,
    what has no text of its own as its attributes, anything else as its text."""
    try:
        return _plain(value)
    except RecursionError as error:
        raise UserError(f"A value of {type(value).__name__} holds itself, so it cannot be JSON.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, type):
        return str(value)
    if hasattr(value, "model_dump"):  # pydantic
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        keys = ((_plain(key), key) for key in value)
        return {str(key) if isinstance(name, list | dict) else name: _plain(value[key]) for name, key in keys}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in (sorted(value, key=repr) if isinstance(value, set | frozenset) else value)]
    textless = getattr(type(value), "__repr__", None) is object.__repr__
    return _plain(vars(value)) if textless and hasattr(value, "__dict__") else str(value)


def schema_of(kind: Any) -> Json:
    """The JSON Schema of a type; one that is given as a mapping is taken as it is."""
    if isinstance(kind, Mapping):
        schema = dict(kind)
        if wrong := schema_problems(schema):
            raise UserError(f"schema is not a JSON Schema: {'; '.join(wrong[:3])}")
        return schema
    try:
        return with_definitions(json_type(kind))
    except RecursionError as error:
        raise UserError(f"schema: {kind!r} holds itself.", "Use a pydantic model or a JSON Schema.") from error
    except (TypeError, KeyError, NameError) as error:
        raise UserError(f"schema: {error}") from error


def value_as(kind: Any, raw: Any) -> Any:
    """A JSON value, valid under the schema of the type, as an instance of it; raises ValueError where the type, which
    may check more than its schema says, does not take it."""
    try:
        return _convert(kind, raw)
    except Exception as error:  # of the program's own code
        found = error.errors() if hasattr(error, "errors") else ()  # pydantic's, which has them one by one
        said = "; ".join(f"{path(one['loc'])}: {one['msg']}" for one in found)
        raise ValueError(said or str(error) or type(error).__name__) from error


def task_value(kind: Any, record: ToolRecord) -> Any:
    """What a task gave: its text, or a value of the type; raises TaskFailed where that is not what was asked for."""
    data = data_of(record, structured=kind is not None)
    if kind is None:
        return data["result"]
    try:
        return value_as(kind, data["structured_output"])
    except ValueError as error:
        message = f"The answer is not valid: {error}"
        failed = {"code": "EXECUTION_ERROR", "message": message}
        raise TaskFailed(dataclasses.replace(record, status="error", error=failed)) from error


def _convert(kind: Any, raw: Any) -> Any:
    if kind is None or isinstance(kind, Mapping):
        return raw
    if hasattr(kind, "model_validate"):
        return kind.model_validate(raw)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _convert(args[0], raw)
    if origin in (Union, types.UnionType):
        return _convert_to_one(args, raw)
    if origin in (list, tuple) and isinstance(raw, list):
        return origin(_convert(args[0], item) for item in raw)
    if origin is dict and isinstance(raw, dict):
        return {name: _convert(args[1], item) for name, item in raw.items()}
    if isinstance(kind, EnumMeta):
        return kind(raw)
    if (known := fields_of(kind)) is not None:
        given = {name: _convert(known[name][0], item) for name, item in raw.items()}
        return given if hasattr(kind, "__required_keys__") else kind(**given)
    return kind(raw) if kind in (int, float) and type(raw) in (int, float) else raw


def _convert_to_one(kinds: Sequence[Any], raw: Any) -> Any:
    """By the first of several types that takes the value."""
    fitting = [kind for kind in kinds if not any(problems(json_type(kind), raw))]
    for kind in fitting[:-1]:
        with suppress(Exception):  # the last one says what is wrong
            return _convert(kind, raw)
    return _convert(fitting[-1], raw) if fitting else raw
