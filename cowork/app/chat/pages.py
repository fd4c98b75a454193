"""What people are shown of a run as Markdown: cost, context, agents, tools, changes. Pure functions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from cowork.core import format
from cowork.core.blocks import Image, Text, ToolResult, ToolUse
from cowork.core.events import Event, PromptAdded, ReplyAdded
from cowork.core.ports import AgentDef
from cowork.core.transcript import fold
from cowork.engine.loop import Agent
from cowork.frontends.host import ContextUse
from cowork.sessions.checkpoints.rewind import RewindPlan, RewindStep
from cowork.sessions.cost import Spending
from cowork.sessions.resume_state import rewind_points, surviving
from cowork.sessions.summary import Summary
from cowork.sessions.tasks import TaskRow, figures

_PROMPTS_SHOWN = 3
_ANSWER_SHOWN = 800  # characters


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as a Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)])


def ago(seconds: float) -> str:
    """How long ago, in one unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def title(prompt: PromptAdded) -> str:
    """A prompt in one short line."""
    words = " ".join((prompt.label or prompt.text).split())
    return words if len(words) <= 70 else words[:69] + "…"


def first_sentence(text: str, most: int = 100) -> str:
    """What a text says first; a long sentence ends at a word."""
    sentence = re.split(r"(?<=[.;:])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(";:")
    return sentence if len(sentence) <= most else sentence[:most].rpartition(" ")[0] + " …"


def session_preview(events: Sequence[Event]) -> str:
    """The last prompts of a session and the start of its last answer."""
    prompts = rewind_points(fold(events))[-_PROMPTS_SHOWN:]
    lines = [f"**❯** {title(prompt)}" for prompt in prompts]
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
    spent = summary.spent

    def rows(parts: Mapping[str, Spending]) -> list[tuple[str, str, str, str, str]]:
        return [
            (
                name,
                f"{s.usage.prompt_tokens:,}",
                f"{s.usage.output_tokens:,}",
                f"{s.usage.cache_read_tokens:,}",
                format.money(s.cost_usd, "unknown"),
            )
            for name, s in parts.items()
        ]

    def by(kind: str) -> Mapping[str, Spending]:
        sums: dict[str, Spending] = {}
        for part in summary.parts():
            name = getattr(part, kind)
            sums[name] = sums.get(name, Spending()) + part.spent
        return sums

    head = ("input", "output", "from cache", "cost")
    return "\n\n".join(
        [
            f"**{format.money(spent.cost_usd, 'unknown')}** · {spent.usage.total:,} tokens",
            table(("agent", *head), rows(by("kind"))),
            table(("model", *head), rows(by("model"))),
            *_tasks_tables(summary.tasks),
        ]
    )


def _tasks_tables(tasks: Iterable[TaskRow]) -> list[str]:
    """Tasks of the session by agent type and by model, where there are any."""
    head = ("tasks", "failed", "a task", "mean", "p50", "p95", "max", "prompt tokens a task")
    found = []
    for name, key in (("tasks by agent", "subagent_type"), ("tasks by model", "model")):
        groups: dict[str, list[TaskRow]] = {}
        for row in tasks:
            groups.setdefault(getattr(row, key), []).append(row)
        if groups:
            found.append(table((name, *head), [(kind, *_figures(rows)) for kind, rows in groups.items()]))
    return found


def _figures(rows: Sequence[TaskRow]) -> list[str]:
    of = figures(rows)
    times = [of.mean_s, of.p50_s, of.p95_s, of.max_s]
    return [
        str(of.tasks),
        f"{of.failure_rate or 0:.0%}",
        format.money(of.cost_per_task, "unknown"),
        *("" if seconds is None else format.duration(seconds) for seconds in times),
        f"{of.prompt_tokens_per_task or 0:,}",
    ]


def context_use(agent: Agent) -> ContextUse:
    """What fills the window, by estimate, beside what the service last counted."""
    window = agent.provider.context_window
    parts = Counter({"system prompt": len(agent.system), "tools": 0})
    for spec in agent.specs:
        key = f"MCP server {spec.name.split('__')[1]}" if spec.name.startswith("mcp__") else "tools"
        parts[key] += len(spec.description) + len(json.dumps(spec.schema))
    messages = agent.transcript.messages()
    names = {call.id: call.name for message in messages for call in message.calls}
    for message in messages:
        for block in message.content:
            match block:
                case Text(text):
                    parts["your messages" if message.role == "user" else "answers"] += len(text)
                case ToolUse(input=given):
                    parts["calls"] += len(json.dumps(given))
                case ToolResult(tool_use_id=id, content=content):
                    size = len(content) if isinstance(content, str) else sum(map(_size, content))
                    parts[f"results of {names.get(id, '?')}"] += size
                case Image():
                    parts["images"] += _size(block)
    return ContextUse([(name, size // 4) for name, size in parts.items()], agent.context_tokens, window)


def agent_page(agent: AgentDef) -> str:
    """One agent: what for, with what, and its role."""
    tools = ", ".join(agent.tools) if agent.tools is not None else "all but Task"
    without = f" · not {', '.join(agent.disallowed_tools)}" if agent.disallowed_tools else ""
    limits = f" · at most {format.plural(agent.max_turns, 'turn')}" if agent.max_turns else ""
    facts = f"tools: {tools}{without}  \nmodel: {agent.model}{limits} · {agent.origin}"
    return f"**{agent.name}**: {' '.join(agent.description.split())}\n\n{facts}\n\n{agent.role.strip()}"


def plan_list(plan: RewindPlan) -> str:
    """What a rewind would do to files, a line each."""
    if not plan.files:
        return "No files would change."
    return "\n".join(map(_step_line, plan.files))


def _step_line(step: RewindStep) -> str:
    action = {"create": "brings back", "modify": "restores", "delete": "removes"}.get(step.action, step.action)
    counts = "" if step.added is None else f" +{step.added} −{step.removed}"
    remark = step.problem or ("changed outside since: kept" if step.conflict else "")
    return f"- {action} `{step.path}`{counts}" + (f" ({remark})" if remark else "")


def _size(block: Text | Image) -> int:
    return len(block.text) if isinstance(block, Text) else 6_000
