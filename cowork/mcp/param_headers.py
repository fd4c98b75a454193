"""Arguments that travel in HTTP headers too, by the `x-mcp-header` marks of a tool's schema."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from cowork.core.blocks import Json

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?|")


def header_value(value: object) -> str:
    """A value as a header can carry it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _PLAIN.fullmatch(text) and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def header_paths(schema: Any) -> dict[str, tuple[str, ...]]:
    """Header -> where its value lies in the arguments, by the `x-mcp-header` marks; ValueError where one is wrong."""
    found: dict[str, tuple[str, ...]] = {}
    _collect(schema, (), found)
    return found


def _collect(part: Any, path: tuple[str, ...] | None, found: dict[str, tuple[str, ...]], depth: int = 0) -> None:
    """Find the marks in a part of the schema; `path` leads to it in the arguments, if a plain one does."""
    if depth > 60:
        raise ValueError("nested too deeply")
    if not isinstance(part, dict):
        for inner in part if isinstance(part, list) else ():
            _collect(inner, None, found, depth + 1)
        return
    header = part.get("x-mcp-header")
    if path and "x-mcp-header" in part:
        if not isinstance(header, str) or not _TOKEN.fullmatch(header):
            raise ValueError("x-mcp-header is not a header name")
        if part.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header {header} is not on a string, an integer or a boolean")
        if f"mcp-param-{header.lower()}" in found:
            raise ValueError(f"x-mcp-header {header} is there twice")
        found[f"mcp-param-{header.lower()}"] = path
    elif "x-mcp-header" in part and not isinstance(header, dict):  # else it is a property of that name
        raise ValueError("x-mcp-header where no plain property is")
    for key, inner in part.items():
        plain = path is not None and key == "properties" and isinstance(inner, dict)
        for name, value in inner.items() if plain else [("", inner)]:
            _collect(value, (*(path or ()), name) if plain else None, found, depth + 1)


def headers_for(paths: Mapping[str, tuple[str, ...]], arguments: Json) -> dict[str, str]:
    """The headers a call carries for its arguments."""
    found = {}
    for header, path in paths.items():
        value: Any = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            found[header] = header_value(value)
    return found
