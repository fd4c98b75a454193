"""The truth of a session: an append-only file of events, one JSON object a line, each with a number and a checksum.

One `write` a record, so a crash tears at most the last line; the disk is asked to keep it at the end of each turn.
A full disk stops nothing: what could not be written waits in memory and follows when there is room again.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from cowork.core.errors import UserError
from cowork.core.events import ContextCompacted, Event, Notice, PromptAdded, TurnEnded
from cowork.core.format import plural
from cowork.core.later import later
from cowork.core.workspace import load_json
from cowork.private_files import open_private, own_mode, private_folder, replace_private
from cowork.sessions.log.lock import Lock, holder
from cowork.sessions.log.reader import Loaded, encode, read

with later(__name__):
    from cowork.sessions.index import Summary
    from cowork.sessions.log import resume_reader

LOG = "events.jsonl"
LOCK = "lock"
WAITING = "typed-ahead.json"
FORKED = "session.forked"  # the code of the notice at the end of a copied past
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
OUTPUTS = "outputs"  # in the folder of a session: results too long to be shown
_OUTPUTS_STAMP = ".outputs-looked-at"
DAY = 86_400
BACKLOG_BYTES = 64 * 1024 * 1024


def new_id() -> str:
    """A fresh session id: 12 lower-case base32 characters."""
    return base64.b32encode(secrets.token_bytes(8)).decode().lower()[:12]


def is_id(name: str) -> bool:
    """Whether a session may be called so."""
    return _ID.fullmatch(name) is not None


def stamp_of(sessions: Path, name: str) -> tuple[int, int] | None:
    """Size and time of a session's log; None if there is none, or a link in its place."""
    try:
        status = os.lstat(f"{sessions}/{name}/{LOG}")
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def folder_of(sessions: Path, session_id: str) -> Path:
    """The folder of a session that is there, or a UserError."""
    folder = sessions / session_id
    if not is_id(session_id) or stamp_of(sessions, session_id) is None:
        raise UserError(f"There is no session {session_id}.", "`cowork sessions list` shows those there are.")
    return folder


class SessionLog:
    """The one writer of a session; called with each event, it keeps the durable ones and never raises."""

    def __init__(self, folder: Path, lock: Lock, loaded: Loaded, *, new: bool) -> None:
        self.folder = folder
        self.id = folder.name
        self.loaded = loaded
        self.summary: Summary | None = None  # of a session that is gone on with, if whoever opens it knows it
        self.path = folder / LOG
        self._lock = lock
        self.report: Callable[[str], None] = lambda text: None
        self._fd = open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._size = os.fstat(self._fd).st_size  # everything up to here is whole
        self._torn = loaded.torn
        self._next = loaded.last_line + 1
        self.unused = new  # nobody has prompted in it
        self._named = not new  # the disk knows the file's name
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0  # counted as it grows: a fork on a full disk adds very many records
        self._dropped = 0
        self._failing = False
        self._resume_point = 0  # the size of the log when its resume point was last moved
        self._mover: threading.Thread | None = None

    @classmethod
    def create(cls, sessions: Path, session_id: str = "") -> SessionLog:
        """Start a session that does not exist yet; its folder is gone again if it closes without a prompt."""
        folder = private_folder(sessions) / (session_id or new_id())
        if (folder / LOG).exists():
            raise UserError(f"Session {folder.name} exists already.", f"Use --resume {folder.name} to go on with it.")
        lock = None
        try:
            lock = Lock(private_folder(folder) / LOCK)
            return cls(folder, lock, Loaded(), new=True)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            if lock:
                lock.release()
            raise

    @classmethod
    def open(cls, sessions: Path, session_id: str) -> SessionLog:
        """Go on with a session; what it holds is in `loaded`, without results that the conversation let go of."""
        folder = folder_of(sessions, session_id)
        own_mode(folder)
        try:
            lock = Lock(folder / LOCK)
        except UserError as error:
            error.hint = f"Close it there first, or go on in a copy: `cowork --resume {session_id} --fork`"
            error.hint += f", or `/fork {session_id}` in the chat."
            raise
        try:
            loaded = resume_reader.read_to_resume(folder_of(sessions, session_id) / LOG)
            return cls(folder, lock, loaded, new=False)
        except BaseException:
            lock.release()
            raise

    def __call__(self, event: Event) -> None:
        """Keep a durable event; others pass."""
        if not event.durable or self._fd < 0:
            return
        try:
            record = encode(event, self._next)
        except (ValueError, RecursionError) as error:
            self.report(f"An event ({event.type}) could not be stored: {error}.")
            return
        self._next += 1
        self.unused = self.unused and not isinstance(event, PromptAdded)
        self._backlog.append(record)
        self._backlog_bytes += len(record)
        self._flush()
        if isinstance(event, TurnEnded) and event.agent == "main":
            self.sync()
        compacted = isinstance(event, ContextCompacted) and event.agent == "main"
        if compacted and self._size - self._resume_point >= resume_reader.LARGE:
            self._move_resume_point()

    def sync(self) -> None:
        """Ask the disk to keep what was written."""
        if self._fd < 0:
            return
        try:
            getattr(os, "fdatasync", os.fsync)(self._fd)  # macOS has no fdatasync
            if not self._named:
                self._named = True
                for folder in (self.folder, self.folder.parent):
                    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                    try:
                        os.fsync(fd)
                    finally:
                        os.close(fd)
        except OSError as error:
            self._fail(error)

    def keep_waiting(self, texts: Sequence[str]) -> None:
        """Keep what was typed and not said yet beside the story, which it is no part of."""
        with contextlib.suppress(OSError):
            if texts:
                replace_private(self.folder / WAITING, json.dumps(texts).encode())
            else:
                (self.folder / WAITING).unlink(missing_ok=True)

    def read_waiting(self) -> list[str]:
        """What was kept so; a file that cannot be read holds nothing."""
        try:
            raw = load_json(self.folder / WAITING, BACKLOG_BYTES)
        except (OSError, ValueError):
            return []
        return [text for text in raw if isinstance(text, str)] if isinstance(raw, list) else []

    def close(self) -> None:
        """Write what waits, sync, and let the session go; one that nobody used leaves nothing behind."""
        if self._fd < 0:
            return
        self._flush()
        self.sync()
        if self._mover:
            self._mover.join()
        os.close(self._fd)
        self._fd = -1
        if self.unused:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()

    def __enter__(self) -> SessionLog:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _move_resume_point(self) -> None:
        """Have what a summary stands for left out of the next reading; a log of days is not read whole again."""

        def read_again() -> None:
            with contextlib.suppress(OSError):
                resume_reader.read_to_resume(self.path)  # which notes how far it need not be read any more

        if not (self._mover and self._mover.is_alive()):
            self._resume_point = self._size
            self._mover = threading.Thread(target=read_again, name="resume point", daemon=True)
            self._mover.start()

    def _flush(self) -> None:
        while self._backlog:
            try:
                self._write(self._backlog[0])
            except OSError as error:
                self._fail(error)
                return
            self._backlog_bytes -= len(self._backlog.popleft())
        if self._failing:
            self._failing = False
            lost = f" {self._dropped} records were lost meanwhile." if self._dropped else " Nothing was lost."
            self._dropped = 0
            self.report(f"The session is being saved again.{lost}")

    def _write(self, record: bytes) -> None:
        """Put the record at the end in one write; after a failure the file ends as it did before."""
        data = b"\n" + record if self._torn else record
        try:
            done = os.write(self._fd, data)
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            self._torn = self._torn or os.fstat(self._fd).st_size != self._size
            raise
        self._size = os.fstat(self._fd).st_size if self._torn else self._size + len(data)
        self._torn = False

    def _fail(self, error: OSError) -> None:
        while self._backlog_bytes > BACKLOG_BYTES and len(self._backlog) > 1:
            self._backlog_bytes -= len(self._backlog.popleft())
            self._dropped += 1
        if not self._failing:
            self._failing = True
            self.report(f"The session cannot be saved ({error.strerror}); it goes on in memory.")


