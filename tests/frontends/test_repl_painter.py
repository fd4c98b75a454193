"""The painter on a terminal emulator: finished lines once and in order, no debris, however the window changes."""

from __future__ import annotations

import random

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output import DummyOutput

from cowork.frontends.repl.painter import Frame, Painter, terminal_reflows
from cowork.frontends.styled import Line, Theme
from tests.e2e.terminal import Screen

THEME = Theme()


class Glass(DummyOutput):
    """An output that feeds an emulator."""

    def __init__(self, columns: int, rows: int, *, reflow: bool = False) -> None:
        self.screen = Screen(columns, rows)
        self.stream = pyte.Stream(self.screen)
        self.reflow = reflow
        self.written = ""

    def write_raw(self, data: str) -> None:
        self.written += data
        self.stream.feed(data)

    def get_size(self) -> Size:
        return Size(rows=self.screen.lines, columns=self.screen.columns)

    def rows(self) -> list[str]:
        rows = [*self.screen.scrolled, *(self.screen.row(n) for n in range(self.screen.lines))]
        while rows and not rows[-1]:
            rows.pop()
        return rows


class Stage:
    """A painter whose frames are given by the test."""

    def __init__(self, columns: int = 40, rows: int = 12, *, reflow: bool = False) -> None:
        self.glass = Glass(columns, rows, reflow=reflow)
        self.live: list[str] = []
        self.done: list[str] = []
        self.full = False
        self._now = 0.0
        self.painter = Painter(
            self.glass, self._frame, self._finished, lambda: THEME, reflows=reflow, clock=lambda: self._now
        )

    def draw(self, live: list[str], *done: str, full: bool = False) -> None:
        self.live, self.full = live, full
        self.done += done
        self.painter.render(None, None)

    def resize(self, columns: int, rows: int) -> None:
        self._now += 2  # nothing was drawn meanwhile
        self.glass.screen.resize_to(columns, rows, reflow=self.glass.reflow)
        self.painter.erase(leave_alternate_screen=False)
        self.painter.render(None, None)

    def _frame(self, columns: int, rows: int, above: int) -> Frame:
        lines: list[Line] = [[("", text)] for text in self.live]
        return Frame(lines, (len(lines) - 1, 0) if lines else None, full=self.full)

    def _finished(self, columns: int) -> list[Line]:
        if self.full:
            return []
        done, self.done = self.done, []
        return [[("", text)] for text in done]


def test_finished_lines_go_above_the_live_region_once_and_in_order() -> None:
    stage = Stage()
    for number in range(30):
        stage.draw([f"live {number}", "> "], f"line {number:02}")
    assert stage.glass.rows() == [*(f"line {n:02}" for n in range(30)), "live 29", ">"]


def test_only_what_changed_is_written() -> None:
    stage = Stage()
    stage.draw(["one", "two", "three"])
    stage.glass.written = ""
    stage.draw(["one", "TWO", "three"])
    assert "TWO" in stage.glass.written
    assert "one" not in stage.glass.written
    stage.glass.written = ""
    stage.draw(["one", "TWO", "three"])
    assert stage.glass.written == ""


@pytest.mark.parametrize("seed", range(20))
def test_of_a_row_only_the_spans_that_changed_are_written_and_the_screen_is_right(seed: int) -> None:
    choose = random.Random(seed)
    words = ("a", "⠋", "⠙", "支払い", "guest", "orders", "│ ", "└ ", " 6.1k", "$0.004", "")
    glass, theme = Glass(60, 12, reflow=False), Theme()
    frame = Frame([])
    painter = Painter(glass, lambda *_: frame, lambda _: [], lambda: theme)
    rows: list[Line] = [[("dim", choose.choice(words)) for _ in range(5)] for _ in range(4)]
    for _ in range(60):
        row = choose.choice(rows)
        row[choose.randrange(5)] = choose.choice(("dim", "bold", "accent")), choose.choice(words)
        frame = Frame([list(line) for line in rows])
        painter.render(None, None)
        shown = [glass.screen.row(n).rstrip() for n in range(4)]
        assert shown == ["".join(text for _, text in line).rstrip() for line in rows]


