"""Hooks as the engine meets them: each event is told, each verdict has its effect, and no failure breaks a turn."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from cowork.core.events import Notice, PromptAdded, QuestionAnswered, ToolEnded
from cowork.core.hooks import HookCall, HookEvent, HookGroup, Hooks, HookVerdict, join_verdicts
from cowork.core.ports import Decision
from cowork.engine.hook_points import MOST_CONTINUATIONS, apply_verdict
from tests.fakes.stage import Stage, call, say, turn

Say = Callable[[HookCall], HookVerdict]
WRITE = turn(call("Write", file_path="a.txt", content="one"))


class Scripted(Hooks):
    """Hooks of a test: what each event is answered with, and every call heard."""

    def __init__(self, **answers: Say | HookVerdict) -> None:
        self.answers, self.heard = answers, list[HookCall]()

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return event in self.answers

    async def fire(self, call: HookCall) -> HookVerdict:
        self.heard.append(call)
        answer = self.answers[call.event]
        return answer(call) if inspect.isfunction(answer) else answer  # type: ignore[return-value]


def result(story: Any) -> dict[str, Any]:
    (ended,) = story.of(ToolEnded)
    return dict(ended.record)


async def test_a_denied_call_does_not_run_and_the_model_is_told_why(stage: Stage) -> None:
    stage.hooks = hooks = Scripted(PreToolUse=HookVerdict("deny", "not on Fridays"))
    story = await stage.play("go", [WRITE, say("ok")], answer="once")
    assert result(story)["error"]["code"] == "PERMISSION_DENIED"
    assert "not on Fridays" in result(story)["text"]
    assert not (stage.workspace.root / "a.txt").exists()
    assert not stage.questions
    (heard,) = hooks.heard
    assert heard.data["tool_input"]["file_path"] == str(stage.workspace.root / "a.txt")  # never as it was spelled
    assert (heard.subject, heard.agent_id) == ("Write", "")


async def test_an_allowed_call_is_not_asked_about(stage: Stage) -> None:
    stage.hooks = Scripted(PreToolUse=HookVerdict("allow"))
    await stage.play("go", [WRITE, say("ok")])
    assert (stage.workspace.root / "a.txt").read_text() == "one"
    assert not stage.questions


async def test_a_question_whose_hook_is_stopped_is_withdrawn(stage: Stage) -> None:
    def stop(call: HookCall) -> HookVerdict:
        raise asyncio.CancelledError

    stage.hooks = Scripted(Notification=stop)
    with pytest.raises(asyncio.CancelledError):
        await stage.play("go", [WRITE, say("ok")])
    (answered,) = [e for e in stage.events if isinstance(e, QuestionAnswered)]
    assert (answered.choice, answered.note) == ("no", "withdrawn: the call was stopped")
    assert not stage.questions


async def test_other_arguments_are_judged_again(stage: Stage) -> None:
    stage.policy.deny = frozenset({"Bash"})
    new = {"file_path": "b.txt", "content": "two"}
    stage.hooks = Scripted(PreToolUse=HookVerdict(updated_input=new), PostToolUse=HookVerdict())
    story = await stage.play("go", [WRITE, say("ok")], answer="once")
    assert (stage.workspace.root / "b.txt").read_text() == "two"
    assert [q.input for q in stage.questions] == [new]  # the person sees what will run
    assert not (stage.workspace.root / "a.txt").exists()
    assert story.outcome.reason == "completed"


async def test_arguments_that_do_not_fit_are_refused(stage: Stage) -> None:
    stage.hooks = Scripted(PreToolUse=HookVerdict("allow", updated_input={"file_path": 3}))
    story = await stage.play("go", [WRITE, say("ok")])
    assert result(story)["error"]["code"] == "INVALID_PARAM"


async def test_a_hook_answers_in_place_of_the_person(stage: Stage) -> None:
    stage.hooks = Scripted(PermissionRequest=lambda c: HookVerdict("allow" if c.subject == "Write" else "deny", "no"))
    both = turn(call("Write", file_path="a.txt", content="one"), call("Bash", command="rm a.txt"))
    story = await stage.play("go", [both, say("ok")])
    assert [e.record["status"] for e in story.of(ToolEnded)] == ["success", "error"]
    assert not stage.questions


async def test_what_hooks_say_after_a_call_reaches_the_model(stage: Stage) -> None:
    told = HookVerdict("deny", "it is not formatted", context="run make format")
    stage.hooks = Scripted(PreToolUse=HookVerdict("allow", context="a is generated"), PostToolUse=told)
    story = await stage.play("go", [WRITE, say("ok")])
    text = result(story)["text"]
    assert "a is generated" in text
    assert "A hook objects: it is not formatted" in text
    assert "run make format" in text
    assert result(story)["status"] == "success"


async def test_a_hook_can_replace_what_the_model_is_told(stage: Stage) -> None:
    (stage.workspace.root / "s.txt").write_text("hunter2")
    stage.hooks = Scripted(PostToolUse=HookVerdict(output="[left out]"))
    story = await stage.play("go", [turn(call("Read", file_path="s.txt")), say("ok")])
    assert result(story)["text"] == "[left out]"


async def test_a_prompt_can_be_blocked_or_explained(stage: Stage) -> None:
    stage.hooks = Scripted(
        UserPromptSubmit=lambda c: HookVerdict(
            "deny" if "secret" in c.data["prompt"] else "", "it holds a secret", context="branch: x"
        )
    )
    story = await stage.play("my secret", [say("never")])
    assert (story.outcome.reason, story.outcome.text, story.requests) == ("denied", "", [])
    assert "it holds a secret" in story.outcome.error["message"]
    assert not story.of(PromptAdded)
    story = await stage.play("hello", [])
    assert story.outcome.text == "never"
    assert "branch: x" in story.requests[0].messages[0].text


async def test_a_hook_keeps_an_agent_at_work_but_not_for_ever(stage: Stage) -> None:
    stage.hooks = hooks = Scripted(Stop=HookVerdict("deny", "the tests fail"))
    story = await stage.play("go", [say(f"done {n}") for n in range(MOST_CONTINUATIONS + 1)])
    assert story.outcome.text == f"done {MOST_CONTINUATIONS}"
    assert [c.data["stop_hook_active"] for c in hooks.heard] == [False] + [True] * MOST_CONTINUATIONS
    assert hooks.heard[0].data["last_assistant_message"] == "done 0"


async def test_a_hook_ends_a_turn(stage: Stage) -> None:
    stage.hooks = Scripted(PostToolUse=HookVerdict(stop="the build is broken"))
    story = await stage.play("go", [turn(call("LS", path=".")), say("never")])
    assert (story.outcome.reason, story.outcome.error["message"]) == ("denied", "the build is broken")
    assert len(story.requests) == 1


async def test_children_are_seen_with_who_they_are(stage: Stage) -> None:
    stage.hooks = hooks = Scripted(
        PreToolUse=HookVerdict(), SubagentStart=HookVerdict(context="be brief"), SubagentStop=HookVerdict()
    )
    order = call("Task", description="find it", prompt="where", subagent_type="explore")
    children = {"explore": [turn(call("LS", path=".")), say("there")]}
    story = await stage.play("go", [turn(order), say("ok")], children)
    seen = [(c.event, c.subject, c.agent_id) for c in hooks.heard]
    assert seen == [
        ("PreToolUse", "Task", ""),
        ("SubagentStart", "explore", "explore-1"),
        ("PreToolUse", "LS", "explore-1"),
        ("SubagentStop", "explore", "explore-1"),
    ]
    assert "be brief" in story.asked("\n\n# Task\n")[0].messages[0].text


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "PermissionRequest", "Stop", "UserPromptSubmit"])
async def test_a_hook_that_fails_is_told_and_changes_nothing(stage: Stage, event: str) -> None:
    def fails(call: HookCall) -> HookVerdict:
        raise RuntimeError("boom")

    stage.hooks = Scripted(**{event: fails})
    story = await stage.play("go", [WRITE, say("ok")], answer="once")
    assert story.outcome.text == "ok"
    assert (stage.workspace.root / "a.txt").exists()
    assert "boom" in story.of(Notice)[0].text


def test_deny_wins_and_nothing_is_allowed_beyond_a_lasting_grant() -> None:
    allow, ask, deny = HookVerdict("allow", "a"), HookVerdict("ask", "b"), HookVerdict("deny", "c")
    assert join_verdicts([allow, deny, ask]).decision == "deny"
    assert join_verdicts([allow, ask]).reason == "b"
    assert join_verdicts([]) == HookVerdict()
    asked, protected = Decision("ask", "x", rule="Edit(a)"), Decision("ask", "it is protected")
    assert apply_verdict(asked, allow).verdict == "allow"
    assert apply_verdict(protected, allow).verdict == "ask"
    assert apply_verdict(Decision("deny"), allow).verdict == "deny"
    assert apply_verdict(Decision("allow"), ask).verdict == "ask"
    assert apply_verdict(Decision("allow"), deny).verdict == "deny"


async def test_groups_ask_only_those_who_listen() -> None:
    one, two = Scripted(Stop=HookVerdict("deny", "x")), Scripted(PreCompact=HookVerdict())
    group = HookGroup([one, two])
    assert group.listens("Stop")
    assert not group.listens("PreToolUse")
    assert (await group.fire(HookCall("Stop"))).decision == "deny"
    assert two.heard == []
