"""The rows people choose from in the chat: sessions, prompts to go back to, models, modes, agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from cowork.agents import Agents
from cowork.app.chat import pages
from cowork.app.onboarding import setup
from cowork.app.run import Run
from cowork.core import format
from cowork.core.events import PromptAdded
from cowork.core.modes import ABOUT
from cowork.frontends.host import Row
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.sessions.checkpoints.rewind import RewindPlan
from cowork.sessions.index import SessionEntry
from cowork.sessions.log.resume_reader import read_to_resume
from cowork.sessions.log.writer import LOG

FOUND = "found:"  # before the number of a model that `/model` found


def session_rows(entries: Sequence[SessionEntry], sessions: Path) -> list[Row]:
    """Sessions with their last words as preview."""
    now = time.time()

    def row(entry: SessionEntry) -> Row:
        facts = [pages.ago(now - entry.last_used), format.plural(entry.turns, "turn"),
                 format.money(entry.cost_usd, "unknown"), entry.id]  # fmt: skip
        return Row(entry.id, entry.title or "(no prompt)", " · ".join(facts), _in_thread(lambda: preview(entry.id)))

    def preview(session_id: str) -> str:
        return pages.session_preview(read_to_resume(sessions / session_id / LOG).events)

    return [row(entry) for entry in entries]


def prompt_rows(points: Sequence[PromptAdded], checkpoints: Checkpoints | None) -> list[Row]:
    """Prompts with what going back would do to files."""
    now = time.time()

    def row(number: int, point: PromptAdded) -> Row:
        found = _in_thread(lambda: pages.plan_list(checkpoints.preview(point.id))) if checkpoints else ""
        return Row(str(number), pages.title(point), pages.ago(now - point.at), found or _UNCOVERED)

    return [row(number, point) for number, point in enumerate(points, 1)]


_UNCOVERED = "Files are not covered: checkpoints are off."


def rewind_rows(plan: RewindPlan | None) -> list[Row]:
    """What may go back. Files that others changed since are only overwritten when that is chosen."""
    chat = Row("chat", "Only the conversation", preview="Files stay as they are.")
    if plan is None or not plan.files:
        return [chat]
    files = pages.plan_list(plan)
    rows = [
        Row("both", "Conversation and files", format.plural(len(plan.files), "file"), files),
        chat,
        Row("files", "Only the files", format.plural(len(plan.files), "file"), files),
    ]
    if plan.conflicts:
        outside = "\n".join(f"- `{step.path}`" for step in plan.conflicts)
        about = f"Also what changed outside of cowork since (a copy is kept):\n\n{outside}"
        rows.append(Row("both force", "Both, overwriting what others changed", "", about))
    return rows


def model_rows(run: Run, found: Sequence[setup.FoundService]) -> list[Row]:
    """The two models of the settings, then what answers on this machine or has a key."""
    now = run.agent.provider.model
    main, light = run.config.models.main, run.config.models.light
    rows = [Row("main", main.model or main.provider, f"main · {main.provider}", _now(main.model == now))]
    if run.config.has_light and run.light_is_another():
        rows.append(Row("light", light.model or light.provider, f"light · {light.provider}", _now(light.model == now)))
    known = {row.label for row in rows}
    for number, (service, name) in enumerate(setup.choices(found), 1):
        if name not in known:
            rows.append(Row(f"{FOUND}{number}", name, service.name, service.line))
    return rows


def mode_rows(now: str) -> list[Row]:
    return [Row(mode, mode, "now" if mode == now else "", about) for mode, about in ABOUT.items()]


def agent_rows(agents: Agents) -> list[Row]:
    """Agents, then what is wrong with agent files."""
    rows = [Row(a.name, a.name, a.description, pages.agent_page(a)) for a in agents.values()]
    return [*rows, *(Row(f"! {n}", f"! {p}", preview=str(p)) for n, p in enumerate(agents.problems, 1))]


def _now(is_now: bool) -> str:
    return "This chat runs on it." if is_now else "From the settings."


def _in_thread(work: Callable[[], str]) -> Callable[[], Awaitable[str]]:
    """Found when it is looked at, without holding up the keys."""

    async def find() -> str:
        return await asyncio.to_thread(work)

    return find