def drop_old_outputs(sessions: Path, days: int, now: float | None = None) -> str:
    """Delete outputs older than `days` of sessions that nobody writes; gives a line that says so, or nothing."""
    now = time.time() if now is None else now
    with contextlib.suppress(OSError):
        if 0 <= now - os.stat(sessions / _OUTPUTS_STAMP).st_mtime < DAY:
            return ""
    files = size = 0
    with contextlib.suppress(OSError):
        replace_private(sessions / _OUTPUTS_STAMP, b"")
        os.utime(sessions / _OUTPUTS_STAMP, (now, now))
        for folder in sessions.glob(f"*/{OUTPUTS}"):
            with contextlib.suppress(OSError):
                in_use = holder(folder.parent / LOCK) is not None
                for file in () if in_use or not is_id(folder.parent.name) else folder.rglob("*"):
                    status = file.lstat()
                    if stat.S_ISREG(status.st_mode) and status.st_mtime < now - days * DAY:
                        file.unlink()
                        files, size = files + 1, size + status.st_size
    if not files:
        return ""
    what = f"{plural(files, 'output')} of commands older than {plural(days, 'day')} ({size / 1e6:,.1f} MB)"
    return f"Removed {what}; output_days under [session] sets how long they are kept."


def origins(events: Iterable[Event]) -> list[str]:
    """The sessions whose past these events share; files of theirs may be named in it."""
    return [str(e.data.get("session_id")) for e in events if isinstance(e, Notice) and e.code == FORKED]


def fork(sessions: Path, session_id: str) -> str:
    """Copy a session's events into a new session; gives its id.

    The copies keep the id of the session they were paid in, so a fork costs nothing by itself. The other session
    may be in use meanwhile: only what it has finished writing is copied.
    """
    events = read(folder_of(sessions, session_id) / LOG).events
    if not events:
        raise UserError(f"Session {session_id} holds nothing to fork.", "Choose another one.")
    failures: list[str] = []
    last = events[-1]
    origin = {"session_id": session_id, "event": last.id}
    with SessionLog.create(sessions) as log:
        log.report = failures.append
        said = Notice(f"Forked from {session_id}.", code=FORKED, data=origin)
        for event in (*events, replace(said, id=last.id + 1, at=last.at, session_id=log.id)):
            log(event)
        log.unused = False
    if failures:
        raise UserError(failures[0], "Make room on the disk and try again.")
    return log.id
