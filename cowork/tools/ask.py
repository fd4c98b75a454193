"""AskUser and ExitPlan: what a model asks the person, and the plan it hands in. Absent where nobody is there."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, NotRequired, TypedDict

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.ports import Answer, Question, ToolRecord, ok
from cowork.tools.base import ToolContext, flat, tool, touches_nothing

MOST_QUESTIONS = 4
MOST_OPTIONS = 8


class AskOption(TypedDict):
    """A likely answer with a word of explanation, which is shown under it."""

    label: str
    description: NotRequired[str]


class AskItem(TypedDict):
    """One question."""

    question: Annotated[str, "One sentence"]
    options: NotRequired[Annotated[list[str | AskOption], "Likely answers"]]


@tool("AskUser", effects=touches_nothing, line=lambda args, cwd: str(args["questions"][0]["question"]))
async def ask_user(ctx: ToolContext, questions: Annotated[list[AskItem], "One to four"]) -> ToolRecord:
    if not 1 <= len(questions) <= MOST_QUESTIONS:
        said = f"`questions` must have 1 to {MOST_QUESTIONS} entries, it has {len(questions)}."
        raise ToolError("INVALID_PARAM", said)
    for number, item in enumerate(questions, 1):
        if not item["question"].strip():
            raise ToolError("INVALID_PARAM", f"Question {number} is empty. Say what you want to know.")
        if len(item.get("options", [])) > MOST_OPTIONS:
            raise ToolError("INVALID_PARAM", f"Question {number} has more than {MOST_OPTIONS} options. Offer fewer.")
    given: Json = {"questions": questions}
    answer = await _put(ctx, Question("questions", "Questions", tool="AskUser", input=given))
    answers = [str(text) for text in answer.data.get("answers") or ()]
    if not answer.granted or len(answers) != len(questions):
        why = f" and said: {answer.note}" if answer.note else ""
        return ok(f"The user did not answer{why}. Go on as you think best, or say what you need.", answers={})
    told = {item["question"]: text for item, text in zip(questions, answers, strict=True)}
    rows = "\n".join(f"- {question} → {text}" for question, text in told.items())
    display = {"kind": "text", "text": rows, "summary": flat(" · ".join(told.values()))}
    return ok(f"The user answered:\n{rows}", display=display, answers=told)


@tool("ExitPlan", effects=touches_nothing, line=lambda args, cwd: str(args["plan"]).strip("# ").split("\n")[0])
async def exit_plan(ctx: ToolContext, plan: Annotated[str, "The whole plan, as Markdown"]) -> ToolRecord:
    if not plan.strip():
        raise ToolError("INVALID_PARAM", "`plan` is empty. Hand in the whole plan.")
    shown = {"kind": "markdown", "text": plan}
    answer = await _put(ctx, Question("plan", "Go on with this plan?", display=shown, options=("accept-edits", "ask")))
    if not answer.granted:
        what = f"The user wants it changed: {answer.note}" if answer.note else "The user did not approve the plan."
        return ok(f"{what}\nNothing was changed. Revise the plan and hand it in again.", approved=False)
    edited = str(answer.data.get("plan") or plan)
    mode = str(answer.data.get("mode") or "")
    said = f"The user approved the plan; the permission mode is {mode} now. Carry it out."
    if edited != plan:
        said += f"\nThe user edited it. This is the plan that holds:\n\n{edited}"
    return ok(said, approved=True, mode=mode, plan=edited)


async def _put(ctx: ToolContext, question: Question) -> Answer:
    if ctx.ask is None:
        raise ToolError("EXECUTION_ERROR", "Nobody is there to ask. Go on as you think best, and say what you assumed.")
    return await ctx.ask(replace(question, agent=ctx.agent, tool_use_id=ctx.tool_use_id))
