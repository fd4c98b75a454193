"""The offline model as a provider: everything it knows comes from the conversation it is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cowork.core.blocks import Block, Message, Text, ToolResult, ToolUse, Usage
from cowork.core.ports import Delta, ModelSpec, Reply, Request, ToolSpec
from cowork.providers.offline.model import Offline, respond

TOOLS = tuple(
    ToolSpec(name, "", {}) for name in ("Read", "Grep", "Glob", "LS", "Bash", "Edit", "Write", "MultiEdit", "Task")
)
CHILD = "You explore.\n\n# Task\nfind it"


def asked(*messages: Message, **rest: Any) -> Request:
    return Request(rest.pop("system", "You are cowork."), messages, rest.pop("tools", TOOLS), **rest)


def user(text: str) -> Message:
    return Message("user", (Text("<environment>\ncwd: /w\n</environment>"), Text(text)))


def answered(request: Request, results: dict[str, str]) -> Request:
    """The request after its calls came back: results by a piece of the call's input, else nothing found."""
    calls = [b for b in respond(request) if isinstance(b, ToolUse)]
    assert calls, "there are no calls to answer"
    back: list[Block] = []
    for call in calls:
        given = f"{call.name} {json.dumps(call.input)}"
        text = next((t for key, t in results.items() if key in given), "No matches.")
        back.append(ToolResult(call.id, text.removeprefix("!"), text.startswith("!")))
    both = (Message("assistant", tuple(respond(request))), Message("user", tuple(back)))
    return Request(request.system, (*request.messages, *both), request.tools, request.tool_choice)


def text_of(request: Request) -> str:
    blocks = respond(request)
    assert not [b for b in blocks if isinstance(b, ToolUse)], blocks
    return "".join(b.text for b in blocks if isinstance(b, Text))


def names(request: Request) -> list[str]:
    return [b.name for b in respond(request) if isinstance(b, ToolUse)]


FOUND = {"class|const": "src/a.py:7:def frob(x):\ntests/t.py:3:def frob():\n\n2 matches in 2 files."}
PAGE = {"Read": '6\t\n7\tdef frob(x):\n8\t    """Frobs it."""\n9\t    return x'}


async def test_it_streams_in_pieces_ends_with_one_reply_and_costs_nothing() -> None:
    model = Offline(ModelSpec("offline", "offline"))
    items = [item async for item in model.stream(asked(user("hello")))]
    assert isinstance(items[-1], Reply)
    assert [type(item) for item in items[:-1]] == [Delta] * (len(items) - 1)
    assert len(items) > 20
    assert "".join(item.text for item in items[:-1] if isinstance(item, Delta)) == items[-1].text
    assert items[-1].stop_reason == "end_turn"
    assert model.price(Usage(10**6, 10**6)) == 0.0
    await model.aclose()


def test_the_same_request_gets_the_same_reply() -> None:
    request = asked(user("where is frob defined?"))
    assert respond(request) == respond(request)


def test_it_searches_looks_closer_and_answers_with_the_place() -> None:
    request = asked(user("where is frob defined?"))
    assert names(request) == ["Grep"]
    request = answered(request, FOUND)
    assert names(request) == ["Read"]
    said = text_of(answered(request, PAGE))
    assert said.startswith("`frob` is defined at `src/a.py:7` (function): Frobs it.")
    assert "`tests/t.py:3`" in said


@pytest.mark.parametrize("name", ["src/a.py", "/etc/a.txt", "~/a.md", "a.py"])
def test_a_file_named_with_an_at_sign_is_that_file(name: str) -> None:
    assert respond(asked(user(f"read @{name}"))) == respond(asked(user(f"read {name}")))


def test_what_is_nowhere_is_said_to_be_nowhere() -> None:
    request = asked(user("where is frob_nicate defined?"))
    for _ in range(3):
        request = answered(request, {})
    assert text_of(request) == (
        "I searched for definitions of `frob_nicate` and for any mention of it, and found neither."
    )


