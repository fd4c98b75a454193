"""Runs a flow file: `async def main(flow, …)`, with its journal, one budget and one policy for questions."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, fields, is_dataclass, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from cowork.api.session import Session
from cowork.config import paths
from cowork.config.options import RunOptions
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.core.ports import Ask, Emit
from cowork.flows.executors import open_executor
from cowork.flows.flow import Flow, Plan, PlanEnds
from cowork.flows.journal import FILE, FlowJournal, find, head_of, known_flows, read
from cowork.sessions.index import list_sessions

SHIPPED = Path(__file__).parent / "shipped"
_KEPT = ("cwd", "model", "provider", "script", "permission_mode", "allow", "deny", "tools", "add_dirs", "trust",
         "max_cost", "max_turns", "max_tokens", "config_file", "bare", "settings")  # fmt: skip


@frozen
class FlowRequest:
    """What `cowork flow run` was asked for, or a journal says that it was."""

    file: str
    args: Sequence[str]
    options: RunOptions
    on: str = "here"  # here | local[:N] | dask:ADDRESS
    jobs: int = 8
    environ: Mapping[str, str] = field(default_factory=dict)


@frozen
class FlowEnd:
    """How a flow ended."""

    id: str
    value: Any
    done: int
    reused: int
    cost_usd: float | None
    plan: Plan | None = None


@frozen
class FlowCall:
    """The `main` of a flow file with its arguments."""

    main: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]

    @classmethod
    def of(cls, request: FlowRequest) -> FlowCall:
        main = load_main(flow_file(request.file))
        return cls(main, *arguments(main, request.args))

    async def __call__(self, flow: Flow) -> Any:
        """What `main` returns, as JSON holds it; None where a dry run knows no further."""
        try:
            return plain(await self.main(flow, *self.args, **self.kwargs))
        except BaseException as error:
            while isinstance(error, BaseExceptionGroup):  # of a TaskGroup: what went wrong first tells the most
                error = error.exceptions[0]
            if isinstance(error, PlanEnds):
                return None
            raise error


async def run_flow(
    request: FlowRequest,
    journal: FlowJournal,
    call: FlowCall,
    *,
    ask: Ask | None,
    sinks: Sequence[Emit],
    dry: bool = False,
) -> FlowEnd:
    """Run a flow, or go on with one whose journal has a beginning. Raises what its `main` raises."""
    plan, begins = Plan() if dry else None, not journal.begun
    if begins:
        file = flow_file(request.file)
        journal.add("flow", file=request.file if file.parent == SHIPPED else str(file), args=list(request.args),
                    options=_stored(request.options), on=request.on, jobs=request.jobs,
                    cwd=str(request.options.cwd or paths.here()))  # fmt: skip
    try:
        async with Session.of(_within_budget(request, journal), request.environ, ask, sinks) as session:
            if not dry:
                journal.add("session", id=session.id)
            executor = await open_executor(request.on, session, request.options, request.jobs)
            flow = Flow(session, journal, executor, jobs=_places(request), plan=plan)
            try:
                value = await call(flow)
            finally:
                await executor.aclose()
            if not dry:
                journal.add("end", value=value)
            return FlowEnd(journal.id, value, len(journal.done_tasks), flow.reused, journal.cost_usd, plan)
    finally:
        await journal.close()
        if dry and begins:
            shutil.rmtree(journal.folder)


def plain(value: Any) -> Any:
    """A value as JSON holds it: dataclasses and models as objects, sets as lists, anything else as its text."""
    return json.loads(json.dumps(value, default=_plain_part))


def _plain_part(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return vars(value) if hasattr(value, "__dict__") else str(value)


def resumed(environ: Mapping[str, str], flow_id: str, **changes: Any) -> FlowRequest:
    """What to run to go on with a flow."""
    head = head_of(find(environ, flow_id))
    given: dict[str, Any] = {name: _revived(name, value) for name, value in head["options"].items()}
    given |= {"cwd": Path(head["cwd"])}
    return FlowRequest(
        head["file"],
        head["args"],
        RunOptions(**given | changes.pop("options", {})),
        changes.get("on") or head["on"],
        changes.get("jobs") or head["jobs"],
        environ,
    )


def flow_file(file: str) -> Path:
    """The whole path of a flow file, or of one that cowork brings, by its name."""
    path = Path(file).expanduser().absolute()
    if not path.exists() and re.fullmatch(r"[a-z]+", file) and (SHIPPED / f"{file}.py").exists():
        path = SHIPPED / f"{file}.py"
    if not path.is_file():
        shipped = ", ".join(sorted(p.stem for p in SHIPPED.glob("[a-z]*.py")))
        raise UserError(f"There is no flow file {file}.", f"Give a Python file, or one of {shipped}.")
    return path


def load_main(path: Path) -> Callable[..., Any]:
    """The `main` of a flow file."""
    loader = SourceFileLoader(f"cowork_flow_{path.stem}", str(path))
    module = ModuleType(loader.name)
    module.__file__ = str(path)
    sys.modules[loader.name] = module  # dataclasses look their module up
    try:
        loader.exec_module(module)
    except SyntaxError as error:
        raise UserError(f"{path}:{error.lineno} {error.msg}") from error
    except Exception as error:
        raise UserError(where_in(path, error)) from error
    main: Callable[..., Any] | None = getattr(module, "main", None)
    if not inspect.iscoroutinefunction(main):
        raise UserError(f"{path} has no `async def main(flow, …)`.", "docs/flows.md shows one.")
    return main


def arguments(main: Callable[..., Any], words: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """The words of a command line as arguments of `main`: in order, or `name=value`; by type where it says one."""
    parameters = list(inspect.signature(main).parameters.values())[1:]
    named = {p.name for p in parameters}
    written = {name: hint for name, hint in main.__annotations__.items() if name in named}
    try:
        hints = get_type_hints(SimpleNamespace(__annotations__=written), vars(sys.modules[main.__module__]))
    except NameError as error:
        raise UserError(f"The types of main's arguments cannot be read: {error}.") from error
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for word in words:
        name, is_named, value = word.partition("=")
        if is_named and name in named:
            kwargs[name] = _typed(name, value, hints.get(name, str))
        else:
            free = parameters[min(len(args), len(parameters) - 1)] if parameters else None
            args.append(_typed(free.name, word, hints.get(free.name, str)) if free else word)
    try:
        inspect.signature(main).bind(None, *args, **kwargs)
    except TypeError as error:
        wanted = " ".join(p.name if p.default is p.empty else f"[{p.name}={p.default}]" for p in parameters)
        raise UserError(f"The flow's arguments do not fit: {error}.", f"It takes: {wanted or 'none'}") from error
    return args, kwargs


def where_in(path: Path, error: BaseException) -> str:
    """What went wrong in a flow file, and on which of its lines."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    place = f"{path}:{lines[-1]} " if lines else ""
    return f"{place}{type(error).__name__}: {error}"


