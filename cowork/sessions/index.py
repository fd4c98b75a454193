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
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cowork.core.blocks import Usage
from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.sessions.cost import Slice, Spending
from cowork.sessions.log.lock import Lock, holder
from cowork.sessions.log.writer import LOCK, LOG, existing, stamp_of
from cowork.sessions.private_files import private_folder, replace_private
from cowork.sessions.summary import Summary, summarize
from cowork.sessions.tasks import TaskRow

INDEX = "index.json"
VERSION = 2


@frozen
class SessionEntry:
    """One session, for a list."""

    id: str
    summary: Summary
    stamp: tuple[int, int] = (0, 0)  # size and mtime of the log when it was read

    title = property(lambda self: self.summary.name or self.summary.title)
    cwd = property(lambda self: self.summary.cwd)
    branch = property(lambda self: self.summary.branch)
    model = property(lambda self: self.summary.model)
    prompts = property(lambda self: self.summary.prompts)
    turns = property(lambda self: self.summary.turns)
    created = property(lambda self: self.summary.created)
    last_used = property(lambda self: self.summary.last_used)

    @property
    def spent(self) -> Spending:
        return self.summary.spent

    @property
    def cost_usd(self) -> float | None:
        return self.spent.cost_usd

    @property
    def usage(self) -> Usage:
        return self.spent.usage

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
        found = [e for e in found if e.cwd and os.path.realpath(e.cwd) == here]
    if not empty:
        found = [e for e in found if e.prompts]
    return sorted(found, key=lambda e: (e.last_used, e.id), reverse=True)


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
    for session_id, stamp in _logs(sessions):
        entry = known.get(session_id)
        if entry is None or entry.stamp != stamp:
            try:
                summary = summarize(sessions / session_id / LOG, session_id, entry.summary if entry else None)
                entry = SessionEntry(session_id, summary, stamp)
            except OSError:  # somebody else's, as after a `sudo cowork`: the others are there all the same
                continue
            changed = True
        entries.append(entry)
    if changed or len(entries) != len(known):
        _store(sessions, entries)
    return entries


def _logs(sessions: Path) -> Iterable[tuple[str, tuple[int, int]]]:
    try:
        folders = sorted(os.listdir(sessions))
    except FileNotFoundError:
        return
    except OSError as error:
        hint = "Give it back to your user, or set COWORK_HOME."
        raise UserError(f"{sessions} cannot be read: {error.strerror}.", hint) from error
    for name in folders:
        if stamp := stamp_of(sessions, name):
            yield name, stamp


def _load(path: Path) -> dict[str, SessionEntry]:
    try:
        raw = json.loads(path.read_bytes())
        if raw["version"] != VERSION:
            return {}
        return {entry.id: entry for entry in map(_from_dict, raw["sessions"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _store(sessions: Path, entries: Sequence[SessionEntry]) -> None:
    data = {"version": VERSION, "sessions": [{"stamp": e.stamp, **e.summary.to_dict()} for e in entries]}
    with contextlib.suppress(OSError):  # a full disk only makes the next list slower
        replace_private(private_folder(sessions) / INDEX, json.dumps(data, separators=(",", ":")).encode())


def _from_dict(raw: dict[str, Any]) -> SessionEntry:
    size, mtime = raw.pop("stamp")
    summary = Summary.from_dict(raw)
    return SessionEntry(summary.session_id, summary, (size, mtime))
