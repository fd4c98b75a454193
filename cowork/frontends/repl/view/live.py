"""The live part above the input: the streaming tail, running tools, panels, the todo list, the queue."""

from __future__ import annotations

from collections.abc import Sequence

from cowork.core import format
from cowork.core.format import one_line
from cowork.core.ports import Question
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.children.panels import panels_lines
from cowork.frontends.repl.view.scene import Scene, with_bullet
from cowork.frontends.repl.view.styled import SPINNER, WIDEST, Line, clip, clip_line, clip_start
from cowork.frontends.repl.view.theme import Theme
from cowork.frontends.repl.view.tool_lines import output_lines, running_line

_TAIL_ROWS = 12
_TODO_ROWS = 7
_OUTPUT_ROWS, _OUTPUT_ROWS_EXPANDED = 3, 12
_TOOLS_SHOWN = 6
SPIN_S = 0.1  # how long a spinner's picture lasts


def live_lines(
    scene: Scene, columns: int, rows: int, theme: Theme, *, queue: Sequence[str] = (), steering: Sequence[str] = (),
    expanded: bool = False, selected: str = "", asking: bool = False, asked: Question | None = None,
    activity: str = "",
) -> list[Line]:  # fmt: skip
    """At most `rows` lines; what matters least gives way first."""
    if rows <= 0:
        return []
    now = scene.clock()
    spin = int(now / SPIN_S)
    waiting = _queue_lines(queue, steering, columns)[: max(0, rows // 3)]
    tools = [
        *scene.look_lines(columns, theme),
        *_tool_lines(scene, columns, now, spin, asked, expanded=expanded),
    ]
    state = [] if asking else _state_lines(scene, columns, now, spin, activity)
    todo = _todo(scene, columns)
    left = rows - len(waiting) - len(state)
    panels = panels_lines(
        list(scene.panels.values()), min(columns, WIDEST), max(1, left - min(3, len(tools))), now, theme,
        expanded=expanded, selected=selected, spin=spin,
    ) if scene.panels and left > 0 else []  # fmt: skip
    left -= len(panels)
    tools = tools[-max(0, left) :] if left > 0 else []
    left -= len(tools)
    tail = _tail(scene, columns, min(_TAIL_ROWS, left), theme)
    left -= len(tail)
    todo = todo if len(todo) <= left else []
    while tail and not tail[0]:  # the gap above the live part is enough
        tail = tail[1:]
    body = [*tail, *tools, *panels, *todo, *state, *waiting]
    return [[], *body] if body and len(body) < rows else body


def _tail(scene: Scene, columns: int, rows: int, theme: Theme) -> list[Line]:
    stream = scene.stream
    if stream is None or rows <= 0:
        return []
    lines = stream.tail(columns - 3, rows, theme)
    return [clip_line(line, columns) for line in with_bullet(lines, first=not stream.started)]


def _tool_lines(
    scene: Scene, columns: int, now: float, spin: int, asked: Question | None, *, expanded: bool
) -> list[Line]:
    out: list[Line] = []
    if scene.working_since is None:  # left open by a session that ended badly
        return []
    shown = (tool for tool in scene.tools.values() if tool.call.family != "delegate")
    running = [tool for tool in shown if not (asked and tool.is_asked_about(asked))]  # the question shows it already
    for tool in running[:_TOOLS_SHOWN]:
        out.append(running_line(tool.call, spin, columns, now - tool.started))
        if tool.output:
            out.extend(output_lines(tool.output, columns, _OUTPUT_ROWS_EXPANDED if expanded else _OUTPUT_ROWS))
    if len(running) > _TOOLS_SHOWN:
        out.append([("dim", f"  + {len(running) - _TOOLS_SHOWN} more running")])
    return out


def _state_lines(scene: Scene, columns: int, now: float, spin: int, activity: str) -> list[Line]:
    """The one line that says what is going on when nothing else does."""
    if scene.retry is not None:
        due, event = scene.retry
        return [notes.retry_line(event, due - now, columns)]
    if scene.working_since is None or scene.stream is not None or scene.tools or scene.panels:
        return []
    doing = "thinking" if scene.thinking else activity or "working"
    line: Line = [("accent", f"{SPINNER[spin % len(SPINNER)]} "), ("", doing),
                  ("dim", f" · {format.clock(now - scene.working_since)}")]  # fmt: skip
    if scene.thinking.strip():
        line.append(("dim", f" · {clip_start(one_line(scene.thinking), max(10, columns - 26))}"))
    return [clip_line(line, columns)]


def _todo(scene: Scene, columns: int) -> list[Line]:
    """The checklist, while there is something left to do; one that an earlier turn left is folded until it changes."""
    if scene.working_since is None or all(t.get("status") == "completed" for t in scene.todos):
        return []
    if not scene.todos_changed:
        return [notes.todo_folded(scene.todos, columns)]
    return notes.todo_lines(scene.todos, columns, limit=_TODO_ROWS)


def _queue_lines(queue: Sequence[str], steering: Sequence[str], columns: int) -> list[Line]:
    out: list[Line] = [
        [("accent", "↪ "), ("dim", clip(f"{one_line(text)}", columns - 22)), ("faint", "  before the next step")]
        for text in steering
    ]
    out.extend([("dim", "◦ "), ("dim", clip(one_line(text), columns - 12)), ("faint", "  queued")] for text in queue)
    return out
