"""The thread in which snapshots are taken, one after another, so that nothing else waits for the disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from cowork.sessions.checkpoints.entries import Snapshot, same
from cowork.sessions.checkpoints.scan import Control, Scanner, ScanStopped, TooManyFiles

SWITCH_S = 0.0005
LOOK_S = 2.0  # a look that takes longer is given up
MOMENT_S = 0.1  # the same without the event loop
_Result = TypeVar("_Result")


class ScanWorker:
    """Runs jobs in the order they come. The thread starts with the first job."""

    def __init__(self) -> None:
        self.using_disk = threading.RLock()  # for those who must not meet a job
        self.current: Control | None = None  # of the job that runs
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: dict[Future[Any], Control] = {}

    @property
    def busy(self) -> bool:
        return any(not future.done() for future in list(self._jobs))

    def submit(self, job: Callable[[Control], _Result], control: Control) -> Future[_Result | None]:
        """Have a job done; `control` can stop it, and then it gives nothing."""

        def run() -> _Result | None:
            self.current = control
            try:
                with self.using_disk, _yielding_often(), contextlib.suppress(ScanStopped):
                    return job(control)
            finally:
                self.current = None
            return None

        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
            self._jobs = {future: known for future, known in self._jobs.items() if not future.done()}
            future = self._pool.submit(run)
            self._jobs[future] = control
            return future

    def settle(self) -> None:
        """Wait until all is done; what went wrong in a job is raised here."""
        for future in list(self._jobs):
            try:
                future.result()
            finally:  # not before: somebody else may come to wait for it too
                self._jobs.pop(future, None)

    def close(self, seconds: float) -> None:
        """Wait so long for what runs, then stop it."""
        with self._lock:
            jobs, self._jobs = self._jobs, {}
            pool, self._pool = self._pool, None
        wait(jobs, timeout=seconds)
        for control in jobs.values():
            control.stop = True
        if pool:
            pool.shutdown()


class WorkspaceWatch:
    """Names the files that differ from a first look; none where looking takes too long or fails."""

    def __init__(self, scanner: Scanner, worker: ScanWorker) -> None:
        self._scanner = scanner
        self._worker = worker
        self._before: Snapshot | None = None

    async def start(self) -> WorkspaceWatch:
        """Take the first look, without copying contents."""
        self._before = await self._look()
        return self

    async def find_changed(self) -> Sequence[str]:
        return self._compare(await self._look())

    def find_changed_at_once(self) -> Sequence[str]:
        """The same without the event loop, where it takes a moment."""
        control = Control()
        job = self._worker.submit(self._take, control)
        wait([job], timeout=MOMENT_S)
        control.stop = True
        return self._compare(job.result() if job.done() and not job.exception() else None)

    async def _look(self) -> Snapshot | None:
        control = Control()
        job = self._worker.submit(self._take, control)
        await asyncio.wait([asyncio.wrap_future(job)], timeout=LOOK_S)
        control.stop = True
        return job.result() if job.done() and not job.exception() else None

    def _take(self, control: Control) -> Snapshot | None:
        with contextlib.suppress(OSError, TooManyFiles):
            return self._scanner.take(control, keep=False)
        return None

    def _compare(self, after: Snapshot | None) -> Sequence[str]:
        if self._before is None or after is None:
            return ()
        pairs = [(path, a, b) for path, a, b in self._before.differences(after) if not same(a, b)]
        return sorted(path for path, a, b in pairs if "d" not in (a and a.kind, b and b.kind))


@contextlib.contextmanager
def _yielding_often() -> Iterator[None]:
    """Let the event loop in quickly: after each system call of its own it would wait 5 ms for this thread."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


async def finish_in_thread(work: Callable[[], _Result]) -> _Result:
    """Do what must not stop half-way: neither a cancel nor a closed terminal ends it before it is done."""
    with _hangups_wait():  # before anything begins
        running = asyncio.get_running_loop().run_in_executor(None, work)
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
    return running.result()


@contextlib.contextmanager
def _hangups_wait() -> Iterator[None]:
    """A closed terminal ends the process after this, not in the middle of a file."""
    loop = asyncio.get_running_loop()
    came: list[int] = []
    ours = threading.current_thread() is threading.main_thread()  # no other hears signals
    held = [n for n in (signal.SIGHUP, signal.SIGTERM) if ours and signal.getsignal(n) == signal.SIG_DFL]
    for number in held:
        loop.add_signal_handler(number, came.append, number)
    try:
        yield
    finally:
        for number in held:
            loop.remove_signal_handler(number)
        if came:
            os.kill(os.getpid(), came[0])
