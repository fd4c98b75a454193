"""`cowork flow`: runs a flow file, `async def main(flow, …)`, with its journal, one budget and one who is asked."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from cowork.api.result import TaskFailed
from cowork.api.session import Session
from cowork.api.tools import plain
from cowork.config import load, paths
from cowork.config.run_options import RunOptions, options_of
from cowork.core import signals
from cowork.core.blocks import CHARS_A_TOKEN, Usage, add_cost
from cowork.core.errors import CoworkError, UserError
from cowork.core.events import AgentEnded, AgentStarted, Event, ReplyAdded, RunEnded
from cowork.core.format import duration, money, one_line, plural
from cowork.core.frozen import frozen
from cowork.core.hygiene import ascii_json
from cowork.core.later import later
from cowork.core.ports import Ask, Emit
from cowork.flows.flow import Flow, PlanEnds, run_in
from cowork.flows.jobs import JobRunner, open_place, with_whole_paths
from cowork.flows.journal import FILE, FlowJournal, find, known_flows, read
from cowork.sessions.index import list_sessions

with later(__name__):
    from cowork.frontends.drawing import TaskTree, drawable
    from cowork.frontends.json_output import JsonOutput
    from cowork.frontends.prompt import LinePrompt, available
    from cowork.frontends.text import TextOutput
    from cowork.providers.prices import price

Main = Callable[[Flow], Awaitable[Any]]  # of a flow file, with its arguments
SHIPPED = Path(__file__).parent / "shipped"
_OF_ONE_RUN = ("output", "non_interactive", "quiet", "log_file", "cwd")  # cwd has a place of its own
_KEPT = [entry for entry in options_of(chat=False) if entry[0] not in _OF_ONE_RUN]  # for who goes on with the flow


@frozen
class FlowRequest:
    """What `cowork flow run` was asked for, or a journal says that it was."""

    file: str
    args: Sequence[str]
    options: RunOptions
    on: str = "here"  # here | local[:N] | dask:ADDRESS
    jobs: int = 8
    environ: Mapping[str, str] = field(default_factory=dict)


def run(request: FlowRequest, *, resume: str | None = None, dry: bool = False) -> int:
    """Run a flow or go on with one; gives the exit code."""
    call = load_call(request)
    journal = FlowJournal(request.environ, resume)
    options, how = request.options, f"Go on with: cowork flow resume {journal.id}"
    display = FlowDisplay(quiet=options.quiet or dry, stream=options.output == "stream-json" and not dry)
    ask = None if options.non_interactive else display.ask
    try:
        value, flow = signals.run(run_flow(request, journal, call, ask=ask, sinks=[display], dry=dry))
    except FlowTimedOut as late:
        raise UserError(str(late), how, exit_code=124) from late
    except signals.Stopped as stop:
        raise UserError(f"The flow was {stop.reason}.", how, exit_code=stop.exit_code) from stop
    except UserError:
        raise
    except CoworkError as failure:
        at_limit = isinstance(failure, TaskFailed) and (failure.record.error or {}).get("code") == "QUOTA_EXCEEDED"
        raise UserError(f"The flow stopped: {failure}", how, exit_code=4 if at_limit else 1) from failure
    except Exception as error:  # in the flow's own code
        raise UserError(where_in(flow_file(request.file), error), how, exit_code=1) from error
    finally:
        display.close()
    if dry:
        _print_plan(flow, request, ended=value is not None)
    elif options.output == "text":
        if value is not None:
            print(value if isinstance(value, str) else json.dumps(value, indent=2))
        counts = {"from before": flow.reused, "partial": flow.count("partial"), "failed": flow.count("failed")}
        facts = [plural(journal.done, "task"), *(f"{count} {what}" for what, count in counts.items() if count)]
        facts += [money(journal.cost_usd), duration(display.seconds), f"flow {journal.id}"]
        print(" · ".join(filter(None, facts)), file=sys.stderr)
    else:
        known = {"id": journal.id, "result": value, "tasks": journal.done, "reused": flow.reused}
        known |= {state: flow.count(state) for state in ("partial", "failed")}
        known |= {"cost_usd": journal.cost_usd, "duration_ms": round(display.seconds * 1000)}
        print(ascii_json({"type": "flow", **known}))
    return 0


def load_call(request: FlowRequest) -> Main:
    """The `main` of a flow file with its arguments, which gives what `main` returns as JSON holds it."""
    main = load_main(flow_file(request.file))
    args, kwargs = arguments(main, request.args)

    async def call(flow: Flow) -> Any:
        try:
            return plain(await main(flow, *args, **kwargs))
        except BaseException as error:
            while isinstance(error, BaseExceptionGroup):  # of a TaskGroup: what went wrong first tells the most
                error = error.exceptions[0]
            if isinstance(error, PlanEnds):  # a dry run knows no further
                return None
            raise error

    return call


async def run_flow(
    request: FlowRequest, journal: FlowJournal, call: Main, *, ask: Ask | None, sinks: Sequence[Emit], dry: bool = False
) -> tuple[Any, Flow]:
    """Run a flow, or go on with one whose journal has a beginning. Raises what its `main` raises."""
    begins, options = not journal.begun, with_whole_paths(request.options)
    request = replace(request, options=options)
    if begins:
        file = flow_file(request.file)
        kept = {name: value for name, _, default, _ in _KEPT if (value := getattr(options, name)) != default}
        journal.add("flow", file=request.file if file.parent == SHIPPED else str(file), args=list(request.args),
                    options=kept, on=request.on, jobs=request.jobs, cwd=str(options.cwd or paths.here()))  # fmt: skip
    try:
        async with Session.of(_within_budget(request, journal), request.environ, ask, sinks) as session:
            if not dry:
                journal.add("session", id=session.id)
            here = request.on == "here"
            jobs = None if here else JobRunner(session, options, await open_place(request.on, request.jobs))
            run_task, most = (jobs.run, jobs.size) if jobs else (run_in(session), request.jobs)
            flow = Flow(session, journal, run_task, jobs=most, max_turns=options.max_turns or 0, dry=dry)
            limit = asyncio.timeout(session.run.config.limits.timeout or None)
            try:
                async with limit:
                    value = await call(flow)
            except BaseException as stop:
                if limit.expired():  # whatever the flow's own code made of that
                    raise FlowTimedOut(f"The flow timed out after {session.run.config.limits.timeout:g} s.") from stop
                raise
            finally:
                if jobs:
                    await jobs.aclose()
                if not dry:
                    flow.book_rest()
            if not dry:
                journal.add("end", value=value)
            return value, flow
    finally:
        journal.close()
        if dry and begins:
            shutil.rmtree(journal.folder)


class FlowTimedOut(CoworkError):
    """The time of a flow is up."""


def load_request(environ: Mapping[str, str], flow_id: str, on: str, jobs: int, given: Mapping[str, Any]) -> FlowRequest:
    """What to run to go on with a flow."""
    folder = find(environ, flow_id)
    head = next(iter(read(folder / FILE)[0]), {})
    if head.get("type") != "flow":
        raise UserError(f"Flow {folder.name} was killed before it began.", "Start it again: `cowork flow run`.")
    kept = {**head["options"], "cwd": head["cwd"]}
    kept |= {name: Path(kept[name]) for name, kind, *_ in options_of(chat=False) if name in kept and "Path" in kind}
    kept |= given
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    return FlowRequest(
        head["file"], head["args"], RunOptions(**values), on or head["on"], jobs or head["jobs"], environ
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
    module = ModuleType(f"cowork_flow_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:  # compiled anew: Python's cache may hold what the file was a moment ago
        exec(compile(path.read_bytes(), path, "exec"), vars(module))
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
            kwargs[name] = _convert(name, value, hints.get(name, str))
        else:
            free = parameters[min(len(args), len(parameters) - 1)] if parameters else None
            args.append(_convert(free.name, word, hints.get(free.name, str)) if free else word)
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


def _convert(name: str, word: str, kind: Any) -> Any:
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
    options, spent = request.options, journal.cost_usd or 0.0
    if options.max_cost and journal.sessions:  # which know of killed tasks too
        entries = list_sessions(paths.sessions_dir(request.environ), None)
        spent = max(spent, sum(entry.cost_usd or 0.0 for entry in entries if entry.id in journal.sessions))
    if options.max_cost and spent:
        if spent >= options.max_cost:
            raise UserError(f"The budget of ${options.max_cost:g} is spent.", "Raise it: --max-cost.", exit_code=4)
        options = replace(options, max_cost=options.max_cost - spent)
    settings: dict[str, object] = {"agent.subagent.max_concurrent": min(50, request.jobs)}
    if options.max_turns:  # of each task, as where a task is a process
        settings["agent.subagent.default_max_turns"] = min(100, options.max_turns)
    return replace(options, settings=settings | dict(options.settings))


class FlowDisplay:
    """What a person sees while tasks run: a live tree on a terminal, else a line a task; all on stderr. With `stream`,
    every event goes to stdout as well."""

    def __init__(self, *, quiet: bool = False, stream: bool = False) -> None:
        self._started = time.monotonic()
        self._running = self._ended = 0
        self._cost: float | None = 0.0
        self._sink: Emit = lambda event: None
        self._stream = JsonOutput(sys.stdout, stream=True) if stream else None
        self.ask: Ask | None = None
        self.close: Callable[[], None] = lambda: None
        if not quiet and drawable(sys.stderr):
            tree = TaskTree(sys.stderr, os.environ, self._status)
            self._sink, self.close, self._prompt = tree, tree.close, LinePrompt()
            self.ask = self._ask if available() else None
        elif not quiet:
            self._sink = TextOutput(sys.stderr, sys.stderr)

    def __call__(self, event: Event) -> None:
        match event:
            case ReplyAdded(agent="main", cost_usd=cost):  # of a prompt outside tasks
                self._cost = add_cost(self._cost, cost)
            case AgentStarted():
                self._running += 1
            case AgentEnded():
                self._running, self._ended = self._running - 1, self._ended + 1
                self._cost = add_cost(self._cost, (event.record.get("data") or {}).get("total_cost_usd"))
        if not isinstance(event, RunEnded):
            self._sink(event)
            if self._stream:
                self._stream(event)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def _status(self) -> str:
        rate = f"{self._ended / self.seconds * 60:.0f} a minute" if self._ended else ""
        facts = [f"{self._ended} done", f"{self._running} at work", money(self._cost), duration(self.seconds), rate]
        return " · ".join(filter(None, facts))

    async def _ask(self, question: Any) -> Any:
        self.close()
        return await self._prompt(question)


def _print_plan(flow: Flow, request: FlowRequest, *, ended: bool) -> None:
    for task in flow.open:
        print(f"{task.agent_name:<16} {one_line(task.key or task.description or task.prompt, 90)}")
    before: dict[str, list[float]] = {}  # what tasks of an agent cost
    for folder in known_flows(request.environ)[:50]:
        for record in read(folder / FILE)[0]:
            if record.get("type") == "done" and record.get("cost_usd") is not None:
                before.setdefault(record["agent"], []).append(record["cost_usd"])
    if flow.open and all(task.agent_name in before for task in flow.open):
        costs = [before[task.agent_name] for task in flow.open]
        about = f"about {money(sum(sum(known) / len(known) for known in costs))} by what such tasks cost before"
    else:
        config = load(cwd=request.options.cwd or paths.here(), environ=request.environ, flags=request.options.flags())
        prices = config.model("main").prices or None
        cost: float | None = 0.0
        for task in flow.open:
            cost = add_cost(cost, price(config.models.main.model, Usage(len(task.prompt) // CHARS_A_TOKEN), prices))
        about = f"at least {money(cost)} for the prompts"
    rest = "; what follows depends on their results" if flow.open and not ended else ""
    print(f"{flow.reused} done, {plural(len(flow.open), 'task')} to run now: {about}{rest}")
