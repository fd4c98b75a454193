"""Runs to hold the rows against: each is played once, in this process, and kept."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cowork.agents import Agents
from cowork.config.load import load
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.events import AgentEnded, AgentStarted, AgentUpdated, Event, ToolEnded
from cowork.core.ports import Request, ToolSpec
from cowork.engine.loop import Outcome, Prompt
from cowork.frontends.repl.view.panels import new_child
from cowork.prompts import data_root
from cowork.providers.scripted import Scripted
from tests.fakes.agents import load_agents
from tests.fakes.live import live
from tests.fakes.stage import Stage, agent_def, call, say, turn
from tests.wire import server as wire

T = TypeVar("T")
_ROOM = tempfile.TemporaryDirectory(prefix="contracts-")
PRICE = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}
USAGE = {"input_tokens": 1200, "output_tokens": 450}
CHILD = "\n\n# Task\n"
REVIEWER = agent_def("code-reviewer", description="Reviews code for bugs", tools=("Read", "Grep"))
DOCS = Path(__file__).parents[2] / "docs"


@dataclass
class Played:
    """What a run left."""

    stage: Stage
    outcome: Outcome
    requests: list[Request]

    @property
    def events(self) -> list[Event]:
        return self.stage.events

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def records(self) -> list[Json]:
        """Of the main agent's delegations."""
        names = ("Task", "subagent", "Agent")
        return [e.record for e in self.of(ToolEnded) if e.agent == "main" and e.name in names]

    @property
    def record(self) -> Json:
        return self.records[0]

    @property
    def data(self) -> Json:
        return dict(self.record["data"])

    @property
    def error(self) -> Json:
        return dict(self.record["error"])

    @property
    def started(self) -> AgentStarted:
        return self.of(AgentStarted)[0]

    @property
    def updates(self) -> list[str]:
        return [event.status for event in self.of(AgentUpdated)]

    @property
    def ended(self) -> AgentEnded:
        return self.of(AgentEnded)[0]

    @property
    def child(self) -> list[Request]:
        """The requests of the children."""
        return [request for request in self.requests if CHILD in request.system]

    @property
    def main(self) -> list[Request]:
        return [request for request in self.requests if CHILD not in request.system]


