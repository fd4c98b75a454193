"""A session as a trajectory in ATIF, the Agent Trajectory Interchange Format (1.8), with its children embedded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from cowork.core.blocks import Json, Text, Thinking, ToolUse
from cowork.core.events import AgentStarted, ContextCompacted, Event, PromptAdded, ReplyAdded, SessionStarted
from cowork.sessions.cost import Spending
from cowork.sessions.export import MAIN, Story

VERSION = "ATIF-v1.8"


def trajectory(events: Sequence[Event]) -> Json:
    """The whole session; what was rewound is left out, but what it cost is counted."""
    return _AtifWriter(events).trajectory(MAIN)


class _AtifWriter(Story):
    def __init__(self, events: Sequence[Event]) -> None:
        super().__init__(events)
        self._session = events[-1].session_id if events else ""
        self._about = next((e for e in reversed(self.events) if isinstance(e, SessionStarted)), SessionStarted())
        self._children: dict[str, dict[str, AgentStarted]] = {}  # parent -> path -> its first start
        for start in self.starts:
            self._children.setdefault(start.parent, {}).setdefault(start.agent, start)

    def trajectory(self, path: str, started: AgentStarted | None = None) -> Json:
        kept = [step for event in self.events if event.agent == path and (step := self._step(event))]
        steps = kept or [{"source": "user", "message": started.prompt if started else ""}]  # there must be one
        for number, step in enumerate(steps, 1):
            step["step_id"] = number
        out: Json = {
            "schema_version": VERSION,
            "session_id": self._session,
            "trajectory_id": f"{self._session}/{path}",
            "agent": self._agent(started),
            "steps": steps,
            "final_metrics": _final(self.spent[path], steps),
        }
        if not kept and started:
            out["notes"] = "The conversation of this agent was not kept."
        if children := self._children.get(path):
            out["subagent_trajectories"] = [self.trajectory(child, first) for child, first in children.items()]
        return out

    def _agent(self, started: AgentStarted | None) -> Json:
        about = self._about
        agent: Json = {"name": "cowork", "version": about.version or "unknown"}
        if model := (started.model_id or started.model) if started else about.model:
            agent["model_name"] = model
        names = ("subagent_type", "description", "depth") if started else ("provider", "cwd", "branch", "mode")
        agent["extra"] = {name: getattr(started or about, name) for name in names}
        if started:
            agent["extra"]["status"] = self.end_of(started.agent)
        return agent

    def _step(self, event: Event) -> Json | None:
        match event:
            case PromptAdded():
                source = "system" if event.source == "system" else "user"  # who else speaks to a model is its user
                extra = {"context": event.context, "prompt_source": event.source, "images": len(event.images)}
                known = {name: value for name, value in extra.items() if value}
                step: Json = {"source": source, "message": event.text, "extra": known}
            case ContextCompacted(summary=summary) if summary:
                extra = {"compaction": event.trigger, "tokens_before": event.tokens_before}
                step = {"source": "system", "message": summary, "extra": extra}
            case ReplyAdded():
                step = self._reply(event)
            case _:
                return None
        return {"timestamp": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds"), **step}

    def _reply(self, event: ReplyAdded) -> Json:
        calls = [block for block in event.content if isinstance(block, ToolUse)]
        thought = "\n\n".join(b.text for b in event.content if isinstance(b, Thinking) and b.text)
        step: Json = {
            "source": "agent",
            "message": "".join(b.text for b in event.content if isinstance(b, Text)),
            "metrics": _metrics(event),
            "llm_call_count": 1,
            "extra": {"stop_reason": event.stop_reason, "duration_ms": event.duration_ms},
        }
        if event.model:
            step["model_name"] = event.model
        if thought:
            step["reasoning_content"] = thought
        if calls:
            step["tool_calls"] = [
                {"tool_call_id": call.id, "function_name": call.name, "arguments": call.input} for call in calls
            ]
        if results := [self._result(event.agent, call) for call in calls if (event.agent, call.id) in self.results]:
            step["observation"] = {"results": results}
        return step

    def _result(self, agent: str, call: ToolUse) -> Json:
        record = self.results[agent, call.id].record
        extra = {"status": record.get("status", "")}
        out: Json = {"source_call_id": call.id, "content": str(record.get("text", "")), "extra": extra}
        sent = [path for path, first in self._children.get(agent, {}).items() if first.tool_use_id == call.id]
        if sent:
            out["subagent_trajectory_ref"] = [
                {"trajectory_id": f"{self._session}/{path}", "session_id": self._session} for path in sent
            ]
        return out


def _metrics(event: ReplyAdded) -> Json:
    usage = event.usage
    metrics: Json = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
    }
    return metrics if event.cost_usd is None else metrics | {"cost_usd": event.cost_usd}


def _final(spent: Spending, steps: Sequence[Json]) -> Json:
    """Tokens of its own steps, and the cost with that of its children."""
    rows = [step["metrics"] for step in steps if "metrics" in step]
    names = ("prompt_tokens", "completion_tokens", "cached_tokens")
    final: Json = {f"total_{name}": sum(row[name] for row in rows) for name in names}
    final["total_steps"] = len(steps)
    return final if spent.cost_usd is None else final | {"total_cost_usd": spent.cost_usd}
