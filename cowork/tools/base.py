"""What a tool is: a typed function whose signature is its schema, and the context it runs in."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import types
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum, EnumMeta
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

from cowork.core.blocks import Json
from cowork.core.format import plural
from cowork.core.frozen import frozen
from cowork.core.ports import Ask, BoxName, Effect, Emit, Family, Reply, Request, TaskOrder, ToolRecord
from cowork.core.workspace import Workspace
from cowork.tool_names import tool_names

if typing.TYPE_CHECKING:
    from cowork.tools.shell.jobs import RunningCommand

Run = Callable[..., Awaitable[ToolRecord]]
Effects = Callable[["ToolContext", Mapping[str, Any]], Sequence[Effect]]
Precheck = Callable[[Mapping[str, Any]], None]
Preview = Callable[["ToolContext", Mapping[str, Any]], Json]
Tell = Callable[[Mapping[str, Any], str], str]
Spawn = Callable[["ToolContext", TaskOrder], Awaitable[ToolRecord]]
Consult = Callable[["ToolContext", Request], Awaitable[tuple[Reply, Json]]]  # the answer, and what it cost
Carries = Callable[[Mapping[str, Any]], tuple[str, Json]]
Wrap = Callable[[Sequence[str], Path, BoxName], Sequence[str]]  # the words that run others in a box, from a folder


@dataclass(slots=True)
class AgentState:
    """What one agent knows between its calls."""

    cwd: Path
    seen: dict[str, str] = field(default_factory=dict)  # resolved path -> hash of the content last read or written
    copies: dict[str, bytes] = field(default_factory=dict)  # of what was seen, bounded; to show what changed since
    todos: list[Json] = field(default_factory=list)


class Hold(Protocol):
    """What is kept from a command while it runs; `told` is what the model should know of it."""

    told: list[str]
    released: bool

    def look(self) -> None: ...
    def release(self) -> None: ...


class NoHold:
    """Nothing is kept from a command."""

    released = True

    def __init__(self, cwd: Path) -> None:
        self.told: list[str] = []

    def look(self) -> None: ...
    def release(self) -> None: ...


def leave_unwrapped(argv: Sequence[str], cwd: Path, box: BoxName) -> Sequence[str]:
    """No sandbox."""
    return argv


class FileWatch(Protocol):
    """Has looked at the workspace once, and names the files that differ when it looks again."""

    async def find_changed(self) -> Sequence[str]: ...
    def find_changed_at_once(self) -> Sequence[str]: ...  # nothing where the look would take long


@dataclass(slots=True)
class TreeState:
    """What all agents of a run share."""

    scratch: Path  # full outputs go here; the model may Read them
    environ: Mapping[str, str] = field(default_factory=dict)  # for commands; holds no keys
    call_environ: Callable[[str, str], Mapping[str, str]] = lambda agent, call: {}  # what one call's commands get too
    wrap: Wrap = leave_unwrapped  # the sandbox
    wrap_server: Callable[..., Sequence[str]] | None = None  # the same for what runs as long as we do
    hold: Callable[[Path], Hold] = NoHold  # what the sandbox keeps from a command that starts in this folder
    explain: Callable[[str, str, Path, BoxName], list[str]] = lambda output, command, cwd, box: []  # what a box did
    closing: Callable[[], None] = lambda: None  # removes what only the commands of this run had
    holds: list[Hold] = field(default_factory=list)  # of commands that may still run
    writers: dict[str, str] = field(default_factory=dict)  # resolved path -> agent that wrote it last
    written: dict[str, str] = field(default_factory=dict)  # resolved path -> hash of what that agent wrote
    jobs: dict[str, RunningCommand] = field(default_factory=dict)
    jobs_before: int = 0  # numbers that commands of an earlier process of this session had
    before_write: Callable[[Path], None] = lambda path: None  # keeps a file for /rewind
    before_command: Callable[[Callable[[str], None]], Awaitable[None]] | None = None  # keeps all, for it may touch any
    watch_files: Callable[[], Awaitable[FileWatch]] | None = None  # to name what a command changes
    may_read: Callable[[Path], bool] = lambda path: True  # says False where a rule forbids it; searches leave that out
    reaper: Any = None  # the process that runs commands, started by the first one


class Interrupted(asyncio.CancelledError):
    """A call that was cancelled and still has something to show."""

    def __init__(self, record: ToolRecord) -> None:
        super().__init__()
        self.record = record


@dataclass(slots=True)
class ToolContext:
    """What a call may use. Tools get everything from here and nothing from the engine."""

    agent: str
    tool_use_id: str
    workspace: Workspace
    state: AgentState
    tree: TreeState
    emit: Emit
    output: Callable[[str], None] = lambda text: None  # live output, shown while the call runs
    spawn: Spawn | None = None
    consult: Consult | None = None  # puts a request of the tool's own to the agent's model
    deferred: Callable[[], Sequence[Tool]] = lambda: ()  # those of this agent's tools that its model is not told of
    ask: Ask | None = None  # puts a question to the person
    reads: bool = False  # the call was judged to change nothing, and is held to that
    box: BoxName = "write"  # where a command runs
    refused: str = ""  # what the read box kept a command from, so that the person is asked whether it may
    resolved: dict[str, Path] = field(default_factory=dict)

    def resolve(self, path: str) -> Path:
        """The real path, once a call: what permissions judged is what the tool acts on, even if a link moved since.

        A path with backslashes is taken for a Windows spelling where only that leads to something.
        """
        if path not in self.resolved:
            found = self.workspace.resolve(path, self.state.cwd)
            if "\\" in path and not os.path.lexists(found):
                turned = self.workspace.resolve(path.replace("\\", "/"), self.state.cwd)
                found = turned if os.path.lexists(turned.parent) else found
            self.resolved[path] = found
        return self.resolved[path]


@frozen
class Param:
    """For `Annotated`: a description, and the name on the wire where Python cannot spell it (`-i`)."""

    description: str
    name: str = ""
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None


def touches_nothing(ctx: ToolContext, args: Mapping[str, Any]) -> Sequence[Effect]:
    """The effects of a tool that needs no permission."""
    return ()


def touches(kind: Literal["read", "write"], parameter: str) -> Effects:
    """The effects of a tool that reads or writes the path in one of its parameters."""
    return lambda ctx, args: [Effect(kind, str(ctx.resolve(args.get(parameter) or ".")))]


@frozen
class Tool:
    """A tool: what a model is told of it, what permissions and front ends may know of it, and how it runs."""

    name: str
    description: str
    schema: Json
    run: Run
    effects: Effects
    family: Family = "other"
    reads: bool = False  # it changes nothing, so calls of it may run beside others
    tell: Tell | None = None  # a call in one line; without it the line is made from the arguments
    aliases: tuple[str, ...] = ()  # other names that models call it by
    python_names: Mapping[str, str] = field(default_factory=dict)  # wire name -> parameter, where they differ
    precheck: Precheck | None = None  # its own words for bad arguments, before the schema speaks
    preview: Preview | None = None  # what the call would change, as a display; ToolError when it would be refused
    asks: bool = False  # of a program's tool: rules and the mode judge its calls, which are allowed otherwise
    carries: Carries | None = None  # a call of it is a call of the tool this names, and is judged and shown as that

    async def __call__(self, ctx: ToolContext, args: Mapping[str, Any]) -> ToolRecord:
        return await self.run(ctx, **{self.python_names.get(name, name): value for name, value in args.items()})

    def line(self, args: Mapping[str, Any], cwd: str = "") -> str:
        """The call in one line, without the tool's name; paths in `cwd` are relative. Takes any arguments."""
        try:
            return flat(self.tell(args, cwd) if self.tell else call_line(args, cwd))
        except (TypeError, ValueError, KeyError, AttributeError):  # a model may send anything
            return flat(call_line(args, cwd))


