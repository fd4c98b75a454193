"""Events as spans and metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from cowork.core.events import ReplyAdded, ToolEnded, ToolStarted, TurnEnded
from cowork.telemetry import SpanSink
from tests.reports.sample import START, sample

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Memory:
    """A sink whose spans and metrics stay here."""

    def __init__(self, events=(), **how):
        self.spans, self.metrics = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.sink = SpanSink(tracers, MeterProvider([self.metrics]), how.pop("environ", {}), **how)
        for event in events:
            self.sink(event)

    def done(self):
        return self.spans.get_finished_spans()

    def named(self, name):
        return [span for span in self.done() if span.name == name]

    def points(self, name):
        """(attributes, sum) of a metric."""
        data = self.metrics.get_metrics_data()
        found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        return [(dict(p.attributes), getattr(p, "sum", getattr(p, "value", 0))) for p in found[0].data.data_points]


def above(memory, span):
    return next((s.name for s in memory.done() if span.parent and s.context.span_id == span.parent.span_id), None)


def test_parents_are_right_across_children():
    memory = Memory(sample())
    children = {s.attributes["gen_ai.agent.id"]: s for s in memory.done() if s.name.startswith("invoke_agent")}
    assert set(children) == {"main", "explore-1", "explore-3", "general-purpose-2"}
    by_id = {s.context.span_id: s for s in memory.done()}
    grandchild = children["explore-3"]
    way = []
    while grandchild:
        way.append(grandchild.name)
        grandchild = by_id.get(grandchild.parent.span_id) if grandchild.parent else None
    assert way == [
        "invoke_agent explore",
        "execute_tool Task",
        "invoke_agent explore",
        "execute_tool Task",
        "invoke_agent main",
    ]
    assert {above(memory, s) for s in memory.named("chat claude-haiku-4-5")} == {
        "invoke_agent explore",
        "invoke_agent general-purpose",
    }
    first = memory.named("invoke_agent main")[0].context.trace_id
    assert {s.context.trace_id for s in children.values() if s.name != "invoke_agent main"} == {first}
    assert len(memory.named("invoke_agent main")) == 3  # one an answer


def test_spans_have_the_times_of_their_events():
    events = sample()
    memory = Memory(events)
    replies = [e for e in events if isinstance(e, ReplyAdded)]
    chats = [s for s in memory.done() if s.name.startswith("chat ")]
    expected = sorted((round(e.at * 1000) - e.duration_ms, round(e.at * 1000)) for e in replies)
    assert sorted((s.start_time // 10**6, s.end_time // 10**6) for s in chats) == expected
    starts = {e.tool_use_id: e.at for e in events if isinstance(e, ToolStarted)}
    ends = {e.tool_use_id: e.at for e in events if isinstance(e, ToolEnded)}
    for span in memory.done():
        if call := span.attributes.get("gen_ai.tool.call.id"):
            assert (span.start_time, span.end_time) == tuple(
                round(t * 1000) * 10**6 for t in (starts[call], ends[call])
            )


def test_attributes_follow_the_conventions_and_tell_no_contents():
    memory = Memory(sample())
    (chat, *_) = memory.named("chat claude-sonnet-4-5")
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.response.model": "claude-sonnet-4-5",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.conversation.id": "k3vq7m2a9xyz",
        "gen_ai.usage.input_tokens": 16_100,
        "gen_ai.usage.output_tokens": 180,
        "gen_ai.usage.cache_read.input_tokens": 14_000,
        "gen_ai.usage.cache_creation.input_tokens": 900,
        "cowork.cost_usd": 0.012,
    }
    everything = " ".join(
        str([s.name, dict(s.attributes), s.events and [dict(e.attributes) for e in s.events]]) for s in memory.done()
    )
    assert [word for word in ("refund", "guest", "shop", "unittest", "USERS") if word in everything] == []
    (late,) = memory.named("invoke_agent general-purpose")
    assert (late.status.status_code, late.attributes["error.type"]) == (StatusCode.ERROR, "incomplete")
    names = [e.name for e in memory.named("invoke_agent main")[0].events]
    assert names == ["cowork.retry.scheduled", "cowork.question.asked", "cowork.question.answered"]


def test_contents_come_with_the_setting():
    memory = Memory(sample(), content=True)
    assert "refunds fail" in memory.named("invoke_agent main")[0].attributes["gen_ai.input.messages"]
    assert "unittest" in memory.named("execute_tool Bash")[0].attributes["gen_ai.tool.call.arguments"]
    assert "Only `shop/cart.py:44`" in "".join(str(s.attributes.get("gen_ai.output.messages")) for s in memory.done())


def test_metrics_add_up():
    memory = Memory(sample())
    tokens = memory.points("gen_ai.client.token.usage")
    replies = [e for e in sample() if isinstance(e, ReplyAdded)]
    assert sum(total for facts, total in tokens if facts["gen_ai.token.type"] == "input") == 16_100 * len(replies)
    cost = {facts["gen_ai.agent.name"]: total for facts, total in memory.points("cowork.cost")}
    assert cost == {
        "main": pytest.approx(0.079),
        "explore": pytest.approx(0.008),
        "general-purpose": pytest.approx(0.011),
    }
    (waited,) = memory.points("cowork.approval.duration")
    assert waited[1] == pytest.approx(7.5 + 4.7)
    operations = {facts["gen_ai.operation.name"] for facts, _ in memory.points("gen_ai.client.operation.duration")}
    assert operations == {"chat", "execute_tool", "invoke_agent"}


def test_a_trace_that_is_under_way_is_joined_and_handed_to_commands():
    memory = Memory(environ={"TRACEPARENT": PARENT})
    events = sample()
    bash = next(e for e in events if isinstance(e, ToolStarted) and e.name == "Bash")
    for event in events[: events.index(bash) + 1]:
        memory.sink(event)
    given = memory.sink.traceparent(bash.agent, bash.tool_use_id)
    version, trace, span, _ = given["TRACEPARENT"].split("-")
    assert (version, trace) == ("00", "0af7651916cd43dd8448eb211c80319c")
    memory.sink.close()
    (call,) = memory.named("execute_tool Bash")
    assert f"{call.context.span_id:016x}" == span
    assert call.status.status_code is StatusCode.ERROR  # it was cut off
    assert memory.sink.traceparent("nobody", "x") == {}
    (root,) = memory.named("invoke_agent main")
    assert f"{root.parent.span_id:016x}" == "b7ad6b7169203331"


def test_a_request_that_was_cut_off_counts():
    lost = {"usage": {"input_tokens": 50, "output_tokens": 5}, "cost_usd": 0.5, "model": "m", "estimated": True}
    memory = Memory(sample()[:2])
    memory.sink(replace(TurnEnded("aborted", cut_off=lost), at=START + 9, id=99, session_id="s"))
    assert [total for _, total in memory.points("cowork.cost")] == [0.5]
    (span,) = memory.named("invoke_agent main")
    assert span.attributes["error.type"] == "aborted"
