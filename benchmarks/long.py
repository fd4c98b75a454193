"""Sessions of days: what turn 2,000 costs against turn 100, what memory grows by, and taking up a large log again."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.sessions import fastest, history, write
from cowork.core.events import ContextCompacted, Event, from_dict
from cowork.sessions.index import list_sessions
from cowork.sessions.log.reader import decode, encode

TURNS = int(os.environ.get("COWORK_BENCH_TURNS", "2000"))
LOG_MB = int(os.environ.get("COWORK_BENCH_LOG_MB", "500"))
SESSIONS = 5_000

PROGRAM = """
import asyncio, gc, json, os, sys, time
from pathlib import Path
from cowork.app.build import build
from cowork.app.resume import begin
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Text, ToolResult, ToolUse, Usage
from cowork.core.ports import Reply
from cowork.engine.loop import Prompt

class Model:
    name, model, context_window, max_output_tokens = "scripted", "long", 60_000, 4_000
    asked = 0
    def price(self, usage): return 0.001
    async def aclose(self): pass
    async def stream(self, request):
        blocks = [block for message in request.messages for block in message.content]
        used = Usage(sum(len(getattr(b, "text", "") or str(getattr(b, "content", ""))) for b in blocks) // 4, 50)
        if not request.tools or request.tool_choice == "none" or isinstance(blocks[-1], ToolResult):
            yield Reply((Text("It says hello. " * 10),), "end_turn", used, "long")
            return
        self.asked += 1
        call = ToolUse(f"c{self.asked}", "Read", {"file_path": "a.txt", "limit": 30})
        yield Reply((Text("Reading."), call), "tool_use", used, "long")

def memory():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

async def main(count):
    run = build(RunOptions(prompt="go"), os.environ, ask=None, sinks=[], on_sink_failure=lambda *failed: None)
    begin(run)
    run.agent.provider = Model()
    marks, began = {}, 0.0
    for number in range(1, count + 1):
        if number in (50, count - 50):
            began = time.process_time()
        outcome = await run.ask(Prompt(f"What does part {number} say?"))
        assert outcome.reason == "completed", outcome
        if number in (100, count):
            marks[number] = ((time.process_time() - began) / 50 * 1000, memory())
    await run.close()
    print(json.dumps([marks[100], marks[count]]))

asyncio.run(main(int(sys.argv[1])))
"""

RESUME = """
import sys, time
from pathlib import Path
from cowork.core.transcript import fold
from cowork.sessions.log.resume_reader import read_to_resume
from cowork.sessions.resume_state import restore
began = time.process_time()
events = read_to_resume(Path(sys.argv[1])).events
fold(events).messages()
restore(events, Path("/"))
spent = time.process_time() - began
status = Path("/proc/self/status").read_text()  # ru_maxrss would begin at the size of the process that started this one
print(spent, int(status.partition("VmHWM:")[2].split()[0]) / 1000)
"""


def main() -> None:
    """Print every figure with its goal."""
    turns()
    large_log()
    many_sessions()


def turns() -> None:
    """The last of many turns against an early one, and what memory grew by in between."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text("hello and so on and so forth\n" * 30)
        environ = {"HOME": folder, "PATH": os.environ["PATH"], "LLM_PROVIDER": "offline"}
        out = _python(PROGRAM, str(TURNS), cwd=folder, environ=environ)
        (early_ms, early_mb), (late_ms, late_mb) = json.loads(out)
    _line(f"turn {TURNS:,} against turn 100, CPU", late_ms / early_ms, 1.5)
    _line(f"memory grown by turn {TURNS:,}, MB", late_mb - early_mb, 20)


def large_log() -> None:
    """Taking up a log of hundreds of megabytes: memory, and the time against counting its lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = _grown_log(Path(folder), LOG_MB * 1_000_000)
        first, again = (
            [float(word) for word in _python(RESUME, str(path), cwd=folder, environ=dict(os.environ)).split()]
            for _ in range(2)
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["wc", "-l", str(path)], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        counting = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        size = path.stat().st_size / 1e6
    print(f"  {size:,.0f} MB log: {first[0]:.2f} s of CPU without its resume point, {again[0]:.2f} s with it")
    _line(f"{size:,.0f} MB log taken up, against wc -l", again[0] / max(counting, 0.01), 3)
    _line(f"{size:,.0f} MB log, memory in MB", max(first[1], again[1]), 60)


def many_sessions() -> None:
    """What `/resume` lists of thousands of sessions, against listing the files of their logs."""
    with tempfile.TemporaryDirectory() as folder:
        base = write(Path(folder), history(60))
        for number in range(SESSIONS):
            place = Path(folder) / f"s{number:06}"
            place.mkdir()
            os.link(base, place / base.name)
        first = _seconds(lambda: list_sessions(Path(folder)))
        rows, files = fastest(
            lambda: list_sessions(Path(folder), Path("/project")),
            lambda: [os.lstat(f"{entry.path}/{base.name}") for entry in os.scandir(folder) if entry.is_dir()],
        )
    print(f"  {SESSIONS:,} sessions: {first:.2f} s listed anew, {rows * 1e3:.0f} ms from the index")
    _line(f"{SESSIONS:,} sessions listed, against their files", rows / files, 2)


def _grown_log(folder: Path, size: int) -> Path:
    """A log with a summary every so often, as a session of days has them."""
    events: list[Event] = history(600)
    path = write(folder, [*events, ContextCompacted("So far: nothing.", keep_from=0)])
    block = path.read_bytes()
    lines = block.splitlines(keepends=True)
    parsed = [from_dict(raw) for line in lines if (raw := decode(line.rstrip(b"\n")))]
    number = len(lines)
    with path.open("ab") as file:
        while file.tell() < size:
            for event in filter(None, parsed):
                number += 1
                object.__setattr__(event, "id", number)
                file.write(encode(event, number))
    return path


def _python(program: str, *words: str, cwd: str, environ: dict[str, str]) -> str:
    argv = [sys.executable, "-c", program, *words]
    return subprocess.run(argv, cwd=cwd, env=environ, check=True, capture_output=True, text=True).stdout


def _seconds(work: object) -> float:
    began = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - began


def _line(what: str, value: float, goal: float) -> None:
    print(f"  {what:<44} {value:8.2f}  (goal {goal:g}) {'ok' if value <= goal else 'MISSED'}")


if __name__ == "__main__":
    main()