def tool(
    name: str,
    *,
    family: Family = "other",
    reads: bool = False,
    effects: Effects | None = None,
    line: Tell | None = None,
    precheck: Precheck | None = None,
    preview: Preview | None = None,
) -> Callable[[Run], Tool]:
    """Make a tool of an async function: its signature is the schema, its docstring the description.

    Without `effects` nothing is known of what it does, so its calls are asked about unless it only `reads`.
    """

    def make(run: Run) -> Tool:
        schema, python_names = schema_of_call(list(inspect.signature(run).parameters.values())[1:], run)
        about, unknown = inspect.getdoc(run) or "", [Effect("none" if reads else "call", name)]
        touched = effects or (lambda ctx, args: unknown)
        peers = tool_names(name)[1:]
        return Tool(name, about, schema, run, touched, family, reads, line, peers, python_names, precheck, preview)

    return make


def schema_of_call(
    parameters: Sequence[inspect.Parameter], function: Callable[..., Any]
) -> tuple[Json, dict[str, str]]:
    """(schema of these parameters, wire name -> parameter where they differ)."""
    hints = get_type_hints(function, include_extras=True)
    properties: Json = {}
    required: list[str] = []
    python_names: dict[str, str] = {}
    for parameter in parameters:
        default = parameter.default
        try:
            param, schema = _parameter(hints[parameter.name], optional=default is not parameter.empty)
        except (TypeError, RecursionError) as error:
            why = "its type holds itself" if isinstance(error, RecursionError) else error
            raise TypeError(f"the parameter {parameter.name}: {why}") from error
        wire = param.name or parameter.name
        properties[wire] = schema
        if wire != parameter.name:
            python_names[wire] = parameter.name
        if default is parameter.empty:
            required.append(wire)
        elif default not in (None, "", False):
            schema["default"] = default.value if isinstance(default, Enum) else default
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return with_definitions(schema), python_names


