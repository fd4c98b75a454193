"""Events as spans and metrics by the GenAI conventions of OpenTelemetry.

An answer is a span `invoke_agent main`, a request of a model `chat`, a call `execute_tool`; a child is a span
`invoke_agent` under the call that sent it out. What was said stays out unless the settings ask for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from cowork import __version__
from cowork.core.blocks import Json, Text, Usage, blocks_to_list
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    Event,
    Notice,
    PromptAdded,
    QuestionAnswered,
    QuestionAsked,
    ReplyAdded,
    RetryScheduled,
    SessionStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)

MAIN = "main"
_PROVIDERS = {"openai-chat": "openai"}
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300, 900)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_Facts = dict[str, str | int | float | bool | list[str]]


@dataclass
class _Work:
    """An agent or a call at work."""

    span: Span
    started: float
    usage: Usage
    cost: float = 0.0

    @property
    def context(self) -> Context:
        return trace.set_span_in_context(self.span)


class SpanSink:
    """Takes every event in order; what it opened it also ends, at the latest in `close`."""

    def __init__(
        self, tracers: TracerProvider, meters: MeterProvider, environ: Mapping[str, str], *, content: bool = False
    ) -> None:
        self._tracer = tracers.get_tracer("cowork", __version__)
        self._content = content
        carrier = {name.lower(): environ[name] for name in ("TRACEPARENT", "TRACESTATE") if environ.get(name)}
        self._above = TraceContextTextMapPropagator().extract(carrier, Context())
        self._agents: dict[str, _Work] = {}
        self._calls: dict[tuple[str, str], _Work] = {}
        self._names: dict[str, str] = {}  # agent path -> kind of agent
        self._asked: dict[str, float] = {}
        self._provider = ""
        self._last = 0.0
        meter = meters.get_meter("cowork", __version__)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens of a request", explicit_bucket_boundaries_advisory=_TOKENS
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "Duration", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._waits = meter.create_histogram(
            "cowork.approval.duration", "s", "Waiting for a person", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._cost = meter.create_counter("cowork.cost", "{USD}", "Money spent on requests")

    def __call__(self, event: Event) -> None:
        self._last = max(self._last, event.at)
        match event:
            case SessionStarted():
                self._provider = _PROVIDERS.get(event.provider, event.provider)
            case PromptAdded(agent="main"):
                self._prompt(event)
            case AgentStarted():
                self._child(event)
            case ReplyAdded():
                self._request(event)
            case ToolStarted():
                self._call(event)
            case ToolEnded():
                self._call_ended(event)
            case AgentEnded():
                self._agent_ended(event, event.status, "" if event.status == "completed" else event.status)
            case TurnEnded(agent="main"):
                failed = "" if event.reason == "completed" else str(event.error.get("code") or event.reason)
                self._cut_off(event, event.cut_off)
                self._agent_ended(event, event.reason, failed)
            case Notice(code="request.cut_off"):
                self._cut_off(event, event.data)
            case RetryScheduled() | ContextCompacted() | QuestionAsked() | QuestionAnswered() | Notice():
                self._aside(event)

    def traceparent(self, agent: str, tool_use_id: str) -> dict[str, str]:
        """The variables that tell a command which call it belongs to."""
        work = self._calls.get((agent, tool_use_id)) or self._agents.get(agent)
        carrier: dict[str, str] = {}
        if work:
            TraceContextTextMapPropagator().inject(carrier, work.context)
        return {name.upper(): value for name, value in carrier.items()}

    def close(self) -> None:
        """End what is still open: it was interrupted."""
        for work in (*self._calls.values(), *reversed(self._agents.values())):
            _end(work.span, self._last, "interrupted")
        self._calls.clear()
        self._agents.clear()

    def _prompt(self, event: PromptAdded) -> None:
        if MAIN in self._agents:  # it joins the answer that is under way
            self._agents[MAIN].span.add_event("cowork.prompt", {"cowork.prompt.source": event.source}, _ns(event.at))
            return
        facts = self._agent_facts(event, MAIN, MAIN)
        if self._content:
            facts["gen_ai.input.messages"] = _messages("user", [{"type": "text", "content": event.text}])
        self._open_agent(MAIN, MAIN, event.at, self._above, facts)

    def _child(self, event: AgentStarted) -> None:
        above = self._calls.get((event.parent, event.tool_use_id)) or self._agents.get(event.parent)
        facts = self._agent_facts(event, event.subagent_type, event.subagent_id)
        facts["cowork.agent.depth"] = event.depth
        if event.model_id:
            facts["gen_ai.request.model"] = event.model_id
        if self._content:
            facts["gen_ai.agent.description"] = event.description
            facts["gen_ai.input.messages"] = _messages("user", [{"type": "text", "content": event.prompt}])
        self._names[event.agent] = event.subagent_type
        self._open_agent(event.agent, event.subagent_type, event.at, above.context if above else self._above, facts)

    def _open_agent(self, path: str, name: str, at: float, above: Context, facts: _Facts) -> None:
        if earlier := self._agents.pop(path, None):
            _end(earlier.span, at, "interrupted")
        span = self._tracer.start_span(f"invoke_agent {name}", above, SpanKind.INTERNAL, facts, start_time=_ns(at))
        self._agents[path] = _Work(span, at, Usage())

    def _agent_facts(self, event: Event, name: str, agent_id: str) -> _Facts:
        facts = self._facts("invoke_agent")
        return facts | {
            "gen_ai.agent.name": name,
            "gen_ai.agent.id": agent_id,
            "gen_ai.conversation.id": event.session_id,
        }

    def _facts(self, operation: str) -> _Facts:
        facts: _Facts = {"gen_ai.operation.name": operation}
        return facts | {"gen_ai.provider.name": self._provider} if self._provider else facts

    def _request(self, event: ReplyAdded) -> None:
        work = self._agents.get(event.agent)
        facts = self._facts("chat") | {"gen_ai.request.model": event.model}
        seen = _usage_facts(event.usage) | {
            "gen_ai.response.model": event.model,
            "gen_ai.response.finish_reasons": [event.stop_reason],
            "gen_ai.conversation.id": event.session_id,
        }
        if event.cost_usd is not None:
            seen["cowork.cost_usd"] = event.cost_usd
        if self._content:
            seen["gen_ai.output.messages"] = _messages("assistant", _parts(event))
        start = event.at - event.duration_ms / 1000
        above = work.context if work else self._above
        span = self._tracer.start_span(
            f"chat {event.model}", above, SpanKind.CLIENT, facts | seen, start_time=_ns(start)
        )
        span.end(_ns(event.at))
        self._seconds.record(event.duration_ms / 1000, facts)
        self._count(event.agent, facts, event.usage, event.cost_usd)

    def _count(self, agent: str, facts: _Facts, usage: Usage, cost: float | None) -> None:
        for kind, count in (("input", usage.prompt_tokens), ("output", usage.output_tokens)):
            self._tokens.record(count, facts | {"gen_ai.token.type": kind})
        if cost:
            self._cost.add(cost, facts | {"gen_ai.agent.name": self._names.get(agent, MAIN)})
        if work := self._agents.get(agent):
            work.usage, work.cost = work.usage + usage, work.cost + (cost or 0.0)

    def _call(self, event: ToolStarted) -> None:
        facts: _Facts = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": event.tool_use_id,
        }
        if self._content:
            facts["gen_ai.tool.call.arguments"] = json.dumps(event.input, default=str)
        work = self._agents.get(event.agent)
        above, name = work.context if work else self._above, f"execute_tool {event.name}"
        span = self._tracer.start_span(name, above, SpanKind.INTERNAL, facts, start_time=_ns(event.at))
        self._calls[event.agent, event.tool_use_id] = _Work(span, event.at, Usage())

    def _call_ended(self, event: ToolEnded) -> None:
        work = self._calls.pop((event.agent, event.tool_use_id), None)
        if work is None:
            return
        error = event.record.get("error")
        failed = str(error.get("code", "error")) if isinstance(error, dict) else ""
        if self._content:
            work.span.set_attribute("gen_ai.tool.call.result", str(event.record.get("text", "")))
        _end(work.span, event.at, failed)
        facts: _Facts = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.name}
        self._seconds.record(max(0.0, event.at - work.started), facts | ({"error.type": failed} if failed else {}))

    def _agent_ended(self, event: Event, status: str, failed: str) -> None:
        work = self._agents.pop(event.agent, None)
        if work is None:
            return
        work.span.set_attributes(_usage_facts(work.usage) | {"cowork.status": status, "cowork.cost_usd": work.cost})
        _end(work.span, event.at, failed)
        facts = self._facts("invoke_agent") | {"gen_ai.agent.name": self._names.get(event.agent, MAIN)}
        self._seconds.record(max(0.0, event.at - work.started), facts | ({"error.type": failed} if failed else {}))

    def _cut_off(self, event: Event, lost: Json) -> None:
        """Count a request that was paid for and gave no reply."""
        if isinstance(usage := lost.get("usage"), dict):
            facts = self._facts("chat") | {"gen_ai.request.model": str(lost.get("model", "")), "error.type": "cut_off"}
            self._count(event.agent, facts, Usage.from_dict(usage), lost.get("cost_usd"))

    def _aside(self, event: Event) -> None:
        """What is no work of its own: a moment in the span of the agent, or money without a reply."""
        facts: _Facts = {}
        match event:
            case RetryScheduled():
                facts = {"error.type": event.kind, "cowork.retry.attempt": event.attempt}
                self._count(event.agent, self._facts("chat") | {"error.type": event.kind}, event.usage, event.cost_usd)
            case ContextCompacted():
                facts = {"cowork.tokens.before": event.tokens_before, "cowork.tokens.after": event.tokens_after}
                if event.usage.total:
                    self._count(event.agent, self._facts("chat"), event.usage, event.cost_usd)
            case QuestionAsked():
                self._asked[event.question_id] = event.at
                facts = {"cowork.question.tool": str(event.question.get("tool", ""))}
            case QuestionAnswered():
                self._waits.record(max(0.0, event.at - self._asked.pop(event.question_id, event.at)))
                facts = {"cowork.question.choice": event.choice}
            case Notice(level="error" | "warning"):
                facts = {"cowork.notice.code": event.code}
            case _:
                return
        if work := self._agents.get(event.agent):
            work.span.add_event(f"cowork.{event.type}", facts, _ns(event.at))


def _end(span: Span, at: float, failed: str) -> None:
    if failed:
        span.set_attribute("error.type", failed)
        span.set_status(Status(StatusCode.ERROR, failed))
    span.end(_ns(at))


def _usage_facts(usage: Usage) -> _Facts:
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }


def _parts(event: ReplyAdded) -> list[Json]:
    parts: list[Json] = []
    for block, raw in zip(event.content, blocks_to_list(event.content), strict=True):
        if isinstance(block, Text):
            parts.append({"type": "text", "content": block.text})
        elif raw["type"] == "tool_use":
            parts.append({"type": "tool_call", "id": raw["id"], "name": raw["name"], "arguments": raw["input"]})
    return parts


def _messages(role: str, parts: list[Json]) -> str:
    return json.dumps([{"role": role, "parts": parts}], default=str)


def _ns(seconds: float) -> int:
    return round(seconds * 1_000) * 1_000_000
