"""Money, tokens, durations and short texts, as every front end writes them."""

from __future__ import annotations

import pytest

from cowork.core import format


@pytest.mark.parametrize(
    ("usd", "text"),
    [(None, "$?"), (0.0, "$0.00"), (0.0004, "<$0.001"), (0.0042, "$0.004"), (0.0996, "$0.10"), (0.42, "$0.42"),
     (1.421, "$1.42"), (1234.5, "$1,234.50")],
)  # fmt: skip
def test_small_sums_keep_their_digits_and_are_never_zero(usd: float | None, text: str) -> None:
    assert format.money(usd) == text


def test_an_unknown_price_is_named_as_the_place_wants() -> None:
    assert format.money(None, "cost unknown") == "cost unknown"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (0.42, "0.4 s"), (8.0, "8 s"), (41.2, "41 s"), (119.4, "119 s"), (185, "3 min 5 s"),
     (7805, "2 h 10 min")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert format.duration(seconds) == text


def test_plurals() -> None:
    assert [format.plural(n, "child") for n in (1, 5)] == ["1 child", "5 children"]
    assert [format.plural(n, "turn") for n in (0, 1, 2000)] == ["0 turns", "1 turn", "2,000 turns"]


def test_a_long_text_is_cut_and_made_harmless() -> None:
    assert format.one_line("a\n b\x1b[2J", 40) == "a b\\x1b[2J"
    assert format.one_line("word " * 100, 10) == "word word…"
