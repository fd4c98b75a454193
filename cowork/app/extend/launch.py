"""Runs the programs that extensions name: with the environment of commands, out of the box, never past our own end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cowork.core.later import later
from cowork.core.workspace import Workspace
from cowork.extensions.hook_process import Launch, Launched, quoted
from cowork.tools.base import AgentState, NoHold, ToolContext, TreeState, unwrapped

with later(__name__):
    from cowork.tools.shell import jobs
    from cowork.tools.shell.output import Capture

MOST_BYTES = 65_536  # of what a program prints; the rest is thrown away


def launcher(tree: TreeState, workspace: Workspace) -> Launch:
    """Starts programs in the process that runs commands, which ends them when this one is gone."""

    async def launch(line: str, given: bytes, cwd: Path, environ: Mapping[str, str], seconds: float) -> Launched:
        jobs.prepare(tree)
        open_tree = replace(
            tree,
            wrap=unwrapped,
            hold=NoHold,
            explain=lambda output, command, cwd, box: [],
            environ={**tree.environ, **environ},
        )
        ctx = ToolContext("main", "", workspace, AgentState(cwd), open_tree, lambda event: None)
        name = f"program-{os.urandom(6).hex()}"
        files = [tree.scratch / f"{name}.{part}" for part in ("in", "out", "err")]
        tree.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            files[0].touch(mode=0o600)
            files[0].write_bytes(given)
            running = await jobs.start(ctx, _script(line, files), Capture(tree.scratch, name), lambda text: None)
            try:
                ended = await asyncio.wait_for(running.wait(), seconds)
            except TimeoutError:
                await running.end()
                return Launched(None, timed_out=True)
            except asyncio.CancelledError:
                await running.end(now=True)
                raise
            if ended.error:
                raise OSError(ended.error)
            return Launched(ended.code, _text(files[1]), _text(files[2]))
        finally:
            for file in files:
                file.unlink(missing_ok=True)

    return launch


def _script(line: str, files: list[Path]) -> str:
    """The line in a shell of its own, with its input from a file and the start of both its outputs in files."""
    given, out, err = (quoted(str(file)) for file in files)
    keep = f"{{ head -c {MOST_BYTES} >%s; cat >/dev/null; }}"
    return (
        f"set -o pipefail; {{ /bin/sh -c {quoted(line)} <{given} 2>&3 | {keep % out}; exit ${{PIPESTATUS[0]}}; }}"
        f" 3> >({keep % err})"
    )


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
