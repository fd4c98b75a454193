"""Events in, lines out: each thing that finishes is printed once, in order."""

from __future__ import annotations

import re
from typing import cast

from cowork.core.blocks import Text, ToolUse, Usage
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    AgentUpdated,
    Event,
    Notice,
    PromptAdded,
    ReplyAdded,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
    TodoUpdated,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnEnded,
)
from cowork.core.ports import Question
from cowork.frontends.host import Host
from cowork.frontends.repl.input.actions import PanelSelection
from cowork.frontends.repl.view.frame import live_lines
from cowork.frontends.repl.view.scene import Scene
from cowork.frontends.repl.view.viewer import AgentNode, Viewer, tree
from cowork.frontends.styled import Theme, plain
from tests.fakes.calls import started
from tests.fakes.repl_host import chat_on

THEME = Theme()


def scene_of(*events: Event) -> Scene:
    scene = Scene(clock=lambda: 0.0)
    for event in events:
        scene.apply(event)
    return scene


def printed(scene: Scene, columns: int = 78) -> list[str]:
    return [plain(line).rstrip() for line in scene.take(columns, THEME)]


def live(scene: Scene, rows: int = 30, *, expanded: bool = False, activity: str = "") -> list[str]:
    repl = chat_on(scene, activity)
    repl.expanded = expanded
    return [plain(line).rstrip() for line in live_lines(repl, 78, rows, 78)]


def test_what_a_command_waits_for_stands_in_the_line_that_says_what_goes_on() -> None:
    scene = Scene(clock=lambda: 5.0)
    scene.begin()
    assert live(scene)[-1][2:] == "working · 0:00"
    assert live(scene, activity="looking at the files: 7 of 9")[-1][2:] == "looking at the files: 7 of 9 · 0:00"


def test_a_turn_reads_as_prompt_answer_and_tools_set_apart() -> None:
    scene = scene_of(
        PromptAdded("why?"),
        TextDelta("I'll loo"),
        TextDelta("k."),
        ReplyAdded((Text("I'll look."), ToolUse("1", "Read", {})), "tool_use"),
        started("1", "Read", {"file_path": "a.py"}),
        started("2", "Read", {"file_path": "b.py"}),
        ToolEnded("2", "Read", {"status": "success"}, {"summary": "2 lines"}),
        ToolEnded("1", "Read", {"status": "success"}, {"summary": "1 line"}),
        ReplyAdded((Text("Because."),), "end_turn"),
        TurnEnded(num_turns=2, usage=Usage(900, 100), cost_usd=0.01, duration_ms=4_000),
    )
    assert printed(scene) == [
        "❯ why?",
        "",
        "● I'll look.",
        "",
        "● Read b.py · 2 lines",
        "● Read a.py · 1 line",
        "",
        "● Because.",
        "",
        "  2 turns · 1.0k tok · $0.010 · 4 s",
    ]
    assert printed(scene) == []


def test_an_answer_that_did_not_stream_is_printed_from_the_reply() -> None:
    assert printed(scene_of(ReplyAdded((Text("whole"),), "end_turn"))) == ["● whole"]


def test_a_reply_that_goes_on_from_its_deltas_is_printed_once() -> None:
    scene = scene_of(TextDelta("first half, "), ReplyAdded((Text("first half, second half"),), "end_turn"))
    assert printed(scene) == ["● first half, second half"]


def test_what_streamed_before_a_retry_is_withdrawn() -> None:
    scene = scene_of(TextDelta("half an ans"), RetryScheduled(2, 5, 8.0, "overloaded", "x"))
    assert printed(scene) == []
    assert any("Trying again in 8 s (2 of 5)" in row for row in live(scene))
    scene.apply(TextDelta("again"))
    scene.apply(ReplyAdded((Text("again"),), "end_turn"))
    assert printed(scene) == ["● again"]


def test_a_broken_answer_that_was_already_printed_is_disowned() -> None:
    scene = scene_of(TextDelta("one block\n\nand half"))
    assert printed(scene) == ["● one block"]
    scene.apply(RetryScheduled(2, 5, 8.0, "broken_stream", "x"))
    assert printed(scene) == ["", "⊘ the answer above broke off and starts over"]


def child(*, parent: str = "main") -> AgentStarted:
    return AgentStarted("s1", parent, "t1", "refund service", "find it", "explore", "light", agent="main/explore-1")


