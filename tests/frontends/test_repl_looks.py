"""Lines, colours and what the terminal is told outside the text."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.input.posix_utils import PosixStdinReader
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style

from cowork.core import format
from cowork.frontends.host import Options
from cowork.frontends.repl.terminal import AWAY_S, KeyReader, Terminal
from cowork.frontends.repl.view.tool_lines import diff_lines
from cowork.frontends.styled import (
    Kind,
    Theme,
    beside,
    box,
    clip,
    clip_line,
    clip_start,
    color_depth,
    guess_kind,
    kind_of_reply,
    line_width,
    plain,
    width,
    wrap,
)

TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=60)


@settings(deadline=None)
@given(TEXT, st.integers(0, 40))
def test_clipped_text_fits_and_says_that_something_is_missing(text: str, columns: int) -> None:
    for clipped in (clip(text, columns), clip_start(text, columns)):
        assert width(clipped) <= columns
        assert clipped == text or columns == 0 or "…" in clipped


@settings(deadline=None)
@given(TEXT, st.integers(2, 40))
def test_wrapped_text_fits_and_loses_only_spaces(text: str, columns: int) -> None:
    rows = wrap(text, columns)
    assert all(width(row) <= columns for row in rows)
    assert "".join("".join(rows).split()) == "".join(text.split())


@settings(deadline=None)
@given(st.lists(TEXT, max_size=5), st.lists(TEXT, max_size=3), st.integers(1, 60))
def test_two_ends_of_a_line_fit_together(left: list[str], right: list[str], columns: int) -> None:
    spans = [[("", text) for text in side] for side in (left, right)]
    assert line_width(beside(spans[0], spans[1], columns)) <= columns
    assert line_width(clip_line(spans[0], columns)) <= columns


def test_a_frame_stays_straight_around_an_emoji_that_is_cut_in_half() -> None:
    joined = "👨\u200d👩\u200d👧"
    rows = [plain(line) for line in box([("", "title")], "", [[("", f"{joined} and more")]], "", 9)]
    assert [sum(map(cell_len, row.partition("…"))) for row in rows] == [9, 9, 9]


@pytest.mark.parametrize(
    ("value", "text"), [(980, "980"), (6_130, "6.1k"), (99_960, "100k"), (999_400, "999k"), (1_234_000, "1.2M")]
)
def test_tokens_are_short(value: int, text: str) -> None:
    assert format.tokens(value) == text


def test_money_that_is_unknown_is_not_free() -> None:
    assert [format.money(usd) for usd in (None, 0.0, 0.0042, 1.421)] == ["$?", "$0.00", "$0.004", "$1.42"]


def test_a_diff_marks_the_words_that_changed() -> None:
    diff = "@@ -7,2 +7,2 @@\n same\n-the old value stays\n+the new value stays\n\\ No newline at end of file\n"
    lines = diff_lines(diff, 60)
    assert [plain(line) for line in lines] == ["  7 │ same", "  8 │-the old value stays", "  8 │+the new value stays"]
    assert ("diff.del.word", "old") in lines[1]
    assert ("diff.add.word", "new") in lines[2]


def test_lines_with_nothing_in_common_are_not_marked_word_by_word() -> None:
    lines = diff_lines("@@ -1 +1 @@\n-alpha beta\n+x = [1, 2, 3]\n", 60)
    assert not [style for line in lines for style, _ in line if str(style).endswith(".word")]


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_a_diff(text: str) -> None:
    for line in diff_lines(f"@@ -1,3 +1,3 @@\n{text}", 40, limit=10):
        assert "\x1b" not in plain(line)
        assert line_width(line) <= 40


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, ColorSystem.TRUECOLOR),
        ({"TERM": "xterm-256color"}, ColorSystem.EIGHT_BIT),
        ({"TERM": "xterm"}, ColorSystem.STANDARD),
        ({"TERM": "xterm", "NO_COLOR": "1", "COLORTERM": "truecolor"}, None),
        ({"TERM": "dumb"}, None),
        ({}, None),
    ],
)
def test_the_depth_of_colour_comes_from_the_environment(environ: dict[str, str], expected: ColorSystem | None) -> None:
    assert color_depth(environ) == expected


def test_a_light_background_is_guessed_or_told() -> None:
    assert guess_kind({"COLORFGBG": "0;15"}) == "light"
    assert guess_kind({}) == "dark"
    assert kind_of_reply("a\x1b]11;rgb:ffff/ffff/f0f0\x07b") == ("light", "ab")
    assert kind_of_reply("\x1b]11;rgb:1a/1b/1c\x1b\\") == ("dark", "")
    assert kind_of_reply("plain keys") == (None, "plain keys")


def test_without_colour_only_weight_is_left() -> None:
    line = [("bold", "a"), ("bad", "b"), ("diff.add.word", "c")]
    assert Theme("dark", None).encode(line) == "\x1b[1ma\x1b[0mb\x1b[1mc\x1b[0m"


def test_both_palettes_know_the_same_names() -> None:
    assert set(Theme("dark").styles) == set(Theme("light").styles)


def test_the_terminals_answer_never_becomes_keys_even_in_pieces() -> None:
    told: list[Kind] = []
    inlet, outlet = os.pipe()
    reader = KeyReader(PosixStdinReader(inlet), told.append)
    keys = ""
    for piece in (b"a\x1b]11;rgb:ff", b"ff/ffff/ff", b"ff\x1b\\b", b"c"):
        os.write(outlet, piece)
        keys += reader.read()
    os.close(inlet)
    os.close(outlet)
    assert keys == "abc"
    assert told == ["light"]


def outside(**options: object) -> tuple[Terminal, list[str], list[float]]:
    written: list[str] = []
    now = [100.0]
    return Terminal(Options(**options), written.append, lambda: now[0]), written, now  # type: ignore[arg-type]


def test_the_title_says_what_is_worked_on_and_cannot_be_abused() -> None:
    out, written, _ = outside()
    out.title("shop", "fix \x1b]0;owned\x07 this\nplease")
    assert written == ["\x1b]2;cowork · shop · fix \\x1b]0;owned\\x07 this please\x07"]


def test_only_long_turns_call_the_person_back() -> None:
    out, written, _ = outside(notify_after_s=10, notify="bell")
    out.call_back(9)
    assert written == []
    out.call_back(11)
    assert written == ["\x1b]9;cowork: done\x07\x07"]


def test_a_question_calls_once_and_only_when_nobody_is_typing() -> None:
    out, written, now = outside()
    out.last_key = now[0] - 1
    out.call_to("first", "Allow Edit?")
    assert written == []
    now[0] += AWAY_S
    second = object()
    out.call_to(second, "Allow Bash?")
    out.call_to(second, "Allow Bash?")
    assert written == ["\x1b]9;cowork: Allow Bash?\x07"]


def test_notifications_can_be_switched_off() -> None:
    out, written, _ = outside(notify="off", title=False)
    out.call_back(1e6)
    out.call_to(object(), "x")
    out.title("a", "b")
    out.keep_title()
    out.keep_title(back=True)
    assert written == []


@pytest.mark.parametrize("kind", ["dark", "light"])
def test_code_in_a_diff_has_its_colours_on_the_ground_of_the_change(kind: Kind) -> None:
    diff = "--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,2 @@\n-def a(x):\n+def b(x, y):\n     return None\n"
    plainly, coloured = diff_lines(diff, 80), diff_lines(diff, 80, theme=Theme(kind))
    assert [plain(line) for line in coloured] == [plain(line) for line in plainly]
    added = {text: style for style, text in coloured[1] if isinstance(style, Style)}
    assert added["def"].bgcolor is not None
    assert added["def"].color not in (None, next(style.color for text, style in added.items() if "x" in text))
    changed = next(style for text, style in added.items() if "y" in text)
    assert changed.bold
    assert changed.bgcolor != added["def"].bgcolor
    kept = {text: style for style, text in coloured[2] if isinstance(style, Style)}
    assert kept["return"].bgcolor is None
    assert kept["return"].color is not None


@pytest.mark.parametrize("depth", [None, ColorSystem.STANDARD])
def test_few_colours_are_kept_for_what_changed(depth: ColorSystem | None) -> None:
    diff = "--- a/shop.py\n+++ b/shop.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    assert diff_lines(diff, 80, theme=Theme("dark", depth)) == diff_lines(diff, 80)


def test_a_diff_of_no_known_language_or_of_great_length_is_plain() -> None:
    head = "--- a/notes.unknown\n+++ b/notes.unknown\n@@ -1 +1 @@\n"
    assert diff_lines(f"{head}-x = 1\n+x = 2\n", 80, theme=Theme()) == diff_lines(f"{head}-x = 1\n+x = 2\n", 80)
    long = "--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,900 @@\n" + "+x = 'some text that is long'\n" * 900
    assert diff_lines(long, 80, theme=Theme()) == diff_lines(long, 80)
