"""OpenTelemetry: events as spans and metrics by the GenAI conventions. Loaded only where the settings ask for it.

An answer is a span `invoke_agent main`, a request of a model `chat`, a call `execute_tool`; a child is a span
`invoke_agent` under the call that sent it out. What was said stays out unless the settings ask for it. Where they go is
said by the standard OTEL_* variables: an OTLP collector over HTTP, or stderr.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk import metrics as sdk_metrics
from opentelemetry.sdk import trace as sdk_trace
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from cowork import __version__
from cowork.core import events
from cowork.core.blocks import Block, Json, Text, ToolUse, Usage
from cowork.core.errors import UserError
from cowork.core.events import Event

MAIN = "main"
FLUSH_S = 3.0  # a collector that does not answer holds up the end of a run no longer
_EXPORTERS = ("otlp", "console", "none")
_PROVIDERS = {"openai-chat": "openai"}
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300, 900)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_Facts = dict[str, str | int | float | bool | list[str]]


class TelemetryExport:
    """Spans and metrics of one run, and their way out."""

    def __init__(self, environ: Mapping[str, str], *, content: bool = False) -> None:
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # else it writes into the chat
        traces, metrics = _exporter_of(environ, "TRACES"), _exporter_of(environ, "METRICS")
        named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        facts = {"service.version": __version__} | ({} if named else {"service.name": "cowork"})
        resource, readers = Resource.create(facts), []
        if metrics != "none":
            exporter = ConsoleMetricExporter(out=sys.stderr) if metrics == "console" else OTLPMetricExporter()
            readers.append(PeriodicExportingMetricReader(exporter))
        self._tracers = sdk_trace.TracerProvider(resource=resource, shutdown_on_exit=False)
        self._meters = sdk_metrics.MeterProvider(readers, resource, shutdown_on_exit=False)
        if traces != "none":
            to = ConsoleSpanExporter(out=sys.stderr) if traces == "console" else OTLPSpanExporter()
            self._tracers.add_span_processor(BatchSpanProcessor(to))
        self.sink = SpanSink(self._tracers, self._meters, environ, content=content)

    def close(self) -> None:
        """End what is open and send what waits, but wait no longer than `FLUSH_S` for whoever takes it."""
        self.sink.close()

        def send() -> None:
            self._tracers.shutdown()
            self._meters.shutdown()

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        sending.join(FLUSH_S)


@dataclass
class _Work:
    """An agent or a call at work."""

    span: Span
    started: float
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0


class SpanSink:
    """Takes every event in order; what it opened it also ends, at the latest in `close`."""

    def __init__(
        self, tracers: TracerProvider, meters: MeterProvider, environ: Mapping[str, str], *, content: bool = False
    ) -> None:
        self._tracer = tracers.get_tracer("cowork", __version__)
        self._content = content
        carrier = {name.lower(): environ[name] for name in ("TRACEPARENT", "TRACESTATE") if environ.get(name)}
        self._above = TraceContextTextMapPropagator().extract(carrier, Context())
        self._work: dict[tuple[str, str], _Work] = {}  # by agent and call; without a call, the agent itself
        self._names: dict[str, str] = {}  # agent path -> kind of agent
        self._asked: dict[str, float] = {}
        self._provider = ""
        self._last = 0.0
        meter = meters.get_meter("cowork", __version__)
        self._tokens, self._seconds, self._waits = (
            meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=bounds)
            for name, unit, about, bounds in (
                ("gen_ai.client.token.usage", "{token}", "Tokens of a request", _TOKENS),
                ("gen_ai.client.operation.duration", "s", "Duration", _SECONDS),
                ("cowork.approval.duration", "s", "Waiting for a person", _SECONDS),
            )
        )
        self._cost = meter.create_counter("cowork.cost", "{USD}", "Money spent on requests")

    def __call__(self, event: Event) -> None:
        self._last = max(self._last, event.at)
        match event:
            case events.SessionStarted():
                self._provider = _PROVIDERS.get(event.provider, event.provider)
            case events.PromptAdded(agent="main") if (MAIN, "") in self._work:  # it joins the answer that is under way
                self._note(event, "cowork.prompt", {"cowork.prompt.source": event.source})
            case events.PromptAdded(agent="main"):
                self._begin_agent(event, MAIN, MAIN, self._above, event.text)
            case events.AgentStarted():
                self._names[event.agent] = event.subagent_type
                above = self._context(event.parent, event.tool_use_id)
                self._begin_agent(event, event.subagent_type, event.subagent_id, above, event.prompt)
            case events.ReplyAdded():
                self._count_request(event)
            case events.ToolStarted():
                self._begin_call(event)
            case events.ToolEnded() if (event.agent, event.tool_use_id) in self._work:
                self._end_call(event)
            case events.AgentEnded():
                self._end_agent(event, event.status, "" if event.status == "completed" else event.status)
            case events.TurnEnded(agent="main"):
                failed = "" if event.reason == "completed" else str(event.error.get("code") or event.reason)
                self._count_lost(event, event.cut_off)
                self._end_agent(event, event.reason, failed)
            case events.Notice(code="request.cut_off"):
                self._count_lost(event, event.data)
            case events.RetryScheduled():
                self._count(event.agent, self._facts("chat") | {"error.type": event.kind}, event.usage, event.cost_usd)
                self._note(event, "", {"error.type": event.kind, "cowork.retry.attempt": event.attempt})
            case events.ContextCompacted():
                if event.usage.total:
                    self._count(event.agent, self._facts("chat"), event.usage, event.cost_usd)
                sizes = {"cowork.tokens.before": event.tokens_before, "cowork.tokens.after": event.tokens_after}
                self._note(event, "", {**sizes})
            case events.QuestionAsked():
                self._asked[event.question_id] = event.at
                self._note(event, "", {"cowork.question.tool": str(event.question.get("tool", ""))})
            case events.QuestionAnswered():
                self._waits.record(max(0.0, event.at - self._asked.pop(event.question_id, event.at)))
                self._note(event, "", {"cowork.question.choice": event.choice})
            case events.Notice(level="error" | "warning"):
                self._note(event, "", {"cowork.notice.code": event.code})

    def traceparent(self, agent: str, tool_use_id: str) -> dict[str, str]:
        """The variables that tell a command which call it belongs to."""
        carrier: dict[str, str] = {}
        if (agent, tool_use_id) in self._work or (agent, "") in self._work:
            TraceContextTextMapPropagator().inject(carrier, self._context(agent, tool_use_id))
        return {name.upper(): value for name, value in carrier.items()}

    def close(self) -> None:
        """End what is still open: it was interrupted."""
        for key in sorted(self._work, key=lambda key: (key[1] != "", key[0].count("/")), reverse=True):
            self._finish(key, self._last, "interrupted")

    def _context(self, agent: str, tool_use_id: str = "") -> Context:
        """What a span of that call stands under: else that of its agent, else what the run was started in."""
        work = self._work.get((agent, tool_use_id)) or self._work.get((agent, ""))
        return trace.set_span_in_context(work.span) if work else self._above

    def _begin(self, key: tuple[str, str], name: str, at: float, above: Context, facts: _Facts) -> None:
        if key in self._work:
            self._finish(key, at, "interrupted")
        span = self._tracer.start_span(name, above, SpanKind.INTERNAL, facts, start_time=_ns(at))
        self._work[key] = _Work(span, at)

    def _finish(self, key: tuple[str, str], at: float, failed: str, facts: _Facts | None = None) -> None:
        """End a span; `facts` are those of its duration, which is measured where it ended by itself."""
        work = self._work.pop(key)
        if failed:
            work.span.set_attribute("error.type", failed)
            work.span.set_status(Status(StatusCode.ERROR, failed))
        work.span.end(_ns(at))
        if facts is not None:
            self._seconds.record(max(0.0, at - work.started), facts | ({"error.type": failed} if failed else {}))

    def _note(self, event: Event, name: str, facts: _Facts) -> None:
        """What is no work of its own: a moment in the span of the agent."""
        if work := self._work.get((event.agent, "")):
            work.span.add_event(name or f"cowork.{event.type}", facts, _ns(event.at))

    def _begin_agent(
        self, event: events.PromptAdded | events.AgentStarted, name: str, agent_id: str, above: Context, prompt: str
    ) -> None:
        facts = self._facts("invoke_agent") | {
            "gen_ai.agent.name": name,
            "gen_ai.agent.id": agent_id,
            "gen_ai.conversation.id": event.session_id,
        }
        if isinstance(event, events.AgentStarted):
            facts["cowork.agent.depth"] = event.depth
            if event.model_id:
                facts["gen_ai.request.model"] = event.model_id
            if self._content:
                facts["gen_ai.agent.description"] = event.description
        if self._content:
            facts["gen_ai.input.messages"] = _message("user", [Text(prompt)])
        self._begin((event.agent, ""), f"invoke_agent {name}", event.at, above, facts)

    def _facts(self, operation: str) -> _Facts:
        facts: _Facts = {"gen_ai.operation.name": operation}
        return facts | {"gen_ai.provider.name": self._provider} if self._provider else facts

    def _count_request(self, event: events.ReplyAdded) -> None:
        facts = self._facts("chat") | {"gen_ai.request.model": event.model}
        seen = _usage_facts(event.usage) | {
            "gen_ai.response.model": event.model,
            "gen_ai.response.finish_reasons": [event.stop_reason],
            "gen_ai.conversation.id": event.session_id,
        }
        if event.cost_usd is not None:
            seen["cowork.cost_usd"] = event.cost_usd
        if self._content:
            seen["gen_ai.output.messages"] = _message("assistant", event.content)
        start = event.at - event.duration_ms / 1000
        above, name = self._context(event.agent), f"chat {event.model}"
        span = self._tracer.start_span(name, above, SpanKind.CLIENT, facts | seen, start_time=_ns(start))
        span.end(_ns(event.at))
        self._seconds.record(event.duration_ms / 1000, facts)
        self._count(event.agent, facts, event.usage, event.cost_usd)

    def _count(self, agent: str, facts: _Facts, usage: Usage, cost: float | None) -> None:
        for kind, count in (("input", usage.prompt_tokens), ("output", usage.output_tokens)):
            self._tokens.record(count, facts | {"gen_ai.token.type": kind})
        if cost:
            self._cost.add(cost, facts | {"gen_ai.agent.name": self._names.get(agent, MAIN)})
        if work := self._work.get((agent, "")):
            work.usage, work.cost = work.usage + usage, work.cost + (cost or 0.0)

    def _begin_call(self, event: events.ToolStarted) -> None:
        facts: _Facts = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": event.tool_use_id,
        }
        if self._content:
            facts["gen_ai.tool.call.arguments"] = json.dumps(event.input, default=str)
        key = (event.agent, event.tool_use_id)
        self._begin(key, f"execute_tool {event.name}", event.at, self._context(event.agent), facts)

    def _end_call(self, event: events.ToolEnded) -> None:
        key = (event.agent, event.tool_use_id)
        error = event.record.get("error")
        failed = str(error.get("code", "error")) if isinstance(error, dict) else ""
        if self._content:
            self._work[key].span.set_attribute("gen_ai.tool.call.result", str(event.record.get("text", "")))
        self._finish(key, event.at, failed, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.name})

    def _end_agent(self, event: Event, status: str, failed: str) -> None:
        if work := self._work.get((event.agent, "")):
            work.span.set_attributes(_usage_facts(work.usage) | {"cowork.status": status, "cowork.cost_usd": work.cost})
            facts = self._facts("invoke_agent") | {"gen_ai.agent.name": self._names.get(event.agent, MAIN)}
            self._finish((event.agent, ""), event.at, failed, facts)

    def _count_lost(self, event: Event, lost: Json) -> None:
        """Count a request that was paid for and gave no reply."""
        if isinstance(usage := lost.get("usage"), dict):
            facts = self._facts("chat") | {"gen_ai.request.model": str(lost.get("model", "")), "error.type": "cut_off"}
            self._count(event.agent, facts, Usage.from_dict(usage), lost.get("cost_usd"))


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Whether the standard variable switches everything off."""
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _exporter_of(environ: Mapping[str, str], signal: str) -> str:
    name = f"OTEL_{signal}_EXPORTER"
    chosen = (environ.get(name) or "otlp").strip().lower()
    if chosen not in _EXPORTERS:
        raise UserError(f"{name}={chosen} is not known here.", f"Use one of {', '.join(_EXPORTERS)}.")
    variables = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    spoken = next((variable for variable in variables if environ.get(variable)), "")
    if chosen == "otlp" and spoken and environ[spoken] != "http/protobuf":
        raise UserError(f"{spoken}={environ[spoken]} is not known here.", "Use http/protobuf.")
    return chosen


def _usage_facts(usage: Usage) -> _Facts:
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }


def _message(role: str, content: Sequence[Block]) -> str:
    parts: list[Json] = []
    for block in content:
        if isinstance(block, Text):
            parts.append({"type": "text", "content": block.text})
        elif isinstance(block, ToolUse):
            parts.append({"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.input})
    return json.dumps([{"role": role, "parts": parts}], default=str)


def _ns(seconds: float) -> int:
    return round(seconds * 1_000) * 1_000_000