def with_definitions(schema: Json) -> Json:
    """A schema with the definitions of those in it at its top, where their references look for them."""
    found: Json = {}

    def take(part: Any) -> None:
        if isinstance(part, dict):
            found.update(part.pop("$defs", {}))
        for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            take(inner)

    take(schema)
    return schema | {"$defs": found} if found else schema


def _parameter(hint: Any, *, optional: bool = False) -> tuple[Param, Json]:
    base, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    given = extras[0] if extras else Param("")
    param = given if isinstance(given, Param) else Param(str(given))
    schema = json_type(base)
    if optional and "anyOf" in schema:  # absent rather than null on the wire
        kinds = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
        schema = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if param.description:
        schema["description"] = param.description
    bounds = {"minimum": param.minimum, "maximum": param.maximum, "minLength": param.min_length}
    schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    return param, schema


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
_PLAIN |= {type(None): "null"}


def json_type(hint: Any) -> Json:
    """The draft-07 schema of a Python type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _parameter(hint)[1]
    if origin in (Union, types.UnionType):
        return {"anyOf": [json_type(a) for a in args]}
    if origin is Literal or isinstance(hint, EnumMeta):
        values = list(args) if origin is Literal else [member.value for member in hint]
        return ({"type": "string"} if all(isinstance(v, str) for v in values) else {}) | {"enum": values}
    if hasattr(hint, "model_json_schema"):  # pydantic, which is not imported for it
        return dict(hint.model_json_schema())
    if origin is list or (origin is tuple and args[1:] == (...,)):
        return {"type": "array", "items": json_type(args[0])}
    if origin is dict:
        return {"type": "object"} | ({} if args[1] is Any else {"additionalProperties": json_type(args[1])})
    if (known := fields_of(hint)) is not None:
        inner = {name: json_type(kind) for name, (kind, _) in known.items()}
        needed = [name for name, (_, required) in known.items() if required]
        return {"type": "object", "properties": inner, "required": needed, "additionalProperties": False}
    if hint is Any:
        return {}
    if hint not in _PLAIN:
        raise TypeError(f"{hint!r} has no JSON Schema: use plain types, lists, dicts, Enums, dataclasses or TypedDicts")
    return {"type": _PLAIN[hint]}


def fields_of(hint: Any) -> dict[str, tuple[Any, bool]] | None:
    """Name -> (type, whether it must be there) of a TypedDict or a dataclass; None: it is neither."""
    own: set[str] = set()  # what a dataclass does not take
    if hasattr(hint, "__required_keys__"):
        needed = hint.__required_keys__
    elif isinstance(hint, type) and is_dataclass(hint):
        needed = {f.name for f in fields(hint) if f.default is MISSING and f.default_factory is MISSING}
        own = {f.name for f in fields(hint) if not f.init}
    else:
        return None
    hints = get_type_hints(hint, include_extras=True)
    hints = {name: kind for name, kind in hints.items() if name not in own and get_origin(kind) is not typing.ClassVar}
    # Where annotations are strings, Python does not look into them for `NotRequired`.
    optional = {name: get_args(kind)[0] for name, kind in hints.items() if get_origin(kind) is typing.NotRequired}
    return {name: (optional.get(name, kind), name in needed and name not in optional) for name, kind in hints.items()}


# ---------------------------------------------------------------- a call in one line

LONGEST = 400
_LONG_PATTERN = 24
_BAR = "\0"  # between alternatives that are kept together
_SUBJECTS = ("file_path", "path", "command", "pattern", "description", "label", "query", "url", "bash_id", "id", "name")


def flat(text: str) -> str:
    """On one line, and not longer than anybody would read."""
    line = " ".join(text[: 4 * LONGEST].split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def gist(text: str) -> str:
    """A result in a few words, for the line of its call: the one line it is, or how many."""
    lines = text.strip().splitlines()
    return flat(lines[0]) if len(lines) == 1 else plural(len(lines), "line") if lines else ""


def call_line(args: Mapping[str, Any], cwd: str = "") -> str:
    """For any tool: the first argument that says what a call is about, else all of them."""
    for key in _SUBJECTS:
        if isinstance(value := args.get(key), str) and value.strip():
            return short_path(value, cwd)
    return json.dumps(dict(args), ensure_ascii=False, default=str) if args else ""


def path_line(args: Mapping[str, Any], cwd: str = "") -> str:
    """For a tool that works on a file or a folder."""
    return short_path(str(args.get("file_path") or args.get("path") or "."), cwd)


def short_path(path: str, cwd: str) -> str:
    """The path relative to the working directory when it lies in it."""
    return path.removeprefix(cwd.rstrip("/") + "/") if cwd else path


def short_pattern(pattern: str) -> str:
    """A regular expression as people read it: a long one is its words, with `…` for what is between them."""
    if len(pattern) <= _LONG_PATTERN:
        return pattern
    text = re.sub(r"\\([\"'./:#<>=-])", r"\1", pattern[:LONGEST])
    text = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.[*+?]|\{\d*,?\d*\}", "…", text)
    for _ in range(len(text)):  # from the inside out
        text, found = re.subn(r"\((?:\?[:=!]|\?<[=!])?([^()]*)\)[*+?]*", _alternatives, text)
        if not found:
            break
    text = re.sub(r"[…^$*+?|]*…[…^$*+?|]*", "…", re.sub(r"[\^$*+?]", "…", text)).replace(_BAR, "|")
    return text if text.strip("…") else pattern


def short_glob(glob: str) -> str:
    """A glob whose lists of more than four are cut to three."""
    return re.sub(r"\{((?:[^{},]*,){3})(?:[^{},]*,)+[^{},]*\}", r"{\1…}", glob)


def _alternatives(group: re.Match[str]) -> str:
    """The words of a group; of many only the first two."""
    parts = re.split(rf"[|{_BAR}]", group[1])
    words = [word for part in parts if (word := re.sub(r"[^\w …]+", "", part).strip("… "))]
    if not words:
        return "…"
    kept = words if len(words) <= 3 else [*words[:2], "…"]
    return f"…{_BAR.join(kept)}…"
