"""The hooks of files, joined to a run."""

from __future__ import annotations

from collections.abc import Callable

from cowork.app.project import Project
from cowork.core.events import Notice
from cowork.engine.emitter import Emitter
from cowork.engine.loop import Agent
from cowork.extensions.hook_process import FileHooks, HookFacts, Launch
from cowork.permissions import Permissions
from cowork.sessions.log.writer import SessionLog


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
