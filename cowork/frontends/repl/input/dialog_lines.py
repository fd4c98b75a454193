"""Draws a question: what it is about, and under it the box with what can be answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cowork.core.format import one_line
from cowork.core.hygiene import visible, visible_line
from cowork.core.ports import Question
from cowork.frontends.repl.input.dialogs import CHOICES_SHOWN, Dialog
from cowork.frontends.repl.view.boxes import MARGIN, box
from cowork.frontends.repl.view.markup.diffs import command_lines, diff_lines
from cowork.frontends.repl.view.styled import WIDEST, Line, clip, clip_line, clip_start, line_width, width, wrap
from cowork.frontends.repl.view.theme import Theme

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
    cwd: str = "",
    theme: Theme | None = None,
) -> list[Line]:
    """What is asked about, as much as fits, and under it the box of choices; only a diff is wider than that."""
    narrow = min(columns, box_width)
    box = _box(dialog, min(narrow, WIDEST), _foot(dialog, waiting, armed=armed, ready=ready))
    room = max(0, rows - len(box))
    is_diff = dialog.question.display.get("kind") == "diff"
    body = what_lines(dialog.question, columns if is_diff else narrow, cwd, theme)
    if len(body) > room:
        kept = max(0, room - 1)
        more: Line = [("dim", f"  … {len(body) - kept:,} more lines · Ctrl+O shows all")]
        body = [*body[:kept], clip_line(more, columns)][:room]
    return [*body, *box]


def what_lines(question: Question, columns: int, cwd: str = "", theme: Theme | None = None) -> list[Line]:
    """The thing the question is about: the call, why it asks, and the diff, command or text."""
    out = _call_lines(question, columns, cwd) if question.tool and question.kind == "permission" else []
    match question.display.get("kind"):
        case "diff":
            out.extend(diff_lines(str(question.display.get("diff", "")), columns, theme=theme))
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
    if about := _BOXES.get(question.box):
        out.extend([("dim", f"  {row}")] for row in wrap(about, columns - 3))
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
    command = visible(str(question.input.get("command", "")))
    if question.family != "exec" or not command:
        return [[*head, ("", f" {clip_start(one_line(question.line), room)}")]]
    if "\n" not in command and width(command) + 2 <= room:
        return [[*head, ("", f" $ {command}")]]
    rows: list[Line] = [[("faint", "  │ "), ("", row)] for row in wrap(command, columns - 5)]
    return [head, *rows]


def _box(dialog: Dialog, columns: int, foot: str) -> list[Line]:
    who = one_line(dialog.question.agent.rpartition("/")[2])
    inner = columns - MARGIN
    rows = _field_rows(dialog, inner) if dialog.text is not None else _choice_rows(dialog, inner)
    count = f" ({len(dialog.answers) + 1} of {len(dialog.steps)})" if len(dialog.steps) > 1 else ""
    title = one_line(dialog.step.title) + count
    asked = f"asked by {who}" if who else ""
    if width(title) + 6 > columns:  # a long question stands in the box, whole
        rows = [*_styled("bold", wrap(title, inner)), *rows]
        title = one_line(dialog.question.title)
    head: Line = [("bold", title)]
    if asked and line_width(head) + width(asked) + 8 > columns:  # who asks is said in every width
        return box(head, "", [[("dim", clip(asked, inner))], *rows], foot, columns, "accent")
    return box(head, asked, rows, foot, columns, "accent")


def _choice_rows(dialog: Dialog, inner: int) -> list[Line]:
    choices, index = dialog.choices, dialog.index
    start = max(0, min(index - CHOICES_SHOWN + 1, len(choices) - CHOICES_SHOWN))
    out: list[Line] = []
    for place, choice in enumerate(choices[start : start + CHOICES_SHOWN], start):
        chosen = place == index
        digit = f"{place + 1} " if place < CHOICES_SHOWN else "  "
        pieces = wrap(choice.label, inner - 4)
        out.append([("accent", "❯ " if chosen else "  "), ("dim", digit), ("selected" if chosen else "", pieces[0])])
        out.extend([("", "    "), ("selected" if chosen else "", piece)] for piece in pieces[1:])
        out.extend([("dim", f"    {piece}")] for piece in (wrap(choice.detail, inner - 4) if choice.detail else ()))
    return out


def _field_rows(dialog: Dialog, inner: int) -> list[Line]:
    return [
        *_styled("dim", wrap(dialog.writes, inner)),
        [("accent", "❯ "), ("", clip_start(visible_line(dialog.text or ""), inner - 4)), ("reverse", " ")],
    ]


def _styled(style: str, rows: Sequence[str]) -> list[Line]:
    return [[(style, row)] for row in rows]


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
