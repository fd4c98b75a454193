"""Questions only the person can answer: drawn one at a time, the rest wait in line and are counted."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cowork.core.blocks import Json
from cowork.core.format import one_line
from cowork.core.hygiene import visible, visible_line
from cowork.core.ports import Answer, Question
from cowork.frontends.dialog_choices import Choice, Step, steps_of
from cowork.frontends.repl.view.tool_lines import command_lines, diff_lines
from cowork.frontends.styled import (
    BAR_MARGIN,
    WIDEST,
    Line,
    Theme,
    bar,
    clip,
    clip_start,
    limit_rows,
    option,
    width,
    wrap,
    wrap_behind,
)

QUIET_S = 0.5  # keys typed less than this apart belong to the message being written, not to a dialog
SETTLE_S = 0.3  # a fresh question answers to no key: nobody can have read it yet
ALONE_S = 0.3  # a letter answers when nothing else is typed for so long after it
PASTED_S = 0.05  # Enter followed by more within this is part of a paste
CHOICES_SHOWN = 9  # choices at a time
_BOXES = {
    "network": "runs in the write box: workspace writable, the rest read-only, network open",
    "outside": "runs outside the box: with all your rights, as if you typed it",
}

Focus = Literal["auto", "input", "dialog"]


@dataclass(slots=True)
class Dialog:
    """One question on the screen."""

    question: Question
    steps: tuple[Step, ...]
    future: asyncio.Future[Answer]
    index: int = 0  # the choice the cursor stands on
    text: str | None = None  # what is being written, in place of a choice
    answers: list[str] = field(default_factory=list)  # to the steps before this one
    data: Json = field(default_factory=dict)  # goes along with the answer: a plan as edited

    @property
    def step(self) -> Step:
        return self.steps[len(self.answers)]

    @property
    def choices(self) -> tuple[Choice, ...]:
        return self.step.choices


@dataclass(slots=True)
class _Held:
    """A key that answers unless more is typed at once."""

    text: str
    pressed: float
    until: float
    choice: Choice | None  # None: it came before the question could be read, and answers nothing


@dataclass(slots=True)
class Dialogs:
    """The line of questions. `ask` is the port; keys are given by the methods below it.

    Typing must never answer by accident. A letter, a digit or Enter answers only when it stands alone: nothing was
    typed for a moment before, and nothing follows. Everything else goes to the input, which then keeps the keys until
    it is empty again or the person comes back with an arrow key or Esc.
    """

    on_change: Callable[[], None]
    clock: Callable[[], float] = time.monotonic
    drafting: Callable[[], bool] = lambda: False  # text stands in the input: Enter is for sending it
    edit: Callable[[Dialog], None] = lambda dialog: None  # lets the person edit what the question is about
    last_key: float = -10.0  # when the person last typed into the input
    focus: Focus = "auto"
    _shown_at: float = -10.0  # when the current question came up
    _held: _Held | None = None
    _line: list[Dialog] = field(default_factory=list)

    @property
    def current(self) -> Dialog | None:
        return self._line[0] if self._line else None

    @property
    def ready(self) -> bool:
        """Keys count: the question has been on the screen for a moment."""
        return self.clock() - self._shown_at >= SETTLE_S

    @property
    def armed(self) -> bool:
        """A question waits and takes the keys: nobody is in the middle of typing."""
        return bool(self._line) and self.focus != "input" and self.clock() - self.last_key >= QUIET_S

    async def ask(self, question: Question) -> Answer:
        """Wait for the person's answer."""
        dialog = Dialog(question, steps_of(question), asyncio.get_running_loop().create_future())
        self._line.append(dialog)
        self._advance(dialog)
        try:
            return await dialog.future
        finally:
            was_current = self.current is dialog
            self._line.remove(dialog)
            if not self._line:
                self.focus = "auto"
            self._advance(self.current if was_current else None)

    def tick(self) -> None:
        """Let a key count that has stood alone for long enough."""
        held, dialog = self._held, self.current
        if held is not None and self.clock() >= held.until:
            self._held = None
            if held.choice is None:
                self.last_key = held.pressed
            elif dialog is not None:
                self._choose(dialog, held.choice)

    def move(self, step: int) -> None:
        """Arrows choose, and bring the keys back from the input."""
        dialog = self.current
        self._held = None
        self.take_focus()
        if dialog and dialog.text is None and self.ready:
            dialog.index = (dialog.index + step) % len(dialog.choices)

    def take_focus(self) -> None:
        """The keys belong to the question from now on."""
        self.focus, self.last_key = "dialog", -10.0

    def note_typing(self, *, something: bool) -> None:
        """A key went to the input, and something stands there now (or nothing any more)."""
        self._held = None
        self.last_key = self.clock() if self._line or something else -10.0
        if self._line:
            self.focus = "input" if something else "auto"

    def type(self, text: str, *, pasted: bool = False) -> str:
        """A lone digit or letter chooses; in a line to write in it is text. Gives what belongs to the input."""
        self.tick()
        dialog = self.current
        if dialog is None:
            return text
        if dialog.text is not None:
            dialog.text += " ".join(text.split("\n"))
            return ""
        held, self._held = self._held, None
        choice = None if pasted or held or not self.armed else _choice_for(text, dialog)
        if choice is None:
            self.note_typing(something=True)
            return (held.text if held else "") + text
        if choice in dialog.choices and self.ready:
            dialog.index = dialog.choices.index(choice)
        self._hold(text, ALONE_S, choice)
        return ""

    def enter(self) -> bool:
        """Take what is chosen or written; False when Enter is for the input."""
        self.tick()
        dialog = self.current
        if dialog is None:
            return False
        if dialog.text is not None:
            written = dialog.text.strip()
            if dialog.question.kind != "questions":
                self._settle(dialog, Answer("no", written))
            elif written:
                self._next_step(dialog, written)
        elif self._held is not None:
            self._held.text += "\n"  # `y` and Enter is one answer, unless more follows
        elif not self.armed or (self.focus == "auto" and self.drafting()):
            return False
        else:
            self._hold("", PASTED_S, dialog.choices[dialog.index])
        return True

    def escape(self) -> None:
        """Back from the line being written to the choices; from the choices it is a plain no."""
        dialog = self.current
        self._held = None
        if dialog is None or not self.ready:
            return
        if dialog.text is not None:
            dialog.text = None
        else:
            self._settle(dialog, Answer("no"))

    def backspace(self) -> bool:
        """False when there is nothing to delete in the dialog."""
        dialog = self.current
        if dialog is None or dialog.text is None:
            return False
        dialog.text = dialog.text[:-1]
        return True

    def take_mode(self) -> None:
        """⇧⇥: yes, and go on in the mode that does not ask this again."""
        dialog = self.current
        if dialog and dialog.text is None and self.ready and self.armed:
            for choice in [c for c in dialog.choices if c.data.get("mode")][:1]:
                self._choose(dialog, choice)

    def refuse_all(self) -> None:
        """The turn is interrupted: every open question is a no."""
        self._held = None
        for dialog in list(self._line):
            self._settle(dialog, Answer("no", "interrupted by the user"))

    def waiting(self) -> list[Question]:
        return [d.question for d in self._line[1:]]

    def _hold(self, text: str, seconds: float, choice: Choice) -> None:
        """Let a key answer when it has stood alone for so long."""
        now = self.clock()
        self._held = _Held(text, now, now + seconds, choice if self.ready else None)
        asyncio.get_running_loop().call_later(seconds + 0.001, self.tick)
        self.on_change()

    def _advance(self, came: Dialog | None) -> None:
        if came is not None and came is self.current:
            self._shown_at, self._held = self.clock(), None
        self.on_change()

    def _choose(self, dialog: Dialog, choice: Choice) -> None:
        if choice.writes:
            dialog.index = dialog.choices.index(choice)
            dialog.text = ""
        elif dialog.question.kind == "questions":
            self._next_step(dialog, choice.label)
        elif choice.data.get("edit"):
            self.edit(dialog)
        else:
            self._settle(dialog, Answer(choice.answer, "", {**choice.data, **dialog.data}))
        self.on_change()

    def _next_step(self, dialog: Dialog, answer: str) -> None:
        if len(dialog.answers) + 1 == len(dialog.steps):
            self._settle(dialog, Answer("once", data={"answers": [*dialog.answers, answer]}))
        else:
            dialog.answers.append(answer)
            dialog.index, dialog.text = 0, None
            self._shown_at = self.clock()

    def _settle(self, dialog: Dialog, answer: Answer) -> None:
        """Answer it, and with it what waits for the very same grant."""
        if not dialog.future.done():
            dialog.future.set_result(answer)
        for other in self._line:
            if not other.future.done() and _covers(dialog.question, answer, other.question):
                other.future.set_result(Answer("once"))