def test_a_child_is_a_panel_while_it_works_and_a_line_when_it_is_done() -> None:
    scene = scene_of(
        started("t1", "Task", {"description": "refund service"}),
        child(),
        started("c1", "Bash", {"command": "pytest"}, agent="main/explore-1"),
        ToolOutput("c1", "1 passed\n2 failed\n", agent="main/explore-1"),
        AgentUpdated("s1", "active", 2, 1, Usage(5_000, 1_000), 0.004, agent="main/explore-1"),
    )
    assert printed(scene) == []
    shown = "\n".join(live(scene))
    assert "explore-1  refund service" in shown
    assert "$ pytest  2 failed" in shown
    data = {"subagent_id": "s1", "duration_ms": 21_000, "metadata": {"turns_used": "2"}, "total_cost_usd": 0.004,
            "usage": {"prompt_tokens": 5_000, "completion_tokens": 1_000},
            "tool_summary": [{"tool": "Bash", "count": 1}]}  # fmt: skip
    scene.apply(AgentEnded("s1", "completed", {"status": "success", "data": data}, agent="main/explore-1"))
    scene.apply(ToolEnded("t1", "Task", {"status": "success", "data": data}))
    assert printed(scene) == ["✓ explore-1  refund service        2 turns · 1 tool · 6.0k tok · $0.004 · 21 s"]
    assert live(scene) == []


def sent_out(number: int) -> AgentStarted:
    path = f"main/explore-{number}"
    return AgentStarted(f"s{number}", "main", f"t{number}", "look", "find it", "explore", "light", agent=path)


def test_a_row_among_many_children_stays_a_row_when_the_others_have_ended() -> None:
    scene = scene_of(*map(sent_out, (1, 2, 3)))
    assert len([row for row in live(scene) if "explore-" in row]) == 3
    for number in (1, 2):
        scene.apply(AgentEnded(f"s{number}", "completed", {"status": "success"}, agent=f"main/explore-{number}"))
    (row,) = [row for row in live(scene) if row]
    assert "explore-3" in row
    assert "╭" not in row
    alone = scene_of(sent_out(1))
    assert any(row.startswith("╭") for row in live(alone)), "one that is sent out alone is a panel"


def test_what_was_written_to_a_child_that_has_ended_is_not_sent_elsewhere_unseen() -> None:
    scene = scene_of(sent_out(1))
    selection = PanelSelection(scene, cast(Host, None), message_to="main/explore-1")
    assert (selection.drop_ended(), selection.message_to) == ("", "main/explore-1")
    scene.apply(AgentEnded("s1", "completed", {"status": "success"}, agent="main/explore-1"))
    assert (selection.drop_ended(), selection.message_to, selection.drop_ended()) == ("explore-1", "", "")


def test_a_task_that_never_started_is_told_as_a_failed_call() -> None:
    error = {"status": "error", "data": {}, "error": {"code": "INVALID_PARAM", "message": "Subagent 'x' not found."}}
    scene = scene_of(started("t", "Task", {"description": "go"}), ToolEnded("t", "Task", error))
    assert printed(scene) == ["✗ Task go · invalid param", "  │ Subagent 'x' not found."]


def test_a_childs_words_stay_out_of_the_main_conversation() -> None:
    scene = scene_of(child(), TextDelta("child speaks\n\nmore\n\n", agent="main/explore-1"))
    assert printed(scene) == []


def test_a_todo_list_stands_above_the_input_and_is_printed_once_when_the_turn_ends() -> None:
    def todos(done: int) -> TodoUpdated:
        states = ("completed",) * done + ("in_progress",) + ("pending",) * 3
        return TodoUpdated(tuple({"content": f"step {n}", "status": states[n]} for n in range(3)))

    scene = scene_of(todos(0))
    scene.begin()
    assert printed(scene) == []
    assert "  ▸ step 0" in live(scene)
    scene.apply(todos(1))
    assert printed(scene) == ["✓ step 0 · 1 of 3"]
    scene.apply(TurnEnded("interrupted"))
    scene.finish()
    assert printed(scene)[:4] == ["● Todo · 1 of 3 done", "  ✓ step 0", "  ▸ step 1", "  ○ step 2"]
    assert live(scene) == []
    scene.begin()
    assert live(scene)[-2:] == ["  ○ Todo · 1 of 3 done · next: step 1", live(scene)[-1]]
    scene.apply(todos(2))
    assert live(scene)[-4:-1] == ["  ✓ step 0", "  ✓ step 1", "  ▸ step 2"]
    scene.apply(TurnEnded("interrupted"))
    printed(scene)
    scene.begin()
    scene.apply(TurnEnded("interrupted"))
    assert "Todo" not in "".join(printed(scene))


