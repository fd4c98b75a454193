"""Takes the text out of PDFs and web pages in a process with limits: hostile data can eat any time and memory."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import io
import json
import logging
import resource
import sys
from collections.abc import Callable

from cowork.core import spawn
from cowork.core.errors import ToolError

MAX_PDF = 50_000_000
ENVIRON = {"PYTHONUTF8": "1"}  # nothing of ours: it may hold keys
_MEMORY = 2 << 30
_PDF_SECONDS, _PAGE_SECONDS = 30, 20
_MAX_PDF_PAGE = 40_000  # characters
_ENOUGH = 400  # characters of a web page's main part that make the rest not worth showing
_PARTS = ("main", "article", "[role=main]")
_NOISE = "script, style, noscript, template, nav, footer, aside, iframe, svg, form, dialog, img"


async def pdf_pages(data: bytes, first: int, count: int, *, room: int) -> tuple[list[str], int]:
    """(text of the pages from `first` that fit into `room` characters, pages in all)."""
    if importlib.util.find_spec("pypdf") is None:
        said = "Reading PDFs needs the pypdf package, which is not installed (pip install 'cowork[pdf]')."
        raise ToolError("EXECUTION_ERROR", f"{said} A command such as pdftotext in Bash may do instead.")
    text = await _convert(extract_pdf, first, count, room, data=data, what="PDF", seconds=_PDF_SECONDS)
    result = json.loads(text)
    if "error" in result:
        raise ToolError("EXECUTION_ERROR", f"The PDF cannot be read: {result['error']}")
    return result["pages"], result["total"]


async def page_markdown(html: bytes, charset: str) -> str:
    """A web page as Markdown: its main part where it has one."""
    return await _convert(extract_page, charset, data=html, what="page", seconds=_PAGE_SECONDS)


def extract_pdf(data: bytes, first: int, count: int, room: int) -> str:
    """What `pdf_pages` gives, or `error`, as JSON; runs in the child."""
    pypdf = importlib.import_module("pypdf")
    logging.disable()
    found: list[str] = []
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return json.dumps({"error": "it is protected by a password."})
        total = len(reader.pages)
        for number in range(first - 1, min(total, first - 1 + count)):
            text = reader.pages[number].extract_text()[:_MAX_PDF_PAGE]
            room -= len(text)
            if room < 0 and found:
                break
            found.append(text)
    except pypdf.errors.PyPdfError as error:  # anything else ends this process, and the parent says so
        return json.dumps({"error": f"{type(error).__name__}: {error}"[:300]})
    return json.dumps({"pages": found, "total": total})


def extract_page(html: bytes, charset: str) -> str:
    """What `page_markdown` gives; runs in the child."""
    justhtml = importlib.import_module("justhtml")
    page = justhtml.JustHTML(html, encoding=charset or None, sanitize=False)
    title = next((node.to_text().strip() for node in page.query("title")), "")
    for node in page.query(_NOISE):
        if node.parent is not None:
            node.parent.remove_child(node)
    parts = [node.to_markdown().strip() for part in _PARTS for node in page.query(part)]
    text = max(parts, key=len, default="")
    if len(text) < _ENOUGH:
        text = page.to_markdown().strip()
    return f"# {title}\n\n{text}" if title and title not in text[:500] else text


def command(function: Callable[..., str], *words: object, seconds: int) -> list[str]:
    """The program that calls a function of a module with its standard input and these words, and prints the result."""
    # -I: a file in the working directory must not be taken for a module.
    call = json.dumps([function.__module__, function.__name__, seconds, words])
    return [sys.executable, "-I", "-m", "cowork.tools.converter", call]


async def _convert(function: Callable[..., str], *words: object, data: bytes, what: str, seconds: int) -> str:
    argv = command(function, *words, seconds=seconds)
    child = await spawn.start_piped(*argv, environ=ENVIRON, stderr=asyncio.subprocess.DEVNULL)
    try:
        text, _ = await asyncio.wait_for(child.communicate(data), seconds)
    except TimeoutError as error:
        hint = " Ask for fewer pages." if what == "PDF" else ""
        raise ToolError("TIMEOUT", f"The {what} took longer than {seconds} s to read.{hint}") from error
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if child.returncode:
        raise ToolError("EXECUTION_ERROR", f"The {what} is damaged or asks for too much memory; it was not read.")
    return text.decode("utf-8", "replace")


def main(call: str) -> None:
    """The child."""
    module, name, seconds, words = json.loads(call)
    for limit, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, seconds)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))
    text = getattr(importlib.import_module(module), name)(sys.stdin.buffer.read(), *words)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main(sys.argv[1])
