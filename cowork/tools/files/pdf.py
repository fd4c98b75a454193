"""Takes the text out of a PDF in a process of its own, since a hostile PDF can eat any amount of time and memory."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import logging

from cowork.core.errors import ToolError
from cowork.tools import converter

MAX_PDF = 50_000_000
SECONDS = 30
_MAX_PAGE = 40_000  # characters of one page


async def pages(data: bytes, first: int, count: int, *, room: int) -> tuple[list[str], int]:
    """(text of the pages from `first` that fit into `room` characters, pages in all)."""
    if importlib.util.find_spec("pypdf") is None:
        raise ToolError(
            "EXECUTION_ERROR",
            "Reading PDFs needs the pypdf package, which is not installed (pip install 'cowork[pdf]'). "
            "A command such as pdftotext in Bash may do instead.",
        )
    try:
        result = json.loads(await converter.convert(extract, first, count, room, data=data, seconds=SECONDS))
    except TimeoutError as error:
        raise ToolError("TIMEOUT", f"The PDF took longer than {SECONDS} s to read. Ask for fewer pages.") from error
    except ValueError as error:
        raise ToolError(
            "EXECUTION_ERROR", "The PDF is damaged or asks for too much memory; it was not read."
        ) from error
    if "error" in result:
        raise ToolError("EXECUTION_ERROR", f"The PDF cannot be read: {result['error']}")
    return result["pages"], result["total"]


def extract(data: bytes, first: int, count: int, room: int) -> str:
    """What `pages` gives, or `error`, as JSON; runs in the child."""
    pypdf = importlib.import_module("pypdf")
    logging.disable()
    found: list[str] = []
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return json.dumps({"error": "it is protected by a password."})
        total = len(reader.pages)
        for number in range(first - 1, min(total, first - 1 + count)):
            text = reader.pages[number].extract_text()[:_MAX_PAGE]
            room -= len(text)
            if room < 0 and found:
                break
            found.append(text)
    except pypdf.errors.PyPdfError as error:  # anything else ends this process, and the parent says so
        return json.dumps({"error": f"{type(error).__name__}: {error}"[:300]})
    return json.dumps({"pages": found, "total": total})
