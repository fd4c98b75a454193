"""A call is judged once, right before it starts; what was granted or forbidden before that counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cowork.core.ports import Answer, Decision, Effect, ToolFacts
from cowork.engine import runner
from cowork.tools.shell import jobs
from tests.fakes.stage import Policy, Stage, call, say, turn


@dataclass
class Counting(Policy):
    """Notes what it is asked about."""

    judged: list[str] = field(default_factory=list)

    def judge(self, agent: str, tool: ToolFacts, args: Mapping[str, Any], effects: Sequence[Effect]) -> Decision:
        if tool.family != "delegate":  # asked about when the agents on offer are listed
            self.judged.append(str(args.get("command", tool.name)))
        return super().judge(agent, tool, args, effects)


def records(stage: Stage) -> list[tuple[str, str]]:
    return [(e.record["status"], e.record["text"]) for e in stage.events if e.type == "tool.ended"]  # type: ignore[attr-defined]


async def test_calls_side_by_side_and_calls_alone_are_judged_once(stage: Stage) -> None:
    stage.policy = policy = Counting(allow_all=True)
    commands = ["echo one", "echo two", "true; echo three", "true; echo four"]
    await stage.play("go", [turn(*(call("Bash", command=c) for c in commands)), say("ok")])
    texts = [text for _, text in records(stage)]
    assert (sorted(texts[:2]), texts[2:]) == (["one", "two"], ["three", "four"])
    # The third was looked at beside the first two, and anew when they had ended.
    assert policy.judged == ["echo one", "echo two", "true; echo three", "true; echo three", "true; echo four"]
    await jobs.close(stage.tree)


async def test_what_is_granted_for_one_call_counts_for_the_next_of_the_same_reply(stage: Stage) -> None:
    stage.policy = policy = Counting()
    stage.answer = Answer("session")
    writes = [call("Write", file_path=name, content=name) for name in "abc"]
    await stage.play("go", [turn(*writes), say("ok")])
    assert len(stage.questions) == 1
    assert policy.judged == ["Write"] * 3
    assert sorted(p.name for p in stage.workspace.root.iterdir() if p.is_file()) == ["a", "b", "c"]


async def test_what_waited_in_line_is_judged_anew(stage: Stage) -> None:
    stage.policy = policy = Counting(allow_all=True)
    count = runner.AT_ONCE + 4

    def forbid(event: object) -> None:
        if getattr(event, "type", "") == "tool.ended":
            policy.deny = frozenset({"Bash"})

    stage.emitter.add(forbid)
    await stage.play("go", [turn(*(call("Bash", command=f"echo {n}") for n in range(count))), say("ok")])
    statuses = [status for status, _ in records(stage)]
    assert statuses.count("error") == 4
    assert statuses.count("success") == runner.AT_ONCE
    await jobs.close(stage.tree)


async def test_a_judge_that_fails_is_told_in_the_result(stage: Stage) -> None:
    class Broken(Policy):
        def judge(self, agent: str, tool: ToolFacts, args: Mapping[str, Any], effects: Sequence[Effect]) -> Decision:
            if tool.family == "delegate":
                return super().judge(agent, tool, args, effects)
            raise OSError("no such luck")

    stage.policy = Broken()
    story = await stage.play("go", [turn(call("Bash", command="echo one")), say("ok")])
    assert story.outcome.text == "ok"
    assert records(stage) == [("error", "Bash failed inside: OSError: no such luck")]
