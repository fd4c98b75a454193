"""Requests that end without a reply: what they used is counted, marked where it is an estimate, and in the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cowork.core.blocks import Usage
from cowork.core.events import AgentEnded, RetryScheduled, TurnEnded
from cowork.core.ports import Provider
from cowork.engine.loop import Prompt
from cowork.providers.open import open_provider
from cowork.providers.retry import Retrying
from cowork.providers.scripted import Scripted
from cowork.sessions.cost import totals
from tests.fakes.stage import Stage
from tests.fakes.stage import call as scripted_call
from tests.fakes.stage import say as scripted_say
from tests.fakes.stage import turn as scripted_turn
from tests.wire.server import FORMATS, Hold, Server, broken, call, say, status, turn
from tests.wire.talk import spec_for

PRICES = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}
WORDS = "a long answer that is cut off " * 20
EACH_FORMAT = pytest.mark.parametrize("format", FORMATS)


def model(server: Server, format: str) -> Provider:
    return open_provider(spec_for(server, format, prices=PRICES), idle_timeout=20)


def ended(stage: Stage) -> TurnEnded:
    (event,) = (e for e in stage.events if isinstance(e, TurnEnded) and e.agent == "main")
    return event


def in_the_log(stage: Stage) -> tuple[Usage, float | None]:
    whole = totals(stage.events)[""]
    return whole.usage, whole.cost_usd


async def stopped_after(stage: Stage, kind: str) -> TurnEnded:
    """Run, and stop as soon as an event of that kind has come: then the client has it, however slow it is."""
    heard = asyncio.create_task(stage.until(kind))
    await asyncio.sleep(0)
    work = asyncio.create_task(stage.agent.run(Prompt("go")))
    await heard
    work.cancel()
    await asyncio.wait([work])
    await stage.provider.aclose()
    return ended(stage)


@EACH_FORMAT
async def test_a_stopped_answer_counts_what_came_of_it(stage: Stage, format: str) -> None:
    first = turn(call("LS", path="."), usage=Usage(1_000, 20, 0, 3_000))
    with Server([first, say(WORDS, usage=Usage(50, 400, 4_000, 0), hold=Hold("middle"))]) as server:
        stage.set_up(model(server, format))
        event = await stopped_after(stage, "text.delta")
    assert event.reason == "interrupted"
    lost = Usage.from_dict(event.cut_off["usage"])
    assert lost.output_tokens >= 1
    assert event.cut_off["estimated"] is stage.ledger.spent.estimated is True
    if format == "anthropic":  # which tells the input with its first event
        assert (lost.input_tokens, lost.cache_read_tokens) == (50, 4_000)
    else:  # what the request before it was is cached, as far as anybody can tell
        assert lost.input_tokens + lost.cache_read_tokens > 500
        assert bool(lost.cache_read_tokens) == bool(_first_usage(stage).cache_write_tokens)
    assert event.cut_off["cost_usd"] > 0
    assert stage.ledger.spent.usage == _first_usage(stage) + lost == event.usage
    assert in_the_log(stage) == (stage.ledger.spent.usage, pytest.approx(stage.ledger.spent.cost_usd))


def _first_usage(stage: Stage) -> Usage:
    return next(e.usage for e in stage.events if e.type == "reply.added")  # type: ignore[attr-defined]


@EACH_FORMAT
async def test_an_answer_stopped_before_its_first_word_has_cost_its_request(stage: Stage, format: str) -> None:
    with Server([say(WORDS, hold=Hold("headers"))]) as server:
        stage.set_up(model(server, format))
        work = asyncio.create_task(stage.agent.run(Prompt("go")))
        await asyncio.to_thread(server.wait, 1)
        work.cancel()
        await asyncio.wait([work])
        await stage.provider.aclose()
    lost = Usage.from_dict(ended(stage).cut_off["usage"])
    assert lost.prompt_tokens > 500
    assert lost.output_tokens == 0
    assert ended(stage).cut_off["estimated"] is True


@EACH_FORMAT
async def test_a_broken_answer_counts_whether_it_is_tried_again_or_not(stage: Stage, format: str) -> None:
    async def no_wait(seconds: float) -> None:
        return None

    with Server([broken("reset", "middle", say(WORDS)), broken("truncated", "last", say(WORDS))]) as server:
        stage.set_up(Retrying(model(server, format), max_attempts=2, sleep=no_wait))
        outcome = await stage.agent.run(Prompt("go"))
        await stage.provider.aclose()
    assert outcome.reason == "unavailable"
    (retry,) = (e for e in stage.events if isinstance(e, RetryScheduled))
    lost = ended(stage).cut_off
    assert retry.usage.prompt_tokens > 0
    assert lost["usage"]["output_tokens"] >= len(WORDS) // 8
    assert lost["estimated"] is True
    assert in_the_log(stage) == (stage.ledger.spent.usage, pytest.approx(stage.ledger.spent.cost_usd))
    assert outcome.usage == stage.ledger.spent.usage == retry.usage + Usage.from_dict(lost["usage"])


@EACH_FORMAT
async def test_a_refusal_costs_nothing(stage: Stage, format: str) -> None:
    with Server([status(500)]) as server:
        stage.set_up(model(server, format))
        outcome = await stage.agent.run(Prompt("go"))
        await stage.provider.aclose()
    assert (outcome.usage, outcome.cost_usd, ended(stage).cut_off) == (Usage(), 0.0, {})
    assert not stage.ledger.spent.estimated


async def test_a_stop_while_it_waits_to_try_again_loses_nothing_more(stage: Stage) -> None:
    with Server([status(503, headers={"retry-after": "30"})]) as server:
        stage.set_up(Retrying(model(server, "anthropic")))
        event = await stopped_after(stage, "retry.scheduled")
    assert (event.cut_off, event.usage) == ({}, Usage())


async def test_a_killed_child_says_that_its_cost_is_an_estimate(stage: Stage) -> None:
    order = scripted_call("Task", description="look", prompt="look", subagent_type="explore")
    slow: dict[str, Any] = {**scripted_say(WORDS), "chunks": 50, "delay_ms": 1}
    stage.set_up(Scripted([scripted_turn(order), scripted_say("ok")], {"explore": [slow]}, price=PRICES))
    heard = asyncio.create_task(stage.until("text.delta", "main/explore-1"))
    await asyncio.sleep(0)
    work = asyncio.create_task(stage.agent.run(Prompt("go")))
    await heard
    assert stage.subagents.kill("explore-1")
    await work
    (end,) = (e for e in stage.events if isinstance(e, AgentEnded))
    data = end.record["data"]
    assert data["status"] == "aborted"
    assert data["usage"]["completion_tokens"] >= 1
    assert data["total_cost_usd"] > 0
    assert data["usage_estimated"] is True
    assert f"about {data['usage']['prompt_tokens'] + data['usage']['completion_tokens']:,} tokens" in end.record["text"]
    assert in_the_log(stage) == (stage.ledger.spent.usage, pytest.approx(stage.ledger.spent.cost_usd))
