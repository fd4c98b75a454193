"""Approvals: one at a time, the exact grant, nothing answered by accident."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.core.ports import Answer, Question
from cowork.frontends.dialog_choices import choices_of
from cowork.frontends.repl.input.dialogs import ALONE_S, PASTED_S, QUIET_S, SETTLE_S, Dialogs

ASK = Question(
    "permission", "Allow?", tool="Bash", input={"command": "make"}, rule="Bash(make:*)", session_rule="Bash(make)"
)
EDIT = Question("permission", "Allow Edit?", tool="Edit", rule="Edit(a)", session_rule="Edit(a)", mode="accept-edits")
A_WHILE = 2.0


@dataclass
class Person:
    """Presses keys, as the chat routes them: to the question while it takes keys, else to the input."""

    now: float = 100.0
    input: str = ""
    sent: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dialogs = Dialogs(lambda: None, lambda: self.now, lambda: bool(self.input))

    async def press(self, key: str, pause: float = A_WHILE) -> None:
        """Press a key after a pause; what was due in between happens first, when it is due."""
        held = self.dialogs._held
        if held is not None and (due := max(0.0, held.until - self.now)) <= pause:
            self.now, pause = self.now + due, pause - due
            self.dialogs.tick()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        self.now += pause
        match key:
            case "up" | "down":
                self.dialogs.move(1 if key == "down" else -1)
            case "esc":
                self.dialogs.escape() if self.dialogs.armed else self.dialogs.take_focus()
            case "enter":
                if not (self.dialogs.armed and self.dialogs.enter()):
                    self._send()
            case "back":
                if not self.dialogs.backspace():
                    self.input = self.input[:-1]
            case "s-tab":
                self.dialogs.take_mode()
            case _ if self.dialogs.armed:
                self.input += self.dialogs.type(key)
            case _:
                self._write(key)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def rest(self) -> None:
        """Nothing is pressed for a while."""
        self.now += A_WHILE
        self.dialogs.tick()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _write(self, key: str) -> None:
        self.input += key
        self.dialogs.note_typing(something=True)

    def _send(self) -> None:
        self.sent += [self.input] if self.input else []
        self.input = ""
        self.dialogs.note_typing(something=False)


async def asked(person: Person, *questions: Question) -> list[asyncio.Future[Answer]]:
    tasks = [asyncio.ensure_future(person.dialogs.ask(question)) for question in questions]
    await asyncio.sleep(0)
    return tasks


async def answer(keys: list[str], question: Question = ASK) -> Answer:
    person = Person()
    (waiting,) = await asked(person, question)
    for key in keys:
        await person.press(key)
    await person.rest()
    return await asyncio.wait_for(waiting, 60)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["enter"], Answer("once")),
        (["y"], Answer("once")),
        (["y", "enter"], Answer("once")),
        (["1"], Answer("once")),
        (["2"], Answer("session")),
        (["down", "down", "enter"], Answer("always")),
        (["up", "enter", "use make check", "enter"], Answer("no", "use make check")),
        (["4", "nol", "back", "enter"], Answer("no", "no")),
        (["4", "x", "esc", "esc"], Answer("no")),
        (["n"], Answer("no")),
        (["esc"], Answer("no")),
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
    about_no_call = Question("permission", "Let /x use these unasked?", session_rule="Bash(make)", once=False)
    assert [c.answer for c in choices_of(about_no_call)] == ["session", "no"]


async def test_a_message_typed_at_a_question_goes_to_the_input_and_answers_nothing() -> None:
    person = Person()
    (waiting,) = await asked(person, ASK)
    await person.press("m", A_WHILE)
    for letter in "y idea: why not use tox 1 2 3 y":
        await person.press(letter, 0.15)
    await person.rest()
    assert person.input == "my idea: why not use tox 1 2 3 y"
    await person.press("enter")  # and Enter sends it
    assert (person.sent, person.input) == (["my idea: why not use tox 1 2 3 y"], "")
    await person.rest()
    assert not waiting.done()
    await person.press("y")
    await person.rest()
    assert (await waiting).choice == "once"


@pytest.mark.parametrize("text", ["yes but first the tests", "no way", "1st of all", "yy"])
async def test_a_message_that_starts_with_an_answer_is_a_message(text: str) -> None:
    person = Person()
    (waiting,) = await asked(person, ASK)
    for number, letter in enumerate(text):
        await person.press(letter, 0.2 if number else A_WHILE)
    await person.rest()
    assert (person.input, waiting.done()) == (text, False)
    person.dialogs.refuse_all()
    await waiting


async def test_enter_with_a_draft_in_the_input_sends_it_unless_an_arrow_chose_an_answer() -> None:
    person = Person(input="half a thought")
    (waiting,) = await asked(person, ASK)
    await person.press("enter")
    assert (person.sent, waiting.done()) == (["half a thought"], False)
    for key in ("b", "down", "up", "enter"):
        await person.press(key)
    await person.rest()
    assert (await waiting, person.input) == (Answer("once"), "b")


async def test_a_paste_answers_nothing() -> None:
    person = Person()
    (waiting,) = await asked(person, ASK)
    person.now += A_WHILE
    assert person.dialogs.type("y", pasted=True) == "y"
    await person.rest()
    assert not waiting.done()
    person.dialogs.refuse_all()
    await waiting


async def test_keys_pasted_without_brackets_answer_nothing() -> None:
    person = Person()
    (waiting,) = await asked(person, ASK)
    await person.press("enter")
    for letter in "y2n":
        await person.press(letter, PASTED_S / 10)
    await person.rest()
    assert (person.input, waiting.done()) == ("y2n", False)
    person.dialogs.refuse_all()
    await waiting


async def test_the_questions_of_a_model_are_answered_in_order_by_digits_or_words() -> None:
    steps = [{"question": "Which?", "options": ["alpha", "beta"]}, {"question": "Why?"}]
    question = Question("questions", "Questions", input={"questions": steps})
    expected = Answer("once", data={"answers": ["beta", "it is shorter"]})
    assert await answer(["2", "1", "it is shorter", "enter"], question) == expected
    assert await answer(["down", "enter", "enter", "it is shorter", "enter"], question) == expected
    assert await answer(["3", "beta", "enter", "1", "it is shorter", "enter"], question) == expected
    assert await answer(["esc"], question) == Answer("no")


async def test_questions_wait_in_line_and_each_gets_its_own_answer() -> None:
    person = Person()
    tasks = await asked(person, *(Question("permission", f"q{n}", agent=f"main/a-{n}") for n in range(3)))
    assert [q.title for q in person.dialogs.waiting()] == ["q1", "q2"]
    for key in ("y", "n", "y"):
        await person.press(key)
    await person.rest()
    assert [(await a).choice for a in tasks] == ["once", "no", "once"]
    assert person.dialogs.current is None


async def test_going_on_in_another_mode_answers_what_waits_for_it_too() -> None:
    person = Person()
    tasks = await asked(person, EDIT, ASK, EDIT)
    await person.press("s-tab")
    assert [task.done() for task in tasks] == [True, False, True]
    assert (await tasks[0], await tasks[2]) == (Answer("once", data={"mode": "accept-edits"}), Answer("once"))
    person.dialogs.refuse_all()
    await tasks[1]


async def test_a_grant_for_the_session_answers_what_waits_for_the_same() -> None:
    person = Person()
    tasks = await asked(person, ASK, EDIT, ASK)
    await person.press("2")
    await person.rest()
    assert [task.done() for task in tasks] == [True, False, True]
    person.dialogs.refuse_all()
    await asyncio.gather(*tasks)


async def test_someone_in_the_middle_of_typing_does_not_answer_by_accident() -> None:
    person = Person()
    person.dialogs.last_key = person.now - 0.1
    (waiting,) = await asked(person, ASK)
    assert not person.dialogs.armed
    person.now += QUIET_S
    assert person.dialogs.armed
    await person.press("y")
    await person.rest()
    assert (await waiting).choice == "once"


@pytest.mark.parametrize("key", ["y", "1", "enter", "esc", "s-tab"])
async def test_a_fresh_question_answers_to_no_key(key: str) -> None:
    person = Person()
    tasks = await asked(person, EDIT, ASK)
    await person.press(key, SETTLE_S - 0.01)
    await person.rest()
    assert not tasks[0].done()
    assert person.input == ""
    await person.press("n")
    await person.rest()
    assert (await tasks[0]).choice == "no"
    await person.press(key, 0.0)  # the next one is fresh again
    await person.rest()
    assert not tasks[1].done()
    person.dialogs.refuse_all()
    await tasks[1]


async def test_a_question_nobody_waits_for_any_more_leaves_the_line() -> None:
    person = Person()
    first, second = await asked(person, ASK, ASK)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert person.dialogs.waiting() == []
    await person.press("n")
    await person.rest()
    assert (await second).choice == "no"


async def test_an_interrupt_refuses_everything() -> None:
    person = Person()
    tasks = await asked(person, ASK, ASK, ASK)
    person.dialogs.refuse_all()
    assert {(await t).choice for t in tasks} == {"no"}


PAUSES = st.sampled_from([0.0, 0.02, 0.1, 0.2, ALONE_S - 0.01, ALONE_S, 0.45, QUIET_S, 0.6, 1.0, 3.0])
TEXT_KEYS = st.sampled_from(list("yYnN1234567890 abcmwö?!/"))
PRESSES = st.lists(st.tuples(st.one_of(TEXT_KEYS, st.just("enter"), st.just("back")), PAUSES), max_size=40)


@given(PRESSES)
def test_random_typing_approves_nothing_without_a_key_that_stands_alone(presses: list[tuple[str, float]]) -> None:
    """Everything typed is an answer, sent, or still in the input; an approval needs a lone y, digit or Enter."""

    async def play() -> None:
        person = Person()
        (waiting,) = await asked(person, EDIT)
        shown, pressed = person.now, list[tuple[str, float]]()
        for key, pause in presses:
            await person.press(key, pause)
            if waiting.done():
                break
            pressed.append((key, person.now))
        else:
            await person.rest()
        if waiting.done() and waiting.result().choice != "no":
            assert any(_stands_alone(place, pressed, shown) for place in range(len(pressed))), (pressed, waiting)
        person.dialogs.refuse_all()
        await waiting

    asyncio.run(play())


def _stands_alone(place: int, pressed: list[tuple[str, float]], shown: float) -> bool:
    key, at = pressed[place]
    if key not in ("y", "Y", "enter", "1", "2", "3", "4") or at - shown < SETTLE_S - 1e-6:
        return False
    after = PASTED_S if key == "enter" else ALONE_S
    typed = [(k, t) for n, (k, t) in enumerate(pressed) if n != place and len(k) == 1]
    return not any(at - QUIET_S + 1e-6 < t < at + after - 1e-6 for _, t in typed)
