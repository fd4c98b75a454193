"""Every row of the five designs holds, and the page says so."""

from __future__ import annotations

import pytest

from tests.contracts.__main__ import PAGE, markdown
from tests.contracts.rows import Row, every_row

ROWS = every_row()


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_it_holds(row: Row) -> None:
    assert row.holds(), row.asks


def test_no_row_is_there_twice_and_each_reason_is_a_sentence() -> None:
    assert len({(row.contract, row.asks) for row in ROWS}) == len(ROWS)
    assert all(len(row.why.split()) > 3 for row in ROWS if row.why)


def test_the_page_is_made_from_the_rows() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), "run `python -m tests.contracts --markdown`"
