"""Puts the live region together: what runs, the dialog or the input, the menu, the status line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cowork.core import format
from cowork.core.format import one_line
from cowork.frontends.repl.input.actions import KEYS
from cowork.frontends.repl.input.composer import input_lines
from cowork.frontends.repl.input.dialogs import dialog_lines
from cowork.frontends.repl.input.picker import picker_lines
from cowork.frontends.repl.painter import Frame, count_rows
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.panels import panels_lines
from cowork.frontends.repl.view.status_line import status_line
from cowork.frontends.repl.view.stream import markdown_lines
from cowork.frontends.repl.view.tool_lines import output_lines, running_line
from cowork.frontends.styled import WIDEST, Line, clip, clip_line, clip_start, limit_rows, spinner

if TYPE_CHECKING:
    from cowork.frontends.repl.repl import Repl

_LEAST = 40  # columns a dialog or a list needs to be read
_TAIL_ROWS, _TODO_ROWS = 12, 7
_OUTPUT_ROWS, _OUTPUT_ROWS_EXPANDED = 3, 12
_TOOLS_SHOWN = 6


def compose(repl: Repl, columns: int, rows: int, above: int) -> Frame:
    """The whole frame. It stays under the height of the screen, so that nothing live reaches the scrollback.

    When the window gets narrower a terminal wraps what stands there and pushes as many rows out at the top; tmux does
    so even where rows at the bottom are empty. So under few finished rows what is drawn is short: bars instead of
    panels, and the answer that streams in fewer columns.
    """
    if repl.viewer is not None:
        return Frame(repl.viewer.lines(columns, rows, repl.theme), None, full=True)
    narrow = max(1, columns * 5 // 8)
    is_wide = bool(repl.scene.panels or repl.scene.stream or repl.dialogs.current or repl.picker.current)
    for box_width, framed in ((columns - 1, True), (columns - 1, False), (max(_LEAST, narrow), False)):
        frame = _inline(repl, columns, rows, box_width, framed=framed)
        blank = next((row for row, line in enumerate(frame.lines) if line), len(frame.lines))
        pushed = count_rows(frame.lines, narrow) - len(frame.lines) - blank
        room = min(above, rows - len(frame.lines))
        if framed and not repl.environ.get("TMUX"):  # other terminals use the empty rows first
            room = rows - 1 - len(frame.lines)
        if not is_wide or pushed <= room:
            break
    return frame


def _inline(repl: Repl, columns: int, rows: int, box_width: int, *, framed: bool = True) -> Frame:
    """The frame under the finished lines.

    While the window is dragged there is only the input: what is drawn may reach a window that is already smaller.
    """
    room = max(3, rows - 1)
    below, cursor = _below(repl, columns, room, box_width)
    above = [] if repl.resizing else live_lines(repl, columns - 1, room - len(below) - 1, box_width, framed=framed)
    gap: list[Line] = [[]] if len(above) + len(below) < room else []
    lines = [*above, *gap, *below][-room:]
    return Frame(lines, (len(lines) - len(below) + cursor[0], cursor[1]) if cursor else None)


def _below(repl: Repl, columns: int, rows: int, box_width: int) -> tuple[list[Line], tuple[int, int] | None]:
    """Dialog or input, and the status line; and where in them the cursor stands."""
    panels, dialogs, picking = repl.scene.panels, repl.dialogs, repl.picker.current
    status = status_line(
        repl.host.status(), min(columns, WIDEST + 1), queued=len(repl.turns.queue), children=len(panels),
        asking=sum(bool(child.asking) for child in panels.values()), hint=_hint(repl),
    )  # fmt: skip

    def question_lines(rows: int) -> list[Line]:
        """The open question, if there is one."""
        if repl.resizing or not dialogs.current:
            return []
        return dialog_lines(
            dialogs.current, dialogs.waiting(), columns - 1, rows, box_width, armed=dialogs.armed, ready=dialogs.ready,
            theme=repl.theme,
        )  # fmt: skip

    if dialogs.armed:
        return [*question_lines(rows - 1), status], None
    if picking is not None:
        width = min(box_width, columns - 1, WIDEST)
        return [*([] if repl.resizing else picker_lines(picking, width, rows - 1, repl.theme)), status], None
    menu = repl.completer.menu.lines(columns - 1, rows // 3)
    # While something is live above the input its cursor is drawn, and the terminal's own rests at the top of the live
    # part: a window that gets lower loses rows below the cursor first, and only then pushes rows out at the top.
    resting = repl.turns.working or bool(panels)
    prompt, placeholder = _prompt(repl)
    written, cursor = input_lines(
        repl.composer.buffer, columns - 1, max(1, rows // 3), prompt, placeholder=placeholder, drawn_cursor=resting
    )
    box = question_lines(max(4, rows - len(menu) - len(written) - 2))
    if repl.actions.keys_shown_at == repl.actions.keys and not box:
        keys = markdown_lines(KEYS, columns - 1, repl.theme)
        box = limit_rows(keys, rows - len(written) - 2, columns - 1, "/help shows all")
    return [*box, *written, *menu, status], None if resting else (cursor[0] + len(box), cursor[1])


def _prompt(repl: Repl) -> tuple[str, str]:
    """What stands before the input, and in it while it is empty."""
    if repl.completer.searching:
        return "history ❯ " if repl.completer.menu.items else "history, no match ❯ ", ""
    if listener := repl.selection.listener:
        return f"to {listener.name} ❯ ", ""
    idle = "" if repl.used or repl.selection.message_to else "ask, or / for commands, @ for files, ? for keys"
    return "❮ " if repl.navigating else "❯ ", "Enter queues · ⌃S steers" if repl.turns.working else idle


def _hint(repl: Repl) -> str:
    text, until = repl.hint
    if repl.resizing or repl.scene.clock() < until:
        return "" if repl.resizing else text
    if repl.dialogs.current is not None:
        return "Ctrl-C refuses and stops"
    if repl.picker.current is not None:
        return ""
    parts = ["⇥ select"] if repl.scene.panels and not repl.selection.panel else []
    parts += ["⌃O fewer" if repl.expanded else "⌃O more"] if repl.scene.panels or repl.scene.tools else []
    parts += ["Esc interrupt"] if repl.turns.working else []
    return " · ".join(parts) or "/help"


def live_lines(repl: Repl, columns: int, rows: int, box_width: int, *, framed: bool = True) -> list[Line]:
    """The streaming tail, tools, panels, todo list and queue in at most `rows`; what matters least gives way."""
    if rows <= 0:
        return []
    scene, theme = repl.scene, repl.theme
    waiting = _queue_lines(repl, columns)[: rows // 3]
    tools = [*scene.look_lines(columns, theme), *_tool_lines(repl, columns)]
    state = [] if repl.dialogs.current or repl.picker.current else _state_lines(repl, columns)
    left = rows - len(waiting) - len(state)
    panels = panels_lines(
        list(scene.panels.values()), min(columns, WIDEST), max(1, left - min(3, len(tools))), scene.clock(), theme,
        expanded=repl.expanded, selected=repl.selection.path, framed=framed,
    ) if scene.panels and left > 0 else []  # fmt: skip
    left -= len(panels)
    tools = tools[-left:] if left > 0 else []
    left -= len(tools)
    tail: list[Line] = []
    if scene.stream is not None and left > 0:
        drawn = scene.stream.tail(min(columns - 1, box_width), min(_TAIL_ROWS, left), theme)
        tail = [clip_line(line, columns) for line in drawn]
    todo: list[Line] = []
    if scene.working_since is not None and any(t.get("status") != "completed" for t in scene.todos):
        whole = notes.todo_lines(scene.todos, columns, limit=_TODO_ROWS)
        todo = whole if scene.todos_changed else [notes.todo_line(scene.todos, columns)]  # of an earlier turn
    todo = todo if len(todo) <= left - len(tail) else []
    while tail and not tail[0]:  # the gap above the live part is enough
        tail = tail[1:]
    body = [*tail, *tools, *panels, *todo, *state, *waiting]
    return [[], *body] if body and len(body) < rows else body


def _tool_lines(repl: Repl, columns: int) -> list[Line]:
    scene, asked = repl.scene, repl.dialogs.current if repl.dialogs.armed else None
    if scene.working_since is None:  # left open by a session that ended badly
        return []
    out: list[Line] = []
    shown = (tool for tool in scene.tools.values() if tool.call.family != "delegate")
    running = [tool for tool in shown if not (asked and tool.is_asked_about(asked.question))]  # it shows it already
    now = scene.clock()
    for tool in running[:_TOOLS_SHOWN]:
        out.append(running_line(tool.call, spinner(now), columns, now - tool.started))
        if tool.output:
            out.extend(output_lines(tool.output, columns, _OUTPUT_ROWS_EXPANDED if repl.expanded else _OUTPUT_ROWS))
    if len(running) > _TOOLS_SHOWN:
        out.append([("dim", f"  + {len(running) - _TOOLS_SHOWN} more running")])
    return out


def _state_lines(repl: Repl, columns: int) -> list[Line]:
    """The one line that says what is going on when nothing else does."""
    scene, now = repl.scene, repl.scene.clock()
    if scene.retry is not None:
        due, event = scene.retry
        return [notes.retry_line(event, due - now, columns)]
    if scene.working_since is None or scene.stream is not None or scene.tools or scene.panels:
        return []
    doing = "thinking" if scene.thinking else repl.host.status().activity or "working"
    line: Line = [("accent", f"{spinner(now)} "), ("", doing),
                  ("dim", f" · {format.clock(now - scene.working_since)}")]  # fmt: skip
    if scene.thinking.strip():
        line.append(("dim", f" · {clip_start(one_line(scene.thinking), max(10, columns - 26))}"))
    return [clip_line(line, columns)]


def _queue_lines(repl: Repl, columns: int) -> list[Line]:
    out: list[Line] = [
        [("accent", "↪ "), ("dim", clip(one_line(text), columns - 22)), ("faint", "  before the next step")]
        for text in repl.turns.steering
    ]
    for sent in repl.turns.queue:
        out.append([("dim", "◦ "), ("dim", clip(one_line(sent.text), columns - 12)), ("faint", "  queued")])
    return out
