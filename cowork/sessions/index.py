"""Which sessions there are. The index is only a memory of what the logs say: each entry is checked against its log's
size and time, so a missing, old or broken index costs a reading and is never wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json, Usage
from cowork.core.errors import UserError
from cowork.core.events import Event, Notice, PromptAdded, ReplyAdded, SessionRewound, SessionStarted
from cowork.core.frozen import frozen
from cowork.sessions.cost import By, Slice, Spending, group, slices
from cowork.sessions.log.lock import Lock, holder
from cowork.sessions.log.reader import Loaded, read
from cowork.sessions.log.writer import LOCK, LOG, existing, stamp_of
from cowork.sessions.private_files import private_folder, replace_private

INDEX = "index.json"
VERSION = 1
TITLE_LENGTH = 80


@frozen
class SessionEntry:
    """One session, for a list."""

    id: str
    title: str = ""
    cwd: str = ""
    branch: str = ""
    model: str = ""
    prompts: int = 0
    turns: int = 0  # requests of the main agent
    created: float = 0.0
    last_used: float = 0.0
    damage: int = 0
    spent: Spending = field(default_factory=Spending)
    slices: tuple[Slice, ...] = ()
    stamp: tuple[int, int] = (0, 0)  # size and mtime of the log when it was read

    @property
    def cost_usd(self) -> float | None:
        return self.spent.cost_usd

    @property
    def usage(self) -> Usage:
        return self.spent.usage


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


def latest(sessions: Path, cwd: Path) -> SessionEntry:
    """The session last used in this folder, or a UserError."""
    here = list_sessions(sessions, cwd)
    if not here:
        raise UserError("There is no session of this folder to continue.", "Start one with `cowork`.")
    return here[0]


def summarize(session_id: str, loaded: Loaded, stamp: tuple[int, int] = (0, 0)) -> SessionEntry:
    """The entry a log stands for."""
    entry = SessionEntry(session_id, damage=len(loaded.damage), stamp=stamp)
    entry = _fold(entry, loaded.events)
    parts = slices(e for e in loaded.events if e.session_id in ("", session_id))  # a fork's past was paid for elsewhere
    total = Spending()
    for part in parts:
        total += part.spent
    return replace(entry, spent=total, slices=tuple(parts))


def cost(sessions: Path, by: By = "model", cwd: Path | None = None) -> dict[str, Spending]:
    """What the sessions used, own requests and children, retries and compaction together; dearest first."""
    entries = list_sessions(sessions, cwd, empty=True)
    sums = group(((e.id, part) for e in entries for part in e.slices), by)
    if by == "day":
        return dict(sorted(sums.items(), reverse=True))
    return dict(sorted(sums.items(), key=lambda item: (-item[1].known_usd, -item[1].usage.total, item[0])))


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


def title_of(text: str) -> str:
    """The first line that says something, clipped."""
    line = next((" ".join(part.split()) for part in text.splitlines() if part.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def _fold(entry: SessionEntry, events: Sequence[Event]) -> SessionEntry:
    first_prompt = 0
    title, named, cwd, branch, model = "", "", "", "", ""
    prompts = turns = 0
    for event in events:
        match event:
            case SessionStarted():
                cwd, branch, model = event.cwd or cwd, event.branch, event.model or model
            case PromptAdded(agent="main"):
                prompts += 1
                if not title:
                    title, first_prompt = title_of(event.label or event.text), event.id
            case ReplyAdded(agent="main"):
                turns += 1
                model = event.model or model
            case Notice(code="session.renamed"):
                named = str(event.data.get("title", ""))
            case SessionRewound(conversation=True) if event.to <= first_prompt:
                title = ""
    return replace(
        entry,
        title=named or title,
        cwd=cwd,
        branch=branch,
        model=model,
        prompts=prompts,
        turns=turns,
        created=events[0].at if events else 0.0,
        last_used=events[-1].at if events else 0.0,
    )


def _refresh(sessions: Path) -> list[SessionEntry]:
    known = _load(sessions / INDEX)
    entries: list[SessionEntry] = []
    changed = False
    for session_id, stamp in _logs(sessions):
        entry = known.get(session_id)
        if entry is None or entry.stamp != stamp:
            try:
                entry = summarize(session_id, read(sessions / session_id / LOG), stamp)
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
    data = {"version": VERSION, "sessions": [_to_dict(e) for e in entries]}
    with contextlib.suppress(OSError):  # a full disk only makes the next list slower
        replace_private(private_folder(sessions) / INDEX, json.dumps(data, separators=(",", ":")).encode())


def _to_dict(entry: SessionEntry) -> Json:
    raw = asdict(entry)
    raw["spent"] = entry.spent.to_dict()
    raw["slices"] = [{"day": s.day, "model": s.model, "kind": s.kind, **s.spent.to_dict()} for s in entry.slices]
    return raw


def _from_dict(raw: dict[str, Any]) -> SessionEntry:
    size, mtime = raw["stamp"]
    parts = tuple(Slice(s["day"], s["model"], s["kind"], Spending.from_dict(s)) for s in raw["slices"])
    return SessionEntry(**{**raw, "spent": Spending.from_dict(raw["spent"]), "slices": parts, "stamp": (size, mtime)})
