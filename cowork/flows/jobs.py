"""Tasks as processes of `cowork run`, told of line by line: on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from cowork.api.session import Session
from cowork.config.run_options import RunOptions, options_of
from cowork.core import spawn
from cowork.core.blocks import Json, Usage, add_cost, as_object, cost_since
from cowork.core.errors import ToolErrorCode, UserError
from cowork.core.events import AgentEnded, AgentStarted, AgentUpdated, ReplyAdded, from_dict
from cowork.core.git import git_output
from cowork.core.ports import ToolRecord
from cowork.engine.budget import BudgetExceeded, Cost
from cowork.engine.subagents.result import ChildResult, record_of
from cowork.flows.flow import FlowTask
from cowork.tools.base import Interrupted

Hear = Callable[[Json], None]  # an event of a job, as its process prints it
_STARTED = "job.started"  # the first of them
_OWN = ("output", "non_interactive", "quiet", "cwd", "output_schema", "continue_", "resume")


def job_of(id: str, prompt: str, options: RunOptions, schema: Json | None = None, **more: str) -> Json:
    """What a worker needs to know; `repo` and `ref` for a checkout of its own."""
    cwd = str(options.cwd) if options.cwd else ""
    return {"id": id, "prompt": prompt, "flags": _flags(options), "schema": schema, "cwd": cwd, **more}


def run_job(job: Json, hear: Hear) -> Json:
    """Run it to its end; gives the object of `--output json`, with a `patch` where it had a checkout."""
    try:
        with tempfile.TemporaryDirectory(prefix="cowork-", ignore_cleanup_errors=True) as scratch:
            folder, base = _check_out(job, Path(scratch))
            flags = [*job["flags"]]
            if job.get("schema"):
                file = Path(scratch) / "schema.json"
                file.write_text(json.dumps(job["schema"]))
                flags += ["--output-schema", str(file)]
            words = [sys.executable, "-m", "cowork", "run", "--non-interactive", "--output", "stream-json", *flags, "-"]
            given = job["prompt"].encode("utf-8", "replace")
            process = spawn.start_streaming(words, environ=dict(os.environ), cwd=folder, given=given)
            hear({"type": _STARTED, "id": job["id"], "pid": process.pid})
            result: Json = {}
            assert process.stdout is not None
            for line in process.stdout:
                try:
                    event = as_object(json.loads(line.decode("utf-8", "replace")))
                except ValueError:
                    continue  # half a line of a process that was killed
                if event.get("type") == "run.ended":
                    result = event
                else:
                    hear(event)
            code = process.wait()
            result = result or no_result(f"The process ended with code {code} and no result.")
            return result | ({"patch": _patch(folder, base)} if base else {})
    except (UserError, OSError) as error:  # no such repository, no room for it
        return no_result(str(error))


def no_result(message: str) -> Json:
    """The result of a job that gave none."""
    error = {"code": "internal_error", "message": message}
    return {"status": "error", "result": "", "terminal_reason": "internal_error", "error": error}


def _check_out(job: Json, scratch: Path) -> tuple[Path, str]:
    """(folder to work in, commit it was checked out at): the given one, or a clone."""
    if not job.get("repo"):
        return Path(job.get("cwd") or os.getcwd()), ""
    folder, repo = scratch / "repo", os.path.expanduser(job["repo"])
    shared = ["--shared"] if os.path.isdir(repo) else []
    _git(scratch, "clone", "-q", *shared, "--no-checkout", repo, str(folder))
    _git(folder, "checkout", "-q", "--detach", job.get("ref") or "HEAD")
    return folder, _git(folder, "rev-parse", "HEAD").strip()


def _patch(folder: Path, base: str) -> str:
    """What was changed since the checkout, new files counted in."""
    _git(folder, "add", "-A")
    diff = _git(folder, "diff", "--cached", "--binary", base)
    return diff.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _git(folder: Path, *words: str) -> str:
    return git_output(folder, *words, environ=os.environ)


def _flags(options: RunOptions) -> list[str]:
    """The words of a command line that stand for these options."""
    words: list[str] = []
    options = with_whole_paths(options)
    for name, _, default, shown in options_of(chat=False):
        value = getattr(options, name)
        if name in _OWN or value == default:
            continue
        if isinstance(value, bool):
            words.append(shown.flags[0])
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [shown.flags[0], str(each)]
    return words


def with_whole_paths(options: RunOptions) -> RunOptions:
    """The same options, for a process in another folder."""
    whole: dict[str, Any] = {name: Path(_whole(path)) for name, path in vars(options).items() if isinstance(path, Path)}
    return replace(options, add_dirs=tuple(map(_whole, options.add_dirs)), **whole)


def _whole(path: str | Path) -> str:
    return os.path.abspath(os.path.expanduser(path))


class LocalPlace:
    """One process a job on this machine, so many at once."""

    def __init__(self, count: int) -> None:
        self.size = count
        self._free = asyncio.Semaphore(count)
        self._threads = ThreadPoolExecutor(count, "cowork-job")  # the loop's own are few, and others need them

    async def run(self, job: Json, hear: Hear) -> Json:
        async with self._free:
            loop, pids = asyncio.get_running_loop(), list[int]()

            def pass_on(event: Json) -> None:
                if event.get("type") == _STARTED:
                    pids.append(event["pid"])
                loop.call_soon_threadsafe(hear, event)

            work = loop.run_in_executor(self._threads, run_job, job, pass_on)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                while not work.done():  # the thread ends when the process does
                    for pid in pids:
                        terminate(pid)
                    await asyncio.wait([work], timeout=0.2)
                raise

    async def aclose(self) -> None:
        self._threads.shutdown(wait=False)


class DaskPlace:
    """The workers of a Dask cluster: a lost worker's job runs again on another one."""

    size = 10_000  # jobs at once: a cluster takes all it is given

    def __init__(self, client: Any) -> None:
        self._client = client
        self._topic = f"cowork-{uuid4().hex[:12]}"
        self._hears: dict[str, Hear] = {}
        self._where: dict[str, tuple[str, int]] = {}  # job -> worker and process
        client.subscribe_topic(self._topic, self._pass_on)

    @classmethod
    async def connect(cls, address: str) -> DaskPlace:
        try:
            distributed = importlib.import_module("distributed")
        except ImportError as error:
            raise UserError("--on dask needs the package distributed.", "pip install 'cowork[dask]'") from error
        try:
            client = await distributed.Client(address, asynchronous=True, timeout="5s")
        except (OSError, ValueError) as error:
            raise UserError(f"There is no Dask scheduler at {address}.", str(error)) from error
        return cls(client)

    async def run(self, job: Json, hear: Hear) -> Json:
        self._hears[job["id"]] = hear
        future = self._client.submit(work, job, self._topic, pure=False, key=f"{self._topic}-{job['id']}")
        try:
            result: Json = await future
            return result
        except asyncio.CancelledError:
            await future.cancel()
            if found := self._where.get(job["id"]):
                worker, pid = found
                with contextlib.suppress(Exception):  # the worker may be gone, and its process with it
                    await self._client.run(terminate, pid, workers=[worker])
            raise
        except Exception as error:  # every worker that took it died, say
            return no_result(f"{type(error).__name__}: {error}")
        finally:
            self._hears.pop(job["id"], None)
            future.release()

    async def aclose(self) -> None:
        self._client.unsubscribe_topic(self._topic)
        await self._client.close()

    def _pass_on(self, stamped: tuple[float, Json]) -> None:
        _, message = stamped
        id, event = message["id"], json.loads(message["line"])
        if event.get("type") == _STARTED:
            self._where[id] = message["worker"], event["pid"]
        if hear := self._hears.get(id):
            hear(event)


