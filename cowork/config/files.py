"""One settings file as a list of known keys with their lines; what is not known is an error that names the nearest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cowork.config import toml
from cowork.config.sections import KEYS, PRICES, SECTIONS, SHORTHANDS
from cowork.core.errors import UserError

_TABLES = frozenset(
    ".".join(section.table.split(".")[:depth])
    for section in SECTIONS
    for depth in range(1, section.table.count(".") + 2)
)


class Entry(NamedTuple):
    """A value of a file, and `file:line`."""

    name: str
    value: Any
    origin: str


class Price(NamedTuple):
    """One price of `[pricing."model"]`."""

    model: str
    field: str
    value: float
    origin: str


class FileSettings(NamedTuple):
    """What a file sets."""

    entries: list[Entry]
    prices: list[Price]
    servers: Mapping[str, Any]  # [mcp.servers], as written; whoever uses them checks them


def read(path: Path, shown: str) -> FileSettings | None:
    """What a file sets; None when there is no such file."""
    found = toml.read(path, shown)
    if found is None:
        return None
    values, lines = found
    source = _Source(shown, lines)
    pricing = values.pop("pricing", {})
    mcp = values.get("mcp")
    servers = mcp.pop("servers", {}) if isinstance(mcp, dict) else {}
    if not isinstance(servers, dict):
        raise UserError(f"config: {source.at(('mcp', 'servers'))} mcp.servers must be a table", _SERVERS)
    return FileSettings(list(_entries(values, (), source)), list(_prices(pricing, source)), servers)


class _Source(NamedTuple):
    shown: str
    lines: Mapping[tuple[str, ...], int]

    def at(self, path: tuple[str, ...]) -> str:
        """`file:line` of a key; one inside an inline table stands on the line of that table."""
        for depth in range(len(path), 0, -1):
            if path[:depth] in self.lines:
                return f"{self.shown}:{self.lines[path[:depth]]}"
        return self.shown


def _entries(table: Mapping[str, Any], above: tuple[str, ...], source: _Source) -> Iterator[Entry]:
    for part, value in table.items():
        path = (*above, part)
        name = ".".join(path)
        if name in SHORTHANDS and not isinstance(value, dict):
            name = SHORTHANDS[name]
        if name in KEYS:
            yield Entry(name, value, source.at(path))
        elif name in _TABLES and isinstance(value, dict):
            yield from _entries(value, path, source)
        elif name in _TABLES:
            raise UserError(f"config: {source.at(path)} {name} must be a table", f"Write it as [{name}].")
        else:
            raise _unknown(name, source.at(path))


def _prices(pricing: Any, source: _Source) -> Iterator[Price]:
    if not isinstance(pricing, dict):
        raise UserError(f"config: {source.at(('pricing',))} pricing must be a table", _PRICING)
    for model, prices in pricing.items():
        where = source.at(("pricing", model))
        if not isinstance(prices, dict):
            raise UserError(f'config: {where} pricing."{model}" must be a table', _PRICING)
        for field, value in prices.items():
            name, where = f'pricing."{model}".{field}', source.at(("pricing", model, field))
            if field not in PRICES:
                raise UserError(f"config: {where} unknown key {name}", f"Allowed: {', '.join(PRICES)}.")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
                raise UserError(f"config: {where} {name} must be a price of 0 or more", _PRICING)
            yield Price(model, field, float(value), where)


_SERVERS = "Write [mcp.servers.NAME] with command and args, or url."
_PRICING = 'Write [pricing."model-name"] with input, output, cache_read, cache_write in USD per million tokens.'


def _unknown(name: str, where: str) -> UserError:
    import difflib

    names = [*KEYS, *_TABLES, "pricing"]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    leaf = name.rsplit(".", 1)[-1]
    same = near or [known for known in KEYS if known.rsplit(".", 1)[-1] == leaf]
    hint = f"Did you mean {same[0]}?" if same else "config.example.toml and `cowork config show` list every key."
    return UserError(f"config: {where} unknown key {name}", hint)