def test_what_is_left_out_of_a_list_is_counted() -> None:
    found = {"frob": "\n".join(f"src/a.py:{n}:    frob({n})" for n in range(1, 26)) + "\n\n25 matches in 1 file."}
    told = text_of(answered(answered(asked(user("What uses `frob`?")), found), {}))
    assert (told.count("`src/a.py:"), "- and 11 more" in told) == (14, True)
    told = text_of(answered(answered(answered(asked(user("Where is `frob`?")), {}), {}), found))
    assert (told.count("`src/a.py:"), "- and 17 more" in told) == (8, True)
    page = {"Read": "\n".join(f"{n}\tline {n}" for n in range(1, 301))}
    assert "lines 1–200 of 300" in text_of(
        answered(answered(asked(user("read notes.txt")), {"Glob": "notes.txt"}), page)
    )


def test_a_follow_up_knows_what_it_is_about() -> None:
    request = answered(answered(asked(user("where is frob defined?")), FOUND), PAGE)
    said = Message("assistant", respond(request))
    request = asked(*request.messages, said, Message("user", (Text("and where is it used?"),)))
    (call,) = [b for b in respond(request) if isinstance(b, ToolUse)]
    assert "frob" in call.input["pattern"]


def test_a_question_of_parts_sends_out_children_and_joins_their_reports() -> None:
    request = asked(user("where is Frob, where is Nicate and what changed?"))
    assert names(request) == ["Task", "Task", "Bash", "Bash", "Bash"]
    report = (
        "Subagent (explore, light) completed.\n\nIt is at `a.py:1`.\n\n2 turns · 1 tool call · subagent_id explore-1"
    )
    git = {"status": "## main\n M a.py", "diff --stat": " 1 file changed, 2 insertions(+)", "log": "abc first"}
    said = text_of(answered(request, {"Task": report} | git))
    assert said.count("It is at `a.py:1`.") == 2
    assert "subagent_id" not in said
    assert "1 file changed, 2 insertions" in said


def test_a_child_looks_by_itself_and_sends_nobody() -> None:
    request = asked(user("where is Frob and where is Nicate?"), system=CHILD)
    assert set(names(request)) == {"Grep"}


def test_without_the_tool_it_says_so_instead_of_calling_it() -> None:
    only = (ToolSpec("Read", "", {}),)
    assert "not among your tools" in text_of(
        asked(user("run the tests"), tools=only)
    ) or "no way to run tests" in text_of(asked(user("run the tests"), tools=only))
    assert "found neither" in text_of(asked(user("where is frob_x?"), tools=only))


def test_a_turn_without_tools_tells_what_is_known() -> None:
    """The report at a turn limit, and a summary that was asked for."""
    request = answered(answered(asked(user("where is frob defined?")), FOUND), PAGE)
    full = text_of(request)
    last = Message("assistant", respond(request))
    wish = Message("user", (Text("Summarize your findings concisely"),))
    assert text_of(asked(*request.messages, last, wish, tool_choice="none")) == full
    early = answered(asked(user("where is frob defined?")), FOUND)
    stop = Message("user", (*early.messages[-1].content, Text("Stop here: you may not call tools any more.")))
    assert "src/a.py:7" in text_of(asked(*early.messages[:-1], stop, tool_choice="none"))


def test_an_answer_can_be_typed() -> None:
    schema = {
        "type": "object",
        "properties": {"file": {"type": "string"}, "line": {"type": "integer"}, "summary": {"type": "string"}},
        "required": ["file", "line", "summary"],
    }
    told = "Your last message must be a single JSON value and nothing else, valid under this JSON Schema:\n"
    request = asked(user(f"where is frob defined?\n\n{told}{json.dumps(schema)}"))
    value = json.loads(text_of(answered(answered(request, FOUND), PAGE)))
    assert (value["file"], value["line"]) == ("src/a.py", 7)
    assert "frob" in value["summary"]


