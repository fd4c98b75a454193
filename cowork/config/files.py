"""One settings file, which may be hostile, as a list of known keys with their lines; an unknown key is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cowork.config.sections import KEYS, PRICES, SECTIONS, SHORTHANDS
from cowork.core.errors import UserError
from cowork.core.workspace import start_of

MAX_BYTES = 256 * 1024

_AT = re.compile(r"\s*\(at line (\d+), column \d+\)|\s*\(at end of document\)")
_SKIPPED = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)  # strings and comments
_TOKEN = re.compile(rf"{_SKIPPED.pattern}|[A-Za-z0-9_-]+|\n|\S", re.DOTALL)
_DEEP = re.compile(r"(?:\.[^.\n=,\[\]{}]*){17}")  # a dotted name
_SERVERS = "Write [mcp.servers.NAME] with command and args, or url."
_PRICING = 'Write [pricing."model-name"] with input, output, cache_read, cache_write in USD per million tokens.'
_TABLES = frozenset(
    ".".join(section.table.split(".")[:depth])
    for section in SECTIONS
    for depth in range(1, section.table.count(".") + 2)
)

At = Callable[[tuple[str, ...]], str]  # `file:line` of a key


class Entry(NamedTuple):
    """A value of a file, and `file:line`."""

    name: str
    value: Any
    origin: str


class FileSettings(NamedTuple):
    """What a file sets."""

    entries: list[Entry]  # prices first, by names such as pricing."model".input
    servers: Mapping[str, Any]  # [mcp.servers], as written; whoever uses them checks them


def read(path: Path, shown: str) -> FileSettings | None:
    """What a file sets; None when there is no such file."""
    try:
        raw = start_of(path, MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"config: {shown} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > MAX_BYTES:
        raise UserError(f"config: {shown} is larger than {MAX_BYTES // 1024} KB")
    try:
        values, lines = parse(raw.decode("utf-8-sig"), shown)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"config: {shown}:{line} is not UTF-8 text") from None

    def at(path: tuple[str, ...]) -> str:
        """A key inside an inline table stands on the line of that table."""
        known = next((path[:depth] for depth in range(len(path), 0, -1) if path[:depth] in lines), None)
        return f"{shown}:{lines[known]}" if known else shown

    pricing = values.pop("pricing", {})
    mcp = values.get("mcp")
    servers = mcp.pop("servers", {}) if isinstance(mcp, dict) else {}
    if not isinstance(servers, dict):
        raise UserError(f"config: {at(('mcp', 'servers'))} mcp.servers must be a table", _SERVERS)
    return FileSettings([*_prices(pricing, at), *_entries(values, (), at)], servers)


def parse(text: str, shown: str) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """(values, key path -> line) of a TOML text; `shown` names it in errors."""
    import tomllib

    try:
        if _DEEP.search(_SKIPPED.sub("", text)):  # on which the parser would take quadratic time
            raise RecursionError
        return tomllib.loads(text), lines_of(text)
    except RecursionError:
        raise UserError(
            f"config: {shown} is nested too deeply", "A settings file needs three levels at most."
        ) from None
    except ValueError as error:  # a number of too many digits is a plain ValueError
        where = _AT.search(str(error))
        at = where.group(1) if where and where.group(1) else str(text.count("\n") + 1)
        problem = _AT.sub("", str(error))
        problem = problem[:1].lower() + problem[1:]
        raise UserError(f"config: {shown}:{at} {problem}", "The file is not valid TOML.") from None


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The line of every table header and key of a valid TOML text; the first place counts."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    names: list[str] = []  # of the key or header that is being read
    depth, in_header, in_value, line = 0, False, False, 1
    for token in _TOKEN.findall(text):
        if token == "\n" and depth <= 0:
            names, depth, in_header, in_value = [], 0, False, False
        elif in_value:
            depth += (token in ("[", "{")) - (token in ("]", "}"))
        elif token == "[":
            in_header = True
        elif token == "=" or (token == "]" and in_header):
            table = tuple(names) if in_header else table
            path = table if in_header else (*table, *names)
            for length in range(1, len(path) + 1):  # a dotted name is also the first place of the tables it opens
                found.setdefault(path[:length], line)
            in_value = True
        elif token[0] not in "#.":
            names.append(_plain_name(token))
        line += token.count("\n")
    return found


def _plain_name(token: str) -> str:
    import tomllib

    try:
        return str(tomllib.loads(f"name = {token}")["name"]) if token[0] in "\"'" else token
    except ValueError:
        return token


def _entries(table: Mapping[str, Any], above: tuple[str, ...], at: At) -> Iterator[Entry]:
    for part, value in table.items():
        path = (*above, part)
        name = ".".join(path)
        if name in SHORTHANDS and not isinstance(value, dict):
            name = SHORTHANDS[name]
        if name in KEYS:
            yield Entry(name, value, at(path))
        elif name not in _TABLES:
            raise _unknown(name, at(path))
        elif isinstance(value, dict):
            yield from _entries(value, path, at)
        else:
            raise UserError(f"config: {at(path)} {name} must be a table", f"Write it as [{name}].")


def _prices(pricing: Any, at: At) -> Iterator[Entry]:
    if not isinstance(pricing, dict):
        raise UserError(f"config: {at(('pricing',))} pricing must be a table", _PRICING)
    for model, prices in pricing.items():
        if not isinstance(prices, dict):
            raise UserError(f'config: {at(("pricing", model))} pricing."{model}" must be a table', _PRICING)
        for field, value in prices.items():
            name, where = f'pricing."{model}".{field}', at(("pricing", model, field))
            if field not in PRICES:
                raise UserError(f"config: {where} unknown key {name}", f"Allowed: {', '.join(PRICES)}.")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
                raise UserError(f"config: {where} {name} must be a price of 0 or more", _PRICING)
            yield Entry(name, float(value), where)


def _unknown(name: str, where: str) -> UserError:
    import difflib

    near = difflib.get_close_matches(name, [*KEYS, *_TABLES, "pricing"], n=1, cutoff=0.6)
    leaf = name.rsplit(".", 1)[-1]
    same = near or [known for known in KEYS if known.rsplit(".", 1)[-1] == leaf]
    hint = f"Did you mean {same[0]}?" if same else "config.example.toml and `cowork config show` list every key."
    return UserError(f"config: {where} unknown key {name}", hint)