def test_a_spinner_costs_a_few_bytes() -> None:
    glass, theme = Glass(100, 12, reflow=False), Theme()
    frame = Frame([[("", "  "), ("accent", "⠋ "), ("", "explore-1  " + "what it does " * 6)]])
    painter = Painter(glass, lambda *_: frame, lambda _: [], lambda: theme)
    painter.render(None, None)
    glass.written = ""
    frame = Frame([[("", "  "), ("accent", "⠙ "), ("", "explore-1  " + "what it does " * 6)]])
    painter.render(None, None)
    assert "⠙" in glass.written
    assert "explore" not in glass.written


def test_a_region_that_shrinks_leaves_nothing_behind() -> None:
    stage = Stage()
    stage.draw([f"row {n}" for n in range(8)], "done")
    stage.draw(["> "])
    assert stage.glass.rows() == ["done", ">"]


def test_every_update_is_synchronised() -> None:
    stage = Stage()
    stage.draw(["> "], "done")
    assert stage.glass.written.startswith("\x1b[?2026h")
    assert stage.glass.written.endswith("\x1b[?2026l")


def test_a_line_too_wide_for_the_terminal_is_cut() -> None:
    stage = Stage(columns=20)
    stage.draw(["宽" * 30, "x" * 80, "> "])
    assert [len(row) <= 20 for row in stage.glass.rows()] == [True] * 3


@pytest.mark.parametrize("reflow", [False, True])
@pytest.mark.parametrize("to", [(60, 12), (31, 12), (25, 12), (20, 9), (40, 20)])
def test_a_resize_leaves_no_debris_and_loses_no_finished_line(to: tuple[int, int], reflow: bool) -> None:
    stage = Stage(columns=40, rows=12, reflow=reflow)
    for number in range(20):
        stage.draw(["─" * 39, "│ panel", "─" * 39, "> "], f"line {number:02}")
    stage.live = ["═" * 19, "panel", "═" * 19, "> "]
    stage.resize(*to)
    rows = stage.glass.rows()
    assert not [row for row in rows if "─" in row]
    assert rows == [*(f"line {n:02}" for n in range(20)), "═" * 19, "panel", "═" * 19, ">"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3), st.sampled_from((0, 0, 0, 24, 33, 50))), max_size=25))
def test_no_story_of_frames_and_resizes_mixes_up_the_scrollback(story: list[tuple[int, int, int]]) -> None:
    stage = Stage(columns=40, rows=12)
    printed: list[str] = []
    for height, finished, columns in story:
        new = [f"line {len(printed) + n}" for n in range(finished)]
        printed += new
        stage.draw([f"live {n}" for n in range(height)], *new)
        if columns:
            stage.resize(columns, 12)
    stage.draw([])
    assert stage.glass.rows() == printed


def test_the_viewer_gives_the_screen_back_as_it_was() -> None:
    stage = Stage()
    stage.draw(["> "], "first")
    stage.draw([f"viewer {n}" for n in range(12)], full=True)
    assert stage.glass.screen.row(0) == "viewer 0"
    stage.draw([f"viewer {n}" for n in range(12)], "came meanwhile", full=True)
    stage.draw(["> "])
    assert stage.glass.rows() == ["first", "came meanwhile", ">"]


def test_a_resize_under_the_viewer_is_put_right_when_it_closes() -> None:
    stage = Stage(columns=40, rows=12)
    stage.draw(["─" * 30, "> "], "first")
    stage.draw(["viewer"], full=True)
    stage.resize(30, 12)
    stage.draw(["> "])
    assert stage.glass.rows() == ["first", ">"]


def test_reflow_is_expected_except_where_it_is_known_to_be_missing() -> None:
    assert terminal_reflows({"TERM": "xterm-256color"})
    assert terminal_reflows({"TERM": "tmux-256color", "TMUX": "x"})
    assert not terminal_reflows({"TERM": "xterm", "XTERM_VERSION": "XTerm(390)"})
    assert not terminal_reflows({"TERM": "linux"})
