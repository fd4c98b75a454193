"""The window changes and the chat hears of it frames later: what is finished stands once and in order all the same.

A terminal wraps and cuts its rows at once, but says so when it likes (tmux a quarter of a second later), and until then
frames for the old size go on arriving.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyte
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output import DummyOutput

from cowork.frontends.repl.painter import Frame, Painter
from cowork.frontends.repl.view.stream import MarkdownStream
from cowork.frontends.styled import Line, Theme, plain
from tests.e2e.terminal import Screen

THEME = Theme()


@dataclass
class Window(DummyOutput):
    """A terminal that wraps old rows, and the size the program believes it has."""

    columns: int = 60
    rows: int = 14

    def __post_init__(self) -> None:
        self.screen = Screen(self.columns, self.rows)
        self._stream = pyte.Stream(self.screen)

    def write_raw(self, data: str) -> None:
        self._stream.feed(data)

    def get_size(self) -> Size:
        return Size(rows=self.rows, columns=self.columns)

    def change(self, columns: int, rows: int) -> None:
        self.screen.resize_to(columns, rows, reflow=True)

    def is_known(self) -> bool:
        return (self.columns, self.rows) == (self.screen.columns, self.screen.lines)

    def tell(self) -> None:
        self.columns, self.rows = self.screen.columns, self.screen.lines

    def text(self) -> str:
        return " ".join([*self.screen.scrolled, *(self.screen.row(n) for n in range(self.screen.lines))])


class Chat:
    """An answer that streams above a live part of some rows. The cursor rests at its top, or stands in its last row."""

    def __init__(self) -> None:
        self.window = Window()
        self.now = 0.0
        self.stream = MarkdownStream("● ")
        self.live = 3
        self.writing = False
        self.ended = False
        self._changed = 0.0
        self.painter = Painter(self.window, self._frame, self._finished, lambda: THEME, clock=lambda: self.now)

    def draw(self) -> None:
        self.painter.render(None, None)

    def change(self, columns: int, rows: int) -> None:
        if self.window.is_known():
            self._changed = self.now
        self.window.change(columns, rows)

    def wait(self, seconds: float) -> None:
        """Time passes; the news of a change takes less than a second."""
        if not self.window.is_known() and self.now + seconds - self._changed > 0.9:
            self.hear()
        self.now += seconds

    def hear(self) -> None:
        """The program learns the size, as prompt_toolkit tells a renderer."""
        if not self.window.is_known():
            self.window.tell()
            self.painter.erase(leave_alternate_screen=False)
            self.draw()

    def _frame(self, columns: int, rows: int, above: int) -> Frame:
        tail: list[Line] = [] if self.ended else [
            [("", plain(line).upper())] for line in self.stream.tail(columns - 1, 6, THEME)
        ]  # fmt: skip
        rest: list[Line] = [[("", "=" * (columns - 1 if n % 2 else 9))] for n in range(self.live)]
        lines = [*tail, *rest][-max(1, rows - 1) :]
        return Frame(lines, (len(lines) - 1, 0) if self.writing and lines else None)

    def _finished(self, columns: int) -> list[Line]:
        lines = self.stream.take(columns - 1, THEME)
        return [*lines, *self.stream.end(columns - 1, THEME)] if self.ended else lines


STEPS = st.one_of(
    st.tuples(st.just("feed"), st.integers(1, 60)),
    st.tuples(st.just("live"), st.integers(1, 6)),
    st.tuples(st.just("writing"), st.booleans()),
    st.tuples(st.just("size"), st.tuples(st.sampled_from((24, 33, 47, 60, 90)), st.sampled_from((8, 10, 14, 20)))),
    st.tuples(st.just("pass"), st.floats(0, 3)),
    st.tuples(st.just("hear"), st.just(0)),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40))
@example([("feed", 60), ("size", (60, 8)), ("live", 6), ("hear", 0), ("feed", 3), ("hear", 0)])
@example([("feed", 60), ("size", (33, 14)), ("live", 5), ("writing", True), ("hear", 0), ("feed", 3)])
def test_no_word_is_lost_or_doubled_by_a_change_heard_of_late(story: list[tuple[str, object]]) -> None:
    chat = Chat()
    words = 0
    chat.draw()
    for what, value in story:
        match what, value:
            case "feed", int(count):
                ends = {0: ".\n\n", 17: ",\n"}
                chat.stream.feed("".join(f"w{n:04}{ends.get(n % 34, '')} " for n in range(words, words + count)))
                words += count
            case "live", int(rows):
                chat.live = rows
            case "writing", bool(writing):
                chat.writing = writing
            case "size", (int(columns), int(rows)):
                chat.change(columns, rows)
            case "pass", float(seconds):
                chat.wait(seconds)
            case "hear", _:
                chat.hear()
        chat.draw()
        chat.wait(0.05)
    chat.wait(2)
    chat.ended = True
    chat.live = 1
    chat.draw()
    finished = "".join(chat.window.text().split())
    assert re.findall(r"w\d+", finished) == [f"w{n:04}" for n in range(words)]


def test_live_rows_that_change_in_a_window_that_is_already_lower_stay_out_of_the_scrollback() -> None:
    chat = Chat()
    chat.live = 12
    chat.draw()
    chat.change(60, 8)
    chat.stream.feed("new")  # one live row changes and another is new to its place
    chat.live = 11
    chat.draw()
    chat.hear()
    assert [row for row in chat.window.screen.scrolled if "=" in row] == []


def test_a_frame_whose_window_changed_while_it_was_put_together_is_put_together_again() -> None:
    chat = Chat()
    chat.live = 12
    compose, asked = chat.painter._compose, list[int]()

    def slowly(columns: int, rows: int, above: int) -> Frame:
        asked.append(rows)
        if len(asked) == 1:
            chat.change(60, 8)
            chat.window.tell()
        return compose(columns, rows, above)

    chat.painter._compose = slowly
    chat.draw()
    assert asked == [14, 8]
    assert [row for row in chat.window.screen.scrolled if "=" in row] == []
