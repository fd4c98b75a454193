"""The forms a session can be exported in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from cowork.core.errors import UserError
from cowork.core.events import Event
from cowork.core.hygiene import ascii_json
from cowork.reports.atif import trajectory
from cowork.reports.html import session_page
from cowork.sessions.export import as_json, markdown
from cowork.sessions.index import SessionEntry, find, latest, list_sessions
from cowork.sessions.log.lock import holder
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import LOCK, LOG

Pieces = Iterable[str]


@dataclass(frozen=True)
class ExportForm:
    """How a session is written; `redacts` where it can be without contents."""

    write: Callable[[Sequence[Event]], Pieces]
    write_redacted: Callable[[Sequence[Event]], Pieces] | None = None

    @property
    def redacts(self) -> bool:
        return self.write_redacted is not None


EXPORTS: dict[str, ExportForm] = {
    "md": ExportForm(lambda events: [markdown(events)]),
    "json": ExportForm(lambda events: [as_json(events)]),
    "atif": ExportForm(lambda events: [ascii_json(trajectory(events), indent=2) + "\n"]),
    "html": ExportForm(session_page, lambda events: session_page(events, redact=True)),
}


def export_session(sessions: Path, session_id: str, form: str, *, redact: bool = False) -> Pieces:
    """A stored session in one of the forms, in pieces."""
    events = read(sessions / session_id / LOG).events
    chosen = EXPORTS[form]
    return chosen.write_redacted(events) if redact and chosen.write_redacted else chosen.write(events)


def export_beside(sessions: Path, report: Path, ids: Iterable[str]) -> dict[str, str]:
    """Write the pages of sessions into a folder beside a report; gives their addresses, seen from there."""
    folder = report.with_name(f"{report.stem}-sessions")
    try:
        folder.mkdir(exist_ok=True)
        for session in ids:
            with (folder / f"{session}.html").open("w", encoding="utf-8") as file:
                file.writelines(export_session(sessions, session, "html"))
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.", "Give another name: -o FILE") from error
    return {path.stem: f"{quote(folder.name)}/{path.name}" for path in folder.glob("*.html")}


def chosen_session(sessions: Path, prefix: str, cwd: Path) -> SessionEntry:
    """The session that is meant: one by its id, else the one being written in this folder, else the last of it."""
    if prefix:
        return find(sessions, prefix)
    here = list_sessions(sessions, cwd, empty=True)
    running = [entry for entry in here if holder(sessions / entry.id / LOCK) is not None]
    return running[0] if running else latest(sessions, cwd)


def form_of(path: Path) -> str:
    """The form that the ending of a name asks for."""
    return {".html": "html", ".htm": "html", ".json": "json"}.get(path.suffix.lower(), "md")
