"""`cowork sessions export`: sessions as files to look at, to give away or to process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from cowork.config import paths
from cowork.core.errors import UserError

EXPORT_EXAMPLES = """
Examples:
  cowork sessions export k3v --html -o k3v.html   a page to look at: conversation, timeline, cost
  cowork sessions export k3v -o k3v.md            the ending of the name says the form
  cowork sessions export k3v --html --redact -o k3v.html
                                     times and costs without what was said"""


def export(
    session: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the start of it.")],
    html: Annotated[bool, typer.Option("--html", help="A page in one file.")] = False,
    md: Annotated[bool, typer.Option("--md", help="Markdown.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Leave contents out (--html).")] = False,
) -> int:
    """Write a conversation as a page, as Markdown or as JSON."""
    from cowork.app.exports import EXPORTS, export_session, form_of

    asked = [name for name, wanted in (("html", html), ("md", md), ("json", json)) if wanted]
    if len(asked) > 1:
        raise UserError(f"--{asked[0]} and --{asked[1]} ask for two forms.", "Leave one of them out.")
    form = asked[0] if asked else form_of(output) if output else "md"
    if redact and not EXPORTS[form].redacts:
        raise UserError(f"--redact cannot be used with --{form}.", "It is for --html.")
    write(export_session(paths.sessions_dir(os.environ), session, form, redact=redact), output)
    return 0


def write(pieces: Iterable[str], output: Path | None) -> None:
    """Put text into a file, or to stdout."""
    if output is None:
        for piece in pieces:
            sys.stdout.write(piece)
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}.", "Give another name: -o FILE") from error
