"""docs/reference/configuration.md: every setting, between what is written there by hand; and config.example.toml."""

from __future__ import annotations

from pathlib import Path

from cowork.config.key import Key, show
from cowork.config.render import doc_of, example
from cowork.config.sections import PRICES, SECTIONS

ROOT = Path(__file__).parents[2]
PAGE, EXAMPLE = ROOT / "docs/reference/configuration.md", ROOT / "config.example.toml"
_PROJECT_WORDS = {
    "never": "no",
    "lower": "only lower",
    "off": "only false",
    "stricter": "only stricter",
    "add": "may add",
    "narrow": "may narrow",
}
_TABLE_HEAD = "| key | default | takes | project | flag | meaning |\n|---|---|---|---|---|---|\n"


def page(before: str) -> str:
    """The page, with the tables as they are now."""
    return before[: before.index("\n## [")] + tables() + before[before.index("\n## Environment") :]


def tables() -> str:
    """Every table of the file, as Markdown."""
    parts = []
    for section in SECTIONS:
        parts.append(f"\n## [{section.table}]\n\n{doc_of(section)}\n\n{_TABLE_HEAD}")
        parts.extend(_reference_row(key) for key in section.fields)
    return "".join(parts) + (
        '\n## [pricing."model"]\n\nYour own prices in USD per million tokens; they replace the built-in ones.\n'
        "A project cannot set them. Keys: " + ", ".join(f"`{p}` ({what})" for p, what in PRICES.items()) + ".\n"
    )


def _reference_row(key: Key) -> str:
    cells = (
        f"`{key.name.rsplit('.', 1)[1]}`",
        f"`{show(key.default)}`",
        key.takes,
        _PROJECT_WORDS[key.project],
        f"`{key.flag}`" if key.flag else "",
        key.doc,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    EXAMPLE.write_text(example(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
