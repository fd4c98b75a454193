"""`cowork sessions`, `cowork cost` and `cowork tasks`: what was done, and what it cost."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from cowork.cli import cost_tables
from cowork.cli.standard_streams import row
from cowork.cli.typer_help import HelpCommand, HelpGroup
from cowork.config import paths
from cowork.core import format
from cowork.core.hygiene import ascii_json

app = typer.Typer(
    cls=HelpGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Conversations that were kept: list, show, export, remove.",
    epilog="""
Examples:
  cowork sessions list               those of this folder, last used first
  cowork sessions list --all         of every folder
  cowork sessions show k3v           one as Markdown (the start of its id is enough)
  cowork sessions export k3v --html -o k3v.html
                                     as a page to look at
  cowork sessions rm k3v             delete it for good
  cowork --resume k3v                go on with it""",
)

COST_EXAMPLES = """
Examples:
  cowork cost                        the last 30 days by agent, beside the 30 before
  cowork cost --since 7d --by model  or day, repo, session
  cowork cost --since all --json     for programs"""

tasks_app = typer.Typer(
    cls=HelpGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Work that was given to subagents, over all conversations: list, show.",
    epilog="""
Examples:
  cowork tasks list                  of the last 30 days, newest first
  cowork tasks list --since all --json
  cowork tasks show k3v/explore-1    one with its conversation (the start of the session's id is enough)""",
)


@app.command("list", cls=HelpCommand)
def list_(
    everywhere: Annotated[bool, typer.Option("--all", "-a", help="Of every folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> int:
    """List the conversations of this folder, last used first."""
    from cowork.sessions.index import list_sessions

    found = list_sessions(_folder(), None if everywhere else paths.here())
    if as_json:
        keys = ("id", "title", "cwd", "branch", "model", "prompts", "turns", "created", "last_used", "cost_usd")
        print(ascii_json([{key: getattr(entry, key) for key in keys} for entry in found]))
        return 0
    if not found:
        print("no conversations" if everywhere else "no conversations of this folder (--all shows those of others)")
        return 0
    for entry in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used))
        place = f"  {paths.short(Path(entry.cwd), os.environ)}" if everywhere else ""
        facts = f"{format.plural(entry.turns, 'turn'):>9}  {format.money(entry.cost_usd, 'unknown'):>12}"
        row(f"{entry.id}  {when}  {facts}  {format.one_line(entry.title, 60)}{place}")
    return 0


@app.command("show", cls=HelpCommand)
def show(
    session: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the start of it.")],
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Print a conversation as Markdown."""
    from cowork.sessions.export import as_json as to_json
    from cowork.sessions.export import markdown
    from cowork.sessions.index import find
    from cowork.sessions.log.reader import read
    from cowork.sessions.log.writer import LOG

    entry = find(_folder(), session)
    loaded = read(_folder() / entry.id / LOG)
    print(to_json(loaded.events) if as_json else markdown(loaded.events))
    return 0


@app.command("rm", cls=HelpCommand)
def rm(
    sessions: Annotated[list[str], typer.Argument(metavar="ID...", help="Their ids, or the starts of them.")],
) -> int:
    """Delete conversations for good."""
    from cowork.sessions.index import find, remove

    entries = [find(_folder(), session) for session in sessions]  # all are known before any is gone
    for entry in entries:
        remove(_folder(), entry.id)
        print(f"removed {entry.id}  {format.one_line(entry.title, 60)}")
    return 0


def cost(
    by: Annotated[
        Literal["agent", "model", "day", "repo", "session"], typer.Option("--by", help="What the rows are.")
    ] = "agent",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="7d, today, week, month, all, or a day.")
    ] = "30d",
    here: Annotated[bool, typer.Option("--here", help="Only conversations of this folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Say what the kept conversations cost, children, retries and compaction counted in."""
    from cowork.sessions.cost_report import cost_report, days_of
    from cowork.sessions.index import list_sessions

    days = days_of(since)
    found = list_sessions(_folder(), paths.here() if here else None, empty=True)
    report = cost_report(found, by, days)
    if as_json:
        print(ascii_json(report.to_dict(by)))
        return 0
    row(
        " · ".join(
            f"{name} {format.money_sum(spent.cost_usd, spent.known_usd)}" for name, spent in report.periods.items()
        )
    )
    for line in cost_tables.lines(report, by, days):
        row(line)
    if any(line.spent.cost_usd is None for line in report.rows):
        print("+ marks a sum that holds requests of unknown price: [pricing] in the settings can name one.")
    return 0


@tasks_app.command("list", cls=HelpCommand)
def list_tasks(
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="7d, today, week, month, all, or a day.")
    ] = "30d",
    here: Annotated[bool, typer.Option("--here", help="Only of this folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> int:
    """List what subagents were sent out for, newest first."""
    from cowork.sessions.cost_report import DAY, days_of
    from cowork.sessions.index import list_sessions

    days = days_of(since)
    start = time.time() - days * DAY if days else 0.0
    entries = list_sessions(_folder(), paths.here() if here else None, empty=True)
    found = sorted((t for e in entries for t in e.tasks() if t.started >= start), key=lambda t: t.started, reverse=True)
    if as_json:
        print(ascii_json([task.to_dict() for task in found]))
    elif not found:
        print("no tasks" if days is None else f"no tasks since {since} (--since all shows older ones)")
    for task in () if as_json else found:
        row(cost_tables.task_line(task))
    return 0


@tasks_app.command("show", cls=HelpCommand)
def show_task(
    task: Annotated[str, typer.Argument(metavar="ID", help="SESSION/SUBAGENT, such as k3v/explore-1.")],
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Print one task with its conversation."""
    from cowork.sessions.export import task_markdown, task_messages
    from cowork.sessions.index import find, find_task
    from cowork.sessions.log.reader import read
    from cowork.sessions.log.writer import LOG

    session, _, name = task.partition("/")
    found = find_task(find(_folder(), session), name)
    events = read(_folder() / found.session_id / LOG).events
    if as_json:
        print(ascii_json({**found.to_dict(), "messages": task_messages(events, found.agent)}))
        return 0
    row(cost_tables.task_line(found))
    print(f"\n{task_markdown(events, found.agent)}", end="")
    return 0


def _folder() -> Path:
    return paths.sessions_dir(os.environ)
