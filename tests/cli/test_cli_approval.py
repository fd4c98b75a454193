"""A one-shot run asks on the terminal, and only where somebody can see the question."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ptyprocess import PtyProcess

from tests.cli.conftest import COWORK

WRITES = "- {call: {Write: {file_path: made.txt, content: hello}}}\n- Finished."


class Screen:
    """What a terminal showed, and keys to it."""

    def __init__(self, words: list[str], cwd: str) -> None:
        self.process = PtyProcess.spawn(words, cwd=cwd, dimensions=(40, 100))
        self.text = ""

    def until(self, wanted: str) -> None:
        deadline = time.monotonic() + 100
        while wanted not in self.text:
            assert time.monotonic() < deadline, self.text
            try:
                self.text += self.process.read(4096).decode("utf-8", "replace")
            except EOFError:
                break
        assert wanted in self.text, self.text

    def ended(self) -> int:
        try:
            while True:
                self.text += self.process.read(4096).decode("utf-8", "replace")
        except EOFError:
            return int(self.process.wait())


@pytest.fixture
def words(cowork: Any) -> list[str]:
    return [str(COWORK), "run", "--script", cowork.script(WRITES), "--no-session", "write it"]


@pytest.mark.parametrize(("key", "code", "made"), [("y\n", 0, True), ("n not now\n", 5, False)])
def test_a_write_is_asked_about_and_the_answer_counts(
    cowork: Any, words: list[str], key: str, code: int, made: bool
) -> None:
    screen = Screen(words, str(cowork.folder))
    screen.until("[y] once")
    assert "hello" in screen.text, "the change is shown before it is made"
    screen.process.write(key.encode())
    assert screen.ended() == code, screen.text
    assert (cowork.folder / "made.txt").exists() is made
    assert "Finished." in screen.text


def test_it_asks_although_the_answer_goes_to_a_file(cowork: Any, words: list[str]) -> None:
    line = " ".join(f"'{word}'" for word in words)
    screen = Screen(["sh", "-c", f"echo context | {line} > answer.txt"], str(cowork.folder))
    screen.until("[y] once")
    screen.process.write(b"y\n")
    assert screen.ended() == 0, screen.text
    assert (cowork.folder / "answer.txt").read_text() == "Finished.\n"


def test_it_does_not_ask_where_nobody_would_see_the_question(cowork: Any, words: list[str]) -> None:
    line = " ".join(f"'{word}'" for word in words)
    screen = Screen(["sh", "-c", f"{line} </dev/null >answer.txt 2>log.txt; echo ended $?"], str(cowork.folder))
    screen.until("ended 5")
    assert "[y]" not in screen.text
    assert "denied Write made.txt" in (cowork.folder / "log.txt").read_text()


def test_non_interactive_never_asks_even_on_a_terminal(cowork: Any, words: list[str]) -> None:
    screen = Screen([*words, "--non-interactive"], str(cowork.folder))
    assert screen.ended() == 5, screen.text
    assert "[y]" not in screen.text
    assert "\x1b" not in screen.text
