"""The one-shot run against floors: a bare interpreter and a raw HTTP client that sends the same requests."""

from __future__ import annotations

import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.wire.server import Server, call, say, turn

COWORK = str(Path(sys.prefix) / "bin" / "cowork")
ROUNDS = 5

RAW = """
import asyncio, json, os, sys, httpx2
async def main():
    body = json.dumps({"model": "test-model", "max_tokens": 1000, "stream": True,
                       "messages": [{"role": "user", "content": "hi"}]}).encode()
    url = os.environ["LLM_BASE_URL"] + "/v1/messages"
    head = {"x-api-key": "test-key", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    async with httpx2.AsyncClient(timeout=60) as client:
        for _ in range(int(sys.argv[1])):
            async with client.stream("POST", url, content=body, headers=head) as r:
                async for line in r.aiter_lines():
                    if line.startswith("data:"):
                        json.loads(line[5:])
asyncio.run(main())
"""


def main() -> None:
    """Print every ratio with its goal."""
    bare = best(lambda: time_command([sys.executable, "-c", "pass"])[0])
    version = best(lambda: time_command([COWORK, "--version"])[0])
    line("--version", version, bare, "bare interpreter", 1.5)
    first_request()
    with_extensions()
    many_turns()
    long_stream()
    parallel_sleeps()


def with_extensions() -> None:
    """A start that finds 100 skills, 50 commands and 20 hooks against one that finds none."""
    with tempfile.TemporaryDirectory() as folder:
        full, empty = Path(folder, "full"), Path(folder, "empty")
        for number in range(100):
            path = full / f"skills/skill-{number}/SKILL.md"
            path.parent.mkdir(parents=True)
            about = f"Does thing {number}. Use when asked for thing {number}."
            path.write_text(f"---\nname: skill-{number}\ndescription: {about}\n---\n" + "Do it well.\n" * 40)
        (full / "commands").mkdir()
        for number in range(50):
            (full / f"commands/c{number}.md").write_text(f"---\ndescription: Command {number}\n---\nDo $ARGUMENTS")
        hooks = [{"matcher": f"T{n}", "hooks": [{"type": "command", "command": "true"}]} for n in range(20)]
        (full / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": hooks}}))
        took: dict[Path, list[float]] = {full: [], empty: []}
        for _, home in itertools.product(range(2 * ROUNDS), took):
            with Server([say("hi")], check=False) as server:
                words = ["env", f"COWORK_HOME={home}", COWORK, "run", "say hi", "--non-interactive", "--no-session"]
                took[home].append(until_request(server, 1, words, [], []))
        line("first request, 170 extensions", min(took[full]), min(took[empty]), "none", 1.15)


def first_request() -> None:
    raw: list[float] = []
    ours: list[float] = []
    cpu_raw: list[float] = []
    cpu_ours: list[float] = []
    rss: list[int] = []
    for _ in range(ROUNDS):
        with Server([say("hi")] * 2, check=False) as server:
            raw.append(until_request(server, 1, [sys.executable, "-c", RAW, "1"], cpu_raw, []))
            ours.append(until_request(server, 2, [COWORK, "run", "say hi", "--non-interactive"], cpu_ours, rss))
            body = server.requests[1].raw
    line("to the first request", min(ours), min(raw), "raw httpx2", 1.4)
    line("CPU of one answer", min(cpu_ours), min(cpu_raw), "raw httpx2", 1.5)
    tokens = f"{len(body):,} bytes ~ {len(body) // 4:,} tokens (goal 3,500)"
    print(f"  memory {max(rss) / 1024:.0f} MB (goal 60), first request {tokens}")


def many_turns() -> None:
    raw, ours, weighted = [], [], 0.0
    for _ in range(3):
        reads = [turn(call("Read", file_path="a.txt")) for _ in range(20)]
        with Server([say("hi")] * 21, check=False) as server:
            time_command([sys.executable, "-c", RAW, "21"], env=server.env("anthropic"))
            raw.append(server.requests[-1].at - server.requests[0].at)
        with Server([*reads, say("done")], check=False) as server:
            time_command([COWORK, "run", "go", "--non-interactive"], env=server.env("anthropic"))
            ours.append(server.requests[-1].at - server.requests[0].at)
            sizes = [len(seen.raw) / 4 for seen in server.requests]
            fresh = [sizes[0], *(b - a for a, b in itertools.pairwise(sizes))]
            weighted = sum(1.25 * new + 0.1 * (size - new) for size, new in zip(sizes, fresh, strict=True))
    line("20 reads, a turn", min(ours) / 20, min(raw) / 20, "raw httpx2", 3)
    print(f"  input of the 20-read session, weighted by cost: {weighted:,.0f} tokens (goal 25,000)")


def long_stream() -> None:
    text = "word " * 20_000
    cpu_raw, cpu_ours = [], []
    for _ in range(3):
        with Server([say(text, piece=5), say(text, piece=5), say("hi"), say("hi")], check=False) as server:
            env = server.env("anthropic")
            long_raw = time_command([sys.executable, "-c", RAW, "1"], env=env)[1]
            long_ours = time_command([COWORK, "run", "go", "--non-interactive"], env=env)[1]
            cpu_raw.append(long_raw - time_command([sys.executable, "-c", RAW, "1"], env=env)[1])
            cpu_ours.append(long_ours - time_command([COWORK, "run", "go", "--non-interactive"], env=env)[1])
    line("CPU of a 20,000-token stream", statistics.median(cpu_ours), statistics.median(cpu_raw), "raw httpx2", 2)


def parallel_sleeps() -> None:
    sleeps = turn(*[call("Bash", command="sleep 1") for _ in range(5)])
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "s.json"
        script.write_text(
            json.dumps([{"calls": [{"name": c.name, "input": c.input} for c in sleeps.calls]}, {"say": "ok"}])
        )
        words = [COWORK, "run", "--non-interactive", "--script", str(script), "--output", "json", "go"]
        out = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=environment(folder)).stdout
        print(f"  5 × sleep 1 in one turn: {json.loads(out)['duration_ms'] / 1000:.2f} s (goal 1.1)")


def until_request(server: Server, number: int, words: list[str], cpu: list[float], rss: list[int]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        process = subprocess.Popen(
            words, cwd=folder, env=environment(folder) | server.env("anthropic"), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        server.wait(number)
        seconds = time.monotonic() - started
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        cpu.append(used.ru_utime + used.ru_stime)
        rss.append(used.ru_maxrss)
        return seconds


def time_command(words: list[str], env: dict[str, str] | None = None) -> tuple[float, float]:
    """(seconds, CPU seconds) of a command in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text("hello\n" * 50)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic()
        subprocess.run(
            words, cwd=folder, env=environment(folder) | (env or {}), stdin=subprocess.DEVNULL, capture_output=True
        )
        seconds = time.monotonic() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment(folder: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8"}


def best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS))


def line(what: str, ours: float, floor: float, name: str, goal: float) -> None:
    mark = "ok" if ours <= goal * floor else "MISSED"
    print(f"  {what}: {ours * 1000:.1f} ms, {ours / floor:.2f} × {name} (goal {goal} ×) {mark}")


if __name__ == "__main__":
    main()
