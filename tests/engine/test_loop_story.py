"""The main agent's story: what the model is told, and how a turn ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

import pytest

from cowork.core.blocks import Text, ToolResult, ToolUse
from cowork.core.events import Notice, PromptAdded, ReplyAdded, ToolEnded, TurnEnded
from cowork.core.ports import Delta, Reply, Request, Retry, ToolRecord, Used, ok
from cowork.engine.budget import Ledger, Limits
from cowork.engine.loop import EMPTY_NUDGE, Prompt
from cowork.engine.runner import AT_ONCE
from cowork.providers.retry import Retrying, Wrapped
from cowork.providers.scripted import Scripted
from cowork.tools.base import ToolContext, tool
from tests.fakes.stage import Stage, call, say, turn
from tests.fakes.wire_rules import violations


async def test_two_reads_come_back_in_one_message_in_call_order(stage: Stage) -> None:
    (stage.workspace.root / "a.txt").write_text("alpha\n")
    story = await stage.play(
        "look",
        [
            turn(call("Read", file_path="a.txt"), call("Grep", pattern="alpha", output_mode="content")),
            say("It is alpha."),
        ],
    )
    results = story.last_message.results
    assert ["alpha" in str(r.content) for r in results] == [True, True]
    assert [c.id for c in story.requests[1].messages[1].calls] == [r.tool_use_id for r in results]
    assert story.outcome.text == "It is alpha."
    assert story.outcome.reason == "completed"
    assert violations(story.requests[1].messages) == []


async def test_a_denied_write_is_told_to_the_model(stage: Stage) -> None:
    story = await stage.play("fix it", [turn(call("Write", file_path="a", content="b")), say("ok")], answer="no")
    assert story.kinds("tool") == ["tool.started", "tool.ended"]
    result = story.requests[1].messages[-1].results[0]
    assert result.is_error
    assert "denied: no thanks" in str(result.content)
    assert story.outcome.denied
    assert not (stage.workspace.root / "a").exists()


async def test_a_grant_for_the_session_is_asked_once(stage: Stage) -> None:
    script = [
        turn(call("Write", file_path="a", content="1")),
        turn(call("Write", file_path="b", content="2")),
        say("done"),
    ]
    story = await stage.play("write", script, answer="session")
    assert len(stage.questions) == 1
    assert (stage.workspace.root / "b").read_text() == "2"
    assert story.kinds("question") == ["question.asked", "question.answered"]
    assert not story.outcome.denied


async def test_unknown_tools_bad_arguments_and_malformed_json_are_results(stage: Stage) -> None:
    script = [
        turn(call("Reed", file_path="a"), call("Read"), {"name": "Read", "input": {}, "malformed": "not JSON"}),
        say("ok"),
    ]
    story = await stage.play("go", script)
    texts = [str(r.content) for r in story.last_message.results]
    assert "There is no tool 'Reed'. Nearest: Read" in texts[0]
    assert "file_path" in texts[1]
    assert "not JSON" in texts[2]
    assert all(r.is_error for r in story.last_message.results)


async def test_the_same_failing_call_is_refused_after_three_times(stage: Stage) -> None:
    same = turn(call("Read", file_path="nowhere"))
    story = await stage.play("go", [same, same, same, same, say("gave up")])
    codes = [e.record["error"]["code"] for e in story.of(ToolEnded)]
    assert codes == ["NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "CIRCUIT_OPEN"]


async def test_an_empty_answer_is_asked_about_once(stage: Stage) -> None:
    story = await stage.play("go", [say(" "), say("here")])
    assert story.outcome.text == "here"
    assert [p.text for p in story.of(PromptAdded)] == ["go", EMPTY_NUDGE]


async def test_two_empty_answers_are_a_failure_and_not_a_success(stage: Stage) -> None:
    story = await stage.play("go", [say(" "), say(" ")])
    assert (story.outcome.reason, story.outcome.error["code"]) == ("api_error", "empty")


async def test_steering_reaches_the_next_request(stage: Stage) -> None:
    stage.policy.allow_all = True
    stage.set_up(Scripted([turn(call("LS", path=".")), say("done")]))
    stage.agent.tell(Prompt("use LS", source="steer"))
    outcome = await stage.agent.run(Prompt("go"))
    assert outcome.text == "done"
    assert [b.text for b in stage.provider.requests[0].messages[0].content if isinstance(b, Text)] == ["go", "use LS"]


async def test_the_turn_limit_is_an_outcome(stage: Stage) -> None:
    stage.max_turns = 2
    look = turn(call("LS", path="."))
    story = await stage.play("go", [look, look, look])
    assert (story.outcome.reason, story.outcome.turns) == ("max_turns", 2)
    assert len(story.requests) == 2


async def test_the_token_limit_is_an_outcome_and_overshoots_by_one_request_at_most(stage: Stage) -> None:
    stage.ledger = Ledger(Limits(tokens=100))
    look = turn(call("LS", path="."), usage={"input_tokens": 60, "output_tokens": 1})
    story = await stage.play("go", [look, look, look])
    assert (story.outcome.reason, len(story.requests)) == ("budget", 2)
    assert stage.ledger.spent.usage.total == 122


async def test_cancelling_answers_every_open_call(stage: Stage) -> None:
    stage.policy.allow_all = True
    stage.set_up(Scripted([turn(call("Bash", command="sleep 60"), call("Bash", command="sleep 61"))]))
    running = asyncio.create_task(stage.agent.run(Prompt("go")))
    await stage.until("tool.started")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    ended = [e for e in stage.events if isinstance(e, ToolEnded)]
    assert {e.record["error"]["code"] for e in ended} == {"ABORTED"}
    assert isinstance(stage.events[-1], TurnEnded)
    assert stage.events[-1].reason == "interrupted"
    messages = stage.agent.transcript.messages()
    assert violations(messages) == []
    assert [isinstance(b, ToolResult) for b in messages[-1].content] == [True, True]


async def test_what_a_cancelled_command_had_printed_is_kept(stage: Stage) -> None:
    stage.policy.allow_all = True
    stage.set_up(Scripted([turn(call("Bash", command="echo step 1; echo step 2; sleep 60"))]))
    running = asyncio.create_task(stage.agent.run(Prompt("go")))
    await stage.until("tool.output")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (ended,) = [e for e in stage.events if isinstance(e, ToolEnded)]
    assert (ended.record["error"]["code"], ended.display["summary"]) == ("ABORTED", "interrupted")
    assert "step 1" in ended.display["output"]
    (result,) = stage.agent.transcript.messages()[-1].content
    assert "Interrupted before it finished" in str(result)
    assert "step 1" in str(result)


async def test_failed_tries_are_counted_and_their_text_is_not_kept(stage: Stage) -> None:
    async def no_wait(seconds: float) -> None:
        return None

    script = [{**say("hello world"), "fault": {"status": 529, "at": "middle"}, "chunks": 4}]
    stage.set_up(Retrying(Scripted(script), sleep=no_wait))
    outcome = await stage.agent.run(Prompt("go"))
    kinds = [e.type for e in stage.events]
    assert "retry.scheduled" in kinds
    assert outcome.text == "hello world"
    assert kinds.count("reply.added") == 1


class CountsCalls(Wrapped):
    """A server that names the first call of every answer the same."""

    async def stream(self, request: Request) -> AsyncIterator[Delta | Used | Retry | Reply]:
        async for item in self.inner.stream(request):
            if isinstance(item, Reply):
                calls = (replace(b, id="call_0") if isinstance(b, ToolUse) else b for b in item.content)
                item = replace(item, content=tuple(calls))
            yield item


async def test_calls_get_fresh_ids_when_a_server_repeats_them(stage: Stage) -> None:
    looks = turn(call("LS", path="."))
    stage.set_up(CountsCalls(Scripted([looks, looks, looks, say("ok")])))
    await stage.agent.run(Prompt("go"))
    replies = [e for e in stage.events if isinstance(e, ReplyAdded)]
    # Counted, so that a replay of the recording asks for the same bytes.
    assert [b.id for r in replies for b in r.content if isinstance(b, ToolUse)] == ["call_0", "call_1", "call_2"]
    assert violations(stage.agent.transcript.messages("")) == []


async def test_a_call_cut_off_at_the_output_limit_is_not_run(stage: Stage) -> None:
    stage.policy.allow_all = True
    cut = turn(call("Write", file_path="a", content="half"), stop_reason="max_tokens")
    story = await stage.play("go", [cut, say("ok")])
    assert not (stage.workspace.root / "a").exists()
    assert "cut off" in str(story.last_message.results[0].content)


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ("max_tokens", "The answer was cut off at the output limit."),
        ("context_overflow", "The answer was cut off because the context window is full."),
    ],
)
async def test_an_answer_that_is_not_whole_is_said_to_be(stage: Stage, stop: str, said: str) -> None:
    story = await stage.play("go", [say("Half of", stop_reason=stop)])
    assert [e.text for e in story.of(Notice)] == [said]
    assert story.outcome.text == "Half of"


async def test_a_refusal_keeps_its_words_and_is_no_success(stage: Stage) -> None:
    story = await stage.play("go", [say("I will not.", stop_reason="refusal")])
    assert (story.outcome.reason, story.outcome.text) == ("api_error", "I will not.")
    assert story.outcome.error == {"code": "refusal", "message": "The model declined to answer in full."}


async def test_readers_run_side_by_side_and_writers_in_order(stage: Stage) -> None:
    stage.policy.allow_all = True
    script = [
        turn(
            call("Write", file_path="a", content="1"),
            call("Write", file_path="b", content="2"),
            call("Bash", command="cat a b"),
            call("Bash", command="sleep 0.2; echo x"),
            call("Bash", command="sleep 0.2; echo y"),
        ),
        say("ok"),
    ]
    story = await stage.play("go", script)
    order = [e.type for e in story.events if e.type in ("tool.started", "tool.ended")]
    assert order == ["tool.started", "tool.ended"] * 3 + ["tool.started"] * 2 + ["tool.ended"] * 2
    assert "12" in str(story.last_message.results[2].content)


async def test_no_more_than_sixteen_calls_of_a_turn_run_at_once(stage: Stage) -> None:
    inside: list[str] = []
    most = 0
    full = asyncio.Event()

    @tool("Wait", reads=True)
    async def wait(ctx: ToolContext, name: Annotated[str, "Who"]) -> ToolRecord:
        nonlocal most
        inside.append(name)
        most = max(most, len(inside))
        if len(inside) == AT_ONCE:
            full.set()
        await full.wait()  # nobody leaves before all the places are taken
        inside.remove(name)
        return ok(name)

    stage.tools.add(wait)
    names = [str(n) for n in range(3 * AT_ONCE)]
    story = await stage.play("go", [turn(*(call("Wait", name=n) for n in names)), say("ok")])
    assert most == AT_ONCE == 16
    assert [r.content for r in story.last_message.results] == names