def _covers(question: Question, answer: Answer, other: Question) -> bool:
    """Whether the answer to one question settles another that waits."""
    mode = answer.data.get("mode")
    granted = {"session": question.session_rule, "always": question.rule}.get(answer.choice)
    same = bool(mode and other.mode == mode) or bool(granted and granted in (other.session_rule, other.rule))
    return same and other.kind == "permission"


def _choice_for(key: str, dialog: Dialog) -> Choice | None:
    """The answer a key stands for."""
    if key.isdecimal() and 1 <= int(key) <= min(CHOICES_SHOWN, len(dialog.choices)):
        return dialog.choices[int(key) - 1]
    if dialog.question.kind == "questions":
        return None
    return {"y": dialog.choices[0], "n": Choice("no", "no")}.get(key.lower())


def dialog_lines(
    dialog: Dialog, waiting: Sequence[Question], columns: int, rows: int, box_width: int = WIDEST, *,
    armed: bool = True, ready: bool = True, theme: Theme | None = None,
) -> list[Line]:  # fmt: skip
    """What is asked about, as much as fits, and under it the choices; only a diff is wider than those."""
    narrow = min(columns, box_width)
    choices = _choices(dialog, min(narrow, WIDEST), _foot(dialog, waiting, armed=armed, ready=ready))
    is_diff = dialog.question.display.get("kind") == "diff"
    body = what_lines(dialog.question, columns if is_diff else narrow, theme)
    return [*limit_rows(body, max(0, rows - len(choices)), columns, "Ctrl+O shows all"), *choices]


