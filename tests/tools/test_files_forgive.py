"""Whatever slip an edit is forgiven, the place it changes is the one place that was meant."""

from __future__ import annotations

import os
import random
import re

import pytest

from cowork.tools.files.match import Guess, guess

CASES = 300_000 if os.environ.get("COWORK_SOAK") else 6_000
FOLDED = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")
PIECES = {
    "numbers": ["a", "b", "\n", "\n", "1\t", "2\t", "3\t", " 2\t", "\t", " "],
    "quotes": ["a", "b", "'", '"', "‘", "’", "“", "”", " ", "\n"],
    "ends": ["a", "b", " ", "\t", "\n", "\n", "  "],
}


def made(random_: random.Random, pieces: list[str], most: int) -> str:
    return "".join(random_.choices(pieces, k=random_.randint(1, most)))


def places(text: str, wanted: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(wanted, at)]


def by_numbers(text: str, wanted: str, new: str, got: Guess) -> None:
    assert got.old == re.sub(r"^ *\d+\t", "", wanted, flags=re.M)
    assert all(re.match(r" *\d+\t", line) for line in wanted.split("\n") if line.strip())
    (at,) = places(text, got.old)
    assert at == 0 or text[at - 1] == "\n"
    assert got.new in (new, re.sub(r"^ *\d+\t", "", new, flags=re.M))


def by_quotes(text: str, wanted: str, new: str, got: Guess) -> None:
    assert got.old.translate(FOLDED) == wanted.translate(FOLDED)
    assert places(text.translate(FOLDED), wanted.translate(FOLDED)) == places(text, got.old)
    assert got.new.translate(FOLDED) == new.translate(FOLDED)
    if not set(got.old) & set("‘’“”"):  # a file with plain quotes gets no others where the slip was to write them
        assert not set(got.new) & set(wanted) & set("‘’“”")


def by_line_ends(text: str, wanted: str, new: str, got: Guess) -> None:
    lines = wanted.split("\n")
    sought = [line.rstrip(" \t") for line in lines[:-1]]
    starts = []
    for at in range(len(text)):
        if not lines[0].strip(" \t") and lines[0] and at and text[at - 1] != "\n":
            continue  # a blank line begins where a line begins
        there = text[at:].split("\n")
        if len(there) < len(lines) or [line.rstrip(" \t") for line in there[: len(sought)]] != sought:
            continue
        if not lines[0] and there[0]:
            continue
        last = there[len(sought)]
        fits = last.rstrip(" \t") == lines[-1].rstrip(" \t") if lines[-1].strip() else last.startswith(lines[-1])
        if fits:
            starts.append(at)
    assert starts == places(text, got.old)
    assert [line.rstrip(" \t") for line in got.old.split("\n")] == [line.rstrip(" \t") for line in lines]
    assert [line.rstrip(" \t") for line in got.new.split("\n")] == [line.rstrip(" \t") for line in new.split("\n")]


JUDGES = {"numbers": by_numbers, "quotes": by_quotes, "ends": by_line_ends}


@pytest.mark.soak
@pytest.mark.parametrize("kind", PIECES)
def test_what_is_accepted_is_the_only_place_and_differs_only_as_announced(kind: str) -> None:
    random_ = random.Random(f"forgive {kind}")
    accepted = 0
    for _ in range(CASES):
        text, wanted, new = (made(random_, PIECES[kind], most) for most in (14, 6, 6))
        if wanted in text or not (got := guess(text, wanted, new)):
            continue
        accepted += 1
        announced = "numbers" if "numbers" in got.slip else "quotes" if "quotes" in got.slip else "ends"
        JUDGES[announced](text, wanted, new, got)
    assert accepted > CASES / 500, "the cases try nothing"


def test_new_quotes_follow_those_that_were_matched() -> None:
    got = guess('print("a")\n', "print(“a”)", "print(“a”, “b”, ‘c’)")
    assert got is not None
    assert got.new == 'print("a", "b", ‘c’)'  # of ‘ nothing is known
    assert guess("say “a”\n", 'say "a"', 'say "a" or "b"') is None  # opening or closing?


def test_a_number_is_no_column_of_a_table() -> None:
    assert guess("6\tfoo\n7\tbar\n", "5\tfoo", "5\tbaz") is None


def test_a_blank_line_is_not_the_end_of_a_line_with_words() -> None:
    assert guess("bar\nfoo\n", "  \nfoo", "baz") is None
    got = guess("bar\n\nfoo\n", "  \nfoo", "baz")
    assert got is not None
    assert (got.old, got.new) == ("\nfoo", "baz")


def test_a_place_that_is_found_twice_once_it_is_spelled_right_is_none() -> None:
    assert guess("ba\nb", "b ", "c") is None  # replace_all would change both
