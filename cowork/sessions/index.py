"""Which sessions there are, and what lists and costs need of each.

A summary is a fold of a log that stops at its end and goes on from there later. Most of a log are results of tools:
their lines are checked, not parsed, so a summary costs little more than reading. The index is only a memory of what the
logs say: each entry is checked against its log's size and time, so a missing, old or broken index costs a reading and
is never wrong.
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
from dataclasses import astuple, dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from cowork.core import events
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.private_files import private_folder, replace_private
from cowork.sessions.cost import Meter, Spending, TaskRow, day_of
from cowork.sessions.log.lock import Lock, holder
from cowork.sessions.log.reader import TRAILER_BYTES, LogLine, has_good_checksum, is_after, open_log, read
from cowork.sessions.log.writer import LOCK, LOG, folder_of, is_id, stamp_of

INDEX = "index.json"
VERSION = 4
TITLE_LENGTH = 80
_UNREAD = frozenset({"tool.started", "tool.ended", "todo.updated", "question.asked", "question.answered"})
_PAID = b'"request":{"usage":'  # a tool that asked a model


class Slice(NamedTuple):
    """What spending is summed up by: a day, a model, and a kind of agent."""

    day: str
    model: str
    kind: str


@dataclass(slots=True)
class Summary:
    """What a log says up to `offset`."""

    session_id: str
    title: str = ""
    name: str = ""  # that the person gave it
    first_prompt: int = 0
    cwd: str = ""
    branch: str = ""
    model: str = ""
    prompts: int = 0
    turns: int = 0  # requests of the main agent
    created: float = 0.0
    last_used: float = 0.0
    slices: dict[Slice, Spending] = field(default_factory=dict)
    tasks: list[TaskRow] = field(default_factory=list)
    running: dict[str, int] = field(default_factory=dict)  # agent -> place in `tasks`
    meter: Meter = field(default_factory=Meter)
    offset: int = 0
    last_id: int = 0
    last_line: str = ""  # the end of the line before `offset`, to know the log again by

    def apply(self, event: events.Event) -> None:
        self.touch(event.id, event.at)
        match event:
            case events.SessionStarted():
                self.cwd, self.branch, self.model = event.cwd or self.cwd, event.branch, event.model or self.model
            case events.PromptAdded(agent="main"):
                self.prompts += 1
                if not self.title:
                    self.title, self.first_prompt = title_of(event.label or event.text), event.id
            case events.ReplyAdded(agent="main"):
                self.turns += 1
                self.model = event.model or self.model
            case events.Notice(code="session.renamed"):
                self.name = str(event.data.get("title", ""))
            case events.SessionRewound(conversation=True) if event.to <= self.first_prompt:
                self.title = ""
        if event.session_id not in ("", self.session_id):
            return  # a fork's past was paid for elsewhere
        match event:
            case events.AgentStarted():
                self.running[event.agent] = len(self.tasks)
                self.tasks.append(TaskRow.of(event, self.session_id))
            case events.AgentEnded() if event.agent in self.running:
                place = self.running.pop(event.agent)
                self.tasks[place] = self.tasks[place].end(event)
        if charge := self.meter.apply(event):
            key = Slice(day_of(charge.at), charge.model, charge.kind)
            self.slices[key] = self.slices.get(key, Spending()) + charge.spent

    def touch(self, event_id: int, at: float) -> None:
        self.created = self.created or at
        self.last_used, self.last_id = at, event_id

    @property
    def spent(self) -> Spending:
        return sum(self.slices.values(), Spending())

    def to_dict(self) -> Json:
        raw: Json = {each.name: getattr(self, each.name) for each in fields(self)}
        raw["slices"] = [[*key, spent.to_dict()] for key, spent in self.slices.items()]
        raw["tasks"] = [astuple(row)[1:-1] for row in self.tasks]  # the entry knows the session and its folder
        return raw | {"meter": self.meter.agents}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Summary:
        slices = {Slice(*key): Spending.from_dict(spent) for *key, spent in raw["slices"]}
        tasks = [TaskRow(raw["session_id"], *row) for row in raw["tasks"]]
        return cls(**{**raw, "slices": slices, "tasks": tasks, "meter": Meter(raw["meter"])})


def summarize(path: Path, session_id: str, known: Summary | None = None) -> Summary:
    """The summary of a log; with what is `known` of it, only what came since is read."""
    goes_on = known and known.offset > 0 and is_after(path, known.offset, known.last_line)
    summary = known if known and goes_on else Summary(session_id)
    if not _extend(summary, path):
        summary = Summary(session_id, offset=-1)  # such a log is read whole each time it grows
        for event in read(path).events:
            summary.apply(event)
    return summary


def title_of(text: str) -> str:
    """The first line that says something, clipped."""
    line = next((" ".join(part.split()) for part in text.splitlines() if part.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


class SessionEntry(NamedTuple):
    """One session, for a list. What a list does not show is parsed when it is asked for."""

    id: str
    size: int  # of the log when it was read
    mtime: int  # in ns
    title: str
    cwd: str
    branch: str
    model: str
    prompts: int
    turns: int
    created: float
    last_used: float
    cost_usd: float | None
    details: bytes

    @classmethod
    def of(cls, summary: Summary, stamp: tuple[int, int]) -> SessionEntry:
        s = summary
        details = json.dumps(s.to_dict(), separators=(",", ":")).encode()
        where, counts = (s.name or s.title, s.cwd, s.branch, s.model), (s.prompts, s.turns)
        return cls(s.session_id, *stamp, *where, *counts, s.created, s.last_used, s.spent.cost_usd, details)

    @property
    def summary(self) -> Summary:
        return Summary.from_dict(json.loads(self.details))

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
    folder = folder_of(sessions, session_id)
    lock = Lock(folder / LOCK)
    try:
        gone = sessions / f".removed-{session_id}-{secrets.token_hex(4)}"
        os.rename(folder, gone)  # at once, so that nobody sees half a session
        shutil.rmtree(gone, ignore_errors=True)
    finally:
        lock.release()


def prune(sessions: Path, *, keep_days: float, now: float | None = None) -> list[str]:
    """Delete the sessions that were not used for so many days, unless in use; gives their ids."""
    start = (time.time() if now is None else now) - keep_days * 86400
    gone: list[str] = []
    for entry in list_sessions(sessions, empty=True):
        if entry.last_used < start and holder(sessions / entry.id / LOCK) is None:
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


def _extend(summary: Summary, path: Path) -> bool:
    """Fold what came since; False if a line is damaged or out of order, so that all must be read with care."""
    offset, body = summary.offset, b""
    with open_log(path, offset) as file:
        for data in file:
            if not data.endswith(b"\n"):
                break  # it is being written, or torn; either way it is looked at again when the log has grown
            body = data[:-1]
            line = LogLine.of(body)
            if line is None or not has_good_checksum(body) or line.id <= summary.last_id:
                return False
            if line.kind in _UNREAD and _PAID not in body:
                summary.touch(line.id, line.at)
            elif event := line.event():  # else it is of a newer version
                summary.apply(event)
            offset += len(data)
    if body:
        summary.offset, summary.last_line = offset, body[-TRAILER_BYTES:].decode("ascii", "replace")
    return True
