"""Which faults are tried again, after what wait, and what the loop gets to see of it. No test here waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest

from cowork.core.blocks import Message, Text, Usage
from cowork.core.errors import RETRYABLE, ProviderError, ProviderErrorKind
from cowork.core.ports import Delta, Provider, Reply, Request, Retry
from cowork.providers.retry import Retrying
from cowork.providers.scripted import Scripted

ASKED = Request("sys", (Message("user", (Text("hi"),)),))


class Waits:
    """Takes the place of time: notes each wait and lets it pass at once."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


async def gather(provider: Provider, into: list[Any]) -> list[Any]:
    async for item in provider.stream(ASKED):
        into.append(item)
    return into


def most(limit: float) -> float:
    """The longest wait the jitter allows."""
    return limit


@pytest.mark.parametrize("kind", sorted(RETRYABLE))
@pytest.mark.parametrize("at", ["before", "first", "middle", "last"])
async def test_a_passing_fault_is_tried_again_and_voids_what_was_shown(kind: str, at: str) -> None:
    waits = Waits()
    model = Scripted([{"say": "abcd", "chunks": 4, "fault": {"kind": kind, "at": at, "message": "broke"}}])
    items = await gather(Retrying(model, sleep=waits, jitter=most), [])
    retry = next(i for i, item in enumerate(items) if isinstance(item, Retry))
    assert len(items[:retry]) == {"before": 0, "first": 1, "middle": 2, "last": 4}[at]
    assert (items[retry].attempt, items[retry].max_attempts, items[retry].kind) == (2, 5, kind)
    assert (items[retry].delay_s, items[retry].message) == (1.0, "broke")
    assert [i.text for i in items[retry + 1 : -1]] == list("abcd")
    assert isinstance(items[-1], Reply)
    assert waits.slept == [1.0]


@pytest.mark.parametrize("kind", sorted(set(get_args(ProviderErrorKind)) - RETRYABLE))
async def test_a_lasting_fault_is_raised_at_once(kind: str) -> None:
    model = Scripted([{"fault": {"kind": kind, "message": "no", "retry_after": 1}}, "never"])
    seen: list[Any] = []
    with pytest.raises(ProviderError, match=r"^no$") as caught:
        await gather(Retrying(model, sleep=Waits()), seen)
    assert (caught.value.kind, seen, len(model.requests)) == (kind, [], 1)


async def test_waits_double_up_to_a_cap_and_then_the_last_error_is_raised() -> None:
    waits = Waits()
    model = Scripted([{"fault": {"status": 503, "message": "busy", "times": 99}}])
    seen: list[Any] = []
    with pytest.raises(ProviderError) as caught:
        await gather(Retrying(model, max_attempts=8, sleep=waits, jitter=most), seen)
    assert waits.slept == [1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0]
    assert [item.attempt for item in seen] == [2, 3, 4, 5, 6, 7, 8]
    assert caught.value.message == "busy (gave up after 8 tries)"
    assert (caught.value.kind, caught.value.status, len(model.requests)) == ("overloaded", 503, 8)


async def test_the_jitter_is_full_and_within_its_bounds() -> None:
    waits = Waits()
    for _ in range(60):
        await gather(Retrying(Scripted([{"say": "x", "fault": 500}]), sleep=waits), [])
    assert all(0 <= wait <= 1.0 for wait in waits.slept)
    assert min(waits.slept) < 0.5 < max(waits.slept)


@pytest.mark.parametrize(
    ("asked", "slept"),
    [
        (7, 7.7),  # obeyed, and a little spread so that children do not return together
        (0.25, 0.275),  # milliseconds
        (60, 61.0),  # the cap itself
        (0, 1.0),  # a date in the past: the usual wait
        (None, 1.0),
    ],
)
async def test_a_retry_after_is_obeyed(asked: float | None, slept: float) -> None:
    waits = Waits()
    fault = {"status": 429, **({} if asked is None else {"retry_after": asked})}
    items = await gather(Retrying(Scripted([{"say": "x", "fault": fault}]), sleep=waits, jitter=most), [])
    assert waits.slept == [pytest.approx(slept)]
    assert items[0].delay_s == waits.slept[0]


@pytest.mark.parametrize("asked", [61, 3600, float("inf")])
async def test_a_wait_above_the_cap_is_reported_and_not_sat_out(asked: float) -> None:
    model = Scripted([{"fault": {"status": 429, "message": "slow down", "retry_after": asked}}])
    waits = Waits()
    with pytest.raises(ProviderError, match=r"slow down \(the service asks to wait .* 60 s cowork waits") as caught:
        await gather(Retrying(model, sleep=waits), [])
    assert (caught.value.kind, caught.value.retry_after, waits.slept) == ("rate_limit", asked, [])


async def test_the_usage_of_the_failed_try_is_on_the_retry_and_on_the_last_error() -> None:
    fault = {"kind": "broken_stream", "at": "middle", "times": 2}
    model = Scripted([{"say": "x", "usage": {"input_tokens": 11, "cache_read_tokens": 4}, "fault": fault}])
    seen: list[Any] = []
    with pytest.raises(ProviderError) as caught:
        await gather(Retrying(model, max_attempts=2, sleep=Waits()), seen)
    assert [i.usage for i in seen if isinstance(i, Retry)] == [Usage(15)]
    assert caught.value.usage == Usage(15)


class AfterTheReply(Scripted):
    """Fails when everything was already said."""

    async def stream(self, request: Request) -> AsyncIterator[Delta | Retry | Reply]:
        async for item in super().stream(request):
            yield item
        raise ProviderError("connection", "late reset")


async def test_nothing_is_tried_again_after_the_reply() -> None:
    model = AfterTheReply(["x", "y"])
    seen: list[Any] = []
    with pytest.raises(ProviderError, match=r"^late reset$"):
        await gather(Retrying(model, sleep=Waits()), seen)
    assert [type(i) for i in seen] == [Delta, Reply]
    assert len(model.requests) == 1


async def test_a_cancel_during_the_wait_ends_it_at_once() -> None:
    waiting = asyncio.Event()

    async def forever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    model = Scripted([{"say": "x", "fault": 500}])
    task = asyncio.create_task(gather(Retrying(model, sleep=forever), []))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(model.requests) == 1


class Closable(Scripted):
    closed = 0

    async def stream(self, request: Request) -> AsyncIterator[Delta | Retry | Reply]:
        try:
            async for item in super().stream(request):
                yield item
        finally:
            self.closed += 1


async def test_a_stream_that_is_left_early_closes_the_inner_one() -> None:
    model = Closable([{"say": "ab", "chunks": 2}])
    items = Retrying(model).stream(ASKED)
    assert (await anext(items)) == Delta("text", "a")
    await items.aclose()  # type: ignore[attr-defined]
    assert model.closed == 1


async def test_all_else_is_passed_on() -> None:
    model = Scripted(
        {"main": ["x"], "max_output_tokens": 3}, model="m", context_window=7, price={"input": 1, "output": 2}
    )
    wrapped = Retrying(model)
    assert (wrapped.name, wrapped.model, wrapped.context_window, wrapped.max_output_tokens) == ("scripted", "m", 7, 3)
    assert wrapped.price(Usage(1_000_000)) == 1.0
    await wrapped.aclose()
