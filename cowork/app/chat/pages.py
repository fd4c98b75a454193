"""What people are shown of a run: pages of Markdown, the rows they choose from, and diffs. Mostly pure functions."""

from __future__ import annotations

import asyncio
import difflib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from cowork.agents import Agents
from cowork.app.onboarding import setup
from cowork.app.run import Run
from cowork.core import format
from cowork.core.blocks import Image, Text, Thinking, ToolResult, ToolUse, estimate_tokens
from cowork.core.events import Event, PromptAdded, ReplyAdded
from cowork.core.ports import AgentDef
from cowork.core.transcript import fold
from cowork.core.workspace import Workspace
from cowork.engine.loop import Agent
from cowork.frontends.host import ContextUse, FileChange, Row
from cowork.sessions.checkpoints.entries import read_bytes
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.sessions.checkpoints.rewind import RewindPlan, RewindStep
from cowork.sessions.cost import TaskRow, add_up, figures
from cowork.sessions.index import SessionEntry, Summary
from cowork.sessions.log.resume_reader import read_to_resume
from cowork.sessions.log.writer import LOG
from cowork.sessions.resume_state import rewind_points, surviving

_PROMPTS_SHOWN = 3
_ANSWER_SHOWN = 800  # characters
_MOST_LINES = 4_000  # comparing longer files takes too long for what it shows


