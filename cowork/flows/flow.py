"""What a flow's `main` works with: tasks that are journaled, priced and never paid for twice."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, Literal, TypeVar, Unpack, overload

from cowork.api.options import TaskOptions
from cowork.api.result import TaskFailed, data_of
from cowork.api.session import Session, Who
from cowork.api.tools import schema_of, value_as
from cowork.core.blocks import Json
from cowork.core.events import Notice
from cowork.core.frozen import frozen
from cowork.core.ports import ToolRecord
from cowork.flows.journal import FlowJournal
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
        self, session: Session, journal: FlowJournal, run_task: RunTask, *, jobs: int, dry: bool = False
    ) -> None:
        self.session = session
        self.journal = journal
        self.reused = 0  # tasks whose results came from the journal
        self.open: list[FlowTask] = []  # those that a dry run found, and would run now
        self._dry = dry
        self._run_task = run_task
        self._places = asyncio.Semaphore(jobs)
        self._seen: Counter[tuple[str, str]] = Counter()

    @property
    def cost(self) -> float | None:
        """USD of this flow so far, earlier parts of it counted in."""
        return self.journal.cost_usd

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
        data = await self.record(agent, prompt, schema=schema, **options)
        return data["result"] if schema is None else value_as(schema, data["structured_output"])

    async def record(self, agent: Who, prompt: str, *, schema: Any = None, **options: Unpack[FlowTaskOptions]) -> Json:
        """The same with its receipts: `result`, `structured_output`, `total_cost_usd`, `files_changed`, `worktree`…"""
        wanted = None if schema is None else schema_of(schema)
        task = FlowTask(agent, prompt, wanted, **options)
        key, input = self._key(task), task.input
        if done := self.journal.before.get((key, input)):
            self.reused += 1
            data: Json = done["data"]
            return data
        if self._dry:
            self.open.append(task)
            raise PlanEnds
        async with self._places:
            return await self._pay_for(task, key, input)

    async def _pay_for(self, task: FlowTask, key: str, input: str) -> Json:
        self.journal.add("started", key=key, input=input)
        facts: Json = {"key": key, "input": input, "agent": task.agent_name}
        try:
            data = data_of(await self._run_task(task), structured=task.schema is not None)
        except (Interrupted, TaskFailed) as stop:  # what it had used is spent
            message = str(stop) if isinstance(stop, TaskFailed) else "interrupted"
            self.journal.add("failed", **facts, cost_usd=stop.record.data.get("total_cost_usd", 0.0), message=message)
            raise
        self.journal.add("done", **facts, cost_usd=data.get("total_cost_usd", 0.0), data=data)
        return data

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

    def _key(self, task: FlowTask) -> str:
        """What the task is called in the journal: its key, or who does what.

        A second one with the same input gets a number; others of that name do not count, for the order in which tasks
        are asked for may differ from run to run.
        """
        name = task.key or f"{task.agent_name}:{task.input[:12]}"
        self._seen[name, task.input] += 1
        number = self._seen[name, task.input]
        return name if number == 1 else f"{name}#{number}"


def run_in(session: Session) -> RunTask:
    """Run tasks as children of the flow's own session, in this process."""

    async def run(task: FlowTask) -> ToolRecord:
        options = TaskOptions(model=task.model, isolation=task.isolation, check=task.check)
        options["description"] = task.description or task.key
        return await session.task_record(task.agent, task.prompt, schema=task.schema, **options)

    return run
