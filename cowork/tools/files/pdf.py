"""Takes the text out of a PDF in a process of its own, since a hostile PDF can eat any amount of time and memory."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import logging
import sys
from typing import Any

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
        answer = await converter.convert("cowork.tools.files.pdf", first, count, room, data=data, seconds=SECONDS)
        result = json.loads(answer)
    except TimeoutError as error:
        raise ToolError("TIMEOUT", f"The PDF took longer than {SECONDS} s to read. Ask for fewer pages.") from error
    except ValueError as error:
        raise ToolError(
            "EXECUTION_ERROR", "The PDF is damaged or asks for too much memory; it was not read."
        ) from error
    if result["error"]:
        raise ToolError("EXECUTION_ERROR", f"The PDF cannot be read: {result['error']}")
    return result["pages"], result["total"]


def extract(data: bytes, first: int, count: int, room: int) -> dict[str, Any]:
    """What `pages` gives, or `error`; runs in the child."""
    pypdf = importlib.import_module("pypdf")
    logging.disable()
    found: list[str] = []
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "it is protected by a password.", "pages": [], "total": 0}
        total = len(reader.pages)
        for number in range(first - 1, min(total, first - 1 + count)):
            text = reader.pages[number].extract_text()[:_MAX_PAGE]
            room -= len(text)
            if room < 0 and found:
                break
            found.append(text)
    except pypdf.errors.PyPdfError as error:  # anything else ends this process, and the parent says so
        return {"error": f"{type(error).__name__}: {error}"[:300], "pages": [], "total": 0}
    return {"error": "", "pages": found, "total": total}


def main(argv: list[str]) -> None:
    """The child: a PDF on stdin, JSON on stdout."""
    converter.set_limits(SECONDS)
    first, count, room = map(int, argv)
    json.dump(extract(sys.stdin.buffer.read(), first, count, room), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
