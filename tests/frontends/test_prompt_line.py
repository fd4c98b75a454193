"""Questions on a terminal, answered through a pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import time
from collections.abc import Iterator

import pytest

from cowork.core.ports import Answer, Question
from cowork.frontends.prompt import LinePrompt, _body, available

EDIT = Question(
    "permission",
    "Edit shop/service.py",
    tool="Edit",
    reason="edits ask",
    rule="Edit(shop/**)",
    session_rule="Edit(shop/service.py)",
    display={"kind": "diff", "path": "shop/service.py", "diff": "@@ -1 +1 @@\n-old\n+new"},
)


class Terminal:
    """Both ends of a pseudo-terminal: `name` for the program, `main` for the person."""

    def __init__(self) -> None:
        self.main, self.side = pty.openpty()
        self.name = os.ttyname(self.side)
        self.seen = ""

    async def answer(self, *lines: str, after: str = "> ") -> None:
        """Type each line once the screen asks for it."""
        for line in lines:
            await self.until(after)
            self.seen = ""
            os.write(self.main, line.encode())

    async def until(self, text: str) -> None:
        os.set_blocking(self.main, False)
        deadline = time.monotonic() + 60
        while text not in self.seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen!r}"
            try:
                self.seen += os.read(self.main, 65536).decode()
            except BlockingIOError:
                await asyncio.sleep(0.01)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    os.close(made.main)
    os.close(made.side)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["y\n"], Answer("once")),
        (["s\n"], Answer("session")),
        (["A\n"], Answer("always")),
        (["n\n", "use the other file\n"], Answer("no", "use the other file")),
        (["n because I say so\n"], Answer("no", "because I say so")),
        (["n\n", "\n"], Answer("no")),
        (["what?\n", "\n", "yes\n"], Answer("once")),
        (["\x04"], Answer("no", "the terminal was closed")),
    ],
)
async def test_a_question_is_answered_with_a_letter(terminal: Terminal, typed: list[str], expected: Answer) -> None:
    asked = asyncio.create_task(LinePrompt(terminal.name)(EDIT))
    await terminal.answer(*typed)
    assert await asyncio.wait_for(asked, 60) == expected


async def test_a_no_to_trust_needs_no_reason_for_no_model_is_there(terminal: Terminal) -> None:
    asked = asyncio.create_task(LinePrompt(terminal.name)(Question("trust", "Trust /x?")))
    await terminal.answer("n\n")
    assert await asyncio.wait_for(asked, 60) == Answer("no")


async def test_what_would_be_granted_is_shown_before_it_is(terminal: Terminal) -> None:
    asked = asyncio.create_task(LinePrompt(terminal.name)(EDIT))
    await terminal.until("> ")
    for part in ("? Edit shop/service.py", "edits ask", "-old", "+new", "[s] this session: Edit(shop/service.py)"):
        assert part in terminal.seen
    assert "[a] always, adds rule Edit(shop/**)" in terminal.seen
    os.write(terminal.main, b"y\n")
    await asked


async def test_a_yes_that_can_only_hold_for_the_session_says_so(terminal: Terminal) -> None:
    question = Question("permission", "Let /x use these unasked?", session_rule="Bash(make)", once=False)
    asked = asyncio.create_task(LinePrompt(terminal.name)(question))
    await terminal.until("[y] this session: Bash(make)")
    await terminal.answer("y\n")
    assert await asyncio.wait_for(asked, 60) == Answer("session")


async def test_session_and_always_are_offered_only_with_a_rule(terminal: Terminal) -> None:
    question = Question("permission", "Bash rm x", display={"kind": "text", "text": "rm x"})
    asked = asyncio.create_task(LinePrompt(terminal.name)(question))
    await terminal.answer("a\n", "s\n", "y\n")
    assert await asked == Answer("once")


async def test_the_parts_of_a_command_are_judged_one_by_one(terminal: Terminal) -> None:
    parts = [
        {"text": "git add -A", "verdict": "asks", "why": "writes the index"},
        {"text": "git commit", "verdict": "asks", "why": "runs hooks"},
    ]
    question = Question("permission", "Bash", agent="main/bash-1", display={"kind": "command", "parts": parts})
    asked = asyncio.create_task(LinePrompt(terminal.name)(question))
    await terminal.until("> ")
    assert "1 git add -A  asks  writes the index" in terminal.seen
    assert "asked by main/bash-1" in terminal.seen
    os.write(terminal.main, b"n no\n")
    assert (await asked).choice == "no"


async def test_what_was_typed_before_the_question_does_not_answer_it(terminal: Terminal) -> None:
    os.write(terminal.main, b"y\n")
    asked = asyncio.create_task(LinePrompt(terminal.name)(EDIT))
    await terminal.answer("n later\n")
    assert await asked == Answer("no", "later")


async def test_questions_of_parallel_children_wait_for_one_another(terminal: Terminal) -> None:
    prompt = LinePrompt(terminal.name)
    first = asyncio.create_task(prompt(Question("permission", "FIRST")))
    second = asyncio.create_task(prompt(Question("permission", "SECOND")))
    await terminal.until("> ")
    assert "SECOND" not in terminal.seen
    await terminal.answer("y\n", "n no\n")
    assert [(await first).choice, (await second).choice] == ["once", "no"]


async def test_waiting_can_be_cancelled_at_once(terminal: Terminal) -> None:
    asked = asyncio.create_task(LinePrompt(terminal.name)(EDIT))
    await terminal.until("> ")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asked, 60)


async def test_the_questions_of_a_model_are_answered_one_after_the_other(terminal: Terminal) -> None:
    asked = [{"question": "Which?", "options": ["red", {"label": "blue", "description": "cold"}]}, {"question": "Why?"}]
    question = Question("questions", "A question", input={"questions": asked})
    waiting = asyncio.create_task(LinePrompt(terminal.name)(question))
    await terminal.answer("2\n", "it is calm\n")
    assert await waiting == Answer("once", data={"answers": ["blue", "it is calm"]})


async def test_a_plan_is_approved_with_the_mode_to_go_on_in(terminal: Terminal) -> None:
    waiting = asyncio.create_task(
        LinePrompt(terminal.name)(Question("plan", "Go on?", options=("accept-edits", "ask")))
    )
    await terminal.answer("1\n")
    assert await waiting == Answer("once", data={"mode": "accept-edits"})


async def test_escapes_in_a_question_are_shown_not_obeyed(terminal: Terminal) -> None:
    nasty = "\x1b[2J\x1b]52;c;eA==\x07\u202e"
    question = Question("permission", nasty, nasty, reason=nasty, rule=nasty, display={"kind": "diff", "diff": nasty})
    asked = asyncio.create_task(LinePrompt(terminal.name)(question))
    await terminal.until("> ")
    assert not {"\x1b", "\x07", "\u202e"} & set(terminal.seen)
    os.write(terminal.main, b"n no\n")
    await asked


async def test_without_a_terminal_the_answer_is_no() -> None:
    assert not available("/nonexistent/tty")
    assert await LinePrompt("/nonexistent/tty")(EDIT) == Answer("no", "there is no terminal to ask on")
    assert await LinePrompt("/dev/null")(EDIT) == Answer("no", "there is no terminal to ask on")


def test_why_it_asks_comes_before_a_long_diff() -> None:
    diff = "--- a/notes.md\n+++ b/notes.md\n@@ -1,100 +1,100 @@\n" + "".join(f"+row {n}\n" for n in range(100))
    reason = "/home/ann/shop/.git/config is protected: git obeys it"
    question = Question(
        "permission", "Allow Write?", reason=reason, tool="Write", display={"kind": "diff", "diff": diff}
    )
    shown = list(_body(question))
    assert any("is protected" in row for row in shown[:3])
    assert "more lines" in shown[-1]
