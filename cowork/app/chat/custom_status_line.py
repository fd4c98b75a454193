"""The status line as people want it: a template, or a program that is told the state as JSON and prints a line."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cowork import __version__
from cowork.app.extend.hooks import launcher
from cowork.app.run import Run
from cowork.config.sections import Ui
from cowork.core import events
from cowork.core.blocks import Json
from cowork.core.hygiene import visible_line
from cowork.core.later import later
from cowork.core.ports import Emit
from cowork.frontends.host import StatusLines

with later(__name__):
    from cowork.extensions.hooks import Launch
    from cowork.tools.shell.terminal_text import plain

DEBOUNCE_S = 0.3
SECONDS = 5.0  # a program may take
MOST_CHARS = 500
_TELLING = (
    *(events.SessionStarted, events.ReplyAdded, events.ContextCompacted),
    *(events.AgentStarted, events.AgentUpdated, events.AgentEnded),
)


def open_custom_status_line(run: Run, show: Emit, cost: Callable[[], float | None]) -> CustomStatusLine | None:
    """The line of one conversation; None where the settings name no program and no template."""
    ui = run.config.ui
    if not (ui.statusline or ui.statusline_command or ui.subagent_statusline_command):
        return None
    launch = launcher(run.tree, run.permissions.workspace)
    return CustomStatusLine(ui, launch, lambda: _state(run, cost()), show, run.root)


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
        "cost": {"total_cost_usd": cost, "total_duration_ms": round(1000 * (time.monotonic() - run.started))},
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
                "tokenCount": child.agent.ledger.spent.usage.total,
                "contextWindowSize": child.agent.provider.context_window,
                "cwd": str(child.agent.runner.state.cwd),
            }
            for child in run.subagents.running.values()
        ],
    }


class CustomStatusLine:
    """Keeps the line up to date: soon after a change, one program at a time, the newest state wins."""

    def __init__(self, ui: Ui, launch: Launch, state: Callable[[], Json], show: Emit, root: Path) -> None:
        self._ui, self._launch, self._state, self._show, self._root = ui, launch, state, show, root
        self.text, self._rows = "", dict[str, str]()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def poke(self) -> None:
        """Something changed; a burst of changes is one update."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DEBOUNCE_S, self._start)

    def stop(self) -> None:
        """Show nothing more; what runs is ended."""
        if self._timer:
            self._timer.cancel()
        if self._task:
            self._task.cancel()

    def _start(self) -> None:
        self._timer = None
        if self._task and not self._task.done():
            self._task.cancel()
        self._task = asyncio.ensure_future(self._update())

    async def _update(self) -> None:
        state = self._state()
        text = fill(self._ui.statusline, state) if self._ui.statusline else self.text
        if (out := await self._run(self._ui.statusline_command, state)) is not None:
            text = first_line(out)
        if (out := await self._run(self._ui.subagent_statusline_command if state["tasks"] else "", state)) is not None:
            self._rows = rows_of(out)
        self.text = text
        self._show(StatusLines(self._rows))

    async def _run(self, command: str, state: Json) -> str | None:
        """What a program printed; None when there is none or it failed, which leaves what was shown before."""
        with suppress(OSError):
            if command:
                ended = await self._launch(command, json.dumps(state).encode(), self._root, {}, SECONDS)
                return ended.out if ended.code == 0 else None
        return None


def fill(template: str, state: Json) -> str:
    """A template such as `{model} · {context}% · ${cost}`; names that are not known stay as they are."""
    context, cost = state["context_window"]["used_percentage"], state["cost"]["total_cost_usd"]
    known = {"mode": state["permission_mode"], "cwd": state["cwd"], "branch": state["workspace"]["branch"]}
    known |= {"model": state["model"]["id"], "session": state["session_id"], "version": state["version"]}
    known |= {"tokens": str(state["context_window"]["total_input_tokens"]), "children": str(len(state["tasks"]))}
    known["context"] = "-" if context is None else f"{context:.0f}"
    known["cost"] = "?" if cost is None else f"{cost:.2f}"
    return clean(re.sub(r"\{(\w+)\}", lambda match: known.get(match[1], match[0]), template))


def first_line(out: str) -> str:
    """The first line that says something, without colours and without anything that could steer a terminal."""
    return next((line for line in map(clean, out.splitlines()) if line), "")


def rows_of(out: str) -> dict[str, str]:
    """Rows of children by id, from one JSON object a line; lines that are none are left out."""
    rows = {}
    for line in out.splitlines():
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            found = json.loads(line)
            rows[str(found["id"])] = clean(str(found["content"]))
    return rows


def clean(text: str) -> str:
    return visible_line(plain(text))[:MOST_CHARS].strip()
