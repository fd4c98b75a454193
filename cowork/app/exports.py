"""The forms a session can be exported in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from cowork.core.errors import os_error_as
from cowork.core.events import Event
from cowork.core.hygiene import ascii_json
from cowork.reports.atif import trajectory
from cowork.reports.page import session_page
from cowork.sessions.export import as_json, markdown
from cowork.sessions.index import SessionEntry, find, latest, list_sessions
from cowork.sessions.log.lock import holder
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import LOCK, LOG

REDACTABLE = ("html",)  # the forms that can be without contents


def write(events: Sequence[Event], form: str, *, redact: bool = False) -> Iterable[str]:
    """A conversation as md, json, atif or html, in pieces."""
    match form:
        case "md":
            return [markdown(events)]
        case "json":
            return [as_json(events)]
        case "atif":
            return [ascii_json(trajectory(events), indent=2) + "\n"]
    return session_page(events, redact=redact)


def export_session(sessions: Path, session_id: str, form: str, *, redact: bool = False) -> Iterable[str]:
    """A stored session in one of the forms, in pieces."""
    return write(read(sessions / session_id / LOG).events, form, redact=redact)


def export_beside(sessions: Path, report: Path, ids: Iterable[str]) -> dict[str, str]:
    """Write the pages of sessions into a folder beside a report; gives their addresses, seen from there."""
    folder = report.with_name(f"{report.stem}-sessions")
    with os_error_as(f"{folder} cannot be written", "Give another name: -o FILE"):
        folder.mkdir(exist_ok=True)
        for session in ids:
            with (folder / f"{session}.html").open("w", encoding="utf-8") as file:
                file.writelines(export_session(sessions, session, "html"))
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
