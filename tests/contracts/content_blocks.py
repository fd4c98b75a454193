"""Rows of the contract of content blocks: what goes over the wire, and when to delegate."""

from __future__ import annotations

from typing import Any

from cowork.core.blocks import Text, ToolResult, ToolUse, blocks_from_list, blocks_to_list
from tests.contracts import evidence as e
from tests.contracts.rows import Check


def first_round() -> list[dict[str, Any]]:
    """The assistant message with the calls, and the user message with their results."""
    return list(e.spoken()[1]["messages"][-2:])


def results() -> list[dict[str, Any]]:
    return list(first_round()[1]["content"])


def guidance() -> str:
    return e.review().main[0].system


def parent() -> str:
    return str(e.spoken()[-1])


ROWS: list[tuple[str, Check]] = [
    ("A tool result is a `tool_result` block", lambda: {b["type"] for b in results()} == {"tool_result"}),
    ("... with `tool_use_id`", lambda: all(b["tool_use_id"] for b in results())),
    ("... with `content`", lambda: all(b["content"] for b in results())),
    ("... in a message of the user's role", lambda: first_round()[1]["role"] == "user"),
    ("Several results are one user message with an array", lambda: len(results()) == 3),
    (
        "... in call order",
        lambda: (
            [b["tool_use_id"] for b in results()]
            == [b["id"] for b in first_round()[0]["content"] if b["type"] == "tool_use"]
        ),
    ),
    ("No result is plain text with a marker", lambda: "[Tool result for" not in parent()),
    ("A child's context is fresh", lambda: len(e.review().child[0].messages) == 1),
    ("Children do not nest", lambda: "Task" not in {t.name for t in e.review().child[0].tools}),
    ("Error results have `is_error: true`", lambda: results()[2]["is_error"] is True),
    ("... and others have no `is_error`", lambda: all("is_error" not in b for b in results()[:2])),
    ("`ContentBlock` Text", lambda: blocks_to_list((Text("a"),)) == [{"type": "text", "text": "a"}]),
    ("`ContentBlock` ToolUse", lambda: blocks_to_list((ToolUse("1", "Read", {}),))[0]["type"] == "tool_use"),
    (
        "... with id, name and input",
        lambda: {"id", "name", "input"} <= set(blocks_to_list((ToolUse("1", "Read", {}),))[0]),
    ),
    ("`ContentBlock` ToolResult", lambda: blocks_to_list((ToolResult("1", "x"),))[0]["type"] == "tool_result"),
    ("... `is_error` only when it is one", lambda: "is_error" not in blocks_to_list((ToolResult("1", "x"),))[0]),
    ("... and then true", lambda: blocks_to_list((ToolResult("1", "x", is_error=True),))[0]["is_error"] is True),
    ("Types are tagged in snake case", lambda: blocks_to_list((ToolResult("1", "x"),))[0]["type"].islower()),
    (
        "Blocks come back as they went",
        lambda: (
            blocks_from_list(blocks_to_list((Text("a"), ToolUse("1", "R", {"x": 1}))))
            == (Text("a"), ToolUse("1", "R", {"x": 1}))
        ),
    ),
    ("Content is a string or blocks", lambda: isinstance(e.spoken()[0]["messages"][0]["content"], str | list)),
    (
        "An assistant message keeps its text and its calls",
        lambda: [b["type"] for b in first_round()[0]["content"]] == ["text", *["tool_use"] * 3],
    ),
    ("... without empty text blocks", lambda: "'text': ''" not in str(e.spoken())),
    (
        "Sequence: assistant (tool_use), then user (tool_result)",
        lambda: [m["role"] for m in first_round()] == ["assistant", "user"],
    ),
    (
        "Statuses of calls are updated by their results",
        lambda: next(x.record["status"] for x in e.review().of(e.ToolEnded)) == "success",
    ),
    ("Every wire is valid: anthropic", lambda: len(e.spoken("anthropic")) == 5),
    ("Every wire is valid: openai", lambda: len(e.spoken("openai")) == 5),
    ("Every wire is valid: openai-chat", lambda: len(e.spoken("openai-chat")) == 5),
    (
        "On openai-chat each result is a message of its own",
        lambda: [m["role"] for m in e.spoken("openai-chat")[1]["messages"]].count("tool") == 3,
    ),
    ("Guidance: `Task Tool Usage (Subagents)`", lambda: "Task Tool Usage (Subagents)" in guidance()),
    ("When: open-ended exploration → explore", lambda: "open questions" in guidance() and "→ explore" in guidance()),
    ("When: several rounds of searching → explore", lambda: "several rounds of searching" in guidance()),
    ("When: multi-step work with changes → general-purpose", lambda: "→ general-purpose" in guidance()),
    ("When: long output", lambda: "long output" in guidance()),
    ("When not: a known path → Read", lambda: "a known path → Read" in guidance()),
    ("When not: one class or symbol → Glob", "Grep finds a symbol and Glob only names, so it says Grep"),
    ("When not: two or three files → Read", lambda: "two or three files → Read" in guidance()),
    ("When not: one command → Bash", lambda: "one command → Bash" in guidance()),
    ("The table of types with their models", lambda: "| light | bash, explore, summary |" in guidance()),
    ("... with what each is for", "Task's own description says that, so each agent is described once in a request"),
    ("Explore is on the fast model", lambda: e.review().stage.agents["explore"].model == "light"),
    ("Plan is on the balanced one", lambda: e.review().stage.agents["plan"].model == "main"),
    ("Bash is on the fast one", lambda: e.review().stage.agents["bash"].model == "light"),
    ("GeneralPurpose is on the balanced one", lambda: e.review().stage.agents.find("GeneralPurpose").model == "main"),  # type: ignore[union-attr]
    ("Principle: direct tools for single operations", lambda: "Do it yourself when it is quick" in guidance()),
    (
        "Principle: Task for open or multi-step work",
        lambda: "Delegate when it saves your context or time" in guidance(),
    ),
    ("Guidance is there only with Task", lambda: without_task()),
    (
        "A child returns its final text, no transcript",
        lambda: "big.txt:1 has it." in parent() and "0123456789abcdef" not in parent(),
    ),
    (
        "The result is at most 10,000 characters",
        lambda: e.ended_by("long").data["result"].startswith("é" * 10_000 + "..."),
    ),
    (
        "... then `[Result truncated - N chars total]`",
        lambda: "[Result truncated - 12000 chars total]" in e.ended_by("long").data["result"],
    ),
    (
        "... cut at a byte that may split a character",
        "it is cut on a character, and the whole is in a file the parent may read",
    ),
    ("A single call flows: Read, then its result", lambda: e.review().child[1].messages[-1].results),
    ("Parallel calls: one message with two results", lambda: len(results()) > 1),
    ("A failing tool is marked", lambda: results()[2]["is_error"]),
    ("Delegating to explore returns a summary", lambda: "has it" in parent()),
    ("Large reads of a child do not swell the main context", lambda: len(parent()) < 60_000),
]


def without_task() -> bool:
    stage = e.new_stage()
    stage.tools = stage.tools.without("delegate")
    return "Subagents" not in e.play([e.say("ok")], stage=stage).main[0].system
