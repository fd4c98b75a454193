"""Functions of a program as tools: the signature is the schema, the docstring what the model is told."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any, get_type_hints, overload

from cowork.api.schemas import value_as
from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.core.ports import Effect, Family, ToolRecord, ok
from cowork.tools.base import Tool, ToolContext, schema_of_call

Function = Callable[..., Any]


@frozen
class ProgramTool(Tool):
    """A tool of the program that runs the session."""

    asks: bool = False  # permission rules and the mode judge its calls; else they are allowed


@overload
def tool(function: Function, /) -> ProgramTool: ...
@overload
def tool(
    *, name: str = "", description: str = "", reads: bool = False, asks: bool = False, family: Family = "other"
) -> Callable[[Function], ProgramTool]: ...
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

    def make(function: Function) -> ProgramTool:
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

        return ProgramTool(
            called,
            description or inspect.getdoc(function) or called,
            schema,
            run,
            lambda ctx, args: effects,
            family,
            reads,
            python_names=names,
            asks=asks,
        )

    return make if function is None else make(function)


def _record(value: Any) -> ToolRecord:
    """What a function returned, as the model is told of it."""
    if isinstance(value, ToolRecord):
        return value
    if value is None:
        return ok("Done.")
    return ok(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), value=value)
