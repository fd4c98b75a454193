"""Resume of a long session, against the bare cost of parsing its JSON."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cowork.core.blocks import Text, ToolUse, Usage
from cowork.core.events import Event, PromptAdded, ReplyAdded, SessionStarted, ToolEnded, ToolStarted, TurnEnded
from cowork.core.transcript import fold
from cowork.sessions.log import SessionLog
from cowork.sessions.reading import read

EVENTS = 10_000


def history(count: int) -> list[Event]:
    """A session of reads and edits, `count` events long."""
    events: list[Event] = [SessionStarted("/project", "a-model", "a-provider", "ask", "main", "1.0")]
    while len(events) < count:
        n = len(events)
        call = ToolUse(f"call_{n}", "Read", {"file_path": f"/project/src/module_{n}.py", "offset": 1, "limit": 200})
        text = "".join(f"{line:>6}\tdef name_{line}(value): return value + {line}\n" for line in range(12))
        record = {"status": "success", "data": {"path": f"/project/src/module_{n}.py", "hash": "0" * 64}, "text": text}
        events += [
            PromptAdded(f"What does module {n} do, and who calls it?"),
            ReplyAdded((Text("I will read it first."), call), "tool_use", Usage(1200, 80, 30_000), 0.012, "a-model"),
            ToolStarted(call.id, call.name, call.input),
            ToolEnded(call.id, call.name, record, {"kind": "text", "summary": "12 lines"}),
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


def best(work: Callable[[], object], times: int = 7) -> float:
    """Seconds of the fastest of some runs."""
    runs = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        runs.append(time.perf_counter() - start)
    return min(runs)


def measure() -> dict[str, float]:
    """Milliseconds to write, parse and resume, and resume over parse."""
    with tempfile.TemporaryDirectory() as name:
        events = history(EVENTS)
        start = time.perf_counter()
        path = write(Path(name), events)
        writing = time.perf_counter() - start
        lines = path.read_bytes().splitlines()
        parse = best(lambda: [json.loads(line) for line in lines])
        resume = best(lambda: fold(read(path).events).messages())
        return {
            "events": EVENTS,
            "bytes": os.path.getsize(path),
            "append_us": writing / EVENTS * 1e6,
            "parse_ms": parse * 1e3,
            "resume_ms": resume * 1e3,
            "ratio": resume / parse,
        }


def main() -> None:
    """Print the figures; the ratio should stay under 3."""
    for name, value in measure().items():
        print(f"sessions.{name}: {value:,.2f}")


if __name__ == "__main__":
    main()
