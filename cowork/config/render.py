"""The table of settings as people read it: the example file, the reference page, `config show`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from cowork.config.key import Key, Section, show
from cowork.config.load import Config
from cowork.config.sections import KEYS, PRICES, SECTIONS
from cowork.core.hygiene import has_password

_PROJECT_WORDS = {
    "never": "no",
    "lower": "only lower",
    "off": "only false",
    "stricter": "only stricter",
    "add": "may add",
    "narrow": "may narrow",
}


def example() -> str:
    """config.example.toml: every key with its default."""
    head = (
        "# cowork settings. Every key is here with its default: keep what you change, drop the rest.\n"
        "# Yours: ~/.config/cowork/config.toml (or $COWORK_HOME/config.toml). A project's: .cowork/config.toml, which\n"
        "# may only tighten. `cowork config show` tells where each value comes from. Keys of services never go into\n"
        "# a file: name the environment variable that holds one in api_key_env.\n"
    )
    tail = (
        "\n# Your own prices in USD per million tokens, for models whose price is not known or not yours.\n"
        '# [pricing."model-name"]\n' + "".join(f"# {price} = 0.0  # {what}\n" for price, what in PRICES.items())
    )
    return head + "".join(_example_section(section) for section in SECTIONS) + tail


def starter(chosen: dict[str, str]) -> str:
    """What `config init` writes: `chosen` is set, everything else waits as a comment."""
    lines = []
    table = ""
    for line in example().splitlines():
        name, equals, _ = line.partition(" = ")
        if line.startswith("["):
            table = line.strip("[]")
        elif equals and not line.startswith("#"):
            value = chosen.get(f"{table}.{name}")
            line = f"# {line}" if value is None else f"{name} = {show(value)}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def reference(page: str) -> str:
    """docs/reference/configuration.md with its tables made anew; the text around them is written there."""
    return page[: page.index("\n## [")] + tables() + page[page.index("\n## Environment") :]


def tables() -> str:
    """Every table of the file, as Markdown."""
    parts = []
    for section in SECTIONS:
        parts.append(f"\n## [{section.table}]\n\n{_doc(section)}\n\n{_TABLE_HEAD}")
        parts.extend(_reference_row(key) for key in section.fields)
    return "".join(parts) + (
        '\n## [pricing."model"]\n\nYour own prices in USD per million tokens; they replace the built-in ones.\n'
        "A project cannot set them. Keys: " + ", ".join(f"`{p}` ({what})" for p, what in PRICES.items()) + ".\n"
    )


def setting_rows(config: Config, *, only_set: bool = False) -> Iterator[tuple[str, str, str]]:
    """(key, value, origin) of everything; secrets hidden."""
    for name, value in config.values.items():
        origin, key = config.origin(name), KEYS.get(name)
        if not only_set or origin != "default":
            hidden = value and ((key and key.secret) or has_password(str(value)))
            yield name, ("(hidden)" if hidden else show(value)), origin


def _example_section(section: type[Section]) -> str:
    lines = ["", *_comment_lines(_doc(section)), f"[{section.table}]"]
    for key in section.fields:
        lines += _comment_lines(_comment(key))
        lines.append(f"{key.name.rsplit('.', 1)[1]} = {show(key.default)}")
    return "\n".join(lines) + "\n"


def _comment_lines(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 116)]


def _comment(key: Key) -> str:
    if key.allowed:
        return f"{key.doc} One of: {', '.join(choice for choice in key.allowed if choice)}."
    takes = f" {key.takes[0].upper()}{key.takes[1:]}." if key.kind in ("int", "float", "Effort") else ""
    return key.doc + takes


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


def _doc(section: type[Section]) -> str:
    return " ".join((section.__doc__ or "").split())


_TABLE_HEAD = "| key | default | takes | project | flag | meaning |\n|---|---|---|---|---|---|\n"


if __name__ == "__main__":  # brings the two generated files of a checkout up to date
    root = Path(__file__).parents[2]
    (root / "config.example.toml").write_text(example(), encoding="utf-8")
    file = root / "docs/reference/configuration.md"
    file.write_text(reference(file.read_text(encoding="utf-8")), encoding="utf-8")