def _typed(name: str, word: str, kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        kind = next(k for k in get_args(kind) if k is not type(None))
    if kind is bool:
        return word.lower() in ("1", "true", "yes", "on")
    try:
        return kind(word) if kind in (int, float, Path) else word
    except ValueError as error:
        raise UserError(f"{name} must be {kind.__name__}, not {word!r}.") from error


def _within_budget(request: FlowRequest, journal: FlowJournal) -> RunOptions:
    """The options, with what is left of the budget and room for as many children as there are places."""
    options, spent = request.options, _spent(request, journal)
    settings = {"agent.subagent.max_concurrent": min(50, request.jobs), **options.settings}
    if options.max_cost and spent:
        if spent >= options.max_cost:
            raise UserError(f"The budget of ${options.max_cost:g} is spent.", "Raise it: --max-cost.", exit_code=4)
        options = replace(options, max_cost=options.max_cost - spent)
    return replace(options, settings=settings)


def _spent(request: FlowRequest, journal: FlowJournal) -> float:
    """USD that earlier parts of the flow took: by its journal, or by its sessions, which know of killed tasks too."""
    if not request.options.max_cost or not journal.sessions:
        return journal.cost_usd or 0.0
    entries = list_sessions(paths.sessions_dir(request.environ), None)
    of_flow = sum(entry.cost_usd or 0.0 for entry in entries if entry.id in journal.sessions)
    return max(journal.cost_usd or 0.0, of_flow)


def _places(request: FlowRequest) -> int:
    """Tasks at work at once: `local:4` says how many, a cluster takes all it is given."""
    kind, _, rest = request.on.partition(":")
    return 10_000 if kind == "dask" else int(rest) if kind == "local" and rest.isdecimal() else request.jobs


def _stored(options: RunOptions) -> Json:
    """Options that a resumed flow keeps, as JSON."""
    default = RunOptions()
    kept = {f.name: getattr(options, f.name) for f in fields(options) if f.name in _KEPT}
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in kept.items()
        if value != getattr(default, name)
    }


def _revived(name: str, value: Any) -> Any:
    if name in ("script", "config_file"):
        return Path(value)
    return tuple(value) if isinstance(value, list) else value


def price_of(plan: Plan, environ: Mapping[str, str], price: Callable[[str], float | None]) -> tuple[float | None, bool]:
    """(USD of the open tasks, whether by what tasks of the same agents cost before); else for their prompts alone."""
    costs: dict[str, list[float]] = {}
    for folder in known_flows(environ)[:50]:
        for record in read(folder / FILE)[0]:
            if record.get("type") == "done" and record.get("cost_usd") is not None:
                costs.setdefault(record["agent"], []).append(record["cost_usd"])
    if plan.open and all(task.agent_name in costs for task in plan.open):
        return sum(sum(known := costs[task.agent_name]) / len(known) for task in plan.open), True
    parts = [price(task.prompt) for task in plan.open]
    return (None if any(p is None for p in parts) else sum(p or 0 for p in parts)), False
