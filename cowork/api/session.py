"""A conversation that a program holds: prompts, tasks for subagents, events, costs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar, Unpack, overload

from cowork.api.options import SessionOptions, SessionTaskOptions, checked, given_options, options_for
from cowork.api.result import Result, failure
from cowork.api.tools import schema_of, task_value, value_as
from cowork.app.build import build
from cowork.app.resume import begin
from cowork.app.run import Run, bug_in, wait_for
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Image, Json, Usage
from cowork.core.errors import ToolError, UserError
from cowork.core.events import Event
from cowork.core.frozen import finish_all
from cowork.core.ports import AgentDef, Ask, Emit, TaskOrder, ToolRecord, error_record
from cowork.engine.loop import Outcome, Prompt

log = logging.getLogger("cowork.api")

T = TypeVar("T")
Who = str | AgentDef
WHOLE = 1 << 30  # bytes of a result: a program has room for all of it


class Session:
    """A conversation in a folder. `async with Session(...) as s:`; `s.ask(...)`, `s.task(...)`."""

    def __init__(self, **options: Unpack[SessionOptions]) -> None:
        finish_all()
        options = given_options(SessionOptions, options)
        self._options, self._added = options_for(options)
        self._environ = options.get("environ", os.environ)
        self._person = checked(options["ask"]) if "ask" in options else None
        self.sinks = [options["on_event"]] if "on_event" in options else []
        self._run: Run | None = None
        self._asking = asyncio.Lock()  # one prompt at a time
        self._answer: asyncio.Task[Outcome] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._reason, self._text = "completed", ""

    @classmethod
    def of(cls, options: RunOptions, environ: Mapping[str, str], ask: Ask | None, sinks: Sequence[Emit]) -> Session:
        """A session with the options of a command line."""
        session = cls()
        session._options, session._environ, session._person = options, environ, ask
        session.sinks = list(sinks)
        return session

    async def __aenter__(self) -> Session:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Put the run together; `async with` does it."""
        if self._run is None:
            self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
            run = build(
                self._options,
                self._environ,
                ask=self._person,
                sinks=self.sinks,
                on_sink_failure=_note_failure,
                program=self._added,
            )
            try:
                begin(run)
            except BaseException:
                await run.close()
                raise
            self._run = run

    async def close(self) -> None:
        """End what still runs, and let the session go."""
        run, self._run = self._run, None
        if run is None:
            return
        if self._answer:
            self._answer.cancel()
            await asyncio.wait([self._answer])
        try:
            await run.subagents.stop_all("the session was closed")
            run.end(self._reason, self._text, None)
        finally:
            await run.close()

    @property
    def run(self) -> Run:
        """The run behind it, for what this class has no word for."""
        if self._run is None:
            raise UserError("The session is not open.", "Use `async with cowork.Session(…) as session:`.")
        return self._run

    @property
    def id(self) -> str:
        """What `resume` takes to go on with this session."""
        return self.run.session_id

    @property
    def cost(self) -> float | None:
        """USD so far, children and retries counted in; None when a price is not known."""
        return self.run.ledger.spent.cost_usd

    @property
    def usage(self) -> Usage:
        """Tokens so far, children and retries counted in."""
        return self.run.ledger.spent.usage

    @overload
    def ask(self, prompt: str, *, images: Sequence[Image] = ()) -> PendingAnswer[None]: ...
    @overload
    def ask(self, prompt: str, *, schema: type[T], images: Sequence[Image] = ()) -> PendingAnswer[T]: ...
    @overload
    def ask(self, prompt: str, *, schema: Any, images: Sequence[Image] = ()) -> PendingAnswer[Any]: ...
    def ask(self, prompt: str, *, schema: Any = None, images: Sequence[Image] = ()) -> PendingAnswer[Any]:
        """Put a prompt to the main agent: iterate over what this gives for events, or await it for the Result."""
        wanted = None if schema is None else schema_of(schema)
        said = Prompt(prompt, images=tuple(images))
        return PendingAnswer(self, lambda on_event: self._ask(said, wanted, schema, on_event))

    @overload
    async def task(self, agent: Who, prompt: str, **options: Unpack[SessionTaskOptions]) -> str: ...
    @overload
    async def task(self, agent: Who, prompt: str, *, schema: type[T], **options: Unpack[SessionTaskOptions]) -> T: ...
    @overload
    async def task(self, agent: Who, prompt: str, *, schema: Any, **options: Unpack[SessionTaskOptions]) -> Any: ...
    async def task(self, agent: Who, prompt: str, *, schema: Any = None, **options: Unpack[SessionTaskOptions]) -> Any:
        """Send out an agent; gives its result, a text or a value of the schema's type. Many may run at once."""
        record = await self.task_record(agent, prompt, schema=schema, **options)
        return task_value(schema, record)

    async def task_record(
        self, agent: Who, prompt: str, *, schema: Any = None, **options: Unpack[SessionTaskOptions]
    ) -> ToolRecord:
        """The whole record of a task: status, result, receipts; failures are records too."""
        run, options = self.run, given_options(SessionTaskOptions, options)
        if isinstance(agent, AgentDef):
            if run.subagents.agents.get(agent.name) is not agent:
                run.subagents.agents = run.subagents.agents.with_added([agent])
            agent = agent.name
        order = TaskOrder(
            description=options.get("description") or " ".join(prompt.split())[:60],
            prompt=prompt,
            subagent_type=agent,
            model=options.get("model", ""),
            output_schema=None if schema is None else schema_of(schema),
            accept=partial(value_as, schema),
            result_bytes=WHOLE,
            isolation=options.get("isolation", ""),
            check=options.get("check", ""),
            max_turns=options.get("max_turns", 0),
        )
        try:
            return await run.subagents.spawn(run.agent.runner.context(), order)
        except ToolError as refusal:
            return error_record(refusal.code, refusal.text, **refusal.data)

    def cancel(self) -> None:
        """Stop the answer that is under way, and all subagents, from any thread; `ask` raises Cancelled."""
        if self._loop and threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # its loop has ended, and so has all that it ran
                self._loop.call_soon_threadsafe(self.cancel)
            return
        if self._run:
            self._run.subagents.kill_all()
        if self._answer:
            self._answer.cancel()

    async def _ask(self, prompt: Prompt, wanted: Json | None, kind: Any, on_event: Emit | None) -> Result[Any]:
        async with self._asking:
            run = self.run
            run.output_schema, run.structured = wanted, None
            run.accept = partial(value_as, kind)
            turns, before = run.agent.turns, run.ledger.spent
            if on_event:
                run.emitter.add(on_event)
            self._answer = answer = asyncio.create_task(_in_time(run, prompt))
            try:
                await wait_for(answer)
            finally:
                self._answer = None
                if on_event:
                    run.emitter.remove(on_event)
            reason, text, error = run.ending(answer)
            self._reason, self._text = reason, text
            if bug := bug_in(answer):
                raise bug
            value = value_as(kind, run.structured) if reason == "completed" else None
            took, spent = run.agent.turns - turns, run.ledger.spent - before
            result = Result(text, value, reason, run.session_id, took, spent.usage, spent.cost_usd, error or {})
            if reason != "completed":
                raise failure(result)
            return result


