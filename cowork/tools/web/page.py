"""Turns an HTML page into Markdown, in a process of its own since a page can be anything."""

from __future__ import annotations

import importlib
import importlib.util

from cowork.core.errors import ToolError
from cowork.tools import converter

SECONDS = 20
_ENOUGH = 400  # characters of a page's main part that make the rest not worth showing
_PARTS = ("main", "article", "[role=main]")
_NOISE = "script, style, noscript, template, nav, footer, aside, iframe, svg, form, dialog, img"


async def markdown(html: bytes, charset: str) -> str:
    """The page as Markdown: its main part where it has one."""
    if importlib.util.find_spec("justhtml") is None:
        raise ToolError(
            "EXECUTION_ERROR", "Reading pages needs the justhtml package: tell the user to reinstall cowork."
        )
    try:
        text = await converter.convert(extract, charset, data=html, seconds=SECONDS)
    except TimeoutError as error:
        raise ToolError("TIMEOUT", f"The page took longer than {SECONDS} s to read.") from error
    except ValueError as error:
        text = "The page cannot be read: it is damaged or asks for too much memory."
        raise ToolError("EXECUTION_ERROR", text) from error
    return text


def extract(html: bytes, charset: str) -> str:
    """What `markdown` gives; runs in the child."""
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
