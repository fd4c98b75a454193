from __future__ import annotations

import json
import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cowork.core.blocks import Image, Text, Thinking, ToolUse, Usage
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    PromptAdded,
    ReplyAdded,
    SessionRewound,
    SessionStarted,
    ToolEnded,
    TurnEnded,
)
from cowork.sessions.export import as_json, markdown

SOAK = bool(os.environ.get("COWORK_SOAK"))


def story(stamp):
    child = "main/explore-1"
    return stamp(
        [
            SessionStarted("/project", "big", "x", "ask", "trunk"),
            PromptAdded("Find the bug\nplease", images=(Image("image/png", "AA"),)),
            ReplyAdded(
                (
                    Thinking("hmm"),
                    Text("I **look**."),
                    ToolUse("c1", "Bash", {"command": "ls"}),
                    ToolUse("t1", "Task", {}),
                ),
                "tool_use",
                Usage(100, 10),
                0.25,
                "big",
            ),
            ToolEnded(
                "c1", "Bash", {"status": "partial", "text": "```\nnot </details> the end\n````"}, {"summary": "exit 1"}
            ),
            AgentStarted("x", "main", "t1", "look", "look well", "explore", agent=child),
            PromptAdded("look well", source="agent", agent=child),
            ReplyAdded(
                (ToolUse("r1", "Read", {"file_path": "a"}),), "tool_use", Usage(10, 1), 0.125, "small", agent=child
            ),
            ToolEnded("r1", "Read", {"status": "success", "text": "line"}, agent=child),
            ReplyAdded((Text("it is in `a`"),), "end_turn", Usage(10, 1), 0.125, "small", agent=child),
            AgentEnded("x", "completed", agent=child),
            ToolEnded("t1", "Task", {"status": "success", "text": "it is in a"}),
            ReplyAdded((ToolUse("e1", "Edit", {"file_path": "a"}),), "tool_use", Usage(1, 1), 0.0, "big"),
            ToolEnded(
                "e1",
                "Edit",
                {"status": "success", "text": "done"},
                {"kind": "diff", "diff": "-a\n+b", "summary": "+1 −1"},
            ),
            ReplyAdded((Text("Fixed."),), "end_turn", Usage(100, 10), 0.25, "big"),
            TurnEnded("completed"),
        ]
    )


def test_markdown_tells_the_story_with_the_child_inside_its_call(stamp):
    out = markdown(story(stamp))
    assert out.startswith("# Find the bug\n\nsession `s1` · `/project` · `trunk` · `big` · ")
    assert "244 tokens, $0.75" in out.split("\n")[2]
    parts = """## You|please|*[image]*|## cowork|Thinking|I **look**.|Bash(ls) · exit 1|Task(
        |explore: look · completed · 22 tokens, $0.25|look well|Read(a)|it is in `a`|+1 −1|```diff|Fixed."""
    order = [part.strip() for part in parts.split("|")]
    places = [out.index(part) for part in order]
    assert places == sorted(places)
    assert out.count("<details>") == len(re.findall(r"^</details>$", out, re.M)) == 6
    assert "`````\n```\nnot </details> the end\n````\n`````" in out


def test_unfinished_and_rewound_parts(stamp):
    events = stamp(
        [
            PromptAdded("one"),
            ReplyAdded((Text("first"),)),
            PromptAdded("two"),
            ReplyAdded((Text("gone"), ToolUse("x", "Bash", {}))),
            SessionRewound(3),
            PromptAdded("three"),
            ContextCompacted("what was before"),
            ReplyAdded((ToolUse("c", "Bash", {"command": "sleep"}),)),
            TurnEnded("interrupted"),
        ]
    )
    out = markdown(events)
    assert "gone" not in out
    assert "Bash(sleep) · interrupted" in out
    assert "*Stopped: interrupted.*" in out
    assert "what was before" in out


def test_an_empty_history_exports_too():
    assert markdown([]).startswith("# Conversation")
    assert json.loads(as_json([]))["messages"] == []


def test_terminal_controls_do_not_get_out(stamp):
    out = markdown(stamp([PromptAdded("a\x1b]0;title\x07b"), ReplyAdded((Text("\x9b31m \u202e"),))]))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out)


def test_json_has_the_messages_of_main_and_child(stamp):
    out = json.loads(as_json(story(stamp)))
    assert out["session"]["id"] == "s1"
    assert out["total_cost_usd"] == 0.75
    assert out["usage"]["input_tokens"] == 221
    assert [m["role"] for m in out["messages"]] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert [b["type"] for b in out["messages"][2]["content"]] == ["tool_result", "tool_result"]
    (child,) = out["children"]
    assert (child["subagent_type"], child["status"], child["total_cost_usd"]) == ("explore", "completed", 0.25)
    assert child["messages"][-1]["content"] == [{"type": "text", "text": "it is in `a`"}]


def test_an_unknown_price_stays_unknown(stamp):
    events = stamp([PromptAdded("x"), ReplyAdded((Text("y"),), "end_turn", Usage(5, 5), None, "odd")])
    assert "price unknown" in markdown(events)
    assert json.loads(as_json(events))["total_cost_usd"] is None


TRICKS = [
    "</details>", "<details>", "<script>alert(1)</script>", "```", "````", "~~~", "`", "``", "\\`", "\n", "\n\n",
    "- ", "> ", "# ", "    ", "a", "<!--", "-->", "<img src=x onerror=y>", "&lt;", "\\", "| a |", "[x](y)", "1. ",
    "<", ">", "`<b>`",
]  # fmt: skip


@pytest.mark.soak
@settings(max_examples=5000 if SOAK else 200, deadline=None)
@given(parts=st.lists(st.sampled_from(TRICKS), max_size=14))
def test_no_text_can_put_html_of_its_own_into_the_page(parts):
    text = "".join(parts)
    events = [
        PromptAdded(text, id=1),
        ReplyAdded((Thinking(text), Text(text), ToolUse("c", text or "x", {"a": text})), id=2),
        ToolEnded("c", "x", {"text": text, "status": text}, {"summary": text}, id=3),
        ReplyAdded((Text("the end"),), id=4),
    ]
    ours = {"<details>", "</details>", "<summary>", "</summary>"}
    for token in MarkdownIt().parse(markdown(events)):
        for inner in [token, *(token.children or [])]:
            if inner.type in ("html_block", "html_inline"):
                assert set(re.findall(r"<[^>]*>?", inner.content)) <= ours, inner.content