def ago(seconds: float) -> str:
    """How long ago, in one unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def title(prompt: PromptAdded) -> str:
    """A prompt in one short line."""
    return format.one_line(" ".join((prompt.label or prompt.text).split()), 70)


def session_preview(events: Sequence[Event]) -> str:
    """The last prompts of a session and the start of its last answer."""
    lines = [f"**❯** {title(prompt)}" for prompt in rewind_points(fold(events))[-_PROMPTS_SHOWN:]]
    answers = (
        "".join(b.text for b in e.content if isinstance(b, Text)).strip()
        for e in reversed(surviving(events))
        if isinstance(e, ReplyAdded) and e.agent == "main"
    )
    answer = next((text for text in answers if text), "")
    if len(answer) > _ANSWER_SHOWN:
        answer = answer[:_ANSWER_SHOWN].rstrip() + " …"
    return "  \n".join(lines) + (f"\n\n{answer}" if answer else "")


def cost_page(summary: Summary) -> str:
    """Cost of a session by agent type and by model; the whole is the sum, children and retries counted in."""
    found = [f"**{format.money(summary.spent.cost_usd, 'unknown')}** · {summary.spent.usage.total:,} tokens"]
    for name, key in (("agent", "kind"), ("model", "model")):
        sums = add_up((getattr(part, key), spent) for part, spent in summary.slices.items())
        rows = []
        for of, spent in sums.items():
            counts = (spent.usage.prompt_tokens, spent.usage.output_tokens, spent.usage.cache_read_tokens)
            rows.append((of, *(f"{count:,}" for count in counts), format.money(spent.cost_usd, "unknown")))
        found.append(format.table((name, "input", "output", "from cache", "cost"), rows))
    head = ("tasks", "failed", "a task", "mean", "p50", "p95", "max", "prompt tokens a task")
    for name, key in (("tasks by agent", "subagent_type"), ("tasks by model", "model")):
        groups: dict[str, list[TaskRow]] = {}
        for row in summary.tasks:
            groups.setdefault(getattr(row, key), []).append(row)
        if groups:
            found.append(format.table((name, *head), [(of, *_figures(tasks)) for of, tasks in groups.items()]))
    return "\n\n".join(found)


def _figures(rows: Sequence[TaskRow]) -> list[str]:
    of = figures(rows)
    return [
        str(of.tasks),
        f"{of.failure_rate or 0:.0%}",
        format.money(of.cost_per_task, "unknown"),
        *("" if s is None else format.duration(s) for s in (of.mean_s, of.p50_s, of.p95_s, of.max_s)),
        f"{of.prompt_tokens_per_task or 0:,}",
    ]


def context_use(agent: Agent) -> ContextUse:
    """What fills the window, by estimate, beside what the service last counted."""
    parts = Counter({"system prompt": estimate_tokens(Text(agent.system)), "tools": 0})
    for spec in agent.specs:
        key = f"MCP server {spec.name.split('__')[1]}" if spec.name.startswith("mcp__") else "tools"
        parts[key] += estimate_tokens(Text(spec.description + json.dumps(spec.schema)))
    messages = agent.transcript.messages()
    names = {call.id: call.name for message in messages for call in message.calls}
    for message in messages:
        said = "your messages" if message.role == "user" else "answers"
        for block in message.content:
            key = {Text: said, ToolUse: "calls", Image: "images", Thinking: "reasoning"}.get(type(block), "")
            if isinstance(block, ToolResult):
                key = f"results of {names.get(block.tool_use_id, '?')}"
            parts[key] += estimate_tokens(block)
    return ContextUse(list(parts.items()), agent.transcript.tokens, agent.provider.context_window)


def agent_page(agent: AgentDef) -> str:
    """One agent: what for, with what, and its role."""
    tools = ", ".join(agent.tools) if agent.tools is not None else "all but Task"
    without = f" · not {', '.join(agent.disallowed_tools)}" if agent.disallowed_tools else ""
    limits = f" · at most {format.plural(agent.max_turns, 'turn')}" if agent.max_turns else ""
    facts = f"tools: {tools}{without}  \nmodel: {agent.model}{limits} · {agent.origin}"
    return f"**{agent.name}**: {' '.join(agent.description.split())}\n\n{facts}\n\n{agent.role.strip()}"


def agent_rows(agents: Agents) -> list[Row]:
    """Agents, then what is wrong with agent files."""
    rows = [Row(a.name, a.name, a.description, agent_page(a)) for a in agents.values()]
    return [*rows, *(Row(f"! {n}", f"! {p}", preview=str(p)) for n, p in enumerate(agents.problems, 1))]


def session_rows(entries: Sequence[SessionEntry], sessions: Path) -> list[Row]:
    """Sessions with their last words as preview."""
    now = time.time()

    def row(entry: SessionEntry) -> Row:
        facts = [ago(now - entry.last_used), format.plural(entry.turns, "turn"),
                 format.money(entry.cost_usd, "unknown"), entry.id]  # fmt: skip
        return Row(entry.id, entry.title or "(no prompt)", " · ".join(facts), lambda: asyncio.to_thread(look, entry.id))

    def look(session_id: str) -> str:
        return session_preview(read_to_resume(sessions / session_id / LOG).events)

    return [row(entry) for entry in entries]


def model_rows(run: Run, found: Sequence[setup.FoundService]) -> list[Row]:
    """The two models of the settings, then what answers on this machine or has a key."""
    settings = {"main": run.config.models.main} | ({"light": run.config.models.light} if run.has_own_light else {})
    rows = []
    for role, model in settings.items():
        is_now = model.model == run.agent.provider.model
        about = "This chat runs on it." if is_now else "From the settings."
        rows.append(Row(role, model.model or model.provider, f"{role} · {model.provider}", about))
    known = {row.label for row in rows}
    for number, (service, name) in enumerate(setup.choices(found), 1):
        if name not in known:
            rows.append(Row(str(number), name, service.name, service.line))
    return rows


def prompt_rows(points: Sequence[PromptAdded], checkpoints: Checkpoints | None) -> list[Row]:
    """Prompts with what going back would do to files."""
    now = time.time()

    def look(point: PromptAdded) -> str | Callable[[], Awaitable[str]]:
        if checkpoints is None:
            return "Files are not covered: checkpoints are off."
        return lambda: asyncio.to_thread(lambda: plan_list(checkpoints.preview(point.id)))

    return [Row(str(n), title(point), ago(now - point.at), look(point)) for n, point in enumerate(points, 1)]


def rewind_rows(plan: RewindPlan | None) -> list[Row]:
    """What may go back. Files that others changed since are only overwritten when that is chosen."""
    chat = Row("chat", "Only the conversation", preview="Files stay as they are.")
    if plan is None or not plan.files:
        return [chat]
    count, files = format.plural(sum(not step.conflict for step in plan.files), "file"), plan_list(plan)
    rows = [Row("both", "Conversation and files", count, files), chat, Row("files", "Only the files", count, files)]
    if plan.conflicts:
        outside = "\n".join(f"- `{step.path}`" for step in plan.conflicts)
        about = f"Also what changed outside of cowork since (a copy is kept):\n\n{outside}"
        rows.append(Row("both force", "Both, overwriting what others changed", "", about))
    return rows


def plan_list(plan: RewindPlan) -> str:
    """What a rewind would do to files, a line each; first what it would not do."""
    steps = sorted(plan.files, key=lambda step: not (step.problem or step.conflict))
    return "\n".join(map(_step_line, steps)) or "No files would change."


def _step_line(step: RewindStep) -> str:
    action = {"create": "brings back", "modify": "restores", "delete": "removes"}.get(step.action, step.action)
    counts = "" if step.added is None else f" +{step.added} −{step.removed}"
    remark = step.problem or ("changed outside since: kept" if step.conflict else "")
    return f"- {action} `{step.path}`{counts}" + (f" ({remark})" if remark else "")


def changes(plan: RewindPlan, checkpoints: Checkpoints, workspace: Workspace) -> list[FileChange]:
    """The way forward from what a rewind would bring back to what is on disk now."""
    return [_change(step, checkpoints.content(step), workspace) for step in plan.files]


def _change(step: RewindStep, old: bytes | None, workspace: Workspace) -> FileChange:
    what = {"create": "deleted", "delete": "new"}.get(step.action, "")
    counts = "" if step.added is None else f"+{step.removed} −{step.added}"
    remark = " ".join(filter(None, (what, counts, "also changed outside" if step.conflict else "")))
    new = read_bytes(workspace, workspace.root / step.path) if step.current and step.current.kind == "f" else b""
    if old is None or new is None or step.added is None:
        return FileChange(step.path, remark=remark or "changed")
    before, after = (data.decode("utf-8", "replace").splitlines() for data in (old, new))
    diff = ""
    if max(len(before), len(after)) <= _MOST_LINES:
        diff = "\n".join(difflib.unified_diff(before, after, f"a/{step.path}", f"b/{step.path}", lineterm=""))
    return FileChange(step.path, diff, remark, edited=step.action == "modify")
