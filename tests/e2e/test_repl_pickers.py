"""Choosing from lists through the installed command: sessions, prompts to go back to, modes, agents."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal

READY = "/help"
TWICE = "\x1b\x1b"  # Esc Esc
COWORK = str(Path(sys.executable).with_name("cowork"))
SCRIPT = """
model: tour-1
resume: true
main:
  - call: {Read: {file_path: auth.py}}
  - call: {Edit: {file_path: auth.py, old_string: "return False", new_string: "return True"}}
  - say: The edit is through.
  - call: {Bash: {command: "echo more >> store.py && echo made > made.txt"}}
  - say: The command is through.
  - say: A third answer.
"""


@contextmanager
def chat(
    folder: Path, *arguments: str, columns: int = 100, rows: int = 40, ready: str = READY, **variables: str
) -> Iterator[Terminal]:
    repo = folder / "shop"
    if not repo.exists():
        repo.mkdir()
        (repo / "auth.py").write_text("def login():\n    return False\n")
        (repo / "store.py").write_text("class Store:\n    pass\n")
        (folder / "script.yaml").write_text(SCRIPT)
    env = {"COWORK_HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    with Terminal([COWORK, *arguments], cwd=repo, env=env, columns=columns, rows=rows) as terminal:
        terminal.wait_for(ready, 30)
        yield terminal


def say(terminal: Terminal, text: str, answer: str) -> None:
    terminal.type(text, "<Enter>")
    terminal.wait_for(answer, 20)
    terminal.wait_for(READY)


def script(folder: Path) -> tuple[str, ...]:
    return "--script", str(folder / "script.yaml"), "--permission-mode", "bypass"


def test_rewind_shows_what_would_change_and_takes_back_files_and_words(tmp_path: Path) -> None:
    repo = tmp_path / "shop"
    with chat(tmp_path, *script(tmp_path)) as terminal:
        say(terminal, "fix the login", "The edit is through.")
        say(terminal, "now the store", "The command is through.")
        terminal.type("/diff", "<Enter>")
        terminal.wait_for_pattern(r"● made\.txt · new \+1 −0")
        terminal.wait_for_pattern(r"2 │\+\s+return True")
        terminal.wait_for_pattern(r"3 │\+more")

        terminal.type("/rewind", "<Enter>")
        terminal.wait_for("❯ now the store")
        terminal.wait_for("removes made.txt")
        terminal.wait_for("restores store.py")
        assert "auth.py +" not in terminal.text().partition("Back to just before")[2]
        terminal.type("<Up>")
        terminal.wait_for("restores auth.py +1 −1")
        terminal.type("store")
        terminal.wait_for("1 of 2")
        terminal.type("<Enter>")
        terminal.wait_for("Back to just before: now the store")
        terminal.wait_for("❯ Conversation and files")
        terminal.type("<Enter>")
        terminal.wait_for("↺ went back · 2 files restored")
        terminal.wait_for_pattern(r"❯ now the store\n ")  # to be changed and sent again
        assert not (repo / "made.txt").exists()
        assert (repo / "store.py").read_text() == "class Store:\n    pass\n"
        assert "return True" in (repo / "auth.py").read_text()
        assert not [row for row in terminal.scrollback() if re.search("[╭╰├]", row)]

        terminal.type(TWICE)
        terminal.wait_for_pattern(r"❯\n ")  # the line is cleared, and kept
        terminal.type("<Up>")
        terminal.wait_for_pattern(r"❯ now the store\n ")
        terminal.type("<Ctrl+C>", TWICE)
        terminal.wait_for("Back to just before …")
        terminal.wait_for("❯ fix the login")
        terminal.type("<Esc>")
        terminal.wait_gone("Back to just before")
        assert "return True" in (repo / "auth.py").read_text()


def test_resume_finds_a_session_by_a_few_letters_and_goes_on_with_it(tmp_path: Path) -> None:
    with chat(tmp_path, *script(tmp_path)) as terminal:
        say(terminal, "fix the login", "The edit is through.")
        terminal.type("/exit", "<Enter>")
        assert terminal.wait_exit() == 0
    with chat(tmp_path) as terminal:
        terminal.type("/resume", "<Enter>")
        terminal.wait_for("❯ fix the login")
        terminal.type("<Esc>")
        terminal.wait_gone("❯ fix the login")
        say(terminal, "where is Store defined?", "store.py:1")
        terminal.type("/clear", "<Enter>")
        terminal.wait_for_pattern(r"/help")
        terminal.type("/resume", "<Enter>")
        terminal.wait_for("Go on with which session?")
        terminal.wait_for_pattern(r"where is Store defined\?\s+\S.* · \d turns? · \$0")
        terminal.wait_for("❯ where is Store defined?")
        terminal.type("lgin")
        terminal.wait_for("1 of 2")
        terminal.wait_for("The edit is through.")  # its last answer, in the preview
        terminal.type("<Enter>")
        terminal.wait_for("it goes on with offline")
        terminal.wait_gone("Go on with which session?")
        assert "● Edit auth.py · +1 −1" in terminal.text()
        terminal.type("/exit", "<Enter>")
        assert terminal.wait_exit() == 0


def test_a_fork_goes_on_without_saying_everything_again_and_clear_starts_over(tmp_path: Path) -> None:
    with chat(tmp_path, *script(tmp_path)) as terminal:
        say(terminal, "fix the login", "The edit is through.")
        terminal.type("/fork", "<Enter>")
        terminal.wait_for_pattern(r"This is \w{12} now; the original \w{12} stays as it was")
        say(terminal, "now the store", "The command is through.")
        rows = terminal.scrollback()
        assert sum(row == "❯ fix the login" for row in rows) == 1
        terminal.type("/clear", "<Enter>")
        terminal.wait_for("/resume has the one before")
        terminal.type("/resume", "<Enter>")
        terminal.wait_for("Go on with which session?")
        terminal.wait_for("❯ now the store")  # the fork, last used, with what was said in it alone
        assert len(re.findall(r"fix the login  .* turns", terminal.text())) == 2


def test_a_session_that_goes_on_shows_what_it_has_cost(tmp_path: Path) -> None:
    with chat(tmp_path, *script(tmp_path)):
        pass
    (tmp_path / "script.yaml").write_text("model: tour-1\nprice: {input: 3, output: 15}\nmain: [An answer.]\n")
    with chat(tmp_path, *script(tmp_path)) as terminal:
        say(terminal, "hello", "An answer.")
        terminal.wait_for_pattern(r"\$0\.0\d\d")
        cost = re.findall(r"\$0\.0\d\d", terminal.text())[-1]
        terminal.type("/exit", "<Enter>")
        assert terminal.wait_exit() == 0
    with chat(tmp_path, "--continue") as terminal:
        terminal.wait_for(cost)


@pytest.mark.parametrize("columns", [24, 40, 120])
def test_lists_fit_any_width_and_a_resize_leaves_nothing_behind(tmp_path: Path, columns: int) -> None:
    with chat(
        tmp_path, "--script", str(tmp_path / "script.yaml"), columns=columns, rows=24, ready="context 0 %"
    ) as terminal:
        terminal.type("/agents", "<Enter>")
        terminal.wait_for_pattern(r"❯ bash")
        terminal.resize(columns + 9, 24)
        terminal.settle(0.5)
        terminal.type("expl", "<Enter>")
        terminal.wait_until(lambda: "  explore: Finds" in "\n".join(terminal.scrollback()), what="the agent's page")
        terminal.type("/mode", "<Enter>")
        terminal.wait_for_pattern(r"❯ ask")
        terminal.type("plan")
        terminal.wait_for_pattern(r"❯ plan")
        terminal.type("<Enter>")
        terminal.wait_for_pattern(r"(?m)^ plan ⇧⇥")
        assert not [row for row in terminal.scrollback() if re.search("[╭╰├]", row)]


def test_a_question_waits_until_the_choosing_pauses(tmp_path: Path) -> None:
    with chat(tmp_path, "--script", str(tmp_path / "script.yaml")) as terminal:
        terminal.type("fix the login", "<Enter>", "/mode", "<Enter>")
        terminal.wait_for("Allow Edit?", 20)
        terminal.wait_for("↑↓ Enter · y")
        terminal.type("n")
        terminal.wait_for("❯ ask")  # the list is there again
        terminal.type("<Esc>")
        terminal.wait_for("The edit is through.")


def test_without_a_live_region_the_list_has_numbers(tmp_path: Path) -> None:
    with chat(tmp_path, *script(tmp_path)) as terminal:
        say(terminal, "fix the login", "The edit is through.")
        terminal.type("/exit", "<Enter>")
        terminal.wait_exit()
    with chat(tmp_path, ready="\n>", TERM="dumb") as terminal:
        terminal.type("/resume\n")
        terminal.wait_for_pattern(r"  1 fix the login · .* · 3 turns · ")
        terminal.type("1\n")
        terminal.wait_for("it goes on with offline")
        terminal.type("/rewind\n1\n")
        terminal.wait_for("1 Conversation and files · 1 file")
        terminal.type("1\n")
        terminal.wait_for("↺ went back · 1 file restored")
        assert "return False" in (tmp_path / "shop" / "auth.py").read_text()
        terminal.type("/mode\n")
        terminal.wait_for("number (Enter for none):")
        terminal.type("where is Store defined?\n")  # no number: nothing is chosen, and nothing is swallowed
        terminal.wait_for("store.py:1")
