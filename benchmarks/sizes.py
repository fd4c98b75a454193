"""Large amounts: the cost of 10,000 tasks, the list of a long log, and snapshots of a large folder."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path

from benchmarks.sessions import fastest, history, write
from cowork.core.blocks import Text, ToolUse, Usage
from cowork.core.events import AgentEnded, AgentStarted, Event, PromptAdded, ReplyAdded, ToolEnded, ToolStarted
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.sessions.cost_report import cost_report
from cowork.sessions.index import INDEX, list_sessions

TASKS = 10_000
FILES = 20_000


def tasks(count: int) -> list[Event]:
    """A session that sent out so many children, each with a search, a look and an answer."""
    events: list[Event] = [PromptAdded("go")]
    usage = {"prompt_tokens": 900, "completion_tokens": 50}
    data = {"result": "found " * 100, "usage": usage, "total_cost_usd": 0.01, "duration_ms": 4_000}
    for number in range(count):
        child = f"main/explore-{number}"
        events.append(
            AgentStarted(
                f"explore-{number}", "main", "t", "look", "look " * 40, "explore", "light", "small", agent=child
            )
        )
        for name, size in (("Grep", 600), ("Read", 2_000)):
            call = ToolUse(f"{name}{number}", name, {"pattern": "x"})
            record = {"status": "success", "data": {}, "text": "y" * size, "stats": {}, "context": {}}
            events += [
                ReplyAdded((call,), "tool_use", Usage(900, 50), 0.003, "small", agent=child),
                ToolStarted(call.id, name, call.input, "search", "x", agent=child),
                ToolEnded(call.id, name, record, agent=child),
            ]
        events += [
            ReplyAdded((Text("found " * 40),), "end_turn", Usage(900, 50), 0.004, "small", agent=child),
            AgentEnded(f"explore-{number}", "completed", {"data": data}, agent=child),
        ]
    return events


def cost() -> dict[str, float]:
    """The report over recorded tasks against parsing their lines: under 2."""
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name), tasks(TASKS))
        start = time.perf_counter()
        list_sessions(Path(name))
        first = time.perf_counter() - start
        lines, report = fastest(
            lambda: [json.loads(line) for line in path.open("rb")],
            lambda: cost_report(list_sessions(Path(name)), "agent", None),
            times=5,
        )
        return {"cost_first_ms": first * 1e3, "lines_ms": lines * 1e3, "cost_ms": report * 1e3}


def listing() -> dict[str, float]:
    """The summary of a log without an index against reading its lines."""
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name), history(30_000))

        def anew() -> None:
            (Path(name) / INDEX).unlink(missing_ok=True)
            list_sessions(Path(name))

        lines, whole = fastest(lambda: sum(1 for _ in path.open("rb")), anew, times=3)
        return {"log_mb": path.stat().st_size / 1e6, "log_lines_ms": lines * 1e3, "list_anew_ms": whole * 1e3}


async def snapshots() -> dict[str, float]:
    """Longest time the event loop stood still, and the wait of the first command, in a large folder without git."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "project"
        for number in range(FILES):
            path = root / f"package{number // 1000}" / f"file{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"def name_{number}(value): return value\n" * 50)
        points = Checkpoints(Path(name) / "sessions" / "id" / "checkpoints", root)
        stood = [0.0]

        async def tick() -> None:
            while True:
                start = time.perf_counter()
                await asyncio.sleep(0.005)
                stood[0] = max(stood[0], time.perf_counter() - start - 0.005)

        ticking = asyncio.create_task(tick())
        points.begin(1)
        start = time.perf_counter()
        await points.before_command()
        waited = time.perf_counter() - start
        (root / "package0" / "file0.py").write_text("changed")
        await points.aclose()
        ticking.cancel()
        return {"snapshot_files": FILES, "command_waited_ms": waited * 1e3, "loop_stood_ms": stood[0] * 1e3}


def main() -> None:
    """Print the figures."""
    for name, value in (cost() | listing() | asyncio.run(snapshots())).items():
        print(f"sizes.{name}: {value:,.1f}")


if __name__ == "__main__":
    main()
