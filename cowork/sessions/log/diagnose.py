"""What is wrong with a session and what is done about it, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from cowork.core.blocks import Thinking, ToolUse
from cowork.core.events import Event, PromptAdded, ReplyAdded, SessionStarted, ToolEnded
from cowork.sessions.log.reader import Loaded
from cowork.sessions.resume_state import interrupted


def diagnose(loaded: Loaded) -> list[str]:
    """Damage of the file first, then gaps in the story; empty when all is well. Nothing here stops a resume."""
    events = loaded.events
    found = list(loaded.damage)
    if not any(isinstance(e, SessionStarted) for e in events):
        found.append("The start of the session is missing: its folder and model are unknown.")
    if not any(isinstance(e, PromptAdded) and e.agent == "main" for e in events):
        found.append("It holds no prompt: there is nothing to go on with.")
    found += _unpaired(events)
    found += [f"A child was cut off: {child.line}." for child in interrupted(events)]
    found += _foreign(events)
    return found


def _unpaired(events: Sequence[Event]) -> list[str]:
    calls: dict[tuple[str, str], str] = {}
    orphans = 0
    for event in events:
        if isinstance(event, ReplyAdded):
            calls.update(((event.agent, b.id), b.name) for b in event.content if isinstance(b, ToolUse))
        elif isinstance(event, ToolEnded):
            orphans += calls.pop((event.agent, event.tool_use_id), None) is None
    found = []
    if calls:
        names = ", ".join(sorted(set(calls.values())))
        found.append(f"{len(calls)} tool calls ({names}) have no result: the model is told that they were interrupted.")
    if orphans:
        found.append(f"{orphans} results belong to a reply that is missing: the model does not see them.")
    return found


def _foreign(events: Sequence[Event]) -> list[str]:
    models = {
        b.model
        for e in events
        if isinstance(e, ReplyAdded) and e.agent == "main"
        for b in e.content
        if isinstance(b, Thinking)
    }
    if len(models) < 2:
        return []
    return [f"It holds reasoning of {len(models)} models: each is only shown its own."]
