"""A model's questions reach the person and come back as words; a plan is approved with a mode, edited, or sent back."""

from __future__ import annotations

from typing import Any

import pytest

from cowork.core.ports import Answer, Question, ToolRecord
from cowork.tools.ask import ask_user, exit_plan
from cowork.tools.base import Tool, ToolContext
from tests.tools.conftest import Agent

COLOURS = {"question": "Which colour?", "options": ["red", "blue"]}


class Person:
    """Gives one answer and remembers what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    async def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answer


async def call(agent: Agent, tool: Tool, person: Person | None, **args: Any) -> ToolRecord:
    made = agent.context

    def context() -> ToolContext:
        ctx = made()
        ctx.ask = person
        return ctx

    agent.context = context  # type: ignore[method-assign]
    return await agent.call(tool, **args)


async def test_the_answers_are_told_with_their_questions(agent: Agent) -> None:
    person = Person(Answer("once", data={"answers": ["blue", "by hand"]}))
    record = await call(agent, ask_user, person, questions=[COLOURS, {"question": "How?"}])
    assert record.text == "The user answered:\n- Which colour? → blue\n- How? → by hand"
    assert record.data["answers"] == {"Which colour?": "blue", "How?": "by hand"}
    (question,) = person.asked
    assert (question.kind, question.agent) == ("questions", agent.name)
    assert question.input == {"questions": [COLOURS, {"question": "How?"}]}


async def test_someone_who_does_not_answer_is_no_error(agent: Agent) -> None:
    record = await call(agent, ask_user, Person(Answer("no", "later")), questions=[COLOURS])
    assert record.status == "success"
    assert "did not answer and said: later" in record.text


@pytest.mark.parametrize(
    "questions",
    [[], [COLOURS] * 5, [{"question": " "}], [{"question": "x", "options": ["y"] * 9}], [{"options": []}]],
)
async def test_too_much_or_nothing_is_refused(agent: Agent, questions: list[Any]) -> None:
    person = Person(Answer("no"))
    record = await call(agent, ask_user, person, questions=questions)
    assert record.error is not None
    assert (record.error["code"], person.asked) == ("INVALID_PARAM", [])


async def test_where_nobody_is_there_the_model_is_told_to_go_on(agent: Agent) -> None:
    record = await call(agent, ask_user, None, questions=[COLOURS])
    assert record.status == "error"
    assert "Nobody is there" in record.text


async def test_an_approved_plan_says_the_mode_and_the_plan_as_edited(agent: Agent) -> None:
    record = await call(agent, exit_plan, Person(Answer("once", data={"mode": "accept-edits"})), plan="1. do it")
    assert (record.data["approved"], record.data["plan"]) == (True, "1. do it")
    assert "accept-edits" in record.text
    assert "edited" not in record.text
    person = Person(Answer("once", data={"mode": "ask", "plan": "1. do it well"}))
    record = await call(agent, exit_plan, person, plan="1. do it")
    assert record.text.endswith("1. do it well")
    assert person.asked[0].display == {"kind": "markdown", "text": "1. do it"}


async def test_a_plan_that_is_sent_back_says_what_to_change(agent: Agent) -> None:
    record = await call(agent, exit_plan, Person(Answer("no", "tests first")), plan="1. do it")
    assert record.data["approved"] is False
    assert "tests first" in record.text
