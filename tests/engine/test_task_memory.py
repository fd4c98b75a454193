"""What finished children held is let go: a run of hundreds ends about as large as it began."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.stage import call, say, turn

CHILDREN = 200 if os.environ.get("COWORK_SOAK") else 40
KEPT = 20_000  # bytes of each that may stay; it read a good 100,000

PROGRAM = """
import asyncio, gc, os, sys, tracemalloc
from cowork.app.build import build
from cowork.app.resume import begin
from cowork.config.run_options import RunOptions
from cowork.engine.loop import Prompt

sizes, ended = [], 0
tracemalloc.start()

def measure(event):
    global ended
    ended += event.type == "agent.ended"
    if event.type == "agent.ended" and ended in (int(sys.argv[1]) // 4, int(sys.argv[1])):
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])

async def main():
    run = build(RunOptions(prompt="go"), os.environ, ask=None, sinks=[measure], on_sink_failure=lambda *failed: None)
    begin(run)
    outcome = await run.ask(Prompt("go"))
    await run.close()
    print(outcome.reason, sizes[1] - sizes[0])

asyncio.run(main())
"""


@pytest.mark.soak
def test_children_that_read_much_leave_little(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text(("x" * 99 + "\n") * 1_000)
    order = call("Task", description="read it", prompt="read", subagent_type="explore")
    reads = turn(*(call("Read", file_path="big.txt", offset=n, limit=400) for n in (1, 401, 801)))
    script = {
        "main": [*(turn(*[order] * 5) for _ in range(CHILDREN // 5)), say("ok")],
        "agents": {"explore": [reads, say("x" * 2_000)]},
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    environ = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "LLM_PROVIDER": "scripted",
        "LLM_MODEL_ID": str(tmp_path / "script.json"),
    }
    argv = [sys.executable, "-c", PROGRAM, str(CHILDREN)]
    done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    reason, grown = done.stdout.split()
    assert reason == "completed"
    assert int(grown) < CHILDREN * 3 // 4 * KEPT
