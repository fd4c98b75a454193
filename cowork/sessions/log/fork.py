"""A new session that shares another's past."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cowork.core.errors import UserError
from cowork.core.events import Event, Notice
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import LOG, SessionLog, existing

FORKED = "session.forked"


def origins(events: Iterable[Event]) -> list[str]:
    """The sessions whose past these events share; files of theirs may be named in it."""
    return [str(e.data.get("session_id")) for e in events if isinstance(e, Notice) and e.code == FORKED]


def fork(sessions: Path, session_id: str, upto_event: int | None = None) -> str:
    """Copy a session's events, up to and with one if given, into a new session; gives its id.

    The copies keep the id of the session they were paid in, so a fork costs nothing by itself. The other session
    may be in use meanwhile: only what it has finished writing is copied.
    """
    loaded = read(existing(sessions, session_id) / LOG)
    events = [e for e in loaded.events if upto_event is None or e.id <= upto_event]
    if not events:
        raise UserError(f"Session {session_id} holds nothing to fork.", "Choose another one, or a later place in it.")
    failures: list[str] = []
    log = SessionLog.create(sessions, report=failures.append)
    for event in events:
        log(event)
    last = events[-1]
    origin = {"session_id": session_id, "event": last.id}
    log(
        Notice(
            f"Forked from {session_id}.",
            code=FORKED,
            data=origin,
            id=last.id + 1,
            at=last.at,
            session_id=log.id,
        )
    )
    log.keep()
    log.close()
    if failures:
        raise UserError(failures[0], "Make room on the disk and try again.")
    return log.id
