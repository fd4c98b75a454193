"""The chat in a real tmux whose window changes: nothing live stays behind, and no finished line is lost or doubled."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.e2e.tmux import Tmux, demo_in_tmux, needs_tmux

pytestmark = needs_tmux
READY = "/help"  # at the end of the status line while nothing runs
SIZES = ((64, 30), (100, 30), (64, 12), (100, 12), (120, 34), (100, 30))
SCENES = {  # what is typed: what is on the screen then
    "panels 3 60": "explore",
    "panels 5 60": "bash",
    "edit": "Allow this edit?",
    "half": "and so on",
    "/sessions": "Go on with which session?",
}


def resize(chat: Tmux, columns: int, rows: int, seen: str) -> None:
    """The window changes, and the live part is whole again in its new size."""
    chat.resize(columns, rows)
    known = f" {columns}x{rows} ⇧⇥"
    chat.wait_until(lambda: seen in chat.screen_text() and known in chat.screen_text(), what=f"{seen!r} at{known}")


def leave(chat: Tmux) -> list[str]:
    """Everything that is left when what was live is gone."""
    chat.type("<Ctrl+C>")
    chat.wait_until(lambda: READY in chat.screen_text() or "Ctrl-C again" in chat.screen_text(), what="the prompt")
    chat.wait_until(lambda: not re.search("[╭╰├┃]", chat.screen_text()), what="the end of the boxes")
    return chat.scrollback()


@pytest.mark.parametrize("start", ["top", "bottom"])
@pytest.mark.parametrize("typed", SCENES)
def test_nothing_live_is_left_behind_when_the_window_changes(typed: str, start: str) -> None:
    with demo_in_tmux(DEMO_SIZE="1") as chat:
        chat.wait_for(READY)
        if start == "bottom":
            chat.type("lines 30", "<Enter>")
            chat.wait_for("number 0029")
            chat.wait_for(READY)
        chat.type(typed, "<Enter>")
        chat.wait_for(SCENES[typed])
        chat.wait_for("100x30 ⇧⇥")
        for columns, rows in SIZES:
            resize(chat, columns, rows, SCENES[typed])
        left = leave(chat)
    assert [row for row in left if re.search("[╭╰├┃]|^│|^  7[1-7]", row)] == []
    assert sum(row.rstrip() == f"❯ {typed}" for row in left) == 1, "\n".join(left)
    assert sum("cowork 0.1" in row for row in left) == 1
    numbers = re.findall(r"paragraph number (\d+)", "\n".join(left))
    assert [int(n) for n in numbers] == (list(range(30)) if start == "bottom" else [])
    words = re.findall(r"word (\d+)", " ".join(" ".join(left).split()))
    assert [int(n) for n in words] == (list(range(60)) if typed == "half" else [])


def test_a_stream_goes_on_while_the_window_changes() -> None:
    with demo_in_tmux() as chat:
        chat.wait_for(READY)
        chat.type("lines 400", "<Enter>")
        for step, (columns, rows) in enumerate(SIZES):
            chat.wait_until(_has(chat, 40 * step), what=f"line {40 * step}")
            chat.resize(columns, rows)
        chat.wait_for("number 0399", 60)
        chat.wait_for(READY)
        left = chat.scrollback()
    assert [int(n) for n in re.findall(r"paragraph number (\d+)", "\n".join(left))] == list(range(400))


def _has(chat: Tmux, number: int) -> Callable[[], bool]:
    return lambda: any(int(n) >= number for n in re.findall(r"number (\d+)", chat.screen_text()))


def test_the_viewer_gives_the_screen_back_after_the_window_changed() -> None:
    with demo_in_tmux() as chat:
        chat.wait_for(READY)
        chat.type("panels 3 60", "<Enter>")
        chat.wait_for("webhook handler")
        chat.type("<Tab>", "<Enter>")
        chat.wait_for("Enter opens")
        chat.type("<Enter>")
        chat.wait_for("q close")
        chat.resize(60, 20)
        chat.wait_until(lambda: len(chat.screen()) == 20 and "↑↓ move" in chat.screen()[-1], what="the viewer")
        chat.type("q")
        chat.wait_for(" explore-1 ")
        chat.resize(100, 30)
        left = leave(chat)
    assert [row for row in left if re.search("[╭╰├┃]|^│", row)] == []
    assert sum(row.rstrip() == "❯ panels 3 60" for row in left) == 1
