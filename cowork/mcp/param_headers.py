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
    marks = _marks_in(schema)
    _collect(schema, (), found)
    if marks != len(found):
        raise ValueError("x-mcp-header where no plain property is, or twice")
    return found


def _collect(schema: Any, path: tuple[str, ...], found: dict[str, tuple[str, ...]]) -> None:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if isinstance(inner, dict) and "x-mcp-header" in inner:
            header = inner["x-mcp-header"]
            if not isinstance(header, str) or not _TOKEN.fullmatch(header):
                raise ValueError("x-mcp-header is not a header name")
            if inner.get("type") not in ("string", "integer", "boolean"):
                raise ValueError(f"x-mcp-header {header} is not on a string, an integer or a boolean")
            if f"mcp-param-{header.lower()}" in found:
                raise ValueError(f"x-mcp-header {header} is there twice")
            found[f"mcp-param-{header.lower()}"] = (*path, name)
        _collect(inner, (*path, name), found)


def _marks_in(schema: Any, depth: int = 0) -> int:
    if depth > 60:
        raise ValueError("nested too deeply")
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = isinstance(schema, dict) and "x-mcp-header" in schema and not isinstance(schema["x-mcp-header"], dict)
    return own + sum(_marks_in(part, depth + 1) for part in inner)


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
