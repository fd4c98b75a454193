"""The live tree of commands that only send out tasks, read from an emulated terminal."""

from __future__ import annotations

import io

import pyte
import pytest

from cowork.core.events import AgentEnded, AgentStarted, AgentUpdated, Notice
from cowork.frontends.drawing import TaskTree

COLUMNS, ROWS = 100, 20


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> pyte.Screen:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LINES", str(ROWS))
    return pyte.Screen(COLUMNS, ROWS)


def shown(screen: pyte.Screen, out: io.BytesIO) -> list[str]:
    screen.reset()
    pyte.ByteStream(screen).feed(out.getvalue().replace(b"\n", b"\r\n"))
    return [line.rstrip() for line in screen.display if line.strip()]


def test_tasks_are_rows_while_they_work_and_lines_when_they_ended(screen: pyte.Screen) -> None:
    out = io.BytesIO()
    tree = TaskTree(io.TextIOWrapper(out, encoding="utf-8"), {"TERM": "xterm-256color"}, lambda: "1 done · 2 at work")
    for number in range(1, 4):
        path = f"main/explore-{number}"
        tree(AgentStarted(f"explore-{number}", description=f"part {number}", model="light", agent=path))
        tree(AgentUpdated(f"explore-{number}", "active", agent=path))
    tree.draw()
    drawn = shown(screen, out)
    assert ["part 1" in drawn[0], "part 2" in drawn[1], "part 3" in drawn[2]] == [True] * 3
    assert drawn[3:] == ["1 done · 2 at work"]
    tree(AgentEnded("explore-2", "completed", {"data": {"total_cost_usd": 0.5}}, agent="main/explore-2"))
    tree(Notice("half\x1b[2J way"))
    tree.draw()
    drawn = shown(screen, out)
    assert drawn[0].startswith("✓ explore-2")
    assert "half" in drawn[1]  # and the code in it did nothing
    assert drawn[-1] == "1 done · 2 at work"
    assert sum("part 1" in line for line in drawn) == 1
    tree.close()
    assert len(shown(screen, out)) == 2
