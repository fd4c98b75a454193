"""Which sessions there are. The index is only a memory of what the logs say: each entry is checked against its log's
size and time, so a missing, old or broken index costs a reading and is never wrong. Of a log that grew only the end is
read.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from cowork.core.blocks import Usage
from cowork.core.errors import UserError
from cowork.private_files import private_folder, replace_private
from cowork.sessions.cost import Slice
from cowork.sessions.log.lock import Lock, holder
from cowork.sessions.log.writer import LOCK, LOG, existing, is_id, stamp_of
from cowork.sessions.summary import Summary, summarize
from cowork.sessions.tasks import TaskRow

INDEX = "index.json"
VERSION = 3


class SessionEntry(NamedTuple):
    """One session, for a list. What a list does not show is parsed when it is asked for."""

    id: str
    size: int  # of the log when it was read
    mtime: int  # in ns
    title: str
    cwd: str
    prompts: int
    turns: int
    last_used: float
    cost_usd: float | None
    details: bytes

    @classmethod
    def of(cls, summary: Summary, stamp: tuple[int, int]) -> SessionEntry:
        s = summary
        details = json.dumps(s.to_dict(), separators=(",", ":")).encode()
        title, cost = s.name or s.title, s.spent.cost_usd
        return cls(s.session_id, *stamp, title, s.cwd, s.prompts, s.turns, s.last_used, cost, details)

    @property
    def summary(self) -> Summary:
        return Summary.from_dict(json.loads(self.details))

    @property
    def branch(self) -> str:
        return self.summary.branch

    @property
    def model(self) -> str:
        return self.summary.model

    @property
    def created(self) -> float:
        return self.summary.created

    @property
    def usage(self) -> Usage:
        return self.summary.spent.usage

    @property
    def slices(self) -> list[Slice]:
        return self.summary.parts()

    def tasks(self) -> list[TaskRow]:
        """The children that were sent out in it."""
        return [replace(row, cwd=self.cwd) for row in self.summary.tasks]


def list_sessions(sessions: Path, cwd: Path | None = None, *, empty: bool = False) -> list[SessionEntry]:
    """The sessions, last used first; with `cwd`, those of that folder; `empty` ones are left out."""
    found = _refresh(sessions)
    if cwd is not None:
        here = os.path.realpath(cwd)
        same = {folder for folder in {e.cwd for e in found} if folder and os.path.realpath(folder) == here}
        found = [e for e in found if e.cwd in same]
    if not empty:
        found = [e for e in found if e.prompts]
    return sorted(found, key=attrgetter("last_used", "id"), reverse=True)


def find(sessions: Path, prefix: str) -> SessionEntry:
    """The session whose id starts so; a UserError if there is none or more than one."""
    wanted = prefix.strip().lower()
    hits = [e for e in list_sessions(sessions, empty=True) if wanted and e.id.startswith(wanted)]
    exact = [e for e in hits if e.id == wanted]
    if exact or len(hits) == 1:
        return (exact or hits)[0]
    if not hits:
        raise UserError(f"There is no session {prefix}.", "`cowork sessions list` shows those there are.")
    shown = ", ".join(f"{e.id} ({e.title[:40] or 'no prompt'})" for e in hits[:8])
    more = f" and {len(hits) - 8} more" if len(hits) > 8 else ""
    raise UserError(f"{prefix} could be {len(hits)} sessions: {shown}{more}.", "Give more characters of the id.")


def find_task(entry: SessionEntry, name: str) -> TaskRow:
    """A child of a session by its id; the newest stretch of one that was taken up again."""
    rows = entry.tasks()
    found = [row for row in rows if row.subagent_id == name]
    if not found:
        names = ", ".join(dict.fromkeys(row.subagent_id for row in rows)) or "none"
        raise UserError(f"Session {entry.id} has no task {name!r}.", f"Its tasks: {names}.")
    return found[-1]


def latest(sessions: Path, cwd: Path) -> SessionEntry:
    """The session last used in this folder, or a UserError."""
    here = list_sessions(sessions, cwd)
    if not here:
        raise UserError("There is no session of this folder to continue.", "Start one with `cowork`.")
    return here[0]


def remove(sessions: Path, session_id: str) -> None:
    """Delete a session for good; one in use is refused."""
    folder = existing(sessions, session_id)
    lock = Lock(folder / LOCK)
    try:
        gone = sessions / f".removed-{session_id}-{secrets.token_hex(4)}"
        os.rename(folder, gone)  # at once, so that nobody sees half a session
        shutil.rmtree(gone, ignore_errors=True)
    finally:
        lock.release()


def prune(
    sessions: Path, *, keep_days: float | None = None, keep_count: int | None = None, now: float | None = None
) -> list[str]:
    """Delete the sessions older than `keep_days` or beyond the newest `keep_count`, unless in use; gives their ids."""
    moment = time.time() if now is None else now
    gone: list[str] = []
    for place, entry in enumerate(list_sessions(sessions, empty=True)):
        old = keep_days is not None and moment - entry.last_used > keep_days * 86400
        beyond = keep_count is not None and place >= keep_count
        if not (old or beyond) or holder(sessions / entry.id / LOCK) is not None:
            continue
        with contextlib.suppress(UserError, OSError):
            remove(sessions, entry.id)
            gone.append(entry.id)
    return gone


def _refresh(sessions: Path) -> list[SessionEntry]:
    known = _load(sessions / INDEX)
    entries: list[SessionEntry] = []
    changed = False
    for name in _folders(sessions):
        entry, stamp = known.get(name), stamp_of(sessions, name)
        if stamp is None:
            continue
        if entry is None or entry[1:3] != stamp:
            try:
                summary = summarize(sessions / name / LOG, name, entry.summary if entry else None)
            except OSError:  # somebody else's, as after a `sudo cowork`: the others are there all the same
                continue
            entry, changed = SessionEntry.of(summary, stamp), True
        entries.append(entry)
    if changed or len(entries) != len(known):
        _store(sessions, entries)
    return entries


def _folders(sessions: Path) -> Sequence[str]:
    try:
        return sorted(filter(is_id, os.listdir(sessions)))
    except FileNotFoundError:
        return ()
    except OSError as error:
        hint = "Give it back to your user, or set COWORK_HOME."
        raise UserError(f"{sessions} cannot be read: {error.strerror}.", hint) from error


def _load(path: Path) -> dict[str, SessionEntry]:
    """What the index says: a line about itself, one with the columns of the list, then the details of each session."""
    try:
        about, rest = path.read_bytes().split(b"\n", 1)
        if about != _about(rest):
            return {}
        columns, *details = rest.split(b"\n")
        rows = zip(*json.loads(columns), details, strict=True)
        return {row[0]: SessionEntry._make(row) for row in rows}
    except (OSError, ValueError):
        return {}


def _store(sessions: Path, entries: Sequence[SessionEntry]) -> None:
    columns = json.dumps(list(zip(*(entry[:-1] for entry in entries), strict=True)), separators=(",", ":")).encode()
    rest = b"\n".join((columns, *(entry.details for entry in entries)))
    with contextlib.suppress(OSError):  # a full disk only makes the next list slower
        replace_private(private_folder(sessions) / INDEX, _about(rest) + b"\n" + rest)


def _about(rest: bytes) -> bytes:
    return b'[%d,"%08x"]' % (VERSION, zlib.crc32(rest))