def test_a_conversation_is_summed_up_when_it_has_to_be() -> None:
    story = 'USER: where is frob?\nCALL Edit {"file_path": "x.py"}\nAGENT: At `src/a.py:7`.'
    text = f"<conversation>\n{story}\n</conversation>"
    said = text_of(asked(Message("user", (Text(text),)), system="You are writing the memory.", tools=()))
    assert all(piece in said for piece in ("where is frob?", "src/a.py:7", "x.py"))


def test_after_compaction_the_pinned_request_is_the_question() -> None:
    pinned = "<request>\nwhere is frob defined?\n</request>"
    pins = f"[The conversation so far, compacted.]\n\n{pinned}\n\n<summary>\n…\n</summary>"
    assert names(asked(Message("user", (Text(pins),)))) == ["Grep"]


def test_what_is_said_meanwhile_is_answered_too() -> None:
    first = answered(asked(user("where is frob defined?")), FOUND)
    steered = Message("user", (*first.messages[-1].content, Text("also list the TODOs")))
    request = asked(*first.messages[:-1], steered)
    patterns = json.dumps([b.input for b in respond(request) if isinstance(b, ToolUse)])
    assert "frob" in patterns or "Task" in names(request)
    assert "TODO" in patterns


def test_a_command_the_user_ran_is_no_question_that_waits() -> None:
    ran = (
        user("hello"),
        Message("assistant", (Text("Hi."),)),
        Message("user", (Text("I ran this command myself: ls"),)),
        Message("assistant", (ToolUse("user_9", "Bash", {"command": "ls"}),)),
        Message("user", (ToolResult("user_9", "a.py"), Text("where is frob defined?"))),
    )
    assert names(asked(*ran)) == ["Grep"]


RESULTS = st.sampled_from(
    [
        "No matches.",
        "src/a.py:7:def frob(x):\n\n1 match in 1 file.",
        "a.py\nb.py\n\n2 files, newest first.",
        "./: 3 files in 2 folders\nsrc/\n  a.py\nREADME.md\npyproject.toml",
        "1\timport os\n2\tdef frob():\n3\t    pass",
        "!Bash was denied: no. Do not try to get around this.",
        "!a does not exist.",
        "[Old result cleared to save room. Run the tool again if you need it.]",
        "(no output)",
        "\x00\ufffd:::1:2:3",
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        [
            "where is frob?", "what uses Frob.x?", "what is in this repo?", "how do I run it?", "what changed?",
            "run the tests", "rename a to b", 'replace "a" by "b" in x.py', "list the TODOs", "explain a.py",
            "how many lines are there?", "where is the agent loop?", "show function frob", "what is the entry point?",
            "what are the dependencies?", "what license is this?", 'add line "x" to a.py', "list the files",
            "where is --frob?", "where is Frob and where is b_c and what changed?", "create file a.txt with x",
        ]
    ),
    st.lists(RESULTS, min_size=1, max_size=6),
)  # fmt: skip
def test_whatever_comes_back_it_ends_with_an_answer(question: str, results: list[str]) -> None:
    request = asked(user(question))
    for step in range(60):
        blocks = respond(request)
        calls = [b for b in blocks if isinstance(b, ToolUse)]
        assert len({call.id for call in calls}) == len(calls)
        if not calls:
            break
        back = []
        for index, call in enumerate(calls):
            text = results[(step + index) % len(results)]
            back.append(ToolResult(call.id, text.removeprefix("!"), text.startswith("!")))
        request = asked(*request.messages, Message("assistant", blocks), Message("user", tuple(back)))
    assert text_of(request).strip()


@given(st.text(max_size=120))
def test_any_first_words_get_a_reply(text: str) -> None:
    assert respond(asked(Message("user", (Text(text),))))
