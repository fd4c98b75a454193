"""Draws a question: what it is about, and under it what can be answered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from cowork.core.blocks import Json
from cowork.core.format import one_line
from cowork.core.hygiene import visible, visible_line
from cowork.core.ports import Question
from cowork.frontends.repl.input.dialogs import CHOICES_SHOWN, Dialog
from cowork.frontends.repl.view.diffs import command_lines, diff_lines
from cowork.frontends.repl.view.styled import (
    BAR_MARGIN,
    WIDEST,
    Line,
    bar,
    clip,
    clip_start,
    limit_rows,
    option,
    width,
    wrap,
    wrap_behind,
)
from cowork.frontends.repl.view.theme import Theme

_MARGIN = ("", "  ")
_BOXES = {
    "network": "runs in the write box: workspace writable, the rest read-only, network open",
    "outside": "runs outside the box: with all your rights, as if you typed it",
}


def dialog_lines(
    dialog: Dialog,
    waiting: Sequence[Question],
    columns: int,
    rows: int,
    box_width: int = WIDEST,
    *,
    armed: bool = True,
    ready: bool = True,
    theme: Theme | None = None,
) -> list[Line]:
    """What is asked about, as much as fits, and under it the choices; only a diff is wider than those."""
    narrow = min(columns, box_width)
    choices = _choices(dialog, min(narrow, WIDEST), _foot(dialog, waiting, armed=armed, ready=ready))
    room = max(0, rows - len(choices))
    is_diff = dialog.question.display.get("kind") == "diff"
    body = what_lines(dialog.question, columns if is_diff else narrow, theme)
    return [*limit_rows(body, room, columns, "Ctrl+O shows all"), *choices]


def what_lines(question: Question, columns: int, theme: Theme | None = None) -> list[Line]:
    """The thing the question is about: the call, why it asks, and the diff, command or text."""
    shown = question.display
    parts = [part for part in shown.get("parts") or () if isinstance(part, dict)]
    out = _call_lines(question, columns) if question.tool and question.kind == "permission" else []
    match shown.get("kind"):
        case "diff":
            out.extend(diff_lines(str(shown.get("diff", "")), columns, theme=theme))
        case "command":
            out.extend(command_lines(parts, columns) if len(parts) > 1 else ())
        case "path":
            out.extend(wrap_behind(("dim", "  → "), one_line(str(shown.get("path", ""))), columns))
        case "text" | "terminal":
            out.extend(wrap_behind(_MARGIN, visible(str(shown.get("text") or shown.get("output") or "")), columns))
        case None if question.kind == "permission" and len(question.input) > 1:  # its line tells one of them
            for name, value in question.input.items():
                said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                out.extend(wrap_behind(("dim", f"  {clip(one_line(name), 24)}: "), visible(said), columns))
    for about in (_unsaid(question.reason, parts), _BOXES.get(question.box)):
        out.extend(wrap_behind(_MARGIN, visible(about), columns, "dim") if about else ())
    return out


def _unsaid(reason: str, parts: Sequence[Json]) -> str:
    """The reason without what stands beside a part already; the model's own may follow it."""
    for part in parts if len(parts) > 1 else ():
        why = str(part.get("why") or "")
        if why and (reason == why or reason.startswith(f"{why}: ")):
            return reason[len(why) + 2 :]
    return reason


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
    question, inner = dialog.question, columns - BAR_MARGIN
    rows = _choice_rows(dialog, inner) if dialog.text is None else _field_rows(dialog, dialog.text, inner)
    count = f" ({len(dialog.answers) + 1} of {len(dialog.steps)})" if len(dialog.steps) > 1 else ""
    title = one_line(dialog.step.title) + count
    if width(title) > inner:  # a long question stands below, whole
        rows = [*wrap_behind(("", ""), title, inner + 1, "bold"), *rows]
        title = one_line(question.title)
    who = one_line(question.agent.rpartition("/")[2])
    asked = f"asked by {who}" if who else ""
    if asked and width(title) + width(asked) + 3 > inner:  # who asks is said in every width
        rows, asked = [[("dim", clip(asked, inner))], *rows], ""
    return bar([("bold", title)], asked, rows, foot, columns)


def _choice_rows(dialog: Dialog, inner: int) -> list[Line]:
    out: list[Line] = []
    start = max(0, min(dialog.index - CHOICES_SHOWN + 1, len(dialog.choices) - CHOICES_SHOWN))
    for place, choice in enumerate(dialog.choices[start : start + CHOICES_SHOWN], start):
        mark, (style, _) = option("", chosen=place == dialog.index)
        digit = f"{place + 1} " if place < CHOICES_SHOWN else "  "
        first, *rest = wrap(choice.label, inner - 4)
        out.append([mark, ("dim", digit), (style, first)])
        out.extend([("", "    "), (style, piece)] for piece in rest)
        out.extend(wrap_behind(("", "    "), choice.detail, inner + 1, "dim") if choice.detail else ())
    return out


def _field_rows(dialog: Dialog, text: str, inner: int) -> list[Line]:
    field: Line = [("accent", "❯ "), ("", clip_start(visible_line(text), inner - 4)), ("reverse", " ")]
    return [*wrap_behind(("", ""), dialog.writes, inner + 1, "dim"), field]


def _foot(dialog: Dialog, waiting: Sequence[Question], *, armed: bool, ready: bool) -> str:
    parts: list[str] = []
    if waiting:
        names = Counter(q.agent.rpartition("/")[2] for q in waiting)
        who = ", ".join(f"{one_line(name)} ×{n}" if n > 1 else one_line(name) for name, n in names.items())
        parts.append(f"{len(waiting)} more waiting ({who})")
    if not armed:
        parts.append("you are writing: ↑↓ or Esc to answer")
    elif ready and dialog.text is None:
        letters = "" if dialog.question.kind == "questions" else "y · n · "
        parts.append(f"↑↓ Enter · {letters}digits")
    return " · ".join(parts)
