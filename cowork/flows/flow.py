"""What a flow's `main` works with: tasks that are journaled, priced and never paid for twice."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Literal, TypeVar, Unpack, overload

from cowork.api.options import TaskOptions
from cowork.api.result import TaskFailed, at_turn_limit
from cowork.api.session import Session, Who
from cowork.api.tools import schema_of, task_value
from cowork.core.blocks import Json, add_cost, cost_since
from cowork.core.events import Notice
from cowork.core.frozen import frozen
from cowork.core.ports import ToolRecord
from cowork.flows.journal import FlowJournal, TaskKey, state_of
from cowork.tools.base import Interrupted

T = TypeVar("T")
Item = TypeVar("Item")
RunTask = Callable[["FlowTask"], Awaitable[ToolRecord]]


class FlowTaskOptions(TaskOptions, total=False):
    """What a task of a flow can be told beside its prompt."""

    key: str  # what it is called in the journal; else who does what


@frozen
class FlowTask:
    """One task of a flow: who does what, and how its result looks."""

    agent: Who
    prompt: str
    schema: Json | None = None
    model: str = ""
    description: str = ""
    isolation: str = ""  # worktree: in one of its own, merged at the end
    check: str = ""  # a command that must succeed there before it is merged
    key: str = ""

    @property
    def agent_name(self) -> str:
        return self.agent if isinstance(self.agent, str) else self.agent.name

    @property
    def input(self) -> str:
        """A hash of all that the result depends on."""
        agent = self.agent
        who = agent if isinstance(agent, str) else [agent.name, agent.role, agent.tools, agent.model]
        parts = [who, self.prompt, self.schema, self.model, self.isolation, self.check]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class PlanEnds(BaseException):
    """A dry run needs a result that nobody has paid for yet."""


class Flow:
    """Runs tasks of agents; `flow.task` can be awaited, gathered, looped over and put under an `if`."""

    def __init__(
        self,
        session: Session,
        journal: FlowJournal,
        run_task: RunTask,
        *,
        jobs: int,
        max_turns: int = 0,
        dry: bool = False,
    ) -> None:
        self.session = session
        self.journal = journal
        self.reused = 0  # tasks whose results came from the journal
        self.open: list[FlowTask] = []  # those that a dry run found, and would run now
        self._dry = dry
        self._run_task = run_task
        self._spent_before = journal.cost_usd
        self._places = asyncio.Semaphore(jobs)
        self._max_turns = max_turns  # of a task, where somebody said; one that ended with fewer may be run again
        self._states: dict[TaskKey, str] = {}  # open, done, partial or failed, of the tasks asked for in this run

    @property
    def cost(self) -> float | None:
        """USD of this flow so far, earlier parts of it and prompts outside tasks counted in."""
        return add_cost(self._spent_before, self.session.cost)

    def book_rest(self) -> None:
        """Write down what was spent outside tasks."""
        if (cost := self.cost) != self.journal.cost_usd:
            self.journal.add("spent", cost_usd=cost_since(cost, self.journal.cost_usd))

    def log(self, text: str) -> None:
        """Tell the person something."""
        self.session.run.emit(Notice(text))

    @overload
    async def task(self, agent: Who, prompt: str, **options: Unpack[FlowTaskOptions]) -> str: ...
    @overload
    async def task(self, agent: Who, prompt: str, *, schema: type[T], **options: Unpack[FlowTaskOptions]) -> T: ...
    @overload
    async def task(self, agent: Who, prompt: str, *, schema: Any, **options: Unpack[FlowTaskOptions]) -> Any: ...
    async def task(self, agent: Who, prompt: str, *, schema: Any = None, **options: Unpack[FlowTaskOptions]) -> Any:
        """The result of a task: a text, or a value of the schema's type. Raises TaskFailed."""
        _, value = await self._result(agent, prompt, schema, options)
        return value

    async def record(self, agent: Who, prompt: str, *, schema: Any = None, **options: Unpack[FlowTaskOptions]) -> Json:
        """The same with its receipts: `result`, `structured_output`, `total_cost_usd`, `files_changed`, `worktree`…"""
        data, _ = await self._result(agent, prompt, schema, options)
        return data

    def count(self, state: str) -> int:
        """How many tasks that this run asked for ended as `done`, `partial` or `failed`."""
        return list(self._states.values()).count(state)

    async def _result(self, agent: Who, prompt: str, schema: Any, options: FlowTaskOptions) -> tuple[Json, Any]:
        """(data, value) of a task, from the journal or by running it."""
        task = FlowTask(agent, prompt, None if schema is None else schema_of(schema), **options)
        key = self._take_key(task)
        try:
            data, value = self._known(key, schema) or await self._run(task, key, schema)
        except (Exception, asyncio.CancelledError):
            self._states[key] = "failed"  # and its key is free for who tries again
            raise
        self._states[key] = state_of({"type": "done", "data": data})
        return data, value

    def _known(self, key: TaskKey, schema: Any) -> tuple[Json, Any] | None:
        """The result that the journal has, unless its type refuses it now or it was cut short and may go further."""
        done = self.journal.before.get(key)
        if not done:
            return None
        if at_turn_limit(done["data"]):  # an agent's own limit may have been lower than that of the flow
            limit = done.get("max_turns") or int(done["data"]["metadata"]["turns_used"]) - 1  # without the report
            if self._max_turns > limit:
                return None
        with contextlib.suppress(TaskFailed):
            value = task_value(schema, ToolRecord("success", "", done["data"]))
            self.reused += 1
            return done["data"], value
        return None

    async def _run(self, task: FlowTask, key: TaskKey, schema: Any) -> tuple[Json, Any]:
        if self._dry:
            self.open.append(task)
            raise PlanEnds
        async with self._places:
            name, input = key
            self.journal.add("started", key=name, input=input)
            facts: Json = {"key": name, "input": input, "agent": task.agent_name}
            try:
                record = await self._run_task(task)
                data, value = record.data, task_value(schema, record)
            except (Interrupted, TaskFailed) as stop:  # what it had used is spent
                message = str(stop) if isinstance(stop, TaskFailed) else "interrupted"
                cost = stop.record.data.get("total_cost_usd", 0.0)
                self.journal.add("failed", **facts, cost_usd=cost, message=message)
                raise
            cost, most = data.get("total_cost_usd", 0.0), self._max_turns
            self.journal.add("done", **facts, cost_usd=cost, data=data, max_turns=most)
            return data, value

    async def map(
        self,
        agent: Who,
        items: Iterable[Item] | AsyncIterable[Item],
        prompt: Callable[[Item], str],
        *,
        key: Callable[[Item], str] | None = None,
        failures: Literal["raise", "return"] = "raise",
        schema: Any = None,
        **options: Unpack[TaskOptions],
    ) -> list[Any]:
        """One task an item, side by side; results in the order of the items. A failure is raised when all have ended,
        or stands in the place of its result."""
        listed = [i async for i in items] if isinstance(items, AsyncIterable) else list(items)
        tasks = [
            self.task(agent, prompt(item), schema=schema, key=key(item) if key else "", **options) for item in listed
        ]
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        wrong = [end for end in ends if isinstance(end, BaseException)]
        if wrong and (failures == "raise" or not isinstance(wrong[0], Exception)):
            raise wrong[0]
        return ends

    def _take_key(self, task: FlowTask) -> TaskKey:
        """What the task is called in the journal: its key, or who does what; and its input.

        A second one with the same input gets a number; others of that name do not count, for the order in which tasks
        are asked for may differ from run to run. One that failed does not count either: a second try is the same task.
        """
        name, input = task.key or f"{task.agent_name}:{task.input[:12]}", task.input
        names = (name if number == 1 else f"{name}#{number}" for number in itertools.count(1))
        key = next((free, input) for free in names if self._states.get((free, input), "failed") == "failed")
        self._states[key] = "open"
        return key


def run_in(session: Session) -> RunTask:
    """Run tasks as children of the flow's own session, in this process."""

    async def run(task: FlowTask) -> ToolRecord:
        options = TaskOptions(model=task.model, isolation=task.isolation, check=task.check)
        options["description"] = task.description or task.key
        record = await session.task_record(task.agent, task.prompt, schema=task.schema, **options)
        denied = any(tool["denied"] for tool in record.data.get("tool_summary", ()))
        if denied and record.error is None and session.run.project.options.strict_denials:
            wrong = {"code": "PERMISSION_DENIED", "message": "An action was denied."}
            return replace(record, status="error", error=wrong)
        return record

    return run
