"""What a flow has done: an append-only file of JSON lines. A task that is in it is never paid for again."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cowork.config import paths
from cowork.core.blocks import Json, add_cost
from cowork.core.errors import UserError
from cowork.core.hygiene import ascii_json
from cowork.private_files import open_private, private_folder
from cowork.sessions.log.lock import Lock, holder
from cowork.sessions.log.writer import is_id, new_id

FILE, LOCK = "journal.jsonl", "lock"
TaskKey = tuple[str, str]  # what a task is called, and a hash of its input


class FlowJournal:
    """The one writer of a flow's journal. Each record is one write, so a crash tears at most the last line."""

    def __init__(self, environ: Mapping[str, str], flow_id: str | None = None) -> None:
        """Open the journal of a flow, by its id or the start of it; without one, of a new flow."""
        folder = find(environ, flow_id) if flow_id is not None else private_folder(flows_dir(environ)) / new_id()
        self.id = folder.name
        if (pid := holder(folder / LOCK)) is not None:
            who = f"process {pid}" if pid else "another process"
            raise UserError(f"Flow {self.id} is running, in {who}.", "Go on with it when that has ended or is stopped.")
        self.folder = private_folder(folder)
        self._lock = Lock(folder / LOCK)
        records, whole = read(folder / FILE)
        self.before = {(r["key"], r["input"]): r for r in records if r.get("type") == "done"}  # of earlier runs
        self.begun = bool(records)
        self._done = set(self.before)
        self.sessions = {r["id"] for r in records if r.get("type") == "session"}
        self.cost_usd = cost_of(records)  # of all that ended; None when a price is not known
        self._fd = open_private(folder / FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        os.ftruncate(self._fd, whole)  # half a line of a process that was killed

    def add(self, type: str, **fields: Any) -> None:
        """Write a record; what was paid for is on the disk before the flow goes on."""
        record = {"type": type, "at": round(time.time(), 3), **fields}
        data = ascii_json(record, separators=(",", ":"), default=str).encode() + b"\n"
        while data:
            data = data[os.write(self._fd, data) :]
        self.cost_usd = add_cost(self.cost_usd, cost_of([record]))
        if type == "done":
            self._done.add((fields["key"], fields["input"]))
        if type != "started":
            getattr(os, "fdatasync", os.fsync)(self._fd)  # macOS has no fdatasync

    @property
    def done(self) -> int:
        """How many tasks have a result."""
        return len(self._done)

    def close(self) -> None:
        os.close(self._fd)
        self._lock.release()


def flows_dir(environ: Mapping[str, str]) -> Path:
    return paths.state_dir(environ) / "flows"


def find(environ: Mapping[str, str], start: str) -> Path:
    """The folder of a flow by its id or the start of it; without one, of the latest."""
    known = known_flows(environ)
    found = [folder for folder in known if folder.name.startswith(start)]
    if not found:
        raise UserError(f"There is no flow {start!r}." if start else "There are no flows.", "`cowork flow list`")
    if start and len(found) > 1 and found[0].name != start:
        raise UserError(f"{start!r} is the start of several flows.", f"{', '.join(f.name for f in found[:8])}")
    return found[0]


def known_flows(environ: Mapping[str, str]) -> list[Path]:
    """The folders of all flows, last used first."""
    folder = flows_dir(environ)
    found = [f for f in folder.iterdir() if is_id(f.name) and (f / FILE).is_file()] if folder.is_dir() else []
    return sorted(found, key=lambda f: (f / FILE).stat().st_mtime, reverse=True)


def read(path: Path) -> tuple[list[Json], int]:
    """(records, bytes of whole lines). A line that is damaged is passed over, half of one at the end does not count."""
    records: list[Json] = []
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    whole = data.rfind(b"\n") + 1
    for line in data[:whole].splitlines():
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict):
                records.append(record)
    return records, whole


def cost_of(records: list[Json]) -> float | None:
    """USD of all tasks that ended and of what was spent beside them; None when a price is not known."""
    total: float | None = 0.0
    for record in records:
        if record.get("type") in ("done", "failed", "spent"):
            total = add_cost(total, record.get("cost_usd"))
    return total


def list_flows(environ: Mapping[str, str]) -> list[Json]:
    """Every flow with its file, tasks, cost and whether it ended."""
    rows = []
    for folder in known_flows(environ):
        records, _ = read(folder / FILE)
        if not records or records[0].get("type") != "flow":
            continue
        done = {(r["key"], r["input"]) for r in records if r["type"] == "done"}
        open = {(r["key"], r["input"]) for r in records if r["type"] in ("started", "failed")} - done
        ended = records[-1].get("type") == "end"
        head = {key: records[0][key] for key in ("file", "args", "cwd", "at")}
        state = "done" if ended else "interrupted" if holder(folder / LOCK) is None else "running"
        rows.append({"id": folder.name, **head, "state": state, "tasks": len(done), "open": len(open),
                     "cost_usd": cost_of(records)})  # fmt: skip
    return rows


def tasks_of(environ: Mapping[str, str], flow_id: str) -> list[Json]:
    """The tasks of a flow, each as its journal has it last, with what all tries cost together."""
    last: dict[TaskKey, Json] = {}
    for record in read(find(environ, flow_id) / FILE)[0]:
        if record["type"] in ("started", "done", "failed"):
            key = record["key"], record["input"]
            before = last.get(key, {}).get("cost_usd", 0.0)
            last[key] = record | {"cost_usd": add_cost(before, record.get("cost_usd", 0.0))}
    return list(last.values())


def state_of(task: Json) -> str:
    """`open`, `done`, `partial` or `failed`, by the last record of a task."""
    if task["type"] == "done" and task["data"].get("status") == "incomplete":
        return "partial"
    return {"started": "open"}.get(task["type"], str(task["type"]))
