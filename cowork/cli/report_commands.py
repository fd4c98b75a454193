"""`cowork sessions export`, `cowork report` and `cowork watch`: sessions to look at, to give away or to process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from cowork.config import paths
from cowork.core import format, signals
from cowork.core.errors import UserError
from cowork.core.hygiene import ascii_json

EXPORT_EXAMPLES = """
Examples:
  cowork sessions export k3v --html -o k3v.html   a page to look at: conversation, timeline, cost
  cowork sessions export k3v -o k3v.md            the ending of the name says the form
  cowork sessions export k3v --html --redact -o k3v.html
                                     times and costs without what was said
  cowork sessions export --atif -o trajectory.json
                                     the last of this folder, for evaluations"""

REPORT_EXAMPLES = """
Examples:
  cowork report                      the last 30 days: bars, tasks that stand out
  cowork report --since 7d --here    of this folder
  cowork report --html -o report.html --pages
                                     as a page, with the pages of the sessions it names
  cowork report --since all --json   for programs"""

WATCH_EXAMPLES = """
Examples:
  cowork watch                       the session that runs in this folder, or ran last
  cowork watch k3v --port 8123       one by its id, on a port of your choice
  ssh -L 8123:127.0.0.1:8123 builder cowork watch --port 8123
                                     one on another machine"""


def export(
    session: Annotated[str, typer.Argument(metavar="[ID]", help="Its id, or the start of it.")] = "",
    html: Annotated[bool, typer.Option("--html", help="A page in one file.")] = False,
    md: Annotated[bool, typer.Option("--md", help="Markdown.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    atif: Annotated[bool, typer.Option("--atif", help="A trajectory, as evaluations read it.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Leave contents out (--html).")] = False,
) -> int:
    """Write a conversation as a page, as Markdown, as JSON or as a trajectory."""
    from cowork.app.exports import EXPORTS, chosen_session, export_session, form_of

    asked = [name for name, wanted in (("html", html), ("md", md), ("json", json), ("atif", atif)) if wanted]
    if len(asked) > 1:
        raise UserError(f"--{asked[0]} and --{asked[1]} ask for two forms.", "Leave one of them out.")
    form = asked[0] if asked else form_of(output) if output else "md"
    if redact and not EXPORTS[form].redacts:
        raise UserError(f"--redact cannot be used with --{form}.", "It is for --html.")
    sessions = paths.sessions_dir(os.environ)
    entry = chosen_session(sessions, session, paths.here())
    write(export_session(sessions, entry.id, form, redact=redact), output)
    return 0


def report(
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="7d, today, week, month, all, or a day.")
    ] = "30d",
    here: Annotated[bool, typer.Option("--here", help="Only conversations of this folder.")] = False,
    html: Annotated[bool, typer.Option("--html", help="A page in one file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")] = None,
    pages: Annotated[bool, typer.Option("--pages", help="Export the sessions it names too, and link to them.")] = False,
) -> int:
    """Say what agents did in many sessions: cost, durations, failures and what stands out."""
    from cowork.app.exports import export_beside
    from cowork.reports.bars import report_lines
    from cowork.reports.html import report_page
    from cowork.reports.overview import overview
    from cowork.sessions.cost_report import days_of
    from cowork.sessions.index import list_sessions

    if html and json:
        raise UserError("--html and --json ask for two forms.", "Leave one of them out.")
    html = html or (not json and output is not None and output.suffix.lower() in (".html", ".htm"))
    if pages and not (html and output):
        raise UserError("--pages needs a file to put the pages beside.", "cowork report --html -o report.html --pages")
    sessions = paths.sessions_dir(os.environ)
    found = overview(list_sessions(sessions, paths.here() if here else None, empty=True), days_of(since))
    if html:
        links = export_beside(sessions, output, found.session_ids()) if pages and output else {}
        write(report_page(found.to_dict(), links), output)
    else:
        write([ascii_json(found.to_dict()) + "\n"] if json else (f"{line}\n" for line in report_lines(found)), output)
    return 0


def watch(
    session: Annotated[str, typer.Argument(metavar="[ID]", help="Its id, or the start of it.")] = "",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = 0,
) -> int:
    """Follow a session on a page of this machine while it runs; Ctrl+C ends it."""
    import asyncio

    from cowork.app.exports import chosen_session
    from cowork.reports.watch import WatchServer

    sessions = paths.sessions_dir(os.environ)
    entry = chosen_session(sessions, session, paths.here())
    served = WatchServer(sessions / entry.id, entry, port)

    async def serve() -> None:
        await served.start()
        print(
            f"{format.one_line(entry.title, 60) or entry.id}\n{served.url}  (opens once, on this machine)", flush=True
        )
        await asyncio.get_running_loop().create_future()  # until Ctrl+C

    try:
        signals.run(serve())
    except OSError as error:
        hint = "Give another one, or leave --port out."
        raise UserError(f"Port {port} cannot be used: {error.strerror}.", hint) from error
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
