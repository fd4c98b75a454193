"""The choices of every dialog (permission, trust, plan, questions of the model) in the chat and in editors.

`cowork run` asks by letters, in prompt.py.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from cowork.core.blocks import Json
from cowork.core.frozen import frozen
from cowork.core.hygiene import visible_line
from cowork.core.ports import ABOUT, EXACTLY, Question

_WHY_NOT = "Not allowed. What should it do instead? (Enter sends, Esc goes back)"
_OWN_WORDS = "Your answer (Enter sends, Esc goes back)"
_CHANGES = "What should be different? (Enter sends, Esc goes back)"


@frozen
class Choice:
    """One answer on offer. With `writes`, choosing it opens a line to write in, under these words."""

    label: str
    answer: Literal["once", "session", "always", "no"] = "once"
    detail: str = ""
    writes: str = ""
    data: Json = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The choice where it has a single line."""
        return f"{self.label} · {self.detail}" if self.detail else self.label


@frozen
class Step:
    """One thing asked: most questions have one, those of a model up to four."""

    title: str
    choices: tuple[Choice, ...]


def granted_text(question: Question) -> str:
    """What "this session" would grant; a command that is granted as it stands is on the screen already."""
    exact = question.session_rule.startswith(EXACTLY)
    return "this exact command" if exact else visible_line(question.session_rule)


def steps_of(question: Question) -> tuple[Step, ...]:
    """What is asked, one thing after the other, with what can be answered."""
    if question.kind == "questions":
        return tuple(map(_step_of, question.input["questions"]))
    return (Step(question.title, tuple(choices_of(question))),)


def by_number(step: Step, text: str) -> Choice | None:
    """The choice a typed number stands for."""
    number = int(text) if text.isdecimal() else 0
    return step.choices[number - 1] if 1 <= number <= len(step.choices) else None


def _step_of(item: Json) -> Step:
    options = [option if isinstance(option, dict) else {"label": option} for option in item.get("options") or ()]
    told = [[visible_line(str(option.get(name, ""))) for name in ("label", "description")] for option in options]
    choices = [Choice(label, detail=detail) for label, detail in told]
    return Step(str(item.get("question", "")), (*choices, Choice("Something else …", writes=_OWN_WORDS)))


def choices_of(question: Question) -> list[Choice]:
    """What can be answered. The grant shown is the grant given, so rules appear as they are."""
    mode, in_mode = question.mode, {"mode": question.mode}
    if question.kind in ("trust", "server"):
        trusting = [Choice("Yes, trust this folder" if question.kind == "trust" else "Yes, and remember it", "always")]
        if mode:
            trusting.append(Choice(f"Yes, and work in mode {mode}", "always", ABOUT.get(mode, ""), data=in_mode))
        return [*trusting, Choice("Only this time", "session"), Choice("No", "no")]
    if question.kind == "plan":
        going = [Choice(f"Yes, go on in mode {visible_line(mode)}", data={"mode": mode}) for mode in question.options]
        edit = Choice("Edit the plan in $EDITOR, then decide", data={"edit": True})
        return [*going, edit, Choice("No, plan on: say what to change …", "no", writes=_CHANGES)]
    out = [Choice("Yes, once", "once")] if question.once else []
    if question.session_rule:
        out.append(Choice(f"Yes, {granted_text(question)} for this session", "session"))
    if mode:
        out.append(Choice(f"Yes, and go on in mode {visible_line(mode)} (⇧⇥)", data=in_mode))
    if question.rule:
        out.append(Choice(f"Always: adds rule {visible_line(question.rule)}", "always"))
    return [*out, Choice("No, and tell it why …", "no", writes=_WHY_NOT)]
