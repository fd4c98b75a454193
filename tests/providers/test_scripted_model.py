"""The scripted model: who asks, which turn comes, and how it fails."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cowork.core.blocks import Message, Text, Thinking, ToolResult, ToolUse, Usage
from cowork.core.errors import ProviderError, UserError
from cowork.core.ports import TASK_MARK, Delta, ModelSpec, Reply, Request, ToolSpec
from cowork.providers.scripted import Scripted, open_scripted


def asked(*texts: str, system: str = "sys") -> Request:
    """User, assistant, user… in turn."""
    roles = ("user", "assistant")
    return Request(system, tuple(Message(roles[i % 2], (Text(t),)) for i, t in enumerate(texts)))  # type: ignore[arg-type]


def child(about: str, prompt: str, *later: str, id: str = "explore-1") -> Request:
    return replace(asked(prompt, *later, system=f"You explore.{TASK_MARK}{about}"), session_id=f"s/{id}")


async def play(model: Scripted, request: Request) -> tuple[list[Delta], Reply]:
    deltas: list[Delta] = []
    reply: Reply | None = None
    async for item in model.stream(request):
        assert reply is None, "the reply comes last"
        if isinstance(item, Reply):
            reply = item
        elif isinstance(item, Delta):
            deltas.append(item)
    assert reply is not None
    return deltas, reply


async def failure(model: Scripted, request: Request) -> tuple[list[Any], ProviderError]:
    items: list[Any] = []
    try:
        async for item in model.stream(request):
            items.append(item)
    except ProviderError as e:
        return items, e
    raise AssertionError(f"no failure, but {items}")


async def test_turns_are_played_in_order_and_then_the_script_is_out() -> None:
    model = Scripted([{"say": "one"}, "two"])
    assert (await play(model, asked("a")))[1].text == "one"
    assert (await play(model, asked("a", "one", "b")))[1].text == "two"
    _, error = await failure(model, asked("a", "one", "b", "two", "c"))
    assert (error.kind, error.message) == ("script", "main: the script is out of turns, asked for turn 3")
    assert not error.retryable


async def test_a_turn_gives_thinking_text_and_calls() -> None:
    model = Scripted(
        [
            {
                "think": "hm",
                "say": "Looking.",
                "calls": [
                    {"name": "Read", "input": {"file_path": "a"}, "id": "mine"},
                    {"Grep": {"pattern": "x"}},
                    {"name": "Write", "input": {}, "malformed": "cut off"},
                ],
                "stop_reason": "max_tokens",
                "usage": {"input_tokens": 5, "output_tokens": 7},
            }
        ],
        model="m",
    )
    _, reply = await play(model, asked("a"))
    assert reply == Reply(
        (
            Thinking("hm", {}, "m"),
            Text("Looking."),
            ToolUse("mine", "Read", {"file_path": "a"}),
            ToolUse("main-1-2", "Grep", {"pattern": "x"}),
            ToolUse("main-1-3", "Write", {}, "cut off"),
        ),
        "max_tokens",
        Usage(5, 7),
        "m",
    )


async def test_text_comes_in_the_given_number_of_pieces_with_a_pause_before_each() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    model = Scripted([{"say": "abcdefg", "chunks": 3, "delay_ms": 20}, {"say": "a bc  d", "delay_ms": 5}], sleep=sleep)
    deltas, _ = await play(model, asked("a"))
    assert [d.text for d in deltas] == ["ab", "cd", "efg"]
    assert pauses == [0.02] * 3
    deltas, reply = await play(model, asked("a"))
    assert [d.text for d in deltas] == ["a", " bc", "  d"]
    assert reply.text == "a bc  d"


@pytest.mark.parametrize(("at", "seen"), [("before", 0), ("first", 1), ("middle", 2), ("last", 4)])
async def test_a_fault_costs_a_try_and_not_the_turn(at: str, seen: int) -> None:
    fault = {"status": 529, "at": at, "retry_after": 3}
    model = Scripted([{"say": "abcd", "chunks": 4, "fault": fault}, "next"])
    items, error = await failure(model, asked("a"))
    assert [d.text for d in items] == list("abcd")[:seen]
    assert (error.kind, error.status, error.retry_after) == ("overloaded", 529, 3.0)
    assert (error.usage.input_tokens > 0) == (at != "before")
    assert (await play(model, asked("a")))[1].text == "abcd"
    assert (await play(model, asked("a", "abcd", "b")))[1].text == "next"


async def test_several_faults_are_one_a_try_and_a_turn_of_faults_alone_ends_with_the_last() -> None:
    model = Scripted([{"fault": ["connection", 500, {"kind": "stalled", "times": 2}]}, "through"])
    kinds = [(await failure(model, asked("a")))[1].kind for _ in range(4)]
    assert kinds == ["connection", "server", "stalled", "stalled"]
    assert (await play(model, asked("a")))[1].text == "through"


async def test_a_mismatch_with_what_was_expected_is_an_error_that_shows_both() -> None:
    model = Scripted([{"say": "x", "expect": {"contains": "hello"}}, {"say": "y", "expect": {"lacks": "no"}}])
    _, error = await failure(model, asked("good bye"))
    assert error.message == "main turn 1: expected 'hello' in the last message, got 'good bye'"
    result = Message("user", (ToolResult("t", "a no"),))
    _, error = await failure(model, Request("sys", (result,)))
    assert error.message == "main turn 2: did not expect 'no' in the last message"


async def test_what_was_taken_from_a_result_fills_later_turns() -> None:
    model = Scripted(
        [{"take": {"job": r"id: (\w+)"}, "call": {"KillBash": {"id": "${job}"}}}, "killed ${job} ${other}"]
    )
    results = Message("user", (ToolResult("t", (Text("id: b7f"),)),))
    _, reply = await play(model, Request("", (results,)))
    assert reply.calls[0].input == {"id": "b7f"}
    assert (await play(model, asked("a", "b", "c")))[1].text == "killed b7f ${other}"
    model = Scripted([{"take": {"job": "id"}, "say": "x"}])
    assert "take.job" in (await failure(model, asked("a")))[1].message


SENT = {
    "main": [
        {
            "calls": [
                {"Task": {"description": "find auth", "prompt": "Where is auth?", "subagent_type": "explore"}},
                {"Task": {"description": "find db", "prompt": "Where is the db?", "subagent_type": "Explore"}},
                {"Task": {"description": "plan it", "prompt": "Plan.", "subagent_type": "general-purpose"}},
            ]
        },
        "done",
    ],
    "agents": {
        "explore": [{"say": "e1", "call": {"LS": {}}}, "e2"],
        "general_purpose": [{"match": "Plan", "turns": ["p1"]}],
    },
}


async def test_children_are_known_by_their_session_and_each_plays_its_own_copy() -> None:
    model = Scripted(SENT)
    await play(model, asked("go"))
    auth, db = child("find auth", "Where is auth?"), child("find db", "Where is the db?", id="explore-2")
    (_, a1), (_, b1), (_, p1) = await asyncio.gather(
        play(model, auth), play(model, db), play(model, child("plan it", "Plan.", id="general-purpose-3"))
    )
    assert (a1.text, b1.text, p1.text) == ("e1", "e1", "p1")
    assert a1.calls[0].id != b1.calls[0].id
    assert (await play(model, child("find db", "Where is the db?", "e1", "r", id="explore-2")))[1].text == "e2"
    assert (await play(model, child("find auth", "Where is auth?", "e1", "r")))[1].text == "e2"
    assert (await play(model, asked("go", "x", "r")))[1].text == "done"


async def test_twins_with_the_very_same_prompt_do_not_share_turns_even_while_they_stream_and_fail() -> None:
    turns = [{"say": "e1", "delay_ms": 1, "fault": {"kind": "server", "at": "last"}}, {"say": "e2", "delay_ms": 1}]
    model = Scripted(
        [{"call": {"Task": {"description": "d", "prompt": "p", "subagent_type": "explore"}}}], {"explore": turns}
    )

    async def whole(id: str) -> list[str]:
        texts = []
        for request in (child("d", "p", id=id), child("d", "p", "e1", "r", id=id)):
            while True:
                try:
                    texts.append((await play(model, request))[1].text)
                    break
                except ProviderError as e:
                    if e.kind != "server":
                        raise
        return texts

    assert await asyncio.gather(*(whole(f"explore-{n}") for n in range(5))) == [["e1", "e2"]] * 5


async def test_a_child_that_answers_nothing_gets_the_next_turn_when_it_is_nudged() -> None:
    model = Scripted([], {"*": [{"say": ""}, "found"]})
    await play(model, child("d", "p"))
    nudged = replace(child("d", "p"), messages=(Message("user", (Text("p"), Text("Say what you found."))),))
    assert (await play(model, nudged))[1].text == "found"


async def test_a_child_without_turns_is_an_error_that_names_it() -> None:
    model = Scripted([{"call": {"Task": {"description": "d", "prompt": "p", "subagent_type": "plan"}}}])
    _, error = await failure(model, child("d", "p", id="plan-1"))
    assert error.message == "the script has no turns for the child 'd' (plan)"


async def test_asides_do_not_move_the_conversation_on() -> None:
    model = Scripted({"main": ["one", "two"], "asides": [{"match": "Summarise", "turns": ["short"]}]})
    assert (await play(model, asked("a")))[1].text == "one"
    assert (await play(model, asked("a", "one", "Summarise all")))[1].text == "short"
    assert (await play(model, asked("other start")))[1].text == "two"


async def test_a_resumed_main_conversation_goes_on_where_it_was_when_the_script_says_so() -> None:
    model = Scripted({"main": ["one", "two"], "resume": True})
    assert (await play(model, asked("a", "one", "b")))[1].text == "two"


async def test_call_ids_never_repeat_one_of_the_conversation() -> None:
    model = Scripted([{"call": {"LS": {}}}])
    used = (Message("assistant", (ToolUse("main-1-1", "LS"),)), Message("user", (ToolResult("main-1-1", "x"),)))
    _, reply = await play(model, Request("", (Message("user", (Text("a"),)), *used)))
    assert reply.calls[0].id == "main-1-1b"


async def test_usage_is_estimated_from_lengths_and_the_prefix_counts_as_cached() -> None:
    model = Scripted(["x" * 40, "y" * 8], price={"input": 4.0, "output": 8.0, "cache_read": 0.4})
    tools = (ToolSpec("T", "d" * 31, {}),)
    first = Request("s" * 60, (Message("user", (Text("u" * 4),)),), tools)
    _, reply = await play(model, first)
    assert reply.usage == Usage(25, 10)
    grown = (*first.messages, Message("assistant", reply.content), Message("user", (Text("v" * 20),)))
    _, reply = await play(model, Request(first.system, grown, tools))
    assert reply.usage == Usage(5, 2, 35)
    assert model.price(reply.usage) == pytest.approx((5 * 4 + 2 * 8 + 35 * 0.4) / 1e6)
    assert Scripted([]).price(Usage(1, 1)) is None


async def test_scripts_open_from_yaml_from_json_and_inline(tmp_path: Path) -> None:
    head = {"model": "demo", "context_window": 1000, "max_output_tokens": 50, "price": {"input": 1, "output": 2}}
    script = {**head, "main": [{"say": "hi"}]}
    as_json = tmp_path / "s.json"
    as_json.write_text(json.dumps(script))
    as_yaml = tmp_path / "s.yaml"
    as_yaml.write_text(
        "model: demo\ncontext_window: 1000\nmax_output_tokens: 50\nprice: {input: 1, output: 2}\nmain:\n- say: hi\n"
    )
    specs = [
        ModelSpec("scripted", "", options={"script": str(as_json)}),
        ModelSpec("scripted", str(as_yaml)),
        ModelSpec("scripted", "", options={"script": script}),
    ]
    for spec in specs:
        model = open_scripted(spec)
        assert (model.name, model.model, model.context_window, model.max_output_tokens) == (
            "scripted",
            "demo",
            1000,
            50,
        )
        assert model.price(Usage(1_000_000, 1_000_000)) == 3.0
        assert (await play(model, asked("a")))[1].text == "hi"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({"main": [{"sya": "x"}]}, "script: main[0]: unknown key 'sya'"),
        ({"main": "x"}, "script: main: expected a list of turns"),
        ({"mian": []}, "script: unknown key 'mian'"),
        ([{"fault": {"kind": "odd"}}], "script: main[0].fault.kind: 'odd' is none of"),
        ([{"fault": {"status": 500, "at": "end"}}], "script: main[0].fault.at: 'end' is none of before, first"),
        ([{"stop_reason": "odd"}], "script: main[0].stop_reason: 'odd' is none of"),
        ([{"call": {"LS": 3}}], "script: main[0].call.LS: expected a mapping, not int"),
        ([{"delay_ms": -1, "say": "x"}], "script: main[0].delay_ms: -1 is not a number of at least 0"),
        ({"agents": {"explore": "x"}}, "script: agents.explore: expected a list"),
        ({"agents": {"explore": [{"turns": [{"no": 1}]}]}}, "script: agents.explore[0].turns[0]: unknown key 'no'"),
    ],
)
def test_a_wrong_script_is_refused_with_the_place(script: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        Scripted(script)
    assert caught.value.message.startswith(message)


def test_a_script_that_cannot_be_read_is_a_users_error(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("main: [")
    for given in (str(tmp_path / "none.yaml"), str(bad), None):
        with pytest.raises(UserError) as caught:
            open_scripted(ModelSpec("scripted", "", options={"script": given} if given else {}))
        assert "\n" not in caught.value.message
