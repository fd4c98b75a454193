"""Diffs are right (they can be applied), small and quick."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from cowork.tools.files.diff import unified_diff


def apply(old: str, diff: str) -> str:
    """What a patch program makes of it."""
    source = old.split("\n")
    source = [line + "\n" for line in source[:-1]] + ([source[-1]] if source[-1] else [])
    out: list[str] = []
    at = 0
    lines = diff.split("\n")[2:-1]
    for number, line in enumerate(lines):
        bare = number + 1 < len(lines) and lines[number + 1].startswith("\\")
        text = line[1:] + ("" if bare else "\n")
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            out += source[at:begin]
            at = begin
        elif line.startswith(" "):
            assert source[at] == text
            out.append(text)
            at += 1
        elif line.startswith("-"):
            assert source[at] == text
            at += 1
        elif line.startswith("+"):
            out.append(text)
    return "".join(out + source[at:])


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "long line\n", "\u2028x\n"]), max_size=30).map("".join)
TEXT = st.tuples(LINES, st.sampled_from(["", "end", "x"])).map("".join)


@given(TEXT, TEXT)
def test_a_diff_turns_one_text_into_the_other(old: str, new: str) -> None:
    diff = unified_diff(old, new, "a", "b")
    if old == new:
        assert diff.text == ""
        return
    assert apply(old, diff.text) == new
    body = diff.text.split("\n")[2:-1]
    assert diff.added == sum(line.startswith("+") for line in body)
    assert diff.removed == sum(line.startswith("-") for line in body)


@given(LINES, TEXT, TEXT, TEXT)
def test_a_change_in_the_middle_shows_only_itself(before: str, old: str, new: str, after: str) -> None:
    before, after = "p\n" * 20 + before, after + "\n" + "s\n" * 20
    diff = unified_diff(before + old + after, before + new + after, "a", "b")
    assert apply(before + old + after, diff.text) == before + new + after if diff.text else old == new
    assert diff.text.count(" p\n") <= 3
    assert diff.text.count(" s\n") <= 3


def test_one_changed_line_in_a_repetitive_file_is_one_line() -> None:
    old = "x\n" * 6000
    new = "x\n" * 3000 + "y\n" + "x\n" * 2999
    diff = unified_diff(old, new, "a", "b")
    assert (diff.added, diff.removed) == (1, 1)
    assert diff.text == "--- a\n+++ b\n@@ -2998,7 +2998,7 @@\n x\n x\n x\n-x\n+y\n x\n x\n x\n"


def test_a_huge_rewrite_is_bounded_and_counted() -> None:
    started = time.process_time()
    diff = unified_diff("a\n" * 50_000, "b\n" * 40_000, "a", "b")
    assert time.process_time() - started < 2
    assert (diff.added, diff.removed) == (40_000, 50_000)
    assert diff.text.count("\n") == 401
    assert "more lines of diff" in diff.text


def test_a_long_line_is_cut_in_the_diff() -> None:
    assert len(unified_diff("a" * 100_000, "b" * 100_000, "a", "b").text) < 1300
