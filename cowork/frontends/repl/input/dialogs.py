"""Questions only the person can answer: drawn one at a time, the rest wait in line and are counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cowork.core.format import one_line
from cowork.core.frozen import frozen
from cowork.core.hygiene import visible, visible_line
from cowork.core.ports import Answer, Question
from cowork.frontends.repl.view.boxes import MARGIN, box
from cowork.frontends.repl.view.diffs import command_lines, diff_lines
from cowork.frontends.repl.view.styled import WIDEST, Line, clip, clip_line, clip_start, line_width, width, wrap
from cowork.frontends.repl.view.tool_lines import argument

QUIET_S = 0.5  # keys typed less than this apart belong to the message being written, not to a dialog that pops up
SETTLE_S = 0.15  # a key pressed twice or held down must not answer a question nobody has seen
_SHOWN = 9  # choices at a time


@frozen
class Choice:
    label: str
    answer: Literal["once", "session", "always", "no"]
    note: str = ""
    asks_why: bool = False


@dataclass(slots=True)
class Dialog:
    """One question on the screen."""

    question: Question
    choices: list[Choice]
    future: asyncio.Future[Answer]
    index: int = 0
    why: str | None = None  # the reason being typed
    filter: str = ""

    @property
    def shown(self) -> list[Choice]:
        """The choices that match what was typed."""
        if not self.filter:
            return self.choices
        return [c for c in self.choices if self.filter.lower() in c.label.lower()]


@dataclass(slots=True)
class Dialogs:
    """The line of questions. `ask` is the port; keys are given by the methods below it."""

    changed: Callable[[], None]
    clock: Callable[[], float] = time.monotonic
    last_key: float = -10.0  # when the person last typed into the input
    _shown_at: float = -10.0  # when the current question came up
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
        return bool(self._line) and self.clock() - self.last_key >= QUIET_S

    async def ask(self, question: Question) -> Answer:
        """Wait for the person's answer."""
        dialog = Dialog(question, choices_of(question), asyncio.get_running_loop().create_future())
        self._line.append(dialog)
        self._advance(dialog)
        try:
            return await dialog.future
        finally:
            was_current = self.current is dialog
            self._line.remove(dialog)
            self._advance(self.current if was_current else None)

    def move(self, step: int) -> None:
        dialog = self.current
        if dialog and dialog.why is None and dialog.shown:
            dialog.index = (dialog.index + step) % len(dialog.shown)

    def enter(self) -> None:
        dialog = self.current
        if dialog is None:
            return
        if dialog.why is not None:
            self._settle(dialog, Answer("no", dialog.why.strip()))
        elif dialog.shown:
            self._choose(dialog, dialog.shown[min(dialog.index, len(dialog.shown) - 1)])

    def escape(self) -> None:
        """Back from the reason to the choices; from the choices it is a plain no."""
        dialog = self.current
        if dialog is None:
            return
        if dialog.why is not None:
            dialog.why = None
        elif dialog.filter:
            dialog.filter, dialog.index = "", 0
        else:
            self._settle(dialog, Answer("no"))

    def type(self, text: str) -> None:
        """A digit or letter chooses; in the reason (or a long list) it is text."""
        dialog = self.current
        if dialog is None:
            return
        if dialog.why is not None:
            dialog.why += " ".join(text.split("\n"))
        elif dialog.question.kind == "choice" and not text.isdigit():
            dialog.filter, dialog.index = dialog.filter + " ".join(text.split("\n")), 0
        elif text.isdigit() and 1 <= int(text) <= min(_SHOWN, len(dialog.shown)):
            self._choose(dialog, dialog.shown[int(text) - 1])
        elif text in ("y", "Y"):
            self._choose(dialog, dialog.choices[0])
        elif text in ("n", "N"):
            self._settle(dialog, Answer("no"))

    def backspace(self) -> None:
        dialog = self.current
        if dialog and dialog.why:
            dialog.why = dialog.why[:-1]
        elif dialog and dialog.filter:
            dialog.filter, dialog.index = dialog.filter[:-1], 0

    def refuse_all(self) -> None:
        """The turn is interrupted: every open question is a no."""
        for dialog in list(self._line):
            self._settle(dialog, Answer("no", "interrupted by the user"))

    def waiting(self) -> list[Question]:
        return [d.question for d in self._line[1:]]

    def _advance(self, came: Dialog | None) -> None:
        if came is not None and came is self.current:
            self._shown_at = self.clock()
        self.changed()

    def _choose(self, dialog: Dialog, choice: Choice) -> None:
        if choice.asks_why:
            dialog.index = dialog.shown.index(choice)
            dialog.why = ""
        else:
            self._settle(dialog, Answer(choice.answer, choice.note))

    def _settle(self, dialog: Dialog, answer: Answer) -> None:
        if not dialog.future.done():
            dialog.future.set_result(answer)


def choices_of(question: Question) -> list[Choice]:
    """What can be answered. The grant shown is the grant given, so rules appear as they are."""
    if question.kind == "choice":
        options = [Choice(one_line(o), "once", o) for o in question.options]
        return [*options, Choice("Cancel", "no")]
    if question.kind == "trust":
        return [Choice("Yes, trust this folder", "always"), Choice("Only this time", "session"), Choice("No", "no")]
    out = [Choice("Yes, once", "once")]
    if question.session_rule:
        out.append(Choice(f"Yes, {one_line(question.session_rule)} for this session", "session"))
    if question.rule:
        out.append(Choice(f"Always: adds rule {one_line(question.rule)}", "always"))
    out.append(Choice("No, and tell it why …", "no", asks_why=True))
    return out


