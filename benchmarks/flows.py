"""A flow of a thousand tasks on a model that takes 10 ms: what cowork adds to a task, and how memory grows."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cowork.config.run_options import RunOptions
from cowork.core.events import AgentEnded, Event
from cowork.flows.journal import FlowJournal
from cowork.flows.run import FlowRequest, load_call, run_flow

TASKS, JOBS, REPLY_MS = 1_000, 8, 10
_FLOW = (
    f"async def main(flow):\n    return len(await flow.map('explore', range({TASKS}), lambda n: f'look at <{{n}}>'))\n"
)


def main() -> dict[str, float]:
    """Print every figure with its goal, and return them."""
    tasks, grown = asyncio.run(_many())
    found = {
        "overhead a task, ms": tasks,
        "memory from the 300th to the last, MB": grown,
        "import cowork, ms": _import(),
    }
    for (name, value), goal in zip(found.items(), (3.0, 8.0, 5.0), strict=True):
        print(f"  {name:<42} {value:8.3f}  (goal {goal:g}) {'ok' if value <= goal else 'MISSED'}")
    return found


async def _many() -> tuple[float, float]:
    """(milliseconds of computing a task, megabytes that the last 700 tasks added)."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "flow.py").write_text(_FLOW)
        turns = [{"say": "seen", "delay_ms": REPLY_MS, "chunks": 1}]
        (folder / "script.json").write_text(json.dumps({"main": [], "agents": {"explore": turns}}))
        environ = {"PATH": os.environ["PATH"], "HOME": made, "COWORK_LOCAL_PORTS": ""}
        options = RunOptions(cwd=folder, script=folder / "script.json", bare=True)
        request = FlowRequest(str(folder / "flow.py"), [], options, jobs=JOBS, environ=environ)
        ended, sizes = [0], list[int]()

        def watch(event: Event) -> None:
            if isinstance(event, AgentEnded):
                ended[0] += 1
                if ended[0] in (300, TASKS):
                    gc.collect()
                    sizes.append(_resident())

        began = time.process_time()  # the model waits without computing, so all of it is overhead
        journal = FlowJournal(environ)
        await run_flow(request, journal, load_call(request), ask=None, sinks=[watch])
        return (time.process_time() - began) / TASKS * 1000, (sizes[1] - sizes[0]) / 1e6


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _import() -> float:
    """Milliseconds that `import cowork` takes in a fresh interpreter; the best of five."""
    code = "import time; t = time.perf_counter(); import cowork; print((time.perf_counter() - t) * 1000)"
    words = [sys.executable, "-c", code]
    return min(float(subprocess.run(words, capture_output=True, text=True, check=True).stdout) for _ in range(5))


if __name__ == "__main__":
    main()
