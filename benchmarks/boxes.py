"""What a box adds to a command: judged, boxed, run and looked after, against bare bubblewrap and a bare shell."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from cowork.core.ports import BoxName, Effect
from cowork.core.workspace import Workspace
from cowork.permissions import Permissions
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.carriers import Temporary
from cowork.permissions.sandbox.watch import Watch
from cowork.tools.arguments import check
from cowork.tools.base import AgentState, ToolContext, TreeState
from cowork.tools.shell import jobs
from tests.fakes.calls import TOOLS

ROUNDS = 40
BASH = ("/bin/bash", "--norc", "-c", ":")
BARE = ("bwrap", "--ro-bind", "/", "/", "true")
NAMESPACES = ("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")


async def measure(rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds by row, the median of rounds that take turns."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        root = Path(name, "work")
        await _run(("git", "init", "-q", str(root)))
        environ = {"PATH": os.environ["PATH"], "HOME": os.path.expanduser("~")}
        workspace = Workspace(root)
        sandbox = Sandbox(workspace=workspace, environ=environ, temporary=(temporary := Temporary()))
        permissions = Permissions(workspace=workspace, mode="auto", trusted=True, sandbox=sandbox)
        watch = Watch(sandbox, {}, lambda text, paths: None)
        tree = TreeState(
            Path(name, "scratch"),
            environ,
            wrap=sandbox.wrap,
            hold=watch.begin,
            explain=sandbox.explain,
            closing=temporary.close,
        )

        async def call(box: BoxName, command: str) -> None:
            bash, args = TOOLS["Bash"], {"command": command}
            context = ToolContext("main", "call", workspace, AgentState(root), tree, lambda event: None)
            decision = permissions.judge("main", bash, args, [Effect("exec", command, str(root))])
            assert decision.box == box, decision
            context.reads, context.box = decision.read_only, decision.box
            record = await bash(context, check(bash.schema, args))
            assert record.status == "success", record

        rows: dict[str, Callable[[], Awaitable[None]]] = {
            "bash -c": lambda: _run(BASH),
            "bare bwrap": lambda: _run(BARE),
            "namespaces": lambda: _run((*NAMESPACES, *BASH)),
            "read box": lambda: _run(sandbox.wrap(BASH, root, "read")),
            "write box": lambda: _run(sandbox.wrap(BASH, root, "masked")),
            "Bash, read": lambda: call("read", "true"),
            "Bash, write": lambda: call("masked", ": > made"),
        }
        found: dict[str, list[float]] = {row: [] for row in rows}
        for turn in range(rounds + 2):
            for row, work in rows.items():
                start = time.perf_counter()
                await work()
                found[row] += [(time.perf_counter() - start) * 1e3] if turn > 1 else []
        await jobs.close(tree)
        return {row: statistics.median(times) for row, times in found.items()}


async def _run(words: Sequence[str]) -> None:
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)  # noqa: ASYNC221 (nothing else is to run meanwhile)


def main() -> None:
    """Print each row with its ratio to bare bubblewrap."""
    if shutil.which("bwrap") is None:
        print("boxes: bubblewrap (bwrap) is not installed")
        return
    found = asyncio.run(measure())
    for row, value in found.items():
        print(f"boxes: {row:12} {value:6.1f} ms  × {value / found['bare bwrap']:.2f} of bare bwrap")


if __name__ == "__main__":
    main()
