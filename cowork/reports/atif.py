"""A session as a trajectory in ATIF, the Agent Trajectory Interchange Format (1.8), with its children embedded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from cowork.core.blocks import Json, Text, Thinking, ToolUse
from cowork.core.events import AgentStarted, ContextCompacted, Event, PromptAdded, ReplyAdded, SessionStarted
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
        metrics = [step["metrics"] for step in steps if "metrics" in step]
        names = ("prompt_tokens", "completion_tokens", "cached_tokens")
        totals = {f"total_{name}": sum(row[name] for row in metrics) for name in names}
        cost = _drop_empty(total_cost_usd=self.spent[path].cost_usd)  # with that of its children
        children = self._children.get(path, {})
        return {
            "schema_version": VERSION,
            "session_id": self._session,
            "trajectory_id": f"{self._session}/{path}",
            "agent": self._agent(started),
            "steps": steps,
            "final_metrics": {**totals, "total_steps": len(steps), **cost},
        } | _drop_empty(
            notes="" if kept or not started else "The conversation of this agent was not kept.",
            subagent_trajectories=[self.trajectory(child, first) for child, first in children.items()],
        )

    def _agent(self, started: AgentStarted | None) -> Json:
        about = self._about
        model = (started.model_id or started.model) if started else about.model
        names = ("subagent_type", "description", "depth") if started else ("provider", "cwd", "branch", "mode")
        extra = {name: getattr(started or about, name) for name in names}
        if started:
            extra["status"] = self.end_of(started.agent)
        return {
            "name": "cowork",
            "version": about.version or "unknown",
            **_drop_empty(model_name=model),
            "extra": extra,
        }

    def _step(self, event: Event) -> Json | None:
        match event:
            case PromptAdded():
                source = "system" if event.source == "system" else "user"  # who else speaks to a model is its user
                extra = _drop_empty(context=event.context, prompt_source=event.source, images=len(event.images) or None)
                step: Json = {"source": source, "message": event.text, "extra": extra}
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
        results = [self._result(event.agent, call) for call in calls if (event.agent, call.id) in self.results]
        return {
            "source": "agent",
            "message": "".join(b.text for b in event.content if isinstance(b, Text)),
            "metrics": {
                "prompt_tokens": event.usage.prompt_tokens,
                "completion_tokens": event.usage.output_tokens,
                "cached_tokens": event.usage.cache_read_tokens,
                **_drop_empty(cost_usd=event.cost_usd),
            },
            "llm_call_count": 1,
            "extra": {"stop_reason": event.stop_reason, "duration_ms": event.duration_ms},
        } | _drop_empty(
            model_name=event.model,
            reasoning_content="\n\n".join(b.text for b in event.content if isinstance(b, Thinking) and b.text),
            tool_calls=[{"tool_call_id": c.id, "function_name": c.name, "arguments": c.input} for c in calls],
            observation={"results": results} if results else None,
        )

    def _result(self, agent: str, call: ToolUse) -> Json:
        record = self.results[agent, call.id].record
        sent = [path for path, first in self._children.get(agent, {}).items() if first.tool_use_id == call.id]
        refs = [{"trajectory_id": f"{self._session}/{path}", "session_id": self._session} for path in sent]
        out = {"source_call_id": call.id, "content": str(record.get("text", ""))}
        return {**out, "extra": {"status": record.get("status", "")}, **_drop_empty(subagent_trajectory_ref=refs)}


def _drop_empty(**fields: Any) -> Json:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
