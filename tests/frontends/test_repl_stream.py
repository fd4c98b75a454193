"""Streaming markdown: finished blocks once, in order, the same however the text was cut."""

from __future__ import annotations

import cProfile
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cowork.frontends.repl.view.stream import MarkdownStream, markdown_lines, split
from cowork.frontends.styled import Theme, plain
from tests.fakes.repl_demo import ANSWER

THEME = Theme()
BLOCKS = st.sampled_from(
    (
        "A plain paragraph with `code` and **bold** words.\n",
        "Two lines of\none paragraph\n",
        "A paragraph of several rows, in which *emphasis that goes on for quite a while* and `some code` stand beside "
        "**bold words**, snake_case names, 2 * 3 and a [link](https://example.org/a/path) before it ends at last.\n",
        "One that is plain from its first word to its last and long enough to fill two or three rows of a screen, "
        "so that\nits rows are finished one by one\n",
        "## A heading\n",
        "- one\n- two\n  more of two\n",
        "1. first\n2. second\n",
        "```python\nx = 1\n\ny = 2\n```\n",
        "> quoted\n> twice\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "---\n",
        "Setext\n===\n",
        "    indented code\n",
        "text with Vec<T> and <b>tags</b>\n",
    )
)


@pytest.mark.parametrize("columns", [30, 50, 80])
def test_a_word_that_is_wider_than_its_cell_is_read_whole(columns: int) -> None:
    words = [
        "packages/frontend/src/components/settings/EmailPreferences.tsx",
        "設定を読み込んでからサーバーを起動し" * 3,
    ]
    lines = [
        plain(line)
        for line in markdown_lines(f"| a | b |\n|---|---|\n| {words[0]} | x |\n| {words[1]} | y |", columns, THEME)
    ]
    cells = "".join(line.split()[0] for line in lines[2:])
    assert cells == "".join(words)


def streamed(pieces: list[str], columns: int = 60) -> list[str]:
    """The lines as they would reach the scrollback."""
    stream = MarkdownStream()
    out: list[str] = []
    for piece in pieces:
        stream.feed(piece)
        out += [plain(line).rstrip() for line in stream.take(columns, THEME)]
        stream.tail(columns, 12, THEME)
    return out + [plain(line).rstrip() for line in stream.end(columns, THEME)]


def whole(text: str, columns: int = 60) -> list[str]:
    return [plain(line)[2:].rstrip() for line in markdown_lines(text, columns + 2, THEME)]


