"""A budget speaks up before it is gone."""

from __future__ import annotations

from cowork.core.blocks import Usage
from cowork.engine.budget import Cost, Ledger, Limits


def test_a_budget_says_once_that_four_fifths_are_spent() -> None:
    said: list[str] = []
    ledger = Ledger(Limits(cost_usd=1.0), near=said.append)
    ledger.book(Cost(Usage(100), 0.79))
    assert said == []
    for _ in range(3):
        ledger.book(Cost(Usage(10), 0.02))
    assert said == ["81% of the budget is spent: $0.81 of $1.00."]


def test_tokens_count_as_well_and_a_limit_that_is_gone_speaks_for_itself() -> None:
    said: list[str] = []
    Ledger(Limits(tokens=1_000), near=said.append).book(Cost(Usage(800, 50), None))
    Ledger(Limits(tokens=1_000), near=said.append).book(Cost(Usage(5_000), None))
    assert said == ["85% of the budget is spent: 850 of 1,000 tokens."]