def dialog_lines(
    dialog: Dialog,
    waiting: Sequence[Question],
    columns: int,
    rows: int,
    *,
    armed: bool = True,
    ready: bool = True,
    cwd: str = "",
) -> list[Line]:
    """What is asked about, as much as fits, and under it the box with the choices."""
    box = _box(dialog, min(columns, WIDEST), _foot(dialog, waiting, armed=armed, ready=ready))
    room = max(0, rows - len(box))
    body = what_lines(dialog.question, columns, cwd)
    if len(body) > room:
        kept = max(0, room - 1)
        more: Line = [("dim", f"  … {len(body) - kept:,} more lines · Ctrl+O shows all")]
        body = [*body[:kept], clip_line(more, columns)][:room]
    return [*body, *box]


def what_lines(question: Question, columns: int, cwd: str = "") -> list[Line]:
    """The thing the question is about: the call, why it asks, and the diff, command or text."""
    out = _call_lines(question, columns, cwd) if question.tool else []
    match question.display.get("kind"):
        case "diff":
            out.extend(diff_lines(str(question.display.get("diff", "")), columns))
        case "command":
            parts = question.display.get("parts")
            out.extend(command_lines(parts if isinstance(parts, list) else [], columns))
        case "path":
            where = one_line(str(question.display.get("path", "")))
            out.extend(
                [("dim", "  → " if not n else "    "), ("", row)] for n, row in enumerate(wrap(where, columns - 5))
            )
        case "text" | "terminal":
            text = str(question.display.get("text") or question.display.get("output") or "")
            out.extend([("", f"  {row}")] for row in wrap(visible(text), columns - 3))
    if question.reason and question.reason not in _told(question):
        out.extend([("dim", f"  {row}")] for row in wrap(visible(question.reason), columns - 3))
    return out


def _told(question: Question) -> list[object]:
    """The reasons that stand beside the parts of a command."""
    parts = question.display.get("parts")
    return [part.get("why") for part in parts] if isinstance(parts, list) else []


def _call_lines(question: Question, columns: int, cwd: str) -> list[Line]:
    """The call in a line; a command that does not fit in one is shown whole below it."""
    name = one_line(question.tool)
    room = columns - len(name) - 4
    head: Line = [("accent", "● "), ("bold", name)]
    if question.tool != "Bash":
        return [[*head, ("", f" {clip_start(argument(question.tool, question.input, cwd), room)}")]]
    command = visible(str(question.input.get("command", "")))
    if "\n" not in command and width(command) + 2 <= room:
        return [[*head, ("", f" $ {command}")]]
    rows: list[Line] = [[("faint", "  │ "), ("", row)] for row in wrap(command, columns - 5)]
    return [head, *rows]


def _box(dialog: Dialog, columns: int, foot: str) -> list[Line]:
    agent = one_line(dialog.question.agent)
    who = agent if columns >= 60 else agent.rpartition("/")[2]
    inner = columns - MARGIN
    rows = _why_rows(dialog, inner) if dialog.why is not None else _choice_rows(dialog, inner)
    head: Line = [("bold", one_line(dialog.question.title))]
    asked = f"asked by {who}"
    if line_width(head) + width(asked) + 6 > columns:  # who asks is said in every width
        return box(head, "", [[("dim", clip(asked, inner))], *rows], foot, columns, "accent")
    return box(head, asked, rows, foot, columns, "accent")


def _choice_rows(dialog: Dialog, inner: int) -> list[Line]:
    shown = dialog.shown
    index = min(dialog.index, max(0, len(shown) - 1))
    start = max(0, min(index - _SHOWN + 1, len(shown) - _SHOWN))
    out: list[Line] = []
    if dialog.filter:
        out.append([("dim", "  matching "), ("bold", clip_start(visible_line(dialog.filter), inner - 12))])
    for place, choice in enumerate(shown[start : start + _SHOWN], start):
        chosen = place == index
        digit = f"{place + 1} " if place < _SHOWN else "  "
        pieces = wrap(choice.label, inner - 4)
        out.append([("accent", "❯ " if chosen else "  "), ("dim", digit), ("selected" if chosen else "", pieces[0])])
        out.extend([("", "    "), ("selected" if chosen else "", piece)] for piece in pieces[1:])
    if len(shown) > _SHOWN:
        out.append([("dim", f"    {len(shown)} in all · type to filter")])
    return out


def _why_rows(dialog: Dialog, inner: int) -> list[Line]:
    return [
        [("dim", "Not allowed. What should it do instead? (Enter sends, Esc goes back)")],
        [("accent", "❯ "), ("", clip_start(visible_line(dialog.why or ""), inner - 4)), ("reverse", " ")],
    ]


def _foot(dialog: Dialog, waiting: Sequence[Question], *, armed: bool, ready: bool) -> str:
    parts: list[str] = []
    if waiting:
        names = Counter(q.agent.rpartition("/")[2] for q in waiting)
        who = ", ".join(f"{one_line(name)} ×{n}" if n > 1 else one_line(name) for name, n in names.items())
        parts.append(f"{len(waiting)} more waiting ({who})")
    if not armed:
        parts.append("your typing goes to the input; pause to answer")
    elif ready and dialog.why is None and not waiting:
        parts.append(
            "↑↓ Enter · digits · Esc is no" if dialog.question.kind == "choice" else "↑↓ Enter · y · n · digits"
        )
    return " · ".join(parts)