class PendingAnswer(Generic[T]):
    """An answer to come: `async for event in it`, or `await it` for the Result. Either raises what went wrong."""

    def __init__(self, session: Session, answer: Callable[[Emit | None], Coroutine[Any, Any, Result[T]]]) -> None:
        self._session = session
        self._answer = answer
        self.result: Result[T] | None = None  # once it is there

    def __await__(self) -> Generator[Any, None, Result[T]]:
        return self._whole().__await__()

    async def _whole(self) -> Result[T]:
        self.result = await self._answer(None)
        return self.result

    async def __aiter__(self) -> AsyncIterator[Event]:
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        answer = asyncio.create_task(self._answer(events.put_nowait))
        answer.add_done_callback(lambda done: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            self.result = await answer
        finally:
            if not answer.done():  # whoever iterated has seen enough
                answer.cancel()
                await asyncio.wait([answer])


def run(prompt: str, *, schema: Any = None, **options: Unpack[SessionOptions]) -> Result[Any]:
    """Answer one prompt and give the Result; raises RunFailed. Works wherever, inside a running loop too."""
    begun: Future[asyncio.Task[Any] | None] = Future()

    async def answer() -> Result[Any]:
        begun.set_result(asyncio.current_task())
        async with Session(**options) as session:
            return await session.ask(prompt, schema=schema)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(answer())
    with ThreadPoolExecutor(1, "cowork") as pool:  # where a loop runs already, as in a notebook
        ended = pool.submit(lambda: asyncio.run(answer()))
        try:
            return ended.result()
        except KeyboardInterrupt:  # of whoever waits here; the thread does not hear of it
            if not ended.done() and (task := begun.result()):
                task.get_loop().call_soon_threadsafe(task.cancel)
            raise


def _note_failure(sink: Emit, error: Exception) -> None:
    log.error("%r failed and hears of no more events", sink, exc_info=error)


async def _in_time(run: Run, prompt: Prompt) -> Outcome:
    async with asyncio.timeout(run.config.limits.timeout or None):
        return await run.ask(prompt)
