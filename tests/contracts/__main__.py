"""`python -m tests.contracts` prints how each row stands; `--markdown` writes docs/designs.md."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.contracts.rows import CONTRACTS, Row, every_row, rows

PAGE = Path(__file__).parents[2] / "docs" / "designs.md"
HEAD = """# What the designs asked, and where it is

Delegation in cowork merges five source designs. Each line below is one thing they asked for, and a test holds it: `make
contracts` runs them all and prints this table. "On purpose" marks what is different by decision, with the reason.
"""


def verdict(row: Row) -> str:
    if row.why:
        return "on purpose"
    try:
        return "yes" if row.holds() else "no"
    except Exception as error:
        return f"no ({type(error).__name__}: {error})"


def markdown() -> str:
    """The page: what each row asks and where it is."""
    parts = [HEAD]
    for contract, title in CONTRACTS.items():
        lines = [f"| {row.asks} | {f'on purpose: {row.why}' if row.why else 'yes'} |" for row in rows(contract)]
        where = f"Checked in `tests/contracts/{contract}.py`."
        parts.append("\n".join([f"## {title}\n\n{where}\n", "| asked | |", "|---|---|", *lines, ""]))
    return "\n".join(parts)


def main() -> int:
    if "--markdown" in sys.argv:
        PAGE.write_text(markdown(), encoding="utf-8")
        return 0
    counts: dict[str, int] = {}
    for row in every_row():
        found = verdict(row)
        counts[found.partition(" (")[0]] = counts.get(found.partition(" (")[0], 0) + 1
        print(f"{row.id:<20} {found:<10} {row.asks}" + (f" ({row.why})" if row.why else ""), flush=True)
    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    return 1 if "no" in counts else 0


if __name__ == "__main__":
    sys.exit(main())
