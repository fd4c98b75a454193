"""The hooks of files: joined to a run, or run outside of one so that whoever writes one can see what it says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cowork.app.extend.launch import launcher
from cowork.app.project import Project
from cowork.core import signals
from cowork.core.blocks import Json
from cowork.core.events import Notice
from cowork.core.hooks import HookCall, HookEvent
from cowork.core.hygiene import clean_environ
from cowork.core.workspace import Workspace
from cowork.engine.emitter import Emitter
from cowork.engine.loop import Agent
from cowork.extensions.hook_files import HookRule
from cowork.extensions.hook_process import FileHooks, HookFacts, Launch
from cowork.permissions import Permissions
from cowork.sessions.log.writer import SessionLog
from cowork.tools.base import TreeState
from cowork.tools.shell import jobs

_SUBJECTS = ("tool_name", "agent_type", "source", "reason", "notification_type", "trigger")


def file_hooks(
    place: Project,
    emitter: Emitter,
    log: SessionLog | None,
    permissions: Permissions,
    launch: Launch,
    main: Callable[[], Agent],
) -> FileHooks:
    """The hooks of files, with what they are told of the run."""
    facts = HookFacts(
        emitter.session_id,
        str(log.path) if log else "",
        place.root,
        lambda: permissions.mode,
        place.invoker.plugin_data,
        lambda: main().provider.model,
        lambda: main().since,
    )
    hooks = FileHooks(
        place.invoker.extensions.hooks, facts, launch, lambda text: emitter.publish(Notice(text, "warning", "hook"))
    )
    place.invoker.hooks = hooks
    return hooks


def run_trial(
    event: HookEvent, data: Json, rules: Sequence[HookRule], root: Path, environ: Mapping[str, str]
) -> tuple[Json, list[HookRule], list[str]]:
    """What the hooks that match decide, which those are, and what is wrong with them."""
    subject = next((str(data[name]) for name in _SUBJECTS if name in data), "")
    ran = [rule for rule in rules if rule.matches(event, subject, data)]
    said: list[str] = []

    async def fire() -> Json:
        with tempfile.TemporaryDirectory(prefix="cowork-") as scratch:
            tree = TreeState(Path(scratch), clean_environ(environ))
            facts = HookFacts("trial", "", root, lambda: "ask", Path(scratch) / "data")
            files = FileHooks(ran, facts, launcher(tree, Workspace(root)), said.append)
            try:
                verdict = await files.fire(HookCall(event, subject, data))
                await files.aclose()
            finally:
                await jobs.close(tree)
        return {name: value for name, value in vars(verdict).items() if value not in ("", None)}

    return signals.run(fire()), ran, said
