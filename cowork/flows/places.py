"""Where jobs run: processes of this machine, or the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol
from uuid import uuid4

from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.flows.jobs import Hear, no_result, run_job

TOPIC = "cowork-{}"


class Place(Protocol):
    """Runs jobs, and tells what happens in them as it does. A failure is a result; a cancelled job ends its process."""

    async def run(self, job: Json, hear: Hear) -> Json: ...
    async def aclose(self) -> None: ...


class LocalPlace:
    """One process a job on this machine, so many at once."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._threads = ThreadPoolExecutor(count, "cowork-job")  # the loop's own are few, and others need them

    async def run(self, job: Json, hear: Hear) -> Json:
        async with self._free:
            loop, pids = asyncio.get_running_loop(), list[int]()

            def told(line: str) -> None:
                if line.startswith('{"type": "job.started"'):
                    pids.append(json.loads(line)["pid"])
                loop.call_soon_threadsafe(hear, line)

            work = loop.run_in_executor(self._threads, run_job, job, told)
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

    def __init__(self, client: Any, *, own: bool = True) -> None:
        self._client = client
        self._own = own  # close it at the end
        self._topic = TOPIC.format(uuid4().hex[:12])
        self._hears: dict[str, Hear] = {}
        self._where: dict[str, tuple[str, int]] = {}  # job -> worker and process
        client.subscribe_topic(self._topic, self._told)

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
        if self._own:
            await self._client.close()

    def _told(self, event: Any) -> None:
        _, message = event
        id, worker, line = message["id"], message["worker"], message["line"]
        if line.startswith('{"type": "job.started"'):
            self._where[id] = worker, json.loads(line)["pid"]
        if hear := self._hears.get(id):
            hear(line)


def work(job: Json, topic: str) -> Json:
    """What a Dask worker runs: the job, whose lines go back as they come."""
    worker: Any = importlib.import_module("distributed").get_worker()

    def hear(line: str) -> None:
        worker.log_event(topic, {"id": job["id"], "worker": worker.address, "line": line})

    return run_job(job, hear)


def terminate(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


async def open_place(on: str, jobs: int) -> Place:
    """The place for `local[:N]` or `dask:ADDRESS`."""
    kind, _, rest = on.partition(":")
    if kind == "local" and (not rest or (rest.isdecimal() and int(rest))):
        return LocalPlace(int(rest or jobs))
    if kind == "dask" and rest:
        return await DaskPlace.connect(rest)
    raise UserError(f"--on {on}: there is no such place.", "Use here, local:4 or dask:tcp://HOST:8786.")
