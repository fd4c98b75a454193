"""Approvals: one at a time, the exact grant, nothing answered by accident."""

from __future__ import annotations

import asyncio

import pytest

from cowork.core.ports import Answer, Question
from cowork.frontends.repl.input.dialogs import QUIET_S, SETTLE_S, Dialogs, choices_of

ASK = Question(
    "permission", "Allow?", tool="Bash", input={"command": "make"}, rule="Bash(make:*)", session_rule="Bash(make)"
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make() -> tuple[Dialogs, Clock]:
    clock = Clock()
    return Dialogs(lambda: None, clock), clock


async def answer(keys: list[str], question: Question = ASK) -> Answer:
    dialogs, _ = make()
    waiting = asyncio.ensure_future(dialogs.ask(question))
    await asyncio.sleep(0)
    for key in keys:
        {"enter": dialogs.enter, "esc": dialogs.escape, "back": dialogs.backspace, "down": lambda: dialogs.move(1),
         "up": lambda: dialogs.move(-1)}.get(key, lambda key=key: dialogs.type(key))()  # fmt: skip
    return await asyncio.wait_for(waiting, 60)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["enter"], Answer("once")),
        (["y"], Answer("once")),
        (["1"], Answer("once")),
        (["2"], Answer("session")),
        (["down", "down", "enter"], Answer("always")),
        (["up", "enter", "use make check", "enter"], Answer("no", "use make check")),
        (["4", "nol", "back", "enter"], Answer("no", "no")),
        (["4", "x", "esc", "esc"], Answer("no")),
        (["n"], Answer("no")),
        (["esc"], Answer("no")),
        (["9", "q", "y"], Answer("once")),
    ],
)
async def test_keys_lead_to_answers(keys: list[str], expected: Answer) -> None:
    assert await answer(keys) == expected


def test_a_grant_is_only_offered_with_its_exact_rule() -> None:
    assert [c.label for c in choices_of(ASK)] == [
        "Yes, once",
        "Yes, Bash(make) for this session",
        "Always: adds rule Bash(make:*)",
        "No, and tell it why …",
    ]
    assert [c.answer for c in choices_of(Question("permission", "Allow?"))] == ["once", "no"]


async def test_a_choice_gives_the_option_and_typing_narrows_the_list() -> None:
    question = Question("choice", "Which?", options=("alpha", "beta", "gamma"))
    assert await answer(["et", "enter"], question) == Answer("once", "beta")
    assert await answer(["esc"], question) == Answer("no")


async def test_questions_wait_in_line_and_each_gets_its_own_answer() -> None:
    dialogs, _ = make()
    asked = [asyncio.ensure_future(dialogs.ask(Question("permission", f"q{n}", agent=f"main/a-{n}"))) for n in range(3)]
    await asyncio.sleep(0)
    assert [q.title for q in dialogs.waiting()] == ["q1", "q2"]
    for key in ("y", "n", "y"):
        dialogs.type(key)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert [(await a).choice for a in asked] == ["once", "no", "once"]
    assert dialogs.current is None


async def test_someone_in_the_middle_of_typing_does_not_answer_by_accident() -> None:
    dialogs, clock = make()
    dialogs.last_key = clock.now - 0.1
    waiting = asyncio.ensure_future(dialogs.ask(ASK))
    await asyncio.sleep(0)
    assert not dialogs.armed
    clock.now += QUIET_S
    assert dialogs.armed
    dialogs.type("y")
    assert (await waiting).choice == "once"


async def test_a_key_held_down_does_not_answer_the_next_question() -> None:
    dialogs, clock = make()
    tasks = [asyncio.ensure_future(dialogs.ask(ASK)) for _ in range(2)]
    await asyncio.sleep(0)
    clock.now += SETTLE_S
    assert dialogs.ready
    dialogs.type("y")
    await tasks[0]
    assert not dialogs.ready
    clock.now += SETTLE_S
    assert dialogs.ready
    dialogs.refuse_all()
    await asyncio.gather(*tasks)


async def test_a_question_nobody_waits_for_any_more_leaves_the_line() -> None:
    dialogs, _ = make()
    first = asyncio.ensure_future(dialogs.ask(ASK))
    second = asyncio.ensure_future(dialogs.ask(ASK))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert dialogs.waiting() == []
    dialogs.type("n")
    assert (await second).choice == "no"


async def test_an_interrupt_refuses_everything() -> None:
    dialogs, _ = make()
    tasks = [asyncio.ensure_future(dialogs.ask(ASK)) for _ in range(3)]
    await asyncio.sleep(0)
    dialogs.refuse_all()
    assert {(await t).choice for t in tasks} == {"no"}