def what_lines(question: Question, columns: int, theme: Theme | None = None) -> list[Line]:
    """The thing the question is about: the call, why it asks, and the diff, command or text."""
    shown, margin, reason = question.display, ("", "  "), question.reason
    parts = [part for part in shown.get("parts") or () if isinstance(part, dict)]
    out = _call_lines(question, columns) if question.tool and question.kind == "permission" else []
    match shown.get("kind"):
        case "diff":
            out.extend(diff_lines(str(shown.get("diff", "")), columns, theme=theme))
        case "command" if len(parts) > 1:
            out.extend(command_lines(parts, columns))
            for why in [str(part.get("why") or "") for part in parts]:  # what stands beside a part is not said again
                if why and (reason == why or reason.startswith(f"{why}: ")):
                    reason = reason[len(why) + 2 :]
                    break
        case "path":
            out.extend(wrap_behind(("dim", "  → "), one_line(str(shown.get("path", ""))), columns))
        case "text" | "terminal":
            out.extend(wrap_behind(margin, visible(str(shown.get("text") or shown.get("output") or "")), columns))
        case None if question.kind == "permission" and len(question.input) > 1:  # its line tells one of them
            for name, value in question.input.items():
                said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                out.extend(wrap_behind(("dim", f"  {clip(one_line(name), 24)}: "), visible(said), columns))
    return [*out, *why_lines(reason, question.box, columns)]


def why_lines(reason: str, box: str, columns: int) -> list[Line]:
    """Why it asks, and with which rights it would run."""
    said = [wrap_behind(("", "  "), visible(about), columns, "dim") for about in (reason, _BOXES.get(box)) if about]
    return [line for lines in said for line in lines]


def _call_lines(question: Question, columns: int) -> list[Line]:
    """The call in a line; a command that does not fit in one is shown whole below it."""
    name = one_line(question.tool)
    room = columns - len(name) - 4
    head: Line = [("accent", "● "), ("bold", name)]
    command = visible(str(question.input.get("command", "")))
    if question.family != "exec" or not command:
        return [[*head, ("", f" {clip_start(one_line(question.line), room)}")]]
    if "\n" not in command and width(command) + 2 <= room:
        return [[*head, ("", f" $ {command}")]]
    rows: list[Line] = [[("faint", "  │ "), ("", row)] for row in wrap(command, columns - 5)]
    return [head, *rows]


def _choices(dialog: Dialog, columns: int, foot: str) -> list[Line]:
    inner = columns - BAR_MARGIN
    rows: list[Line] = []
    if dialog.text is not None:
        rows += wrap_behind(("", ""), dialog.choices[dialog.index].writes, inner + 1, "dim")
        rows.append([("accent", "❯ "), ("", clip_start(visible_line(dialog.text), inner - 4)), ("reverse", " ")])
    start = max(0, dialog.index - CHOICES_SHOWN + 1)
    shown = dialog.choices[start : start + CHOICES_SHOWN] if dialog.text is None else ()
    for place, choice in enumerate(shown, start):
        mark, (style, _) = option("", chosen=place == dialog.index)
        digit = f"{place + 1} " if place < CHOICES_SHOWN else "  "
        first, *rest = wrap(choice.label, inner - 4)
        rows.append([mark, ("dim", digit), (style, first)])
        rows.extend([("", "    "), (style, piece)] for piece in rest)
        rows.extend(wrap_behind(("", "    "), choice.detail, inner + 1, "dim") if choice.detail else ())
    count = f" ({len(dialog.answers) + 1} of {len(dialog.steps)})" if len(dialog.steps) > 1 else ""
    title = one_line(dialog.step.title) + count
    if width(title) > inner:  # a long question stands below, whole
        rows = [*wrap_behind(("", ""), title, inner + 1, "bold"), *rows]
        title = one_line(dialog.question.title)
    who = one_line(dialog.question.agent.rpartition("/")[2])
    asked = f"asked by {who}" if who else ""
    if asked and width(title) + width(asked) + 3 > inner:  # who asks is said in every width
        rows, asked = [[("dim", clip(asked, inner))], *rows], ""
    return bar([("bold", title)], asked, rows, foot, columns)


def _foot(dialog: Dialog, waiting: Sequence[Question], *, armed: bool, ready: bool) -> str:
    parts: list[str] = []
    if waiting:
        names = Counter(one_line(q.agent.rpartition("/")[2]) for q in waiting)
        who = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in names.items())
        parts.append(f"{len(waiting)} more waiting ({who})")
    if not armed:
        parts.append("you are writing: ↑↓ or Esc to answer")
    elif ready and dialog.text is None:
        parts.append(f"↑↓ Enter · {'' if dialog.question.kind == 'questions' else 'y · n · '}digits")
    return " · ".join(parts)
