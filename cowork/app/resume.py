"""Taking up a stored session: its todo list, settings and read files; children that were cut off get their end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cowork.app.run import Run
from cowork.core.blocks import ToolUse
from cowork.core.events import AgentEnded, AgentStarted, Event, Notice, PromptAdded, SessionStarted, ToolEnded
from cowork.core.later import later
from cowork.core.ports import tighter
from cowork.engine.budget import Cost
from cowork.engine.clip import file_name
from cowork.engine.loop import Prompt

with later(__name__):
    from cowork.engine.subagents.child import background_result
    from cowork.engine.subagents.result import ChildResult, record_of
    from cowork.sessions.resume_state import InterruptedChild, ResumeState, restore, surviving

_SAID = 2  # damages that are told one by one


def begin(run: Run, mode: str = "", *, cleared: bool = False) -> None:
    """Start a run's story, or go on with the one its log holds; once, before the first prompt.

    `mode`: the one the same conversation was in a moment ago, in the same chat. `cleared`: this one follows /clear.
    """
    past = run.log.loaded.events if run.log else ()
    found = restore(past, run.root) if past else None
    run.permissions.mode = mode or run.permissions.mode
    # First, for the story starts by saying what is in force.
    said = ["" if mode else _settle_mode(run, found.mode, past), _settle(run, found)] if found else []
    run.begin(resumed=bool(past), cleared=cleared)
    if run.log and (run.project.options.resume or run.project.options.continue_):
        _say_damage(run, run.log.loaded.damage or ([] if past else ["Nothing is in it."]))
    for line in filter(None, said):
        run.emit(Notice(line))
    if found:
        _say_moved(run, past)
        _take_up(run, past, found)
    if run.log:
        run.log.loaded.events = []  # it is folded, and the file has it


def _settle_mode(run: Run, mode: str, past: Sequence[Event]) -> str:
    """The mode as it was last; one looser than the settings of now only where it was chosen and nobody set another."""
    if not mode or run.project.options.permission_mode:
        return ""
    now = run.permissions.mode
    unset = run.config.origin("permissions.mode") == "default"
    as_before = unset and mode != "bypass" and not _moved_from(run, past)
    run.permissions.mode = mode if as_before else tighter(mode, now)
    if run.permissions.mode == mode:
        return ""
    return f"This session was in mode {mode}; it goes on in {now}. --permission-mode {mode} takes that up again."


def _settle(run: Run, found: ResumeState) -> str:
    """The model as it was last, unless another is asked for; gives what a person should know of it."""
    now = run.agent.provider
    if not found.model or run.project.options.model or found.model == now.model:
        return ""
    if not found.chosen:  # the settings of another time chose it, and those of now may know no such model
        return f"This session ran on {found.model}; it goes on with {now.model}."
    is_light = run.config.has_light and found.chosen == run.config.models.light.model
    run.agent.provider = run.models.choose("light" if is_light else found.chosen)
    return f"Model: {found.chosen}, as chosen before; --model main goes on with {now.model}."


def _say_damage(run: Run, damage: Sequence[str]) -> None:
    if not damage:
        return
    more = f" And {len(damage) - _SAID} more: `cowork doctor --session` lists them." if len(damage) > _SAID else ""
    text = f"The session log was damaged and is repaired: {' '.join(damage[:_SAID])}{more}"
    run.emit(Notice(text, "warning", "log.damage"))


def _say_moved(run: Run, past: Sequence[Event]) -> None:
    """Files of another folder are neither here nor rewound here; the person and the model should know."""
    before = _moved_from(run, past)
    if not before:
        return
    run.emit(Notice(f"This session was in {before}; it goes on in {run.root}."))
    text = f"The working directory is now {run.root}; before it was {before}. Paths said earlier may be of there."
    run.agent.tell(Prompt(text, source="system", label="another folder"))


def _moved_from(run: Run, past: Sequence[Event]) -> str:
    """The folder the session was in, where that is another one."""
    before = next((e.cwd for e in reversed(past) if isinstance(e, SessionStarted) and e.cwd), "")
    return before if before and Path(os.path.realpath(before)) != run.root else ""


def _take_up(run: Run, past: Sequence[Event], found: ResumeState) -> None:
    state = run.agent.runner.state
    state.todos[:] = found.todos
    state.seen.update(found.seen)
    if found.cwd:
        state.cwd = Path(found.cwd)
    run.tree.jobs_before = found.last_job
    if found.jobs:
        lines = "\n".join(found.jobs)
        run.agent.tell(Prompt(f"Background commands:\n{lines}", source="system", label="background commands ended"))
    open_calls = {call.id: call for call in run.agent.transcript.open_calls()}
    for prompt in _find_undelivered(surviving(past)):
        run.agent.tell(prompt)
    for child in found.children:
        _end(run, child, open_calls)


def _end(run: Run, child: InterruptedChild, open_calls: dict[str, ToolUse]) -> None:
    """What a child had when the process died, told as the result of the call that sent it out."""
    start = child.start
    result = ChildResult(
        start,
        "aborted",
        child.text,
        turns=child.turns,
        tally=child.tally,
        files_changed=child.files_changed,
        spent=Cost(child.spent.usage, child.spent.cost_usd),
        duration_ms=child.duration_ms,
        code="ABORTED",
        reason="Subagent was aborted: the process ended. Task with `resume` goes on with it.",
    )
    record, _ = record_of(result, keep_in=run.tree.scratch / file_name(f"result-{start.subagent_id}"))
    run.emitter.publish(AgentEnded(start.subagent_id, "aborted", record.to_dict()), start.agent)
    run.emit(Notice(f"{child.line}."))
    if start.parent == "main" and (call := open_calls.get(start.tool_use_id)):
        context = {"cwd": run.permissions.workspace.show(run.root), "params_input": call.input}
        run.emit(ToolEnded(call.id, call.name, replace(record, context=context).to_dict(), record.display))
    elif start.parent == "main":  # it ran in the background, so its call has a result already
        run.agent.tell(background_result(start.subagent_id, "aborted", record.text))


def _find_undelivered(past: Sequence[Event]) -> list[Prompt]:
    """Results of the main agent's background children that came after it had said its last."""
    waiting: dict[str, Prompt | None] = {}
    for event in past:
        match event:
            case AgentStarted(parent="main", background=True):
                waiting[event.subagent_id] = None
            case AgentEnded() if event.subagent_id in waiting:
                text = str(event.record.get("text", ""))
                waiting[event.subagent_id] = background_result(event.subagent_id, event.status, text)
            case PromptAdded(source="agent", agent="main"):
                told = event.label.partition(" ended: ")[0]
                waiting.pop(told, None)
    return [prompt for prompt in waiting.values() if prompt]
