"""Grep and Glob against raw ripgrep on a tree of 50,000 files: the same question, in the same run."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cowork.core.workspace import Workspace
from cowork.tools import rg
from cowork.tools.base import AgentState, Tool, ToolContext, TreeState
from cowork.tools.glob import glob
from cowork.tools.grep import grep

FILES = 50_000
ROUNDS = 9
GOAL = 1.3
_KINDS = ("py", "js", "md", "txt", "json", "go", "rs", "c")
_WORDS = ("alpha", "beta", "gamma", "error", "return", "import", "class", "function", "value", "index", "token")

CASES: list[tuple[str, Tool, dict[str, Any], list[str]]] = [
    ("Grep, a rare word", grep, {"pattern": "needle_here"}, ["-l", "needle_here"]),
    (
        "Grep, lines of a rare word",
        grep,
        {"pattern": "needle_here", "output_mode": "content", "-C": 2},
        ["-n", "-C2", "needle_here"],
    ),
    ("Grep, by kind of file", grep, {"pattern": "needle_here", "glob": "*.c"}, ["-l", "-g*.c", "needle_here"]),
    ("Grep, a word in every file", grep, {"pattern": "zebra", "output_mode": "count"}, ["-c", "zebra"]),
    (
        "Glob, a folder's files, newest first",
        glob,
        {"pattern": "pkg3/**/*.py"},
        ["--files", "--sortr=modified", "-g", "pkg3/**/*.py"],
    ),
    ("Glob, one kind, newest first", glob, {"pattern": "**/*.py"}, ["--files", "--sortr=modified", "-g*.py"]),
    ("Glob, all files, newest first", glob, {"pattern": "**/*"}, ["--files", "--sortr=modified"]),
    ("  the same against rg in no order", glob, {"pattern": "**/*.py"}, ["--files", "-g*.py"]),
]


def main() -> dict[str, float]:
    """Print and return the ratio of each case."""
    with tempfile.TemporaryDirectory(prefix="cowork-bench-") as folder:
        root = Path(folder)
        build(root)
        return asyncio.run(_compare(root))


def build(root: Path) -> None:
    """A repository of 500 folders with 100 small files each."""
    chance = random.Random(7)
    for number in range(FILES // 100):
        inner = root / f"pkg{number % 25}" / f"mod{number}"
        inner.mkdir(parents=True)
        for i in range(100):
            lines = [" ".join(chance.choices(_WORDS, k=8)) for _ in range(12)]
            lines.append("zebra" if i % 4 == 0 else "")
            lines.append("needle_here" if i == 7 and number % 10 == 0 else "")
            (inner / f"file{i}.{_KINDS[i % 8]}").write_text("\n".join(lines))
    (root / ".gitignore").write_text("*.log\nnode_modules/\n")


async def _compare(root: Path) -> dict[str, float]:
    if rg.program() == rg.stand_in():
        print("search: no ripgrep here, nothing to compare with")
        return {}
    tree = TreeState(root / "scratch")
    ctx = ToolContext("main", "bench", Workspace(root), AgentState(Path(os.path.realpath(root))), tree, lambda e: None)
    ratios: dict[str, float] = {}
    print(f"search: {FILES:,} files, median of {ROUNDS} interleaved runs, goal {GOAL} x")
    for name, tool, args, raw in CASES:
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            theirs.append(await _timed(lambda raw=raw: _raw(raw, root)))
            ours.append(await _timed(lambda tool=tool, args=args: tool(ctx, args)))
        ratio = statistics.median(ours) / statistics.median(theirs)
        ratios[name] = round(ratio, 2)
        times = f"{statistics.median(ours) * 1000:6.0f} ms  rg {statistics.median(theirs) * 1000:6.0f} ms"
        print(f"  {name:40} {times}  {ratio:5.2f} x")
    return ratios


async def _timed(run: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await run()
    return time.perf_counter() - started


async def _raw(arguments: list[str], root: Path) -> None:
    command = [*rg.program(), "--no-config", "--hidden", "--no-require-git", *arguments, "./"]
    process = await asyncio.create_subprocess_exec(*command, cwd=root, stdout=subprocess.DEVNULL)
    await process.wait()


if __name__ == "__main__":
    main()