def work(job: Json, topic: str) -> Json:
    """What a Dask worker runs: the job, whose events go back as they come."""
    worker: Any = importlib.import_module("distributed").get_worker()

    def hear(event: Json) -> None:  # as a line: not every text and number of JSON can be sent otherwise
        worker.log_event(topic, {"id": job["id"], "worker": worker.address, "line": json.dumps(event)})

    return run_job(job, hear)


def terminate(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


Place = LocalPlace | DaskPlace
"""Runs jobs, and tells what happens in them as it does. A failure is a result; a cancelled job ends its process."""


async def open_place(on: str, jobs: int) -> Place:
    """The place for `local[:N]` or `dask:ADDRESS`."""
    kind, _, rest = on.partition(":")
    if kind == "local" and (not rest or (rest.isdecimal() and int(rest))):
        return LocalPlace(int(rest or jobs))
    if kind == "dask" and rest:
        return await DaskPlace.connect(rest)
    raise UserError(f"--on {on}: there is no such place.", "Use here, local:4 or dask:tcp://HOST:8786.")


class JobRunner:
    """Runs a task as one process a task, with a session of its own; events and costs come back while it runs."""

    def __init__(self, session: Session, options: RunOptions, place: Place) -> None:
        self._session, self._place = session, place
        self.size = place.size
        self._options = replace(options, cwd=session.run.root)
        self._number = 0
        self._running = set[asyncio.Task[Json]]()

    async def run(self, task: FlowTask) -> ToolRecord:
        if not isinstance(task.agent, str) or task.isolation:
            what = "isolation" if task.isolation else "an AgentDef"
            raise UserError(f"A task with {what} runs only here.", "Leave --on out, or use an agent file.")
        self._number += 1
        run, model = self._session.run, task.model or self._options.model
        ledger = run.ledger
        limit = ledger.limits.cost_usd
        left = max(0.000001, limit - (ledger.spent.cost_usd or 0.0)) if limit else None
        options = replace(self._options, model=model, agent=task.agent, max_cost=left)
        role = run.subagents.agents.get(task.agent)
        tier = model or (role.model if role and role.model != "inherit" else "main")
        shown = "main" if tier == "light" and not run.config.has_light else tier
        child = RemoteChild(self._session, task, shown, f"{task.agent}-{self._number}", self._stop_all)
        job = job_of(child.id, task.prompt, options, task.schema)
        try:
            ledger.check()
            work = asyncio.create_task(self._place.run(job, child.hear))
            self._running.add(work)
            work.add_done_callback(self._running.discard)
            return child.end(await work)
        except BudgetExceeded as over:
            return child.fail("QUOTA_EXCEEDED", str(over))
        except asyncio.CancelledError:
            if child.over:
                return child.fail("QUOTA_EXCEEDED", child.over)
            raise Interrupted(child.fail("ABORTED", "It was interrupted.")) from None

    async def aclose(self) -> None:
        self._stop_all()
        if self._running:
            await asyncio.wait(self._running)
        await self._place.aclose()

    def _stop_all(self) -> None:
        for work in self._running:
            work.cancel()


class RemoteChild:
    """A task that runs elsewhere, as the flow's session knows it."""

    def __init__(self, session: Session, task: FlowTask, model: str, id: str, stop_all: Callable[[], None]) -> None:
        self.id, self.over, self._stop_all = id, "", stop_all
        self._run, self._sinks = session.run, session.sinks
        self._path = f"main/{id}"
        self._usage, self._cost, self._turns = Usage(), 0.0, 0
        description = task.description or task.key or task.prompt[:60]
        self._start = AgentStarted(id, "main", "", description, task.prompt, task.agent_name, model)
        self._run.emitter.publish(self._start, self._path)

    def hear(self, raw: Json) -> None:
        """Follow what its process tells: events for who watches, costs for the budget."""
        if raw.get("type") == _STARTED:  # once more where a worker was lost: receipts are of the last try
            self._usage, self._cost, self._turns = Usage(), 0.0, 0
        event = from_dict(raw)
        if isinstance(event, ReplyAdded):
            self._turns += 1
            self._book(event.usage, event.cost_usd)
            update = AgentUpdated(self.id, "active", self._turns, 0, self._usage, self._cost)
            self._run.emitter.publish(update, self._path)
        if event is None or event.type == "session.started":
            return
        below = replace(event, agent=self._path + event.agent.removeprefix("main"))
        for sink in self._sinks:  # the log of this session holds only that it was sent out and how it ended
            sink(below)

    def end(self, result: Json) -> ToolRecord:
        """The record of its end."""
        usage, cost = Usage.from_dict(result.get("usage") or {}), result.get("total_cost_usd")
        self._book(usage - self._usage, cost_since(cost, self._cost))
        done = result.get("status") == "success"
        return self._close(
            "completed" if done else "error",
            str(result.get("result") or ""),
            turns=int(result.get("num_turns") or 0),
            spent=Cost(usage, cost),
            duration_ms=int(result.get("duration_ms") or 0),
            model_id=str(result.get("model") or ""),
            structured=result.get("structured_output"),
            code=None if done else "EXECUTION_ERROR",
            reason=str((result.get("error") or {}).get("message") or ""),
        )

    def fail(self, code: ToolErrorCode, message: str) -> ToolRecord:
        return self._close("error", "", code=code, reason=message, spent=Cost(self._usage, self._cost))

    def _close(self, status: Any, text: str, *, model_id: str = "", **facts: Any) -> ToolRecord:
        end = ChildResult(replace(self._start, model_id=model_id), status, text, **facts)
        record, _ = record_of(end, keep_in=self._run.tree.scratch / f"result-{self.id}", max_bytes=1 << 30)
        self._run.emitter.publish(AgentEnded(self.id, end.status, record.to_dict()), self._path)
        return record

    def _book(self, usage: Usage, cost: float | None) -> None:
        ledger = self._run.ledger
        ledger.book(Cost(usage, cost))
        self._usage = self._usage + usage
        self._cost = add_cost(self._cost, cost) or self._cost
        try:
            ledger.check()
        except BudgetExceeded as over:
            self.over = self.over or str(over)
            self._stop_all()
