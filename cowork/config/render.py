"""The table of settings as people read it: the example file and `config show`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from cowork.config.key import Key, Section, show
from cowork.config.load import Config
from cowork.config.sections import KEYS, PRICES, SECTIONS
from cowork.core.hygiene import has_password


def example(chosen: Mapping[str, str] | None = None) -> str:
    """config.example.toml: every key with its default; or with these set and all others as comments, for a start."""
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
    return head + "".join(_example_section(section, chosen) for section in SECTIONS) + tail


def tables(chosen: Mapping[str, str]) -> str:
    """Settings by their dotted names as TOML tables."""
    lines: dict[str, str] = {}
    for name, value in chosen.items():
        table, _, key = name.rpartition(".")
        lines[table] = lines.get(table, f"[{table}]\n") + f"{key} = {show(value)}\n"
    return "\n".join(lines.values())


def setting_rows(config: Config, *, only_set: bool = False) -> Iterator[tuple[str, str, str]]:
    """(key, value, origin) of everything; secrets hidden."""
    for name, value in config.values.items():
        origin, key = config.origin(name), KEYS.get(name)
        if not only_set or origin != "default":
            hidden = value and ((key and key.secret) or has_password(str(value)))
            yield name, ("(hidden)" if hidden else show(value)), origin


def _example_section(section: type[Section], chosen: Mapping[str, str] | None) -> str:
    lines = ["", *_comment_lines(doc_of(section)), f"[{section.table}]"]
    for key in section.fields:
        value = (chosen or {}).get(key.name)
        line = f"{key.name.rsplit('.', 1)[1]} = {show(key.default if value is None else value)}"
        lines += [*_comment_lines(_comment(key)), f"# {line}" if chosen is not None and value is None else line]
    return "\n".join(lines) + "\n"


def _comment_lines(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 116)]


def _comment(key: Key) -> str:
    if key.allowed:
        return f"{key.doc} One of: {', '.join(choice for choice in key.allowed if choice)}."
    takes = f" {key.takes[0].upper()}{key.takes[1:]}." if key.kind in ("int", "float", "Effort") else ""
    return key.doc + takes


def doc_of(section: type[Section]) -> str:
    return " ".join((section.__doc__ or "").split())
