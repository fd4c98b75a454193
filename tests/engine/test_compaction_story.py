"""Room in the window: what is cleared, what is summarised, what is never forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from cowork.core.events import ContextCompacted, ReplyAdded
from cowork.core.transcript import CLEARED, fold
from cowork.engine.compaction import Compaction
from cowork.engine.loop import Prompt
from cowork.providers.scripted import Scripted
from cowork.tools.base import AgentState
from tests.fakes.stage import Stage, call, say, turn
from tests.fakes.wire_rules import violations

ASIDES = [{"match": "<conversation>", "turns": [say("They wanted X; a.txt:1 is read; next is Y.")]}]


def set_up(stage: Stage, turns: list[Any], *, window: int = 20_000, asides: Any = ASIDES, **rest: Any) -> None:
    (stage.workspace.root / "big.txt").write_text("0123456789 " * 1_500)
    (stage.workspace.root / "a.txt").write_text("alpha\n")
    stage.compaction = Compaction("Summarise.", **rest)
    children = {"explore": [{**say("never"), "delay_ms": 60_000}]}
    stage.set_up(Scripted({"main": turns, "asides": asides, "context_window": window, "agents": children}))


def compacted(stage: Stage) -> list[ContextCompacted]:
    return [e for e in stage.events if isinstance(e, ContextCompacted)]


async def test_old_bulky_results_are_cleared_before_anything_is_summarised(stage: Stage) -> None:
    small = turn(call("Read", file_path="a.txt"))
    big = turn(call("Bash", command="head -c 24000 big.txt"))
    stage.policy.allow_all = True
    set_up(stage, [big, big, small, small, small, small, small, big, say("done")], window=16_000)
    outcome = await stage.agent.run(Prompt("go"))
    assert outcome.text == "done"
    (event,) = compacted(stage)
    assert (event.summary, event.trigger) == ("", "auto")
    assert event.cleared
    assert event.tokens_after < event.tokens_before
    last = stage.provider.requests[-1].messages
    assert CLEARED in str(last)
    assert violations(last) == []


async def test_a_full_window_becomes_a_summary_that_pins_what_matters(stage: Stage) -> None:
    stage.policy.allow_all = True
    todo = turn(call("TodoWrite", todos=[{"content": "Fix Y", "status": "in_progress", "activeForm": "Fixing Y"}]))
    read = turn(call("Read", file_path="a.txt"))
    wordy = [turn(call("LS", path="."), say="thought " * 2_000) for _ in range(5)]
    order = {"description": "looking", "prompt": "p", "subagent_type": "explore", "run_in_background": True}
    set_up(stage, [turn(call("Task", **order)), todo, read, *wordy, say("wait"), say("done")])
    stage.emitter.add(lambda event: stage.subagents.kill_all() if event.type == "context.compacted" else None)
    await stage.agent.run(Prompt("Please do X", context="<environment>\ncwd: here\n</environment>"))
    (event,) = compacted(stage)
    for kept in ("Please do X", "<environment>", "[in_progress] Fix Y", "a.txt", "explore-1: looking", "They wanted X"):
        assert kept in event.summary
    assert event.kept
    assert event.usage.total > 0
    assert 0 < event.tokens_after < event.tokens_before
    requests = [r for r in stage.provider.requests if r.tools]
    assert all(violations(r.messages) == [] for r in requests)
    after = requests[-1].messages
    assert "They wanted X" in after[0].text
    assert len(str(after)) < max(len(str(r.messages)) for r in requests)


async def test_the_log_folds_to_the_same_conversation_after_compaction(stage: Stage) -> None:
    stage.policy.allow_all = True
    wordy = [turn(call("LS", path="."), say="thought " * 2_000) for _ in range(5)]
    set_up(stage, [*wordy, say("done"), say("more")])
    await stage.agent.run(Prompt("Please do X"))
    await stage.agent.run(Prompt("And then Z"))
    durable = [e for e in stage.events if e.durable]
    assert compacted(stage)
    assert fold(durable).messages() == stage.agent.transcript.messages()


async def test_an_overflow_compacts_once_and_goes_on(stage: Stage) -> None:
    first = turn(call("Read", file_path="a.txt"), say="reading")
    overflow = {**say("x"), "fault": {"kind": "context_overflow"}}
    set_up(stage, [first, {**overflow, "say": "made it"}])
    outcome = await stage.agent.run(Prompt("Please do X"))
    assert outcome.text == "made it"
    assert [e.trigger for e in compacted(stage)] == ["overflow"]


async def test_an_overflow_that_stays_is_said(stage: Stage) -> None:
    first = turn(call("Read", file_path="a.txt"), say="reading")
    set_up(stage, [first, {**say("x"), "fault": {"kind": "context_overflow", "times": 2}}])
    outcome = await stage.agent.run(Prompt("Please do X"))
    assert (outcome.reason, outcome.error["code"]) == ("api_error", "context_overflow")


async def test_a_service_that_fails_at_summarising_loses_nothing_that_is_pinned(stage: Stage) -> None:
    stage.policy.allow_all = True
    wordy = [turn(call("LS", path="."), say=f"step {n} " + "thought " * 2_000) for n in range(5)]
    failing = [{"match": "<conversation>", "turns": [{**say("x"), "fault": {"status": 500}}]}]
    set_up(stage, [*wordy, say("done")], asides=failing)
    outcome = await stage.agent.run(Prompt("Please do X"))
    assert outcome.text == "done"
    (event,) = compacted(stage)
    assert "Please do X" in event.summary
    assert "step 0" in event.summary


async def test_by_hand_it_takes_a_hint_and_refuses_an_empty_conversation(stage: Stage) -> None:
    set_up(stage, [say("one " * 400)])
    assert stage.compaction is not None
    assert not await stage.compaction(stage.agent, "manual")
    await stage.agent.run(Prompt("Please do X"))
    assert await stage.compaction(stage.agent, "manual", "the tests")
    assert "keep in mind: the tests" in stage.provider.requests[-1].messages[0].text
    assert len(stage.agent.transcript.messages()) == 1


@pytest.mark.parametrize("auto", [True, False])
async def test_it_can_be_switched_off(stage: Stage, auto: bool) -> None:
    stage.policy.allow_all = True
    wordy = [turn(call("LS", path="."), say="thought " * 2_000) for _ in range(5)]
    set_up(stage, [*wordy, say("done")], auto=auto)
    await stage.agent.run(Prompt("Please do X"))
    assert bool(compacted(stage)) is auto
    assert sum(isinstance(e, ReplyAdded) for e in stage.events) == 6
    assert isinstance(stage.agent.runner.state, AgentState)
