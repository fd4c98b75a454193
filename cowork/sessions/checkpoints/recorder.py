"""The files as they were before each prompt, so that a rewind can put back what tools, commands and children changed.

Nothing is looked at until something is about to change: a file tool names its path, a command may touch anything, so
before the first one of a prompt a snapshot of the workspace is taken, and another when the turn is over. Snapshots
are taken in a thread of their own; the event loop never waits for the disk here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from cowork.core.events import Event, PromptAdded, TurnEnded
from cowork.core.workspace import Workspace
from cowork.sessions.checkpoints.entries import Node, Snapshot, look, read_bytes, same, targets
from cowork.sessions.checkpoints.rewind import RewindPlan, RewindResult, RewindStep, apply, make_plan
from cowork.sessions.checkpoints.scan import TICK_NS, Control, Moment, Scanner, TooManyFiles
from cowork.sessions.checkpoints.store import Change, Contents, Journal, OpenTurn, without
from cowork.sessions.checkpoints.worker import ScanWorker, WorkspaceWatch, finish_in_thread

BACKUPS = "backups"
STORE_BYTES = 512 * 1024 * 1024
WAIT_S = 2.0  # a command waits so long for the snapshot before it
KNOWN_WAIT_S = 0.2  # and only so long where an earlier snapshot has everything
SAY_AFTER_S = 1.0  # and the person is told after so long
READS_A_SECOND = 10_000  # at best; where that is too slow, the command does not wait
_LOOK_S = 0.1
WARM_FILES = 2_000  # contents that are copied before anything asks for them
CLOSE_S = 3.0  # an ending process waits so long for the snapshot after its last turn
_OVERTAKEN = (
    "The files were still being looked at when the command started: what it changed or deleted before they had been "
    "read may not come back with /rewind."
)
_FULL = "The checkpoints of this session are full: /rewind covers no further changes of commands."


@dataclass(slots=True, eq=False)
class _Turn(OpenTurn):
    """The turn that runs, and the snapshot that is being taken for it."""

    job: Future[None] | None = None
    control: Control = field(default_factory=Control)
    looked: Moment | None = None

    def since(self) -> int:
        """The earliest time, in ns, that what came after its snapshot can show."""
        return self.looked.earliest() if self.looked else self.looked_at


class Checkpoints:
    """The checkpoints of one session, in `store`.

    Coroutines, `begin`, `before_write` and being called with events never hold up the event loop; everything else
    waits for the disk, and for snapshots that are being taken.
    """

    def __init__(
        self,
        store: Path,
        workspace_root: Path,
        extra: Sequence[Path] = (),
        *,
        report: Callable[[str], None] = lambda text: None,
        limit: int = STORE_BYTES,
        moment: Callable[[], Moment] = Moment,
    ) -> None:
        self.report = report
        self._moment = moment
        self._store = store
        self._workspace = Workspace(workspace_root, extra)
        self._contents = Contents(store, limit=limit)
        own = Path(os.path.realpath(store))
        # <sessions>/<id>/<store>: the logs of this and other sessions are not files to undo
        self._scanner = Scanner(self._workspace, self._contents, skip=(own, *own.parents[:2]))
        self._journal = Journal(store, self._workspace.root)
        self._lock = threading.RLock()  # held for moments, never while files are looked at
        self._worker = ScanWorker()
        self._ahead = Control()  # of the newest scan that nobody waits for
        self._ahead_job: Future[None] | None = None
        self._to_say: list[str] = []  # by the worker; said by whoever comes next, for sinks are not for threads
        self._said: set[str] = set()
        self._turns = self._journal.load()
        left = self._journal.left_open()
        self._turn = _Turn(left.prompt_id, left.touched, left.before, left.looked_at) if left else None
        self._unfinished = [self._turn] if self._turn else []  # those whose changes are not known yet, in order
        self._prompt = self._turn.prompt_id if self._turn else max((prompt for prompt, _ in self._turns), default=0)

    def __call__(self, event: Event) -> None:
        """As a sink of events: each prompt of the person begins a checkpoint, the end of the turn ends it."""
        match event:
            case PromptAdded(agent="main", source="user" | "queue" | "steer"):
                self.begin(event.id)
            case TurnEnded(agent="main"):
                if self._end_soon():
                    self.warm(1 << 30)
                self._say()

    def begin(self, prompt_id: int) -> None:
        """A prompt starts; `prompt_id` is the id of its event."""
        with self._lock:
            self._end_soon()
            self._prompt = prompt_id
            self._open_turn()

    def before_write(self, path: Path) -> None:
        """A tool is about to write `path`. Never fails."""
        with self._lock, self._reporting("This change cannot be undone with /rewind"):
            turn = self._open_turn()
            for real in targets(path):
                self._note(turn, real)
        self._say()

    async def before_command(self, tell: Callable[[str], None] = lambda text: None) -> None:
        """A command is about to run: wait for the snapshot before it, but not for ever. `tell` shows how far it is."""
        with self._lock:
            turn = self._open_turn()
            if turn.job is None and turn.before is None:
                turn.job = self._worker.submit(lambda control: self._look_around(turn), turn.control)
            job = turn.job
            self._ahead.enough = True
        if job and not turn.control.overtaken and not await self._wait_for(job, turn.control, tell):
            turn.control.overtaken = self._ahead.overtaken = self._moment()
            if not self._scanner.has_all_contents:
                self._say_once(_OVERTAKEN)
        self._say()

    async def _wait_for(self, job: Future[None], control: Control, tell: Callable[[str], None]) -> bool:
        """Wait for a snapshot as long as that may help; False if it is still being taken."""
        future, started, waited = asyncio.wrap_future(job), time.monotonic(), 0.0
        patience = min(WAIT_S, KNOWN_WAIT_S) if self._scanner.has_all_contents else WAIT_S
        while waited < patience and not future.done():
            before = waited
            await asyncio.wait([future], timeout=min(_LOOK_S, SAY_AFTER_S))
            waited = time.monotonic() - started
            listed = control.reading or self._scanner.listed  # so what the command makes is known to be new
            if listed and max(control.unread, self._scanner.unread) > READS_A_SECOND * max(0, patience - waited):
                break  # for the contents it would wait in vain
            if before < SAY_AFTER_S <= waited and not future.done():
                tell(f"Looking at the files first, for /rewind: {control.seen:,} so far …\n")
        return future.done()

    async def watch(self) -> WorkspaceWatch:
        """Look at the workspace now, so as to name later what changed since. Never fails."""
        return await WorkspaceWatch(self._scanner, self._worker).start()

    def end(self) -> tuple[str, ...]:
        """The prompt is answered; gives the paths that changed."""
        with self._lock:
            before = len(self._turns)
            self._end_soon()
        self._worker.settle()
        self._say()
        return tuple(self._turns[-1][1]) if len(self._turns) > before else ()

    def warm(self, most_read: int = WARM_FILES) -> None:
        """Copy contents that no snapshot has yet while nothing else is to be done, so that no command need wait."""

        def look_ahead(control: Control) -> None:
            with contextlib.suppress(OSError, TooManyFiles):
                if not self._scanner.has_all_contents:
                    self._scanner.take(control, keep=True, most_read=most_read)

        if self._ahead_job is None or self._ahead_job.done():
            self._ahead = Control()
            self._ahead_job = self._worker.submit(look_ahead, self._ahead)

    def progress(self) -> str:
        """How far the snapshot is that is being taken, in a few words; empty while none is."""
        control, files = self._worker.current, self._scanner.files
        if control is None:
            return ""
        return f"looking at the files: {control.seen:,}{f' of {files:,}' if files > control.seen else ''}"

    def preview(self, prompt_id: int) -> RewindPlan:
        """What going back to just before a prompt would do to the files; changes nothing."""
        self._ahead.leave(listed=self._scanner.listed)
        self.end()
        with self._worker.using_disk:
            return make_plan(prompt_id, self._turns, self._workspace, self._scanner)

    def content(self, step: RewindStep) -> bytes | None:
        """What a step of a plan would put back; None if it was not kept."""
        if step.target is None or step.target.kind != "f":
            return b""
        self._ahead.leave(listed=self._scanner.listed)
        with self._worker.using_disk:
            return self._scanner.content(step.target.content) if step.target.content else None

    def restore(self, plan: RewindPlan, *, force: bool = False) -> RewindResult:
        """Do what a plan says. What others changed since stays, unless forced; all that goes is backed up first."""
        self._ahead.leave(listed=self._scanner.listed)
        self.end()
        with self._worker.using_disk:
            backup = self._store / BACKUPS / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
            done = apply(plan, self._workspace, self._scanner.content, backup, force=force)
            left = [path for path, _ in done.failed]  # they can be tried again
            self._turns = without(self._turns, plan.prompt_id, left)
            with self._reporting("The rewind could not be noted"):
                self._journal.append({"rewound": plan.prompt_id, "left": left})
        self._say()
        return done

    async def rewind(self, plan: RewindPlan, *, force: bool = False) -> RewindResult:
        """Restore without holding up the event loop. Once begun it is finished: a half would help nobody."""
        done = await finish_in_thread(lambda: self.restore(plan, force=force))
        self._say()
        return done

    async def aclose(self) -> None:
        """Close without holding up the event loop."""
        await asyncio.to_thread(self.close)
        self._say()

    def close(self) -> None:
        """End what runs, let the files go, and keep on disk only what a later rewind can need.

        A snapshot that takes too long is given up: what the last turn changed is found when the session is resumed.
        """
        self._ahead.leave(listed=True)
        self._end_soon()
        self._worker.close(CLOSE_S)
        with self._reporting("The checkpoints could not be tidied up"):
            if self._journal.left_open() is None:
                self._journal.tidy()
                nodes = (before for _, changes in self._turns for before, _ in changes.values())
                names = {node.content for node in nodes if node and node.kind == "f"} | self._journal.elsewhere
                self._contents.keep_only({bytes.fromhex(name) for name in names if name})
        with self._reporting("The checkpoints could not be closed"):
            self._contents.close()
        self._say()

    # ---------------------------------------------------------------- jobs of the worker

    def _open_turn(self) -> _Turn:
        """The turn that runs; a child or command in the background may outlive its prompt's."""
        if self._turn is None:
            self._turn = _Turn(self._prompt)
            self._unfinished.append(self._turn)
        return self._turn

    def _look_around(self, turn: _Turn) -> None:
        turn.looked = self._moment()
        turn.looked_at = turn.looked.at
        with self._reporting("This change cannot be undone with /rewind", "what commands change"):
            taken = self._scanner.take(turn.control, keep=True)
            if self._contents.full:
                self._say_once(_FULL)
            self._journal.write_tree(taken)
            with self._lock:
                turn.before = taken
                if self._turn is turn:
                    self._journal.note_open(turn)

    def _end_soon(self) -> bool:
        """The turn is over; what it changed is found out by the worker. Says whether it ran commands.

        What its snapshot has not read by now it need not read: the times of files tell whether they changed.
        """
        with self._lock:
            turn, self._turn = self._turn, None
            if turn is None:
                return False
            if not (turn.job or turn.before or turn.touched):
                self._unfinished.remove(turn)
                return False
            turn.control.enough = True
            if turn.job or turn.before or self._worker.busy:
                self._worker.submit(lambda control: self._finish(turn, control), Control())
            else:
                self._finish(turn, Control())
            return turn.job is not None

    def _finish(self, turn: _Turn, control: Control) -> None:
        with self._reporting("What this turn changed cannot be undone with /rewind"):
            try:
                changes = self._changes(turn, control)
            finally:
                self._unfinished.remove(turn)
            files = [before.content for before, _ in changes.values() if before and before.kind == "f"]
            self._scanner.adopt([bytes.fromhex(name) for name in files if name])
            with self._lock:
                if changes:
                    self._turns.append((turn.prompt_id, changes))
                    at = round(time.time(), 3)
                    self._journal.append({"prompt": turn.prompt_id, "at": at, "changes": changes})
                if self._turn is None or not (self._turn.touched or self._turn.before):
                    self._journal.close_turn()

    # ---------------------------------------------------------------- what changed

    def _note(self, turn: _Turn, path: Path) -> None:
        """Keep a file as it is before a tool writes it."""
        name = self._workspace.show(path)
        known = turn.before.get(name) if turn.before else None
        if name in turn.touched or (known and (known.kind != "f" or known.content)):
            return
        missing = [parent for parent in path.parents if not os.path.lexists(parent)]
        made = turn.before and turn.before.lacks(name) and not turn.control.overtaken  # by a command of this turn
        node = None if made else look(self._workspace, path)
        if node and node.kind == "f" and node.content:
            data = read_bytes(self._workspace, path)
            if data is None or not self._contents.put(data, bytes.fromhex(node.content)):
                node = node._replace(content="")
            self._contents.flush()
        turn.touched[name] = node
        for parent in missing:
            if turn.before is None or turn.before.get(self._workspace.show(parent)) is None:
                turn.touched.setdefault(self._workspace.show(parent), None)
        self._journal.note_open(turn)

    def _changes(self, turn: _Turn, control: Control) -> dict[str, Change]:
        """Path -> before and after, for all that differs."""
        pairs: dict[str, Change] = {}
        if turn.before is not None:
            after = self._scanner.take(control, keep=False)
            for path, old, new in turn.before.differences(after):
                if old is None and new and (turn.before.hides(path) or not _is_new(new, turn.since(), turn.before)):
                    continue
                # What is gone may only be ignored from now on.
                pairs[path] = (old, new or look(self._workspace, self._workspace.root / path))
        for path, first in turn.touched.items():
            # What the first look would have found, had it been there, was made by a command before a tool wrote it.
            if turn.control.overtaken or path not in pairs or pairs[path][0] is not None:
                pairs[path] = (first, look(self._workspace, self._workspace.root / path))
        with self._lock:
            later = self._unfinished[self._unfinished.index(turn) + 1 :]
            written = {path: node for one in reversed(later) for path, node in one.touched.items()}
        for path in pairs.keys() & written.keys():  # the next turn has begun to write
            pairs[path] = (pairs[path][0], written[path])
        return {path: pair for path, pair in sorted(pairs.items()) if not same(*pair)}

    # ---------------------------------------------------------------- what is said

    @contextlib.contextmanager
    def _reporting(self, what: str, covered: str = "") -> Iterator[None]:
        """Trouble with the store is said; the work goes on."""
        try:
            yield
        except TooManyFiles:
            self._say_once(f"This folder holds too many files for /rewind to cover {covered or 'them'}.")
        except OSError as error:
            self._to_say.append(f"{what}: {error.strerror or error}.")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._to_say.append(text)

    def _say(self) -> None:
        """Say what came up; in another thread it is left to the next call."""
        while self._to_say and threading.current_thread() is threading.main_thread():
            self.report(self._to_say.pop(0))


def _is_new(node: Node, since: int, before: Snapshot) -> bool:
    """Whether a new entry was made or moved by the turn. One that is older and unknown was only ignored until now."""
    return node.stamp[2] >= since - TICK_NS or node.stamp[3] in before.inodes()