def awaited(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def new_stage(**settings: Any) -> Stage:
    folder = Path(tempfile.mkdtemp(dir=_ROOM.name))
    (folder / "scratch").mkdir()
    stage = Stage(folder)
    stage.agents = Agents([*stage.agents.values(), REVIEWER])
    for name, value in settings.items():
        setattr(stage.settings, name, value)
    (stage.workspace.root / "app.py").write_text("print('hi')\n")
    (stage.workspace.root / "big.txt").write_text("0123456789abcdef\n" * 2_000)
    return stage


def task(kind: str = "code-reviewer", prompt: str = "review app.py", **rest: Any) -> Json:
    return call("Task", **({"description": "review the app", "prompt": prompt, "subagent_type": kind} | rest))


def play(main: list[Json], children: dict[str, Any] | None = None, stage: Stage | None = None) -> Played:
    stage = stage or new_stage()
    model = Scripted(main, children or {}, price=PRICE)

    async def go() -> Outcome:
        stage.set_up(model)
        return await stage.agent.run(Prompt("go"))

    outcome = awaited(go())
    asked = [*model.requests, *getattr(stage.light, "requests", ())]
    return Played(stage, outcome, asked)


@functools.cache
def review() -> Played:
    """A child that reads a file and reports."""
    turns = [turn(call("Read", file_path="app.py"), usage=USAGE), {**say("app.py:1 prints."), "usage": USAGE}]
    return play([turn(task(), usage=USAGE), {**say("It prints."), "usage": USAGE}], {"code-reviewer": turns})


@functools.cache
def refused(given: str = "{}", settings: str = "{}") -> Played:
    """An order with these fields (None: left out), as JSON, that cannot be sent out."""
    fields = {"description": "review the app", "prompt": "p", "subagent_type": "code-reviewer"} | json.loads(given)
    order = call("Task", **{name: value for name, value in fields.items() if value is not None})
    return play([turn(order), say("ok")], stage=new_stage(**json.loads(settings)))


@functools.cache
def exposed(given: str = "{}", settings: str = "{}") -> Played:
    """`subagent` with these fields, as JSON; its child finds much and sums it up."""
    stage = new_stage(**json.loads(settings))
    stage.tools = stage.tools.all.only()
    fields = {"label": "research", "task_prompt": "Look around"} | json.loads(given)
    order = call("subagent", **{name: value for name, value in fields.items() if value is not None})
    look = turn(call("LS", path="."))
    limited = "max_turns" in fields
    turns = [look, look, say("half")] if limited else [look, say("long findings"), say("short")]
    return play([turn(order), say("ok")], {"general-purpose": turns}, stage)


@functools.cache
def nested(depth: int = 3, *, circle: bool = False) -> Played:
    """Alpha asks beta; beta asks gamma, or alpha again."""
    stage = new_stage(allow_nesting=True, max_depth=depth)
    stage.agents = Agents([agent_def(name) for name in ("alpha", "beta", "gamma")])
    children = {
        "alpha": [turn(task("beta", "b")), say("alpha")],
        "beta": [turn(task("alpha" if circle else "gamma", "c")), say("beta")],
        "gamma": [say("gamma")],
    }
    return play([turn(task("alpha", "a")), say("ok")], children, stage)


@functools.cache
def ended_by(what: str) -> Played:
    """A child that comes to this end."""
    stage = new_stage(**{"timeout": {"timeout": 0.05}}.get(what, {}))
    if what == "init":
        stage.init_error = UserError("no key for light")
    turns = {
        "timeout": [{**say("never"), "delay_ms": 60_000}],
        "failure": [{**say("x"), "fault": {"status": 400}}],
        "limit": [turn(call("Grep", pattern="hi")), turn(call("Grep", pattern="hi")), say("half")],
        "long": [say("é" * 12_000)],
        "denied": [turn(call("Bash", command="id")), say("I ran it.")],
        "init": [],
    }[what]
    order = {"max_turns": 2} if what == "limit" else {"model": "light"} if what == "init" else {}
    return play([turn(task(**order)), say("ok")], {"code-reviewer": turns}, stage)


@functools.cache
def five() -> Played:
    """Five children of one reply."""
    orders = [task(prompt=f"part {n}") for n in range(5)]
    return play([turn(*orders), say("ok")], {"code-reviewer": [{**say("done"), "delay_ms": 20}]})


@functools.cache
def role(kind: str) -> Played:
    """A shipped agent that tries what it may not do."""
    tries = [
        call("Task", description="d", prompt="p", subagent_type="explore"),
        call("Write", file_path="x", content="y"),
        call("Edit", file_path="app.py", old_string="hi", new_string="ho"),
        call("MultiEdit", file_path="app.py", edits=[]),
        call("Bash", command="touch x"),
    ]
    stage = new_stage()
    stage.policy.allow_all = True
    turns = [turn(*tries), turn(call("LS", path=".")), say("could not")]
    return play([turn(task(kind, "Where is main?")), say("ok")], {kind.lower(): turns}, stage)


@functools.cache
def with_light() -> Played:
    """A light model of its own beside the main one."""
    stage = new_stage()
    stage.light = Scripted([], {"explore": [say("light words")]}, model="small")
    main = [turn(task("explore"), task("explore", model="main")), say("ok")]
    return play(main, {"explore": [say("main words")]}, stage)


@functools.cache
def logged() -> list[str]:
    """The log lines of a run with each kind of event."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, handler = logging.getLogger("cowork.subagents"), Keep()
    before = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        for what in ("limit", "failure", "long"):
            ended_by.__wrapped__(what)
        nested.__wrapped__(1)
        review.__wrapped__()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
    return lines


def line(event: str) -> str:
    """The first log line of an event, from there on."""
    found = next(one for one in logged() if f"subagent.event={event} " in one)
    return found[found.index("subagent.event=") :]


@functools.cache
def spoken(format: str = "anthropic") -> list[Json]:
    """The request bodies of a run with parallel calls, an error, a denial and a child, on a wire."""
    looks = wire.turn(
        "Looking.",
        wire.call("Read", file_path="app.py"),
        wire.call("Grep", pattern="hi"),
        wire.call("Read", file_path="nowhere.py"),
    )
    order = wire.call("Task", description="find it", prompt="Where?", subagent_type="explore")
    reads = [wire.turn(wire.call("Read", file_path="big.txt")), wire.say("big.txt:1 has it.")]
    folder = Path(tempfile.mkdtemp(dir=_ROOM.name))
    (folder / "work").mkdir()
    (folder / "work" / "app.py").write_text("print('hi')\n")
    (folder / "work" / "big.txt").write_text("0123456789abcdef\n" * 2_000)

    async def go() -> list[Json]:
        with wire.Server([looks, wire.turn(order), wire.say("Done.")], routes={"find it": reads}) as server:
            async with live(folder, server, format) as run:
                await run.run.ask(Prompt("go"))
            assert server.violations == []
            return list(server.bodies)

    return awaited(go())


def setting(text: str = "", **environ: str) -> Any:
    """The configuration with this user file and environment."""
    home = Path(tempfile.mkdtemp(dir=_ROOM.name))
    (home / "config.toml").write_text(text)
    given = {"HOME": str(home), "COWORK_HOME": str(home), "PATH": os.environ["PATH"], **environ}
    return load(cwd=home, environ=given, flags={}, config_file=home / "config.toml", trusted=False, bare=False)


def wrong(text: str) -> str:
    """What is said of a user file that is wrong."""
    try:
        setting(text)
    except UserError as error:
        return str(error)
    return ""


def subagent_setting(line: str) -> Any:
    return setting(f"[agent.subagent]\n{line}\n").agent.subagent


@functools.cache
def specs() -> dict[str, ToolSpec]:
    """What the main model is told of its tools, `subagent` among them."""
    return {spec.name: spec for spec in exposed().main[0].tools}


def properties(tool: str = "Task") -> Json:
    return dict(specs()[tool].schema["properties"])


def is_refused(description: str) -> bool:
    """Whether an agent file with this description, in YAML, does not load."""
    path = Path(tempfile.mkdtemp(dir=_ROOM.name)) / "agents/a.md"
    path.parent.mkdir()
    path.write_text(f"---\nname: a\ndescription: {description}\n---\nrole\n")
    return not load_agents(("user", path.parents[1]))


def draws_a_panel() -> bool:
    """Whether the chat makes a panel of the events of a child."""
    return "review the app" in str(new_child(review().started, 0.0))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def shipped(name: str) -> str:
    return (data_root() / "agents" / f"{name}.md").read_text(encoding="utf-8")
