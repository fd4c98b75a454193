"""What bounds children: tokens, cost, time, turns and sizes. A limit that is hit is a result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cowork.agents import Agents
from cowork.core.blocks import Usage
from cowork.core.events import ToolEnded
from cowork.core.ports import Answer, Question
from cowork.engine.budget import BudgetExceeded, Cost, Ledger, Limits
from cowork.engine.loop import Prompt
from cowork.providers.scripted import Scripted
from tests.fakes.clock import Clock
from tests.fakes.stage import Stage, agent_def, call, say, turn

PRICE = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}


def task(kind: str = "explore", prompt: str = "find it", **rest: Any) -> dict[str, Any]:
    return call("Task", description="find the thing", prompt=prompt, subagent_type=kind, **rest)


def records(stage: Stage) -> list[dict[str, Any]]:
    return [e.record for e in stage.events if isinstance(e, ToolEnded) and e.name == "Task" and e.agent == "main"]


def codes(stage: Stage) -> list[str]:
    return [r.get("error", {}).get("code", "") for r in records(stage)]


async def test_large_first_requests_of_parallel_children_overshoot_by_one_at_most(stage: Stage) -> None:
    stage.settings.max_total_tokens = 60_000
    orders = [task(prompt=f"{n} " + "words " * 25_000) for n in range(5)]
    done = {**say("read it"), "usage": {"input_tokens": 50_000, "output_tokens": 10}, "delay_ms": 5}
    await stage.play("go", [turn(*orders), say("ok")], {"explore": [done]})
    assert stage.ledger.spent.usage.total - stage.agent.spent.usage.total <= 60_000 + 50_010
    assert sorted(codes(stage)) == [""] * 2 + ["QUOTA_EXCEEDED"] * 3


async def test_children_that_were_done_keep_their_results_when_a_quota_is_hit(stage: Stage) -> None:
    stage.settings.max_total_tokens = 1_000
    quick = {**say("quick result"), "usage": {"input_tokens": 600}}
    slow = [{**turn(call("LS", path="."), say="half"), "usage": {"input_tokens": 500}, "delay_ms": 5}, say("never")]
    await stage.play(
        "go", [turn(task("plan", "one"), task("explore", "two")), say("ok")], {"plan": [quick], "explore": slow}
    )
    by_type = {r["data"]["subagent_type"]: r for r in records(stage)}
    assert by_type["plan"]["data"]["result"] == "quick result"
    assert by_type["explore"]["error"]["code"] == "QUOTA_EXCEEDED"
    assert by_type["explore"]["data"]["result"] == "half"
    assert "subagent_id explore-2" in by_type["explore"]["text"]


async def test_the_time_of_children_still_at_work_counts(stage: Stage) -> None:
    stage.settings.max_total_time = 0.05
    look = {**turn(call("LS", path="."), say="looking"), "delay_ms": 15}
    await stage.play("go", [turn(task()), say("ok")], {"explore": [look] * 9})
    assert codes(stage) == ["QUOTA_EXCEEDED"]
    assert records(stage)[0]["error"]["message"].startswith("Resource quota exceeded: Time limit reached: ")


async def test_the_time_all_children_share_ends_those_at_work(stage: Stage) -> None:
    stage.settings.max_total_time = 0.5
    stage.policy.allow_all = True
    silent = {**say("never said"), "delay_ms": 3_600_000}
    busy = turn(call("Bash", command="sleep 3600"), say="I run it.")
    orders = [task("explore", "one"), task("general-purpose", "two")]
    story = await stage.play("go", [turn(*orders), say("ok")], {"explore": [silent], "general-purpose": [busy]})
    assert codes(stage) == ["QUOTA_EXCEEDED"] * 2
    for record in records(stage):
        assert record["error"]["message"].startswith("Resource quota exceeded: Time limit reached: ")
    assert story.outcome.text == "ok"
    assert not stage.subagents.running


async def test_time_that_is_shared_lasts_longer_when_others_are_done() -> None:
    ledger = Ledger(Limits(seconds=100))
    heard: list[float] = []

    def hear() -> None:
        heard.append(round(ledger.seconds_left or 0))

    stops = [ledger.start_clock(hear) for _ in range(4)]
    assert heard[-1] == 25
    for stop in stops[1:]:
        stop()
    assert heard[-1] == 100


async def test_a_person_who_takes_time_does_not_use_up_what_children_share(stage: Stage) -> None:
    stage.settings.max_total_time = 3_600
    counting: list[int] = []

    def answer(question: Question) -> Answer:
        counting.append(len(stage.ledger._clocks))
        return Answer("once")

    stage.answer = answer
    write = turn(call("Write", file_path="a", content="b"))
    await stage.play("go", [turn(task("general-purpose")), say("ok")], {"general-purpose": [write, say("done")]})
    assert counting == [0]
    assert codes(stage) == [""]
    assert stage.ledger._clocks == []


async def test_a_cost_limit_without_known_prices_is_refused_and_not_ignored(stage: Stage) -> None:
    stage.settings.max_total_cost_usd = 1.0
    story = await stage.play("go", [turn(task()), say("ok")], {"explore": [say("never")]})
    (record,) = records(stage)
    assert record["error"]["message"] == (
        "Failed to initialize subagent: a cost limit is set and no prices are known for scripted"
    )
    assert len(story.requests) == 2


async def test_a_cost_limit_counts_what_writing_the_cache_costs(stage: Stage) -> None:
    stage.settings.max_total_cost_usd = 0.02
    used = {"cache_write_tokens": 4_000, "output_tokens": 10}
    orders = [task(prompt=f"{n} " + "words " * 2_000) for n in range(5)]
    children = {"explore": [{**say("ok"), "usage": used, "delay_ms": 5}]}
    stage.set_up(Scripted({"main": [turn(*orders), say("ok")], "max_output_tokens": 100}, children, price=PRICE))
    await stage.agent.run(Prompt("go"))
    spent = sum(r["data"]["total_cost_usd"] for r in records(stage))
    assert spent <= 0.02 + 0.0152


async def test_a_child_that_never_began_is_no_execution(stage: Stage) -> None:
    stage.settings.max_executions = 1
    stage.set_up(Scripted([turn(task()), turn(task(prompt="again")), say("ok")], {"explore": [say("found")]}))
    stage.init_error = ValueError("no such model")

    def mend(event: Any) -> None:
        if isinstance(event, ToolEnded):
            stage.init_error = None

    stage.emitter.add(mend)
    await stage.agent.run(Prompt("go"))
    assert codes(stage) == ["INTERNAL_ERROR", ""]
    assert records(stage)[1]["data"]["subagent_id"] == "explore-1"


async def test_a_quota_hit_while_a_typed_result_is_repaired_is_told_as_such(stage: Stage) -> None:
    stage.settings.max_total_tokens = 100
    schema = {"type": "object", "required": ["n"]}
    wrong = {**say("three"), "usage": {"input_tokens": 200}}
    await stage.play("go", [turn(task(output_schema=schema)), say("ok")], {"explore": [wrong]})
    assert codes(stage) == ["QUOTA_EXCEEDED"]
    assert records(stage)[0]["data"]["result"] == "three"


async def test_a_waiting_request_that_is_cancelled_holds_nothing() -> None:
    ledger = Ledger(Limits(tokens=100))
    first = await ledger.reserve(90, None)
    waiting = asyncio.create_task(ledger.reserve(90, None))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    later = asyncio.create_task(ledger.reserve(20, None))
    await asyncio.sleep(0)
    assert not later.done()
    first(Cost(Usage(50)))
    (await later)(Cost(Usage(60)))
    assert ledger.spent.usage.total == 110
    with pytest.raises(BudgetExceeded, match="Token limit reached: 110/100"):
        await ledger.reserve(1, None)


async def test_all_who_wait_near_a_limit_go_on_or_are_told() -> None:
    top = Ledger(Limits(tokens=1_000))
    children = [Ledger(parent=Ledger(parent=top)) for _ in range(20)]

    async def spend(ledger: Ledger) -> str:
        try:
            settle = await ledger.reserve(300, None)
        except BudgetExceeded:
            return "refused"
        await asyncio.sleep(0.001)
        settle(Cost(Usage(200)))
        return "spent"

    results = await asyncio.wait_for(asyncio.gather(*(spend(ledger) for ledger in children)), 30)
    assert results.count("spent") == top.spent.usage.total // 200
    assert 1_000 <= top.spent.usage.total <= 1_200


@pytest.mark.parametrize("depth", [1, 2])
async def test_the_time_a_person_takes_to_answer_is_not_the_childs(stage: Stage, depth: int) -> None:
    stage.settings.timeout, stage.settings.idle_timeout, stage.settings.allow_nesting = 60, 60, True
    clock = Clock()

    async def slow(question: Question) -> Answer:
        await clock.passes(100)
        return Answer("once")

    stage._ask = slow  # type: ignore[method-assign]
    stage.agents = Agents([agent_def("alpha"), agent_def("beta")])
    write = [turn(call("Write", file_path="a", content="b")), say("written")]
    children = {"beta": write, "alpha": [turn(task("beta", "deeper")), say("done")]}
    await stage.play("go", [turn(task("alpha" if depth == 2 else "beta", "start")), say("ok")], children)
    assert codes(stage) == [""]
    assert (stage.workspace.root / "a").read_text() == "b"


async def test_a_cost_that_is_unknown_is_no_cost_of_nothing() -> None:
    ledger = Ledger(Limits(cost_usd=1.0))
    (await ledger.reserve(10, None))(Cost(Usage(10), None))
    with pytest.raises(BudgetExceeded, match="the price of a request is unknown"):
        await ledger.reserve(10, None)
