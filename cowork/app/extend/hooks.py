"""The hooks of a run: those that files name, which can be tried outside of one, and the tools that a skill forbids.

The programs they name run with the environment of commands, out of the box, never past our own end.
"""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json
from cowork.core.events import Notice
from cowork.core.hooks import HookCall, HookEvent, Hooks, HookVerdict
from cowork.core.hygiene import clean_environ
from cowork.core.later import later
from cowork.core.workspace import Workspace
from cowork.tools.base import AgentState, NoHold, ToolContext, TreeState, leave_unwrapped

with later(__name__):
    from cowork.app.project import Project
    from cowork.app.run import Run
    from cowork.extensions.hooks import FileHooks, HookRule, Launch, Launched, holds
    from cowork.extensions.skills import Skill
    from cowork.tools.shell import jobs
    from cowork.tools.shell.output import Capture

MOST_BYTES = 65_536  # of what a program prints; the rest is thrown away
_SUBJECTS = ("tool_name", "agent_type", "source", "reason", "notification_type", "trigger")


class ProjectHooks(Hooks):
    """The hooks that files of the user and the project name; what runs them is loaded where there are any."""

    def __init__(self, project: Project, run: Callable[[], Run]) -> None:
        self._project, self._run = project, run

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return bool(self._rules()) and self._files.listens(event, subject)

    async def fire(self, call: HookCall) -> HookVerdict:
        return await self._files.fire(call)

    async def aclose(self) -> None:
        if "_files" in vars(self):
            await self._files.aclose()

    def _rules(self) -> Sequence[HookRule]:
        """As they are in the files now."""
        return self._project.invoker.extensions.hooks

    @cached_property
    def _files(self) -> FileHooks:
        run = self._run()

        def facts() -> Json:
            log = str(run.log.path) if run.log else None
            told = {"session_id": run.session_id, "transcript_path": log, "permission_mode": run.permissions.mode}
            return {**told, "model": run.agent.provider.model, "turn_id": str(run.agent.since)}

        folders = run.root, self._project.invoker.places.data
        launch = launcher(run.tree, run.permissions.workspace)
        return FileHooks(self._rules, facts, folders, launch, lambda text: run.emit(Notice(text, "warning", "hook")))


class WithheldTools(Hooks):
    """Denies the calls that skills forbid, as a hook does, so that nothing can allow them."""

    def __init__(self) -> None:
        self._bans: list[tuple[Skill, str, Callable[[], bool]]] = []  # the agent, with all below it, and until when

    def withhold(self, skill: Skill, agent: str, is_over: Callable[[], bool]) -> None:
        """Refuse what it forbids to an agent until `is_over` says so."""
        self._bans = [ban for ban in self._bans if not ban[2]()]
        if skill.disallowed_tools:
            self._bans.append((skill, agent, is_over))

    @contextmanager
    def withhold_in_block(self, skill: Skill, agent: str) -> Iterator[None]:
        """Refuse what it forbids to an agent in the block."""
        done: list[bool] = []
        self.withhold(skill, agent, lambda: bool(done))
        try:
            yield
        finally:
            done.append(True)

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return event == "PreToolUse" and bool(self._bans)

    async def fire(self, call: HookCall) -> HookVerdict:
        for skill, agent, is_over in self._bans:
            concerned = f"{call.agent}/".startswith(f"{agent}/") and not is_over()
            if concerned and any(holds(rule, call.subject, call.data) for rule in skill.disallowed_tools):
                return HookVerdict("deny", f"/{skill.name} forbids it")
        return HookVerdict()


async def run_trial(
    event: HookEvent, data: Json, rules: Sequence[HookRule], root: Path, environ: Mapping[str, str]
) -> tuple[Json, list[HookRule], list[str]]:
    """What the hooks that match decide, which those are, and what is wrong with them."""
    subject = next((str(data[name]) for name in _SUBJECTS if name in data), "")
    ran = [rule for rule in rules if rule.matches(event, subject, data)]
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="cowork-") as scratch:
        tree = TreeState(Path(scratch), clean_environ(environ))
        facts = {"session_id": "trial", "transcript_path": None, "permission_mode": "ask", "model": "", "turn_id": "0"}
        folders, launch = (root, Path(scratch) / "data"), launcher(tree, Workspace(root))
        files = FileHooks(lambda: ran, lambda: {**facts}, folders, launch, said.append)
        try:
            verdict = await files.fire(HookCall(event, subject, data))
            await files.aclose()
        finally:
            await jobs.close(tree)
    return {name: value for name, value in vars(verdict).items() if value not in ("", None)}, ran, said


def launcher(tree: TreeState, workspace: Workspace) -> Launch:
    """Starts programs in the process that runs commands, which ends them when this one is gone."""

    async def launch(line: str, given: bytes, cwd: Path, environ: Mapping[str, str], seconds: float) -> Launched:
        jobs.prepare(tree)
        open_tree = without_box(tree, environ={**tree.environ, **environ})
        ctx = ToolContext("main", "", workspace, AgentState(cwd), open_tree, lambda event: None)
        tree.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="program-", dir=tree.scratch, ignore_cleanup_errors=True) as name:
            folder = Path(name)
            files = [folder / part for part in ("in", "out", "err")]
            files[0].write_bytes(given)
            running = await jobs.start(ctx, _script(line, files), Capture(folder, "program"), lambda text: None)
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
            out, err = (file.read_bytes().decode("utf-8", "replace") if file.exists() else "" for file in files[1:])
            return Launched(ended.code, out, err)

    return launch


def without_box(tree: TreeState, **changes: Any) -> TreeState:
    """The same for programs that run with the person's own rights."""
    return replace(tree, wrap=leave_unwrapped, hold=NoHold, explain=lambda output, command, cwd, box: [], **changes)


def _script(line: str, files: list[Path]) -> str:
    """The line in a shell of its own, with its input from a file and the start of both its outputs in files."""
    given, out, err = (shlex.quote(str(file)) for file in files)
    keep = f"{{ head -c {MOST_BYTES} >%s; cat >/dev/null; }}"
    return (
        f"set -o pipefail; {{ /bin/sh -c {shlex.quote(line)} <{given} 2>&3 | {keep % out}; exit ${{PIPESTATUS[0]}}; }}"
        f" 3> >({keep % err})"
    )
