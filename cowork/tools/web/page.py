"""Turns an HTML page into Markdown, in a process of its own since a page can be anything."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import resource
import sys

from cowork.core import spawn
from cowork.core.errors import ToolError

SECONDS = 20
_MEMORY = 2 << 30
_ENOUGH = 400  # characters of a page's main part that make the rest not worth showing
_PARTS = ("main", "article", "[role=main]")
_NOISE = "script, style, noscript, template, nav, footer, aside, iframe, svg, form, dialog, img"


async def markdown(html: bytes, charset: str) -> str:
    """The page as Markdown: its main part where it has one."""
    if importlib.util.find_spec("justhtml") is None:
        raise ToolError(
            "EXECUTION_ERROR", "Reading pages needs the justhtml package: tell the user to reinstall cowork."
        )
    child = await spawn.piped(
        # -I: a file in the working directory must not be taken for a module. No environment: it may hold keys.
        *(sys.executable, "-I", "-m", "cowork.tools.web.page", charset),
        environ={"PYTHONUTF8": "1"},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        text, _ = await asyncio.wait_for(child.communicate(html), SECONDS)
    except TimeoutError as error:
        raise ToolError("TIMEOUT", f"The page took longer than {SECONDS} s to read.") from error
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if child.returncode:
        raise ToolError("EXECUTION_ERROR", "The page cannot be read: it is damaged or asks for too much memory.")
    return text.decode("utf-8", "replace")


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


def main(argv: list[str]) -> None:
    """The child: HTML on stdin, Markdown on stdout."""
    for limit, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, SECONDS)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))
    sys.stdout.buffer.write(extract(sys.stdin.buffer.read(), *argv).encode("utf-8", "replace"))


if __name__ == "__main__":
    main(sys.argv[1:])
