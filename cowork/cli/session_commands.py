"""`cowork sessions`, `cowork cost` and `cowork tasks`: what was done, and what it cost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cowork.cli.standard_streams import row, show_rows
from cowork.cli.typer_help import CommandGroup
from cowork.config import paths
from cowork.core import format
from cowork.core.hygiene import ascii_json

if TYPE_CHECKING:
    from cowork.sessions.cost_report import CostReport, CostRow
    from cowork.sessions.index import SessionEntry
    from cowork.sessions.tasks import TaskRow

_NAME = 26
_MARKS = {"completed": "✓", "active": "·", "interrupted": "·"}

app = CommandGroup(
    "Conversations that were kept: list, show, export, remove.",
    """
Examples:
  cowork sessions                    those of this folder, last used first
  cowork sessions --all              of every folder
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

tasks_app = CommandGroup(
    "Work that was given to subagents, over all conversations: list, show.",
    """
Examples:
  cowork tasks                       of the last 30 days, newest first
  cowork tasks list --since all --json
  cowork tasks show k3v/explore-1    one with its conversation (the start of the session's id is enough)""",
)


@app.command("list")
def list_(
    everywhere: Annotated[bool, typer.Option("--all", "-a", help="Of every folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> int:
    """List the conversations of this folder, last used first."""
    from cowork.sessions.index import list_sessions

    found = list_sessions(_folder(), None if everywhere else paths.here())

    def line(entry: SessionEntry) -> str:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used))
        place = f"  {paths.short(Path(entry.cwd), os.environ)}" if everywhere else ""
        facts = f"{format.plural(entry.turns, 'turn'):>9}  {format.money(entry.cost_usd, 'unknown'):>12}"
        return f"{entry.id}  {when}  {facts}  {format.one_line(entry.title, 60)}{place}"

    keys = ("id", "title", "cwd", "branch", "model", "prompts", "turns", "created", "last_used", "cost_usd")
    known = [{key: getattr(entry, key) for key in keys} for entry in found]
    none = "no conversations" if everywhere else "no conversations of this folder (--all shows those of others)"
    return show_rows(known, map(line, found), as_json=as_json, none=none)


@app.command("show")
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


@app.command("rm")
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
    for line in _cost_lines(report, by, days):
        row(line)
    if any(line.spent.cost_usd is None for line in report.rows):
        print("+ marks a sum that holds requests of unknown price: [pricing] in the settings can name one.")
    return 0


@tasks_app.command("list")
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
    none = "no tasks" if days is None else f"no tasks since {since} (--since all shows older ones)"
    return show_rows([task.to_dict() for task in found], map(_task_line, found), as_json=as_json, none=none)


@tasks_app.command("show")
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
    row(_task_line(found))
    print(f"\n{task_markdown(events, found.agent)}", end="")
    return 0


def _folder() -> Path:
    return paths.sessions_dir(os.environ)


def _cost_lines(report: CostReport, by: str, days: int | None) -> list[str]:
    """A heading and a line a row; what is not known of a row stays blank."""
    stretch = "all" if days is None else "today" if days == 1 else f"last {days} days"
    heading = f"by {by}, {stretch}"
    columns = ("cost", "change", "tasks", "$/task", "mean", "p50", "p95", "max", "prompt", "failed")
    widths = (10, 7, 6, 8, 7, 7, 7, 7, 7, 7)
    head = f"{heading:<{_NAME}}" + "".join(f"{name:>{width}}" for name, width in zip(columns, widths, strict=True))
    found = ["", head]
    for spending in report.rows:
        cells = _cells(spending)
        name = format.one_line(spending.name or "unknown", _NAME - 1)
        line = f"{name:<{_NAME}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        found.append(line.rstrip())
    return found if report.rows else ["", f"{heading}: nothing"]


def _task_line(task: TaskRow) -> str:
    """One task: when, by whom, what for, and its outcome."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(task.started))
    facts = [
        task.status,
        task.model,
        format.duration(task.duration_ms / 1000),
        f"{format.tokens(task.prompt_tokens + task.completion_tokens)} tok",
        format.money(task.cost_usd, "price unknown"),
    ]
    mark = _MARKS.get(task.status, "✗")
    what = format.one_line(task.description, 40)
    return f"{mark} {task.id:<28} {when}  {what:<40}  {' · '.join(fact for fact in facts if fact)}"


def _cells(row: CostRow) -> list[str]:
    tasks = row.tasks
    rate = tasks.failure_rate
    return [
        format.money_sum(row.spent.cost_usd, row.spent.known_usd),
        "" if row.change is None else _arrow(row.change),
        str(tasks.tasks or ""),
        "" if tasks.cost_per_task is None else format.money(tasks.cost_per_task),
        *(_shown(value, _seconds) for value in (tasks.mean_s, tasks.p50_s, tasks.p95_s, tasks.max_s)),
        _shown(tasks.prompt_tokens_per_task, lambda count: format.tokens(round(count))),
        _shown(rate, lambda part: f"{part:.0%}"),
    ]


def _shown(value: float | None, show: Callable[[float], str]) -> str:
    return "" if value is None else show(value)


def _seconds(value: float) -> str:
    return format.duration(value) if value < 120 else format.clock(value)


def _arrow(change: float) -> str:
    """`▲ 12%`, `▼ 5%`, `=`."""
    if abs(change) < 0.005:
        return "="
    size = f"{abs(change):.0%}" if abs(change) < 10 else f"{1 + change:.0f}×"
    return f"{'▲' if change > 0 else '▼'} {size}"