def test_a_list_that_is_done_is_printed_whole() -> None:
    scene = scene_of(TodoUpdated(({"content": "one", "status": "completed"},)))
    assert printed(scene) == ["● Todo · 1 of 1 done", "  ✓ one"]


def test_thinking_becomes_one_folded_line_when_something_follows() -> None:
    now = [0.0]
    scene = Scene(clock=lambda: now[0])
    scene.begin()
    scene.apply(ThinkingDelta("First the service,\n"))
    now[0] = 8.0
    scene.apply(ThinkingDelta("then the handler. " * 50))
    assert printed(scene) == []
    assert "thinking · 0:08" in "\n".join(live(scene))
    scene.apply(TextDelta("Found it.\n\n"))
    first, *rest = printed(scene)
    assert first.startswith("✻ thought 8 s · First the service, then the handler.")
    assert rest == ["", "● Found it."]


def test_a_child_that_asks_says_so_until_it_is_answered() -> None:
    scene = scene_of(child(), started("c1", "Bash", {"command": "pytest"}, agent="main/explore-1"))
    question = Question("permission", "?", "main/explore-1", "Bash", {"command": "pytest"}, tool_use_id="c1")
    with scene.asking(question):
        assert any(re.search(r"\? \$ pytest +waits for you", row) for row in live(scene))
        assert not any(char in "".join(live(scene)) for char in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
    assert "waits for you" not in "\n".join(live(scene))


def test_escape_sequences_from_anywhere_are_shown_not_obeyed() -> None:
    bad = "\x1b[2J\x1b]0;owned\x07"
    scene = scene_of(
        PromptAdded(f"say {bad}"),
        Notice(f"note {bad}", "warning"),
        child(),
        started("9", f"To{bad}ol", {"x": bad}, agent="main/explore-1"),
        started("1", "Bash", {"command": f"echo {bad}"}),
        ToolOutput("1", f"out {bad}\n"),
        started("2", "Edit", {"file_path": f"{bad}.py"}),
    )
    drawn = live(scene)
    scene.apply(ToolEnded("1", "Bash", {"status": "error", "text": bad, "error": {"message": bad}}, {"summary": bad}))
    diff = f"--- a\n+++ b\n@@ -1 +1 @@\n-{bad}\n+x{bad}\n"
    scene.apply(ToolEnded("2", "Edit", {"status": "success"}, {"kind": "diff", "diff": diff}))
    scene.apply(TurnEnded("api_error", error={"message": bad, "hint": bad}))
    text = "\n".join([*drawn, *printed(scene)])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.count("\\x1b[2J") >= 8


def test_the_live_part_never_grows_past_its_rows() -> None:
    events: list[Event] = [TextDelta("word " * 2_000)]
    for number in range(9):
        events.append(AgentStarted(f"s{number}", "main", f"t{number}", "work", "", "explore", agent=f"main/e-{number}"))
        events.append(started(f"b{number}", "Bash", {"command": "x"}))
        events.append(ToolOutput(f"b{number}", "row\n" * 50))
    scene = scene_of(*events)
    scene.begin()
    for rows in range(1, 40):
        assert len(live(scene, rows, expanded=True)) <= rows


def history() -> list[Event]:
    return [
        PromptAdded("find the bug", id=1),
        ReplyAdded((Text("Looking."), ToolUse("t1", "Task", {})), "tool_use", id=2),
        started("t1", "Task", {"description": "refund service"}, id=3),
        child(),
        PromptAdded("find it", source="agent", agent="main/explore-1", id=5),
        started("c1", "Grep", {"pattern": "needle"}, agent="main/explore-1", id=6),
        ToolEnded("c1", "Grep", {"status": "success", "text": "hay\nneedle here"}, {}, agent="main/explore-1", id=7),
        AgentEnded("s1", "completed", {}, agent="main/explore-1", id=8),
        ToolEnded("t1", "Task", {"status": "success", "text": "Found."}, {}, id=9),
        ReplyAdded((Text("It is **here**."),), "end_turn", id=10),
    ]


def names(nodes: list[AgentNode]) -> list[object]:
    return [(plain(n.head), names(n.children)) if n.children else plain(n.head) for n in nodes]


def test_the_tree_holds_a_childs_story_inside_its_task() -> None:
    assert names(tree(history())) == [
        "❯ find the bug",
        "● Looking.",
        ("● Task refund service", [("explore · refund service · light · completed", ["❯ find it", '● Grep "needle"'])]),
        "● It is **here**.",
    ]


def test_the_tree_of_a_child_is_its_own_story() -> None:
    assert names(tree(history(), "main/explore-1")) == ["❯ find it", '● Grep "needle"']
    limit = TurnEnded("max_turns", "As far as I got.", 3, agent="main/explore-1")
    assert names(tree([*history(), limit], "main/explore-1"))[2:] == ["✗ stopped: the limit of turns is reached"]


def test_calls_that_a_service_gave_the_same_id_keep_their_own_results() -> None:
    ends = [ToolEnded("1", "Bash", {"status": "success", "text": text}, {}) for text in ("one", "two")]
    first, second = tree([ToolStarted("1", "Bash"), ends[0], ToolStarted("1", "Bash"), ends[1]])
    assert (first.text, second.text) == ("one", "two")


def screen(viewer: Viewer) -> list[str]:
    return [plain(line).rstrip() for line in viewer.lines(70, 20, THEME)]


def test_the_viewer_unfolds_what_a_search_finds() -> None:
    viewer = Viewer("conversation", lambda: tree(history()))
    assert not any("needle here" in row for row in screen(viewer))
    for key in ("/", *"needle here", "enter"):
        assert viewer.key(key)
    assert any(row.startswith("❯") and "needle here" in row for row in screen(viewer))


def test_the_viewer_folds_and_closes() -> None:
    sizes = iter(range(100))  # the conversation goes on
    viewer = Viewer("conversation", lambda: tree(history()), lambda: next(sizes))
    screen(viewer)
    viewer.key("g")
    viewer.key("j")
    assert any("▾ ● Looking." in row for row in screen(viewer))
    viewer.key("enter")
    assert any("▸ ● Looking." in row for row in screen(viewer))
    assert not viewer.key("q")


def looks(count: int, *, failed: int = -1) -> list[Event]:
    out: list[Event] = []
    for number in range(count):
        name = "Grep" if number % 3 else "Read"
        given = {"pattern": f"word{number}"} if number % 3 else {"file_path": f"part{number}.py"}
        status = "error" if number == failed else "success"
        out.append(started(f"t{number}", name, given))
        out.append(ToolEnded(f"t{number}", name, {"status": status}, {"summary": f"{number} lines"}))
    return out


def test_a_run_of_looks_is_one_line_and_shows_the_last_while_it_goes_on() -> None:
    scene = scene_of(*looks(9))
    assert printed(scene) == []
    assert live(scene)[-2:] == ["● Looked at 9 places · Grep 6, Read 3", '● Grep "word8" · 8 lines']
    scene.apply(TextDelta("Found it.\n\n"))
    assert printed(scene) == ["● Looked at 9 places · Grep 6, Read 3", "", "● Found it."]


def test_a_few_looks_and_one_that_failed_stay_as_they_are() -> None:
    scene = scene_of(*looks(2), TurnEnded("interrupted"))
    assert printed(scene)[:2] == ["● Read part0.py · 0 lines", '● Grep "word1" · 1 lines']
    scene = scene_of(*looks(5, failed=3), TurnEnded("interrupted"))
    rows = printed(scene)
    assert rows[:2] == ["● Looked at 3 places · Grep 2, Read 1", "✗ Read part3.py · 3 lines"]
    assert '● Grep "word4" · 4 lines' in rows


def test_the_viewer_folds_a_run_of_looks_and_holds_each() -> None:
    nodes = tree(looks(4))
    assert [plain(node.head) for node in nodes] == ["● Looked at 4 places · Read 2, Grep 2"]
    assert len(nodes[0].children) == 4
    assert not nodes[0].open
