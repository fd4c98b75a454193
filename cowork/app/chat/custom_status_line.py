"""The status line of the settings in a chat: tells its programs the state, and the chat what they print."""

from __future__ import annotations

import time
from collections.abc import Callable

from cowork import __version__
from cowork.app.extend.hooks import launcher
from cowork.app.run import Run
from cowork.core import events
from cowork.core.blocks import Json
from cowork.core.ports import Emit
from cowork.extensions.custom_status_line import CustomStatusLine
from cowork.frontends.host import StatusLines

_TELLING = (
    *(events.SessionStarted, events.ReplyAdded, events.ContextCompacted),
    *(events.AgentStarted, events.AgentUpdated, events.AgentEnded),
)


def open_custom_status_line(run: Run, show: Emit, cost: Callable[[], float | None]) -> CustomStatusLine | None:
    """The line of one conversation; None where the settings name no program and no template."""
    ui = run.config.ui
    if not (ui.statusline or ui.statusline_command or ui.subagent_statusline_command):
        return None
    return CustomStatusLine(
        launcher(run.tree, run.permissions.workspace),
        lambda: _state(run, cost()),
        lambda rows: show(StatusLines(rows)),
        run.root,
        template=ui.statusline,
        command=ui.statusline_command,
        subagent_command=ui.subagent_statusline_command,
    )


def changes_line(event: events.Event) -> bool:
    """Whether an event may have changed the line."""
    return isinstance(event, _TELLING) or (isinstance(event, events.Notice) and event.code.endswith(".changed"))


def _state(run: Run, cost: float | None) -> Json:
    """The state, with the names that programs for other agents know."""
    window, used = run.agent.provider.context_window, run.agent.transcript.tokens
    percent = round(100 * used / window, 1) if window else None
    model, cwd = run.agent.provider.model, str(run.agent.runner.state.cwd)
    return {
        "session_id": run.session_id,
        "transcript_path": str(run.log.path) if run.log else None,
        "cwd": cwd,
        "permission_mode": run.permissions.mode,
        "version": __version__,
        "model": {"id": model, "display_name": model},
        "workspace": {
            "current_dir": cwd,
            "project_dir": str(run.root),
            "added_dirs": [str(folder) for folder in run.permissions.workspace.writable[1:]],
            "branch": run.project.branch,
        },
        "cost": {
            "total_cost_usd": cost,
            "total_duration_ms": round(1000 * (time.monotonic() - run.started)),
        },
        "context_window": {
            "context_window_size": window,
            "total_input_tokens": used,
            "used_percentage": percent,
            "remaining_percentage": None if percent is None else round(100 - percent, 1),
        },
        "tasks": [
            {
                "id": child.id,
                "name": child.assignment.definition.name,
                "type": "subagent",
                "status": child.status,
                "description": child.label,
                "label": child.action,
                "model": child.agent.provider.model,
                "tokenCount": child.agent.ledger.usage.total,
                "contextWindowSize": child.agent.provider.context_window,
                "cwd": str(child.agent.runner.state.cwd),
            }
            for child in run.subagents.running.values()
        ],
    }
