"""Puts the live region together: what runs, the dialog or the input, the menu, the status line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cowork.frontends.repl import status as bar
from cowork.frontends.repl.dialogs import dialog_lines
from cowork.frontends.repl.input import input_lines
from cowork.frontends.repl.lines import WIDEST, Line
from cowork.frontends.repl.live import live_lines
from cowork.frontends.repl.painter import Frame
from cowork.frontends.repl.picker import picker_lines

if TYPE_CHECKING:
    from cowork.frontends.repl.repl import Repl


def compose(repl: Repl, columns: int, rows: int) -> Frame:
    """The whole frame. It stays under the height of the screen, so that nothing live reaches the scrollback.

    While the window is dragged narrower only the input is drawn: every line that wraps may push another one out of
    reach before it can be erased.
    """
    viewer = repl.viewing.viewer
    if viewer is not None:
        return Frame(viewer.lines(columns, rows, repl.theme), None, full=True)
    room = max(3, rows - 1)
    below, cursor = _below(repl, columns, room)
    height = 0 if repl.resizing(columns) else max(0, room - len(below) - 1)
    panel = repl.choosing.panel
    above = live_lines(
        repl.scene,
        columns - 1,
        height,
        repl.theme,
        queue=[sent.text for sent in repl.turns.queue],
        steering=repl.turns.steering,
        expanded=repl.expanded,
        selected=panel.subagent_id if panel else "",
        asked=repl.dialogs.current.question if repl.dialogs.current and repl.dialogs.armed else None,
        asking=repl.dialogs.current is not None or repl.picker.current is not None,
    )
    gap: list[Line] = [[]] if len(above) + len(below) < room else []
    lines = [*above, *gap, *below][-room:]
    if cursor is None:
        return Frame(lines)
    return Frame(lines, (len(lines) - len(below) + cursor[0], cursor[1]))


def _below(repl: Repl, columns: int, rows: int) -> tuple[list[Line], tuple[int, int] | None]:
    """Dialog or input, and the status line; and where in them the cursor stands."""
    status = _status(repl, columns)
    dialog = repl.dialogs.current
    waiting = repl.dialogs.waiting()
    if dialog is not None and repl.dialogs.armed:
        ready = repl.dialogs.ready
        return [*dialog_lines(dialog, waiting, columns - 1, rows - 1, ready=ready, cwd=repl.scene.cwd), status], None
    if repl.picker.current is not None:
        return [*picker_lines(repl.picker.current, columns - 1, rows - 1, repl.theme), status], None
    menu = repl.completing.lines(columns - 1, rows // 3)
    # While panels stand above an empty input the cursor is drawn, and the terminal's own rests at the top of the live
    # part: tmux pushes whatever wraps above it out of reach when the window shrinks.
    resting = bool(repl.scene.panels) and not repl.composer.text
    written, cursor = input_lines(
        repl.composer.buffer,
        columns - 1,
        max(1, rows // 3),
        _prompt(repl),
        placeholder=_placeholder(repl),
        drawn_cursor=resting,
    )
    box: list[Line] = []
    if dialog is not None:
        limit = max(4, rows - len(menu) - len(written) - 2)
        box = dialog_lines(dialog, waiting, columns - 1, limit, armed=False, cwd=repl.scene.cwd)
    return [*box, *written, *menu, status], None if resting else (cursor[0] + len(box), cursor[1])


def _prompt(repl: Repl) -> str:
    if repl.completing.searching:
        return "history ❯ "
    panel = repl.choosing.listener
    if panel is not None:
        return f"to {panel.kind} ❯ "
    return "❮ " if repl.navigating else "❯ "


def _placeholder(repl: Repl) -> str:
    if repl.completing.searching or repl.choosing.message_to:
        return ""
    if repl.turns.working:
        return "Enter queues · ⌃S steers"
    return "" if repl.used else "ask, or / for commands, @ for files, ! for a shell line"


def _status(repl: Repl, columns: int) -> Line:
    return bar.status_line(
        repl.host.status(),
        min(columns, WIDEST + 1),
        queued=len(repl.turns.queue),
        children=len(repl.scene.panels),
        hint=_hint(repl),
    )


def _hint(repl: Repl) -> str:
    if repl.resizing():
        return ""
    text, until = repl.hint
    if repl.scene.clock() < until:
        return text
    if repl.dialogs.current is not None:
        return "Ctrl-C refuses and stops"
    if repl.picker.current is not None:
        return ""
    toggle = "⌃O collapse" if repl.expanded else "⌃O expand"
    parts = [toggle] if repl.scene.panels or repl.scene.tools else []
    parts += ["⇥ select"] if repl.scene.panels else []
    parts += ["Esc interrupt"] if repl.turns.working else []
    return " · ".join(parts) or "/help"
