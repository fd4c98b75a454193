"""Resume of a long session, against the bare cost of parsing its JSON; and what checkpoints cost a command."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cowork.core.blocks import Text, ToolUse, Usage
from cowork.core.events import Event, PromptAdded, ReplyAdded, SessionStarted, ToolEnded, ToolStarted, TurnEnded
from cowork.core.transcript import fold
from cowork.reports.page import session_page
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import SessionLog

EVENTS = 10_000
FILES = 5_000


def history(count: int) -> list[Event]:
    """A session of reads and edits, `count` events long."""
    events: list[Event] = [SessionStarted("/project", "a-model", "a-provider", "ask", "main", "1.0")]
    while len(events) < count:
        n = len(events)
        call = ToolUse(f"call_{n}", "Read", {"file_path": f"/project/src/module_{n}.py", "offset": 1, "limit": 200})
        text = "".join(f"{line:>6}\tdef name_{line}(value): return value + {line}\n" for line in range(60))
        record = {"status": "success", "data": {"path": f"/project/src/module_{n}.py", "hash": "0" * 64}, "text": text}
        events += [
            PromptAdded(f"What does module {n} do, and who calls it?"),
            ReplyAdded((Text("I will read it first."), call), "tool_use", Usage(1200, 80, 30_000), 0.012, "a-model"),
            ToolStarted(call.id, call.name, call.input),
            ToolEnded(call.id, call.name, record, {"kind": "text", "summary": "60 lines"}),
            ReplyAdded((Text("It adds numbers. " * 20),), "end_turn", Usage(900, 120, 31_000), 0.011, "a-model"),
            TurnEnded("completed", "It adds numbers.", 2),
        ]
    return events[:count]


def write(folder: Path, events: list[Event]) -> Path:
    """Those events as a session log."""
    log = SessionLog.create(folder, "benchmark")
    for number, event in enumerate(events, 1):
        stamp = {"id": number, "at": float(number), "session_id": "benchmark", "agent": "main"}
        for name, value in stamp.items():
            object.__setattr__(event, name, value)
        log(event)
    log.close()
    return log.path


def fastest(*works: Callable[[], object], times: int = 15) -> list[float]:
    """CPU seconds of the best run of each, taken in turn so that a busy machine is busy for all."""
    runs = [[_seconds(work) for work in works] for _ in range(times)]
    return [min(column) for column in zip(*runs, strict=True)]


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure() -> dict[str, float]:
    """Milliseconds to write, parse and resume, resume over parse, and a page over reading."""
    with tempfile.TemporaryDirectory() as name:
        events = history(EVENTS)
        start = time.perf_counter()
        path = write(Path(name), events)
        writing = time.perf_counter() - start
        lines = path.read_bytes().splitlines()
        parse, resume, reading, exporting = fastest(
            lambda: [json.loads(line) for line in lines],
            lambda: fold(read(path).events).messages(),
            lambda: read(path),
            lambda: list(session_page(read(path).events)),
        )
        page = sum(len(piece.encode()) for piece in session_page(read(path).events))
        return {
            "events": EVENTS,
            "bytes": os.path.getsize(path),
            "append_us": writing / EVENTS * 1e6,
            "parse_ms": parse * 1e3,
            "resume_ms": resume * 1e3,
            "ratio": resume / parse,
            "page_ratio": exporting / reading,
            "page_size_ratio": page / os.path.getsize(path),
        }


def checkpoints(count: int, *, with_git: bool) -> dict[str, float]:
    """Milliseconds before the first command in a tree, before later ones, and after a turn."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "project"
        for n in range(count):
            path = root / f"package{n // 1000}" / f"module{n // 50}" / f"file{n}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"def name_{n}(value): return value\n" * 100)
        if with_git:
            for command in (["init"], ["add", "."]):
                subprocess.run(["git", *command], cwd=root, check=True, capture_output=True)
        points = Checkpoints(Path(name) / "sessions" / "id" / "checkpoints", root)
        before, after = [], []
        for prompt in range(1, 4):
            points.begin(prompt)
            before.append(_seconds(lambda: asyncio.run(points.before_command())))
            (root / "package0" / "module0" / "file0.py").write_text(f"changed {prompt}")
            after.append(_seconds(points.end))
        points.close()
        kind = "git" if with_git else "plain"
        return {
            f"{kind}_{count}_first_ms": before[0] * 1e3,
            f"{kind}_{count}_next_ms": min(before[1:]) * 1e3,
            f"{kind}_{count}_after_ms": min(after) * 1e3,
        }


def main() -> None:
    """Print the figures; the ratios should stay under 3, that of sizes under 1.5."""
    figures = measure()
    for with_git in (True, False):
        figures |= checkpoints(FILES, with_git=with_git)
    for name, value in figures.items():
        print(f"sessions.{name}: {value:,.2f}")


if __name__ == "__main__":
    main()
