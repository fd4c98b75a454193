"""Nothing is said twice, and what gives way on a narrow line is what matters least."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cowork.core.events import ContextCompacted
from cowork.core.ports import EXACTLY, Question
from cowork.frontends.dialog_choices import choices_of
from cowork.frontends.host import Status
from cowork.frontends.repl.input.dialogs import what_lines
from cowork.frontends.repl.view.frame import live_lines
from cowork.frontends.repl.view.notes import banner_lines, note_lines, todo_change
from cowork.frontends.repl.view.scene import Scene
from cowork.frontends.repl.view.status_line import status_line
from cowork.frontends.repl.view.tool_lines import finished_lines
from cowork.frontends.styled import Line, bar, box, plain
from tests.fakes.calls import started
from tests.fakes.repl_host import chat_on

ASKED = Question(
    "permission",
    "Allow Bash?",
    tool="Bash",
    input={"command": "make"},
    reason="runs a command",
    family="exec",
    tool_use_id="1",
)
STATUS = Status("0.1", "/srv/shops/of/many/kinds/shop", "main", True, "sonnet", context_percent=3.0)


def text(lines: list[Line]) -> list[str]:
    return [plain(line).rstrip() for line in lines]


async def asked_about(question: Question, scene: Scene) -> str:
    """The live part while the question waits for its answer."""
    repl = chat_on(scene)
    asking = asyncio.ensure_future(repl.dialogs.ask(question))
    await asyncio.sleep(0)
    shown = "\n".join(text(live_lines(repl, 60, 20, 60)))
    repl.dialogs.refuse_all()
    await asking
    return shown


async def test_a_call_that_is_asked_about_is_not_drawn_beside_its_question() -> None:
    scene = Scene(clock=lambda: 0.0)
    scene.begin()
    scene.apply(started("1", "Bash", {"command": "make"}))
    scene.apply(started("2", "Bash", {"command": "make check"}))
    shown = await asked_about(ASKED, scene)
    assert "$ make check" in shown
    assert "$ make\n" not in f"{shown}\n"
    assert "$ make\n" in "\n".join(text(live_lines(chat_on(scene), 60, 20, 60)))


async def test_a_plan_that_waits_for_its_answer_does_not_spin_beside_it() -> None:
    scene = Scene(clock=lambda: 0.0)
    scene.begin()
    scene.apply(started("7", "ExitPlan", {"plan": "# Mend it"}))
    assert "ExitPlan" in "\n".join(text(live_lines(chat_on(scene), 60, 20, 60)))
    asked = Question("plan", "Go on with this plan?", tool_use_id="7")
    assert "ExitPlan" not in await asked_about(asked, scene)


def test_the_time_of_a_call_starts_when_it_was_allowed() -> None:
    now = [0.0]
    scene = Scene(clock=lambda: now[0])
    scene.begin()
    scene.apply(started("1", "Bash", {"command": "make"}))
    now[0] = 60.0
    assert "60 s" in "\n".join(text(live_lines(chat_on(scene), 60, 20, 60)))
    with scene.asking(Question("permission", "?", tool="Bash", tool_use_id="1")):
        pass
    now[0] = 63.0
    assert "3 s" in "\n".join(text(live_lines(chat_on(scene), 60, 20, 60)))


def test_a_reason_that_stands_beside_a_part_is_not_repeated() -> None:
    parts = [{"text": "make", "verdict": "ask", "why": "runs a command"}]
    display = {"kind": "command", "parts": parts}
    question = Question(
        "permission", "?", tool="Bash", input=ASKED.input, reason="runs a command", display=display
    )  # fmt: skip
    assert "\n".join(text(what_lines(question, 60))).count("runs a command") == 1
    assert "\n".join(text(what_lines(ASKED, 60))).count("runs a command") == 1


def test_of_a_reason_only_what_no_part_says_stands_under_the_command() -> None:
    parts = [{"text": "pip x", "verdict": "ask", "why": "it needs the network"}, {"text": "tail", "verdict": "allow"}]
    question = replace(ASKED, reason="it needs the network: to compare", display={"kind": "command", "parts": parts})
    shown = "\n".join(text(what_lines(question, 90)))
    assert (shown.count("needs the network"), shown.count("to compare")) == (1, 1)


def test_a_command_of_one_part_stands_there_once() -> None:
    command = "cat > a <<E\nx\ny\nE"
    parts = [{"text": command, "verdict": "ask", "why": "it writes a"}]
    question = replace(ASKED, input={"command": command}, reason="it writes a", session_rule=EXACTLY + command)
    shown = "\n".join(text(what_lines(replace(question, display={"kind": "command", "parts": parts}), 90)))
    assert (shown.count("cat > a"), shown.count("it writes a")) == (1, 1)
    assert [choice.label for choice in choices_of(question)][1] == "Yes, this exact command for this session"


@pytest.mark.parametrize("columns", [44, 60, 120])
def test_the_banner_shortens_the_folder_before_anything_else(columns: int) -> None:
    first = text(banner_lines(STATUS, columns))[0]
    assert first.startswith(" cowork 0.1 · ")
    assert first.endswith("shop  main ✓trusted")


@pytest.mark.parametrize("columns", [20, 40, 120])
def test_a_note_under_the_banner_is_there_to_the_last_word(columns: int) -> None:
    note = "no model key found: running on the offline model. /login or /model sets one up"
    rows = text(banner_lines(Status("0.1", "/srv", model="m", notes=(note,)), columns))
    start = next(n for n, row in enumerate(rows) if "no model" in row)
    assert " ".join(row.removeprefix(" !").strip() for row in rows[start:]) == note


def test_of_a_hint_that_does_not_fit_the_last_part_stays() -> None:
    hint = "⌃O expand · ⇥ select · Esc interrupt"
    assert plain(status_line(STATUS, 90, hint=hint)).endswith(hint)
    assert plain(status_line(STATUS, 70, hint=hint)).endswith(f" {hint}")
    assert plain(status_line(STATUS, 60, hint=hint)).endswith("  ⇥ select · Esc interrupt")
    assert plain(status_line(STATUS, 48, hint=hint)).endswith("  Esc interrupt")
    assert plain(status_line(STATUS, 36, hint=hint)).endswith("  Esc interrupt")
    assert plain(status_line(STATUS, 50, children=5, hint=hint)).endswith("5 children        Esc interrupt")


@pytest.mark.parametrize(("lines", "note"), [(5, ""), (6, ""), (7, "  │ … 2 lines before")])
def test_one_hidden_line_is_shown_instead_of_counted(lines: int, note: str) -> None:
    output = "".join(f"line {n}\n" for n in range(lines))
    display = {"kind": "terminal", "output": output, "exit_code": 0, "lines": lines}
    drawn = text(finished_lines(started("1", "Bash", {"command": "x"}), {"status": "success"}, display, 60))
    assert drawn[1] == (note or "  │ line 0")


@pytest.mark.parametrize("blank", [0, 1, 3])
def test_blank_lines_at_the_end_of_output_are_not_counted_as_hidden(blank: int) -> None:
    display = {"kind": "terminal", "output": "a\nb\n" + "\n" * blank, "exit_code": 0, "lines": 2 + blank}
    drawn = text(finished_lines(started("1", "Bash", {"command": "x"}), {"status": "success"}, display, 60))
    assert drawn[1:] == ["  │ a", "  │ b"]


def test_output_without_a_word_is_not_shown() -> None:
    display = {"kind": "terminal", "output": "\n", "exit_code": 0, "lines": 1}
    assert len(finished_lines(started("1", "Bash", {"command": "x"}), {"status": "success"}, display, 60)) == 1


def test_a_command_that_was_cut_short_shows_what_it_printed() -> None:
    display = {"kind": "terminal", "output": "step 1\n", "exit_code": None, "lines": 1, "summary": "interrupted"}
    record = {"status": "error", "error": {"code": "ABORTED", "message": "Interrupted before it finished."}}
    drawn = text(finished_lines(started("1", "Bash", {"command": "x"}), record, display, 60))
    assert drawn[0].endswith("· interrupted")
    assert drawn[1] == "  │ step 1"


def test_a_compaction_tells_only_the_numbers_it_has() -> None:
    assert "3.4k → 1.2k tokens" in text(note_lines(ContextCompacted("s", tokens_before=3400, tokens_after=1200), 80))[0]
    assert ": 3.4k tokens" in text(note_lines(ContextCompacted("s", tokens_before=3400), 80))[0]


@pytest.mark.parametrize("style", ["faint", "accent"])
def test_a_box_or_a_bar_holds_the_same_words(style: str) -> None:
    parts = ([("accent", "? "), ("", "the task")], "facts", [[("", "a row")]], "foot", 60, style)
    assert text(bar(*parts)) == ["┃ ? the task   facts", "┃ a row", "┃ foot"]
    drawn = box(*parts)
    assert [" ".join(row.strip("╭╮│╰╯ ").replace("─", " ").split()) for row in text(drawn)] == [
        "? the task facts", "a row", "foot",
    ]  # fmt: skip
    assert next(span for span in drawn[0] if span[1] == "the task")[0] == ""  # not the colour of the frame


def test_steps_that_are_finished_together_are_counted_one_by_one() -> None:
    todos = [{"content": name, "status": "completed" if name != "d" else "pending"} for name in "abcd"]
    assert text(todo_change(({"content": "a", "status": "completed"},), todos, 60)) == ["✓ b · 2 of 4", "✓ c · 3 of 4"]


def test_a_call_of_a_foreign_tool_is_asked_about_with_all_its_arguments() -> None:
    given = {"path": "lib", "query": "class .*\x1b[2JError", "limits": {"depth": 3}}
    question = Question("permission", "Allow?", tool="mcp__db__find", input=given, line="lib")
    shown = text(what_lines(question, 40))
    assert shown == ["● mcp__db__find lib", "  path: lib", "  query: class .*\\x1b[2JError", '  limits: {"depth": 3}']
