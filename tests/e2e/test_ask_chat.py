"""A model's questions and its plan, in the chat a person gets."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK, QUIET, Command

READY = "/help"
ASKED = [
    {"question": "Which colour?", "options": ["red", {"label": "blue", "description": "as the sea"}]},
    {"question": "And the size?"},
]


@contextmanager
def chat(folder: Path, script: object, *words: str, **env: str) -> Iterator[Terminal]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (folder / "script.json").write_text(json.dumps(script))
    command = [str(COWORK), "--script", str(folder / "script.json"), "--dump-requests", str(folder / "asked"), *words]
    env = {"COWORK_HOME": str(folder / "home"), **QUIET, **env}
    with Terminal(command, cwd=work, env=env, columns=100, rows=40) as terminal:
        terminal.wait_for(READY, 30)
        yield terminal


def requests(folder: Path) -> list[str]:
    """What the model was sent, a text each, without the escapes of JSON."""
    return [json.dumps(json.loads(row), ensure_ascii=False) for row in (folder / "asked").read_text().splitlines()]


def test_questions_are_answered_by_an_option_and_in_ones_own_words(tmp_path: Path) -> None:
    script = [{"call": {"AskUser": {"questions": ASKED}}}, {"say": "Thank you."}]
    with chat(tmp_path, script) as terminal:
        terminal.type("paint it", "<Enter>")
        terminal.wait_for("Which colour? (1 of 2)")
        terminal.wait_for("as the sea")
        terminal.wait_for("Enter · digits")
        terminal.type("2")
        terminal.wait_for("And the size? (2 of 2)")
        terminal.wait_for("Enter · digits")
        terminal.type("<Enter>")
        terminal.wait_for("Your answer")
        terminal.type("as big as a barn", "<Enter>")
        terminal.wait_for("Thank you.")
    assert "Which colour? → blue" in requests(tmp_path)[-1]
    assert "And the size? → as big as a barn" in requests(tmp_path)[-1]


def test_a_childs_question_names_the_child(tmp_path: Path) -> None:
    script = {
        "main": [
            {"call": {"Task": {"description": "paint", "prompt": "go", "subagent_type": "general-purpose"}}},
            {"say": "Done."},
        ],
        "agents": {"general-purpose": [{"call": {"AskUser": {"questions": ASKED[:1]}}}, {"say": "painted"}]},
    }
    with chat(tmp_path, script) as terminal:
        terminal.type("paint it", "<Enter>")
        terminal.wait_for("asked by general-purpose-1")
        terminal.wait_for("Enter · digits")
        terminal.type("1")
        terminal.wait_for("Done.")


def test_nobody_is_asked_where_nobody_is(command: Command, tmp_path: Path) -> None:
    script = tmp_path / "s.json"
    script.write_text(json.dumps([{"say": "ok"}]))
    dump = tmp_path / "asked"
    words = ("run", "--non-interactive", "--script", str(script), "--dump-requests", str(dump), "hi")
    assert command.cowork(*words).code == 0
    names = [tool["name"] for tool in json.loads(dump.read_text().splitlines()[0])["tools"]]
    assert "Read" in names
    assert not {"AskUser", "ExitPlan"} & set(names)


def plan_script() -> list[object]:
    write = {"call": {"Write": {"file_path": "made.txt", "content": "x"}}}
    return [{"call": {"ExitPlan": {"plan": "# The plan\n\n1. Write **made.txt**"}}}, write, {"say": "It is made."}]


def test_a_plan_is_read_edited_and_approved_with_the_mode_to_go_on_in(tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text("import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text() + '\\n2. Smile')")
    with chat(tmp_path, plan_script(), "--permission-mode", "plan", EDITOR=f"{sys.executable} {editor}") as terminal:
        terminal.type("make it", "<Enter>")
        terminal.wait_for("Go on with this plan?")
        terminal.wait_for("1 Write made.txt")
        terminal.wait_for("y · n · digits")
        row = next(row for row in terminal.screen() if "Edit the plan" in row)
        terminal.type(row.split()[1])
        terminal.wait_for("2 Smile")
        terminal.wait_for_pattern(r"1 Write made\.txt\n\n +The plan")
        terminal.wait_for("y · n · digits")
        terminal.type("1")
        terminal.wait_for("It is made.")
        terminal.wait_for("accept-edits ⇧⇥")
    assert (tmp_path / "work" / "made.txt").read_text() == "x"
    first, second = requests(tmp_path)[0], requests(tmp_path)[1]
    assert "Plan mode is on" in first
    assert "The user edited it." in second
    assert "2. Smile" in second


def test_a_plan_can_be_sent_back_with_what_to_change(tmp_path: Path) -> None:
    script = [*plan_script()[:1], {"say": "I will think again."}]
    with chat(tmp_path, script, "--permission-mode", "plan") as terminal:
        terminal.type("make it", "<Enter>")
        terminal.wait_for("y · n · digits")
        terminal.type("<Up>", "<Enter>")
        terminal.wait_for("What should be different?")
        terminal.type("tests first", "<Enter>")
        terminal.wait_for("I will think again.")
        terminal.wait_for("plan ⇧⇥")
    assert "The user wants it changed: tests first" in requests(tmp_path)[-1]
