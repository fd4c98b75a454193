"""Whatever Markdown streams in, in whatever pieces and widths: each word of it is printed once and in order."""

from __future__ import annotations

import random
import re

import pytest

from cowork.frontends.repl.view.stream import MarkdownStream
from cowork.frontends.styled import Theme, plain

THEME = Theme()
MARKS = (
    "\n", "\n\n", "  \n", " **", "** ", " *", "* ", " `", "` ", " ``", "_", " _", "_ ", " ~~", "~~ ", " [", "](x) ",
    "] ", "\n---\n", "\n===\n", "\n|---|\n", "\n- ", "\n1. ", "\n# ", "\n> ", "\n```\n", "\n    ", "\\", "&",
    " <", "> ", "\n\t", " * ", "* * *",
)  # fmt: skip


def told(seed: int) -> tuple[int, str]:
    """A text of numbered words with marks between them, every tenth one with paragraphs of thousands of characters."""
    chance = random.Random(seed)
    between: list[str] = []
    for _ in range(chance.randint(1, 20)):
        between += [chance.choice(MARKS)] if chance.random() < 0.5 else [" "] * chance.choice((1, 8, 30, 60))
    if seed % 10 == 0:
        between += [*[" "] * 600, chance.choice(MARKS), *[" "] * 600, chance.choice(MARKS)]
    return len(between), "".join(f"w{number:05}{mark}" for number, mark in enumerate(between))


@pytest.mark.parametrize("first", range(0, 60, 15))
def test_each_word_is_printed_once_and_in_order(first: int) -> None:
    for seed in range(first, first + 15):
        count, text = told(seed)
        chance = random.Random(seed)
        stream = MarkdownStream()
        out: list[str] = []
        columns, at = 60, 0
        while at < len(text):
            size = 500 if seed % 10 == 0 else chance.choice((3, 40, 200, 500))
            columns = chance.choice((20, 33, 60, 100))
            stream.feed(text[at : at + size])
            out += [plain(line) for line in stream.take(columns, THEME)]
            stream.tail(columns, 8, THEME)
            at += size
        out += [plain(line) for line in stream.end(columns, THEME)]
        words = re.findall(r"w\d{5}", "".join("".join(out).split()))
        assert words == [f"w{number:05}" for number in range(count)], text
