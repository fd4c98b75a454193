"""What a newcomer meets on the first day in the chat: a call back to the terminal, one key for all edits, /tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_task_chat import NEVER, READY, chat, task
from tests.fakes.stage import call, say, turn


def edit(old: str, new: str) -> dict[str, object]:
    return turn(call("Edit", file_path="a.txt", old_string=old, new_string=new))


@pytest.mark.parametrize(
    ("term", "settings", "seen"),
    [
        ("xterm-256color", "", b"\x1b]9;cowork: done\x07"),
        ("foot", "", b"\x1b]777;notify;cowork;done\x07"),
        ("xterm-256color", "bell = true\n", b"\x1b]9;cowork: done\x07\x07"),
        ("xterm-256color", "notify = false\n", b""),
    ],
)
def test_a_long_turn_calls_the_person_back_as_the_settings_say(
    tmp_path: Path, term: str, settings: str, seen: bytes
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(f"[ui]\nnotify_after = 0\n{settings}")
    with chat(tmp_path, {"main": [say("The answer.")]}, TERM=term) as terminal:
        terminal.type("go", "<Enter>")
        terminal.wait_for("The answer.", 20)
        terminal.wait_for(READY)
        terminal.settle(0.1)
        assert seen in terminal.raw
        assert (b"\x1b]9;" in terminal.raw or b"\x1b]777;" in terminal.raw) is bool(seen)


def test_shift_tab_in_a_dialog_accepts_this_edit_and_all_others(tmp_path: Path) -> None:
    read = turn(call("Read", file_path="a.txt"))
    script = {"main": [read, edit("one", "two"), edit("two", "three"), say("All edits are through.")]}
    with chat(tmp_path, script) as terminal:
        (tmp_path / "work" / "a.txt").write_text("one\n")
        terminal.type("go", "<Enter>")
        terminal.wait_for("Allow Edit?", 20)
        terminal.wait_for("↑↓ Enter")
        terminal.type("<BackTab>")
        terminal.wait_for("All edits are through.", 20)
        terminal.wait_for("accept-edits ⇧⇥")
    assert (tmp_path / "work" / "a.txt").read_text() == "three\n"


def test_tasks_shows_what_a_child_says_and_stops_it(tmp_path: Path) -> None:
    child = [turn(call("LS", path="."), say="I look around first."), NEVER]
    script = {
        "main": [turn(task("explore", "look", run_in_background=True)), say("It is sent out."), say("And now this.")],
        "agents": {"explore": child},
    }
    with chat(tmp_path, script) as terminal:
        terminal.type("go", "<Enter>")
        terminal.wait_for("It is sent out.", 20)
        terminal.type("/tasks", "<Enter>")
        terminal.wait_for("❯ explore-1 look  child")
        terminal.type("<Enter>")
        terminal.wait_for("Look at its output")
        terminal.type("<Enter>")
        terminal.wait_for("I look around first.")
        terminal.type("/tasks stop explore-1", "<Enter>")
        terminal.wait_for("Stopped explore-1.")
        terminal.wait_for_pattern(r"⊘ explore-1  look .* stopped", 20)


def test_the_footer_names_the_branch_that_is_checked_out_now(tmp_path: Path) -> None:
    with chat(tmp_path, {"main": [say("Hello.")]}) as terminal:
        terminal.type("!git init -q -b first . && git checkout -q -b second", "<Enter>")
        terminal.wait_for_pattern(r"ask ⇧⇥ .* second ", 20)
