"""Trajectories, checked by the rules that Harbor's validator applies."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cowork.core.events import AgentEnded, AgentStarted
from cowork.reports.atif import trajectory
from cowork.sessions.log.writer import SessionLog
from tests.reports.hostile import hostile_session
from tests.reports.sample import sample
from tests.reports.test_export_command import home, run  # noqa: F401  (a fixture)

AGENT_ONLY = ("model_name", "reasoning_content", "tool_calls", "metrics")


def check(found: dict) -> None:
    """The rules of ATIF 1.8 that a document can break."""
    assert found["schema_version"] == "ATIF-v1.8"
    assert found["agent"]["name"]
    assert isinstance(found["agent"]["version"], str)
    assert [step["step_id"] for step in found["steps"]] == list(range(1, len(found["steps"]) + 1))
    below = [child["trajectory_id"] for child in found.get("subagent_trajectories", ())]
    assert len(set(below)) == len(below)
    for step in found["steps"]:
        assert step["source"] in ("system", "user", "agent")
        assert isinstance(step["message"], str)
        assert step["source"] == "agent" or not set(AGENT_ONLY) & set(step)
        called = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        for result in step.get("observation", {}).get("results", ()):
            assert result["source_call_id"] in called
            for ref in result.get("subagent_trajectory_ref", ()):
                assert ref["trajectory_id"] in below
    assert found["final_metrics"]["total_steps"] == len(found["steps"])
    for child in found.get("subagent_trajectories", ()):
        check(child)


@pytest.mark.parametrize(
    "events",
    [
        sample(),
        hostile_session(),
        [],
        [e for e in sample() if e.agent == "main" or isinstance(e, AgentStarted | AgentEnded)],  # children not kept
        sample()[:30],  # cut off
    ],
    ids=["sample", "hostile", "empty", "without children", "cut off"],
)
def test_every_trajectory_follows_the_rules(events):
    found = trajectory(events)
    check(found)
    json.dumps(found)


def test_steps_results_and_children_are_where_they_belong():
    found = trajectory(sample())
    first, reply, *_ = found["steps"]
    assert (first["source"], reply["source"]) == ("user", "agent")
    assert reply["reasoning_content"].startswith("Three places")
    refs = [r["subagent_trajectory_ref"][0]["trajectory_id"] for r in reply["observation"]["results"]]
    assert refs == ["k3vq7m2a9xyz/main/explore-1", "k3vq7m2a9xyz/main/general-purpose-2"]
    explore, _ = found["subagent_trajectories"]
    (inner,) = explore["subagent_trajectories"]
    assert inner["steps"][-1]["message"] == "Only `shop/cart.py:44`."
    assert explore["final_metrics"]["total_cost_usd"] == pytest.approx(0.008)  # with its child's
    assert "total_cost_usd" not in found["final_metrics"]  # one price is not known
    assert "SECRET-OF-THE-PAST" not in json.dumps(found)


def test_the_command_takes_the_last_session_of_the_folder(home):  # noqa: F811
    again = [replace(e, cwd=str(home)) if e.type == "session.started" else e for e in sample()]
    with SessionLog.create(home / "sessions", "mine") as log:
        for event in again:
            log(event)
    done = run(home, "sessions", "export", "--atif")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    check(found)
    assert found["session_id"] == "k3vq7m2a9xyz"  # as its events say
