"""Answers that must be JSON valid under a schema: asked for, checked, repaired twice, then a failure."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

from cowork.core.blocks import Json
from cowork.core.later import later
from cowork.core.ports import Accept
from cowork.engine.loop import Agent, Outcome, Prompt

with later(__name__):
    from cowork.tools.json_schema import validate

REPAIRS = 2
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.DOTALL)


def instruction(schema: Json) -> str:
    """What a model is told when its last message must be typed."""
    return (
        "Your last message must be a single JSON value and nothing else, valid under this JSON Schema:\n"
        + json.dumps(schema, ensure_ascii=False)
    )


async def parse_answer(agent: Agent, outcome: Outcome, schema: Json, accept: Accept) -> tuple[Any, Outcome]:
    """The value of the answer and the outcome it came with; asks for repairs in tool-less turns.

    Without a value, the outcome's reason is `schema`, or what ended the repair.
    """
    turns = outcome.turns
    for repair in range(REPAIRS + 1):
        fenced = _FENCE.fullmatch(outcome.text)  # taken off, so that a program can read the answer as it is
        text = fenced[1] if fenced else outcome.text
        value, problems = _read(text, schema, accept)
        if not problems:
            return value, replace(outcome, text=text)
        if repair == REPAIRS or outcome.reason not in ("completed", "max_turns"):
            break
        most = agent.spec.max_turns
        if most and turns + repair >= most and not agent.spec.report:
            message = f"Turn limit reached: {most}, before the answer fit the output schema"
            outcome = replace(outcome, reason="max_turns", error={"code": "max_turns", "message": message})
            break
        ask = f"That is not valid: {'; '.join(problems[:5])}.\n{instruction(schema)}"
        outcome = await agent.run(Prompt(ask, source="system"), tools=False)
    if outcome.reason == "completed":
        message = f"The answer is not valid under the output schema: {'; '.join(problems[:3])}"
        outcome = replace(outcome, reason="schema", error={"code": "schema", "message": message})
    return None, outcome


def _read(text: str, schema: Json, accept: Accept) -> tuple[Any, list[str]]:
    """(value, problems)."""
    try:
        value = json.loads(text, parse_float=_number, parse_constant=_number)
    except ValueError as error:
        return None, [f"it is not JSON ({error})"]
    if problems := validate(schema, value):
        return value, problems
    try:
        accept(value)
    except ValueError as error:
        problems = [str(error)]
    return value, problems


def _number(text: str) -> float:
    """A number; NaN and infinite ones are Python's alone, and programs that read the answer refuse them."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not valid JSON")
    return value
