"""Whatever happened, what is sent is valid."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cowork.core.blocks import Image, Message, Text, Thinking, ToolResult, ToolUse
from cowork.core.events import (
    ContextCompacted,
    Event,
    PromptAdded,
    ReplyAdded,
    SessionRewound,
    ToolEnded,
    ToolStarted,
    from_dict,
    to_dict,
)
from cowork.core.transcript import CLEARED, INTERRUPTED, LOST_START, NEVER_RAN, Transcript, fold
from tests.fakes.wire_rules import violations


def numbered(*events: Event) -> list[Event]:
    return [replace(event, id=n) for n, event in enumerate(events, 1)]


def reply(*blocks: object) -> ReplyAdded:
    return ReplyAdded(tuple(blocks))  # type: ignore[arg-type]


def ended(id: str, text: str = "done", status: str = "success") -> ToolEnded:
    return ToolEnded(id, "Read", {"status": status, "text": text})


def test_results_of_one_turn_go_back_in_one_message_in_call_order() -> None:
    history = numbered(
        PromptAdded("look"),
        reply(Text("ok"), ToolUse("a", "Read"), ToolUse("b", "Grep")),
        ended("b", "second"),
        ended("a", "first", "error"),
        PromptAdded("and hurry"),
    )
    assert fold(history).messages() == (
        Message("user", (Text("look"),)),
        Message("assistant", (Text("ok"), ToolUse("a", "Read"), ToolUse("b", "Grep"))),
        Message("user", (ToolResult("a", "first", True), ToolResult("b", "second"), Text("and hurry"))),
    )


def test_a_call_without_a_result_is_answered_when_the_request_is_built() -> None:
    history = numbered(PromptAdded("go"), reply(ToolUse("a", "Bash"), ToolUse("b", "Bash")), ToolStarted("a", "Bash"))
    assert fold(history).messages()[-1].results == (
        ToolResult("a", INTERRUPTED, True),
        ToolResult("b", NEVER_RAN, True),
    )


def test_images_follow_the_text_of_their_result() -> None:
    picture = Image("image/png", "AAAA")
    history = numbered(
        PromptAdded("see"), reply(ToolUse("a", "Read")), replace(ended("a", "a picture"), images=(picture,))
    )
    assert fold(history).messages()[-1].results[0].content == (Text("a picture"), picture)


def test_a_conversation_that_lost_its_start_begins_with_a_user_message() -> None:
    assert fold(numbered(reply(Text("hi")))).messages()[0] == Message("user", (Text(LOST_START),))


def test_reasoning_of_another_model_is_left_out() -> None:
    history = numbered(PromptAdded("go"), reply(Thinking("hm", {"signature": "s"}, "old"), Text("yes")))
    assert fold(history).messages("new")[1].content == (Text("yes"),)
    assert len(fold(history).messages("old")[1].content) == 2


def test_a_reply_of_nothing_but_reasoning_is_not_sent_back() -> None:
    history = numbered(PromptAdded("go"), reply(Thinking("hm", {}, "m")), PromptAdded("again"))
    assert fold(history).messages("m") == (Message("user", (Text("go"), Text("again"))),)


def test_an_id_that_a_server_used_twice_is_renamed_with_its_result() -> None:
    history = numbered(
        PromptAdded("go"), reply(ToolUse("call_0", "Read")), ended("call_0", "one"), reply(ToolUse("call_0", "Read"))
    )
    messages = fold([*history, replace(ended("call_0", "two"), id=9)]).messages()
    assert [c.id for m in messages for c in m.calls] == ["call_0", "call_0_2"]
    assert violations(messages) == []


def test_compaction_puts_a_summary_in_place_of_the_older_part() -> None:
    history = numbered(
        PromptAdded("first"), reply(ToolUse("a", "Read")), ended("a", "bulk"), reply(Text("so")), PromptAdded("second")
    )
    compacted = ContextCompacted("what was", keep_from=5, id=6)
    assert fold([*history, compacted]).messages() == (Message("user", (Text("what was"), Text("second"))),)


def test_cleared_results_are_one_line_and_stay_paired() -> None:
    history = numbered(PromptAdded("x"), reply(ToolUse("a", "Read")), ended("a", "bulk" * 999))
    messages = fold([*history, ContextCompacted(cleared=("a",), id=4)]).messages()
    assert messages[-1].results == (ToolResult("a", CLEARED),)


def test_rewinding_past_a_compaction_brings_the_originals_back() -> None:
    history = numbered(
        PromptAdded("one"),
        reply(Text("1")),
        PromptAdded("two"),
        reply(Text("2")),
        ContextCompacted("short", keep_from=0),
        PromptAdded("three"),
    )
    rewound = fold([*history, SessionRewound(to=3, id=7)])
    assert rewound.messages() == (Message("user", (Text("one"),)), Message("assistant", (Text("1"),)))
    assert [p.text for p in rewound.prompts()] == ["one"]


def test_events_of_other_agents_change_nothing() -> None:
    transcript = Transcript("main")
    transcript.apply(PromptAdded("hi", agent="main/explore-1"))
    assert transcript.messages() == ()


names = st.sampled_from(["Read", "Bash", ""])
ids = st.sampled_from(["a", "b", "c", "d", "", "call_0"])
texts = st.sampled_from(["", " ", "hello", "x" * 50, "\n"])
blocks = st.one_of(
    st.builds(Text, texts),
    st.builds(Thinking, texts, st.just({}), st.sampled_from(["m", "n"])),
    st.builds(ToolUse, ids, names),
    st.builds(ToolResult, ids, texts),
)
events = st.one_of(
    st.builds(PromptAdded, texts, texts),
    st.builds(ReplyAdded, st.lists(blocks, max_size=5).map(tuple)),
    st.builds(ToolStarted, ids, names),
    st.builds(
        ToolEnded,
        ids,
        names,
        st.fixed_dictionaries({"status": st.sampled_from(["success", "partial", "error"]), "text": texts}),
    ),
    st.builds(
        ContextCompacted,
        st.sampled_from(["", "summary"]),
        st.integers(0, 12),
        st.lists(ids).map(tuple),
        shortened=st.lists(ids, max_size=2).map(tuple),
    ),
    st.builds(SessionRewound, st.integers(0, 12)),
)


@given(st.lists(events, max_size=14), st.sampled_from([None, "m", "z"]))
def test_any_history_gives_messages_a_strict_service_takes(history: list[Event], model: str | None) -> None:
    assert violations(fold(numbered(*history)).messages(model)) == []


@given(st.lists(events, max_size=14))
def test_a_history_that_went_through_json_folds_to_the_same_messages(history: list[Event]) -> None:
    stored = numbered(*history)
    back = [from_dict(json.loads(json.dumps(to_dict(event)))) for event in stored]
    assert fold(e for e in back if e).messages() == fold(stored).messages()


@given(st.lists(events, max_size=10), st.data())
def test_a_history_with_lines_lost_or_doubled_is_still_valid(history: list[Event], data: st.DataObject) -> None:
    stored = numbered(*history)
    damaged = [e for e in stored for _ in range(data.draw(st.integers(0, 2)))]
    assert violations(fold(damaged).messages()) == []


@pytest.mark.soak
@settings(max_examples=2_000 if os.environ.get("COWORK_SOAK") else 80)
@given(st.lists(st.tuples(events, st.lists(st.sampled_from([None, "m", "z"]), max_size=2)), max_size=20))
def test_messages_asked_for_on_the_way_are_those_of_the_whole_history(
    history: list[tuple[Event, list[str | None]]],
) -> None:
    live = Transcript()
    stored = numbered(*(event for event, _ in history))
    for n, (event, (_, models)) in enumerate(zip(stored, history, strict=True), 1):
        live.apply(event)
        for model in models:
            assert live.messages(model) == fold(stored[:n]).messages(model)


def test_what_was_sent_before_is_not_made_again() -> None:
    live = Transcript()
    for n in range(1, 41, 3):
        for event in (
            ReplyAdded((Text("look"), ToolUse(f"c{n}", "Read"))),
            ToolStarted(f"c{n}", "Read"),
            ended(f"c{n}"),
        ):
            live.apply(replace(event, id=n))
            n += 1
        sent = live.messages("m")
        assert all(a is b for a, b in zip(sent[:-1], live.messages("m")[:-1], strict=True))


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_a_blank_prompt_adds_no_block(text: str) -> None:
    assert fold(numbered(PromptAdded(text))).messages() == ()


@pytest.mark.soak
@given(st.lists(events, max_size=24))
@example([PromptAdded("hello"), ContextCompacted("so far"), ContextCompacted("so far", keep_from=1)])
@settings(max_examples=2_000 if os.environ.get("COWORK_SOAK") else 200)
def test_what_a_summary_stands_for_can_be_let_go_and_read_again(history: list[Event]) -> None:
    written: list[Event] = []
    lean = Transcript(recall=lambda: written)
    for event in numbered(*history):
        if isinstance(event, SessionRewound):  # one goes back to a prompt that is still there
            event = replace(event, to=next((p.id for p in lean.prompts() if p.id >= event.to), event.id))
        written.append(event)
        lean.apply(event)
        whole = fold(written)
        assert lean.messages() == whole.messages()
        assert lean.prompts() == whole.prompts()
        assert _without_numbers(fold(lean.history()).messages()) == _without_numbers(whole.messages())


def _without_numbers(messages: tuple[Message, ...]) -> str:
    """As text, without what tells a call from an earlier one with the same id, which may have been let go."""
    return re.sub(r"'([a-d]|call_0)_\d+'", r"'\1'", repr(messages))


def test_a_long_conversation_holds_no_more_than_since_its_summary() -> None:
    lean = Transcript(recall=lambda: ())
    for start in range(1, 1000, 10):
        lean.apply(PromptAdded("go", id=start))
        for place in range(1, 8):
            lean.apply(ReplyAdded((Text("x"),), "end_turn", id=start + place))
        lean.apply(ContextCompacted("so far", keep_from=start + 5, id=start + 9))
    assert len(lean.history()) == 100 + 4  # the prompts, three replies and the summary