def test_an_answer_cut_anywhere_is_the_same_as_the_whole() -> None:
    expected = whole(ANSWER)
    for size in (3, 50, 10_000):
        assert streamed([ANSWER[i : i + size] for i in range(0, len(ANSWER), size)]) == expected


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(BLOCKS, min_size=1, max_size=8), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_cutting_never_changes_what_is_printed(blocks: list[str], sizes: list[int]) -> None:
    text = "\n".join(blocks)
    pieces, at, turn = [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        pieces.append(text[at : at + size])
        at, turn = at + size, turn + 1
    assert streamed(pieces) == streamed([text])


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab \n-#>`|*1.\t_[]()~", max_size=200))
def test_no_text_is_lost_or_repeated_by_splitting(text: str) -> None:
    piece, rest, glued = split(text) if "\n" in text else ("", text, False)
    if not glued:
        assert piece + rest == text


def test_a_paragraph_is_finished_when_the_next_block_begins() -> None:
    stream = MarkdownStream()
    stream.feed("first paragraph\nstill the first\n")
    assert stream.take(60, THEME) == []
    stream.feed("\n")
    assert [plain(x) for x in stream.take(60, THEME)] == ["first paragraph still the first"]


def test_a_heading_mark_at_the_end_of_a_piece_does_not_end_the_paragraph() -> None:
    assert streamed(["para\n#", "hash\n"]) == ["para #hash"]


def test_a_long_list_is_finished_item_by_item() -> None:
    stream = MarkdownStream()
    printed: list[str] = []
    for number in range(1, 101):
        stream.feed(f"{number}. item number {number} of a long list\n")
        printed += [plain(x).strip() for x in stream.take(60, THEME)]
        assert len(stream.tail(60, 500, THEME)) < 60
    printed += [plain(x).strip() for x in stream.end(60, THEME)]
    assert [" ".join(row.split()) for row in printed] == [f"{n} item number {n} of a long list" for n in range(1, 101)]


def test_a_long_code_block_is_finished_in_pieces_and_loses_no_line() -> None:
    code = "".join(f"value_{n} = {n}\n" + ("\n" if n % 10 == 0 else "") for n in range(300))
    stream = MarkdownStream()
    printed: list[str] = []
    for piece in ["```python\n", *code.splitlines(keepends=True), "```\n"]:
        stream.feed(piece)
        printed += [plain(x) for x in stream.take(60, THEME)]
    printed += [plain(x) for x in stream.end(60, THEME)]
    assert [row for row in printed if row] == [row for row in code.split("\n") if row]


def test_lines_of_code_keep_their_length() -> None:
    long = "x = " + " + ".join(f"part_{n}" for n in range(40))
    assert streamed([f"```python\n{long}\n```\n"], columns=40) == [long]


def test_raw_html_and_generics_are_shown_as_text() -> None:
    assert streamed(["a `Vec<T>` and Vec<T> and <script>x</script>\n"]) == [
        "a Vec<T> and Vec<T> and <script>x</script>"
    ]


def test_an_escape_sequence_cut_in_two_stays_visible() -> None:
    shown = "".join(streamed(["text \x1b", "[2J more\n\n", "\x1b]0;t", "itle\x07\n"]))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\x1b[2J" in shown


FULL = bool(os.environ.get("COWORK_SOAK"))


def work(pieces: list[str]) -> int:
    """Calls made while a text streams, ten pieces a frame: a measure of work that no busy machine can blur."""
    stream = MarkdownStream()
    with cProfile.Profile(builtins=False) as profile:
        for number, piece in enumerate(pieces):
            stream.feed(piece)
            if number % 10 == 0:
                stream.take(80, THEME)
                stream.tail(80, 12, THEME)
        stream.end(80, THEME)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.soak
@pytest.mark.parametrize("shape", ["paragraphs", "one paragraph", "list", "code", "table"])
def test_twice_the_text_is_twice_the_work(shape: str) -> None:
    row = {
        "paragraphs": "a paragraph of about sixty characters, as answers have them\n\n",
        "one paragraph": "a paragraph of about sixty characters, as answers have them ",
        "list": "- an item of about sixty characters, as answers have them here\n",
        "code": "value = compute(first, second)  # about sixty characters long\n",
        "table": "| cell one of the row | cell two of the row | cell three |\n",
    }[shape]
    start = {"code": "```python\n", "table": "| a | b | c |\n|---|---|---|\n"}.get(shape, "")
    size = 2_000 if FULL else 80
    work([start, row])  # what is done once
    assert work([start, *[row] * 2 * size]) <= 2.3 * work([start, *[row] * size])


def test_a_paragraph_that_is_printed_in_two_widths_is_whole() -> None:
    text = " ".join(f"word{n}" for n in range(100))
    stream = MarkdownStream()
    out: list[str] = []
    for start, columns in ((0, 60), (200, 33), (400, 80), (600, 20)):
        stream.feed(text[start : start + 200])
        out += [plain(line) for line in stream.take(columns, THEME)]
    out += [plain(line) for line in stream.end(50, THEME)]
    assert " ".join(out).split() == text[:800].split()


@pytest.mark.parametrize("start", ["", "- ", "# ", "> ", "| a |\n|---|\n| "])
def test_a_block_without_end_costs_the_same_for_every_piece(start: str) -> None:
    """However long a block gets, what is not finished of it stays short; nothing is lost or doubled."""
    stream = MarkdownStream()
    out: list[str] = []
    stream.feed(start)
    for number in range(0, 9_000, 150):
        stream.feed("".join(f"word{n} " for n in range(number, number + 150)))
        out += [plain(line) for line in stream.take(60, THEME)]
        assert len(stream._tail) < 10_000
    out += [plain(line) for line in stream.end(60, THEME)]
    assert [w for w in " ".join(out).split() if w.startswith("word")] == [f"word{n}" for n in range(9_000)]


def test_a_block_that_comes_whole_costs_in_proportion_to_its_length() -> None:
    """It is cut before it is parsed, so it can be any length."""
    assert work(["<" * 40_000 + "\n\nand more\n"]) <= 2.1 * work(["<" * 20_000 + "\n\nand more\n"])
    assert streamed(["<" * 40_000 + "\n\nand more\n"])[-2:] == ["", "and more"]


@pytest.mark.parametrize("columns", [20, 80])
@pytest.mark.parametrize("mark", ["- ", "> "])
def test_no_word_is_lost_however_deep_it_stands(mark: str, columns: int) -> None:
    indent = mark if mark == "> " else "  "
    text = "".join(f"{indent * depth}{mark}word{depth}\n" for depth in range(40))
    words = "".join("".join(streamed([text], columns)).split())
    assert [f"word{depth}" in words for depth in range(40)] == [True] * 40
