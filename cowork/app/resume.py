"""Taking up a stored session: its todo list, settings and read files; children that were cut off get their end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cowork.app.run import Run
from cowork.core.events import AgentEnded, AgentStarted, Event, Notice, ToolEnded
from cowork.core.ports import failed
from cowork.sessions.restore import Child, restore


def begin(run: Run) -> None:
    """Start a run's story, or go on with the one its log holds; once, before the first prompt."""
    past = run.log.loaded.events if run.log else ()
    run.begin(resumed=bool(past))
    if run.log and past:
        _take_up(run, past, run.log.loaded.damage)


def _take_up(run: Run, past: Sequence[Event], damage: Sequence[str]) -> None:
    if damage:
        run.emit(Notice(f"The session log was damaged and is repaired: {'; '.join(damage)}", "warning", "log.damage"))
    found = restore(past, run.root)
    state = run.agent.runner.state
    state.todos[:] = found.todos
    state.seen.update(found.seen)
    if found.cwd:
        state.cwd = Path(found.cwd)
    if found.mode and not run.options.permission_mode:
        run.permissions.mode = found.mode
    if found.model and not run.options.model and found.model != run.agent.provider.model:
        run.emit(Notice(f"This session ran on {found.model}; it goes on with {run.agent.provider.model}."))
    calls = {e.agent: e.tool_use_id for e in past if isinstance(e, AgentStarted)}
    open_calls = {call.id: call.name for call in run.agent.transcript.open_calls()}
    for child in found.children:
        _end(run, child, calls.get(child.agent, ""), open_calls)


def _end(run: Run, child: Child, call_id: str, open_calls: dict[str, str]) -> None:
    """What a child had when the process died, as the result of the call that sent it out."""
    record = failed(
        "ABORTED",
        f"Subagent was aborted: the process ended. {child.line}. Go on with it by `resume`.",
        status="aborted",
        result=child.text,
        short_result="Task failed: the process ended",
        subagent_type=child.subagent_type,
        subagent_id=child.subagent_id,
        files_changed=list(child.files_changed),
    )
    run.emitter.publish(AgentEnded(child.subagent_id, "aborted", record.to_dict()), child.agent)
    if call_id in open_calls:
        run.emit(ToolEnded(call_id, open_calls[call_id], record.to_dict(), record.display))
