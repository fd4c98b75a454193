"""Shows a Jupyter notebook as its cells: source and what it put out, without the JSON around them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from cowork.core.blocks import Image
from cowork.tools.files.media import MAX_IMAGE, MAX_SIDE, picture

MAX_OUTPUT = 3_000  # characters of one output
MAX_PICTURES = 4

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def cells(text: str) -> list[tuple[str, list[Image]]] | None:
    """Each cell as text and the images it shows; None when this is no notebook."""
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        return None
    given = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(given, list):
        return None
    return [_cell(number, cell) for number, cell in enumerate(given, 1) if isinstance(cell, dict)]


def _cell(number: int, cell: dict[str, Any]) -> tuple[str, list[Image]]:
    kind = str(cell.get("cell_type", "cell"))
    count = cell.get("execution_count")
    ran = f" (run {count})" if isinstance(count, int) else ""
    parts = [f"# cell {number}: {kind}{ran}", _joined(cell.get("source"))]
    images: list[Image] = []
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        said = _ANSI.sub("", _output(output)).strip("\n")
        if len(said) > MAX_OUTPUT:
            said = f"{said[:MAX_OUTPUT]}\n… {len(said) - MAX_OUTPUT} more characters of output"
        image = _image(output)
        images += [image] if image else []
        shown = "(an image)" if image and not said else said
        if shown:
            parts.append(f"# output\n{shown}")
    return "\n".join(parts), images[:MAX_PICTURES]


def _output(output: dict[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return _joined(output.get("text"))
        case "error":
            trace = output.get("traceback")
            lines = [line for line in trace if isinstance(line, str)] if isinstance(trace, list) else []
            return "\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}"
    data = output.get("data")
    if not isinstance(data, dict):
        return ""
    return next((_joined(data[kind]) for kind in ("text/markdown", "text/plain", "text/html") if kind in data), "")


def _image(output: dict[str, Any]) -> Image | None:
    data = output.get("data")
    if not isinstance(data, dict):
        return None
    encoded = next((_joined(data[kind]) for kind in ("image/png", "image/jpeg") if kind in data), "")
    try:
        raw = base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return None
    found = picture(raw) if 0 < len(raw) <= MAX_IMAGE else None
    sound = found and found.whole and 0 < max(found.width, found.height) <= MAX_SIDE
    return found.block(raw) if found and sound else None


def _joined(value: object) -> str:
    """Text that a notebook keeps as a string or as a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
