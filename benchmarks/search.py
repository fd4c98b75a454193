"""Grep and Glob against raw ripgrep on a tree of 50,000 files: the same question, in the same run."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cowork.core.workspace import Workspace
from cowork.tools.base import AgentState, Tool, ToolContext, TreeState
from cowork.tools.search import ripgrep as rg
from cowork.tools.search.files import glob
from cowork.tools.search.grep import grep

FILES = 50_000
ROUNDS = 9
GOAL = 1.3
_KINDS = ("py", "js", "md", "txt", "json", "go", "rs", "c")
_WORDS = ("alpha", "beta", "gamma", "error", "return", "import", "class", "function", "value", "index", "token")

_C = ["--type-add=kind:*.c", "-tkind"]  # by type .gitignore stays in force, as it does in ours; `-g` overrules it
_PY = ["--type-add=kind:*.py", "-tkind"]
_FILES = ["--files", "--sortr=modified"]


@dataclass(frozen=True)
class Case:
    """A call, the same question to rg, and where it differs what people would type."""

    name: str
    tool: Tool
    args: dict[str, Any]
    raw: list[str]
    typed: list[str] | None = None


CASES = [
    Case("Grep, a rare word", grep, {"pattern": "needle_here"}, ["-l", "needle_here"]),
    Case(
        "Grep, lines of a rare word",
        grep,
        {"pattern": "needle_here", "output_mode": "content", "-C": 2},
        ["-n", "-C2", "needle_here"],
    ),
    Case(
        "Grep, by kind of file",
        grep,
        {"pattern": "needle_here", "glob": "*.c"},
        ["-l", *_C, "needle_here"],
        ["-l", "-g*.c", "needle_here"],
    ),
    Case("Grep, a word in every file", grep, {"pattern": "zebra", "output_mode": "count"}, ["-c", "zebra"]),
    Case("Glob, a folder's files", glob, {"pattern": "pkg3/**/*.py"}, [*_FILES, "-g", "pkg3/**/*.py"]),
    Case("Glob, one kind", glob, {"pattern": "**/*.py"}, [*_FILES, *_PY], [*_FILES, "-g*.py"]),
    Case("Glob, all files", glob, {"pattern": "**/*"}, _FILES),
    Case("Glob, one kind; rg in no order", glob, {"pattern": "**/*.py"}, ["--files", *_PY], ["--files", "-g*.py"]),
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
    if not rg.program():
        print("search: no ripgrep here, nothing to compare with")
        return {}
    tree = TreeState(root / "scratch")
    ctx = ToolContext("main", "bench", Workspace(root), AgentState(Path(os.path.realpath(root))), tree, lambda e: None)
    ratios: dict[str, float] = {}
    print(f"search: {FILES:,} files, newest first for Glob; medians of {ROUNDS} interleaved runs, goal {GOAL} x")
    print(f"  {'':32} {'ours':>8} {'rg':>8}  time  CPU   against rg -g")
    for case in CASES:
        taken: dict[str, list[Cost]] = {"ours": [], "raw": [], "typed": []}
        for _ in range(ROUNDS):
            taken["raw"].append(await _measure(partial(_raw, case.raw, root)))
            taken["ours"].append(await _measure(partial(case.tool, ctx, case.args)))
            if case.typed:
                taken["typed"].append(await _measure(partial(_raw, case.typed, root)))
        ours, raw = _median(taken["ours"]), _median(taken["raw"])
        ratios[case.name] = round(ours.seconds / raw.seconds, 2)
        line = f"  {case.name:32} {ours.seconds * 1000:5.0f} ms {raw.seconds * 1000:5.0f} ms"
        line += f"  {ours.seconds / raw.seconds:.2f}  {ours.cpu / raw.cpu:.2f}"
        if case.typed:
            typed = _median(taken["typed"])
            line += f"  {ours.seconds / typed.seconds:.2f} ({ours.cpu / typed.cpu:.2f} CPU)"
        print(line)
    return ratios


class Cost(NamedTuple):
    """What a run took: time on the wall, and of the processors, rg's and ours."""

    seconds: float
    cpu: float


def _median(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))


async def _measure(run: Callable[[], Awaitable[object]]) -> Cost:
    started, cpu = time.perf_counter(), _cpu()
    await run()
    return Cost(time.perf_counter() - started, _cpu() - cpu)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


async def _raw(arguments: list[str], root: Path) -> None:
    command = [rg.program(), "--no-config", "--hidden", "--no-require-git", *arguments, "./"]
    process = await asyncio.create_subprocess_exec(*command, cwd=root, stdout=subprocess.DEVNULL)
    await process.wait()


if __name__ == "__main__":
    main()
