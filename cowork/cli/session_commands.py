"""`cowork sessions`, `tasks`, `cost`, `report` and `watch`: what was done, and what it cost."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from cowork.cli.standard_streams import row, show_rows
from cowork.cli.typer_help import CommandGroup, JsonArray, JsonObject, argument, option
from cowork.config import paths
from cowork.core import format, signals
from cowork.core.errors import UserError, os_error_as
from cowork.core.hygiene import ascii_json
from cowork.core.later import later

with later(__name__):  # each command loads what it uses
    from cowork.app import exports
    from cowork.reports.overview import Overview, report_lines
    from cowork.reports.page import report_page
    from cowork.reports.watch import WatchServer
    from cowork.sessions import cost_report as costs
    from cowork.sessions.cost import TaskRow
    from cowork.sessions.export import Story, task_markdown
    from cowork.sessions.index import SessionEntry, find, find_task, list_sessions, remove
    from cowork.sessions.log import reader, writer

_NAME = 26
_MARKS = {"completed": "✓", "active": "·", "interrupted": "·"}

sessions = CommandGroup(
    """Conversations that were kept: list, show, export, remove.

Examples:
  cowork sessions                    those of this folder, last used first
  cowork sessions --all              of every folder
  cowork sessions show k3v           one as Markdown (the start of its id is enough)
  cowork sessions export k3v --html -o k3v.html
                                     as a page to look at
  cowork sessions rm k3v             delete it for good
  cowork --resume k3v                go on with it"""
)
tasks = CommandGroup(
    """Work that was given to subagents, over all conversations: list, show.

Examples:
  cowork tasks                       of the last 30 days, newest first
  cowork tasks list --since all --json
  cowork tasks show k3v/explore-1    one with its conversation (the start of the session's id is enough)"""
)

AsObject = Annotated[bool, typer.Option("--json", help="As one JSON object.")]
SessionId = Annotated[str, typer.Argument(metavar="[ID]", help="Its id, or the start of it.")]
RowsBy = Annotated[Literal["agent", "model", "day", "repo", "session"], typer.Option("--by", help="What the rows are.")]
Since = Annotated[str, typer.Option("--since", metavar="TIME", help="7d, today, week, month, all, or a day.")]
OnlyHere = Annotated[bool, typer.Option("--here", help="Only conversations of this folder.")]
Html = Annotated[bool, typer.Option("--html", help="A page in one file.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")]


@sessions.command("list")
def list_(everywhere: bool = option(False, "--all -a", "Of every folder."), as_json: JsonArray = False) -> None:
    """List the conversations of this folder, last used first."""
    found = list_sessions(_folder(), None if everywhere else paths.here())

    def line(entry: SessionEntry) -> str:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used))
        place = f"  {paths.short(Path(entry.cwd), os.environ)}" if everywhere else ""
        facts = f"{format.plural(entry.turns, 'turn'):>9}  {format.money(entry.cost_usd, 'unknown'):>12}"
        return f"{entry.id}  {when}  {facts}  {format.one_line(entry.title, 60)}{place}"

    keys = ("id", "title", "cwd", "branch", "model", "prompts", "turns", "created", "last_used", "cost_usd")
    known = [{key: getattr(entry, key) for key in keys} for entry in found]
    none = "no conversations" if everywhere else "no conversations of this folder (--all shows those of others)"
    show_rows(known, map(line, found), as_json=as_json, none=none)


@sessions.command("show")
def show(session: str = argument(..., "ID", "Its id, or the start of it."), as_json: AsObject = False) -> None:
    """Print a conversation as Markdown."""
    print("".join(exports.export_session(_folder(), find(_folder(), session).id, "json" if as_json else "md")))


@sessions.command("rm")
def rm(sessions: list[str] = argument(..., "ID...", "Their ids, or the starts of them.")) -> None:
    """Delete conversations for good."""
    entries = [find(_folder(), session) for session in sessions]  # all are known before any is gone
    for entry in entries:
        remove(_folder(), entry.id)
        print(f"removed {entry.id}  {format.one_line(entry.title, 60)}")


@sessions.command("export")
def export(
    session: SessionId = "",
    html: Html = False,
    md: bool = option(False, "--md", "Markdown."),
    json: JsonObject = False,
    atif: bool = option(False, "--atif", "A trajectory, as evaluations read it."),
    output: Output = None,
    redact: bool = option(False, "--redact", "Leave contents out (--html)."),
) -> None:
    """Write a conversation as a page, as Markdown, as JSON or as a trajectory.

    Examples:
      cowork sessions export k3v --html -o k3v.html   a page to look at: conversation, timeline, cost
      cowork sessions export k3v -o k3v.md            the ending of the name says the form
      cowork sessions export k3v --html --redact -o k3v.html
                                         times and costs without what was said
      cowork sessions export --atif -o trajectory.json
                                         the last of this folder, for evaluations"""
    asked = [name for name, wanted in (("html", html), ("md", md), ("json", json), ("atif", atif)) if wanted]
    if len(asked) > 1:
        raise UserError(f"--{asked[0]} and --{asked[1]} ask for two forms.", "Leave one of them out.")
    named = output if output != Path("-") else None
    form = asked[0] if asked else exports.form_of(named) if named else "md"
    if redact and form not in exports.REDACTABLE:
        raise UserError(f"--redact cannot be used with --{form}.", "It is for --html.")
    entry = exports.chosen_session(_folder(), session, paths.here())
    _write(exports.export_session(_folder(), entry.id, form, redact=redact), output)


def cost(by: RowsBy = "agent", since: Since = "30d", here: OnlyHere = False, as_json: JsonObject = False) -> None:
    """Say what the kept conversations cost, children, retries and compaction counted in.

    Examples:
      cowork cost                        the last 30 days by agent, beside the 30 before
      cowork cost --since 7d --by model  or day, repo, session
      cowork cost --since all --json     for programs"""
    days = costs.days_of(since)
    found = list_sessions(_folder(), paths.here() if here else None, empty=True)
    totals = costs.cost_report(found, by, days)
    show_rows(totals.to_dict(by), _cost_lines(totals, by, days), as_json=as_json)


@tasks.command("list")
def list_tasks(
    since: Since = "30d", here: bool = option(False, "--here", "Only of this folder."), as_json: JsonArray = False
) -> None:
    """List what subagents were sent out for, newest first."""
    days = costs.days_of(since)
    start = time.time() - days * costs.DAY if days else 0.0
    entries = list_sessions(_folder(), paths.here() if here else None, empty=True)
    found = sorted((t for e in entries for t in e.tasks() if t.started >= start), key=lambda t: t.started, reverse=True)
    none = "no tasks" if days is None else f"no tasks since {since} (--since all shows older ones)"
    show_rows([task.to_dict() for task in found], map(_task_line, found), as_json=as_json, none=none)


@tasks.command("show")
def show_task(
    task: str = argument(..., "ID", "SESSION/SUBAGENT, such as k3v/explore-1."), as_json: AsObject = False
) -> None:
    """Print one task with its conversation."""
    session, _, name = task.partition("/")
    found = find_task(find(_folder(), session), name)
    events = reader.read(_folder() / found.session_id / writer.LOG).events
    if as_json:
        print(ascii_json({**found.to_dict(), "messages": Story(events).messages(found.agent)}))
        return
    row(_task_line(found))
    print(f"\n{task_markdown(events, found.agent)}", end="")


def report(
    since: Since = "30d",
    here: OnlyHere = False,
    html: Html = False,
    json: JsonObject = False,
    output: Output = None,
    pages: bool = option(False, "--pages", "Export the sessions it names too, and link to them."),
) -> None:
    """Say what agents did in many sessions: cost, durations, failures and what stands out.

    Examples:
      cowork report                      the last 30 days: bars, tasks that stand out
      cowork report --since 7d --here    of this folder
      cowork report --html -o report.html --pages
                                         as a page, with the pages of the sessions it names
      cowork report --since all --json   for programs"""
    if html and json:
        raise UserError("--html and --json ask for two forms.", "Leave one of them out.")
    html = html or (not json and output is not None and output.suffix.lower() in (".html", ".htm"))
    if pages and not (html and output):
        raise UserError("--pages needs a file to put the pages beside.", "cowork report --html -o report.html --pages")
    found = Overview(list_sessions(_folder(), paths.here() if here else None, empty=True), costs.days_of(since))
    if html:
        links = exports.export_beside(_folder(), output, found.session_ids()) if pages and output else {}
        _write(report_page(found.to_dict(), links), output)
    else:
        _write([ascii_json(found.to_dict()) + "\n"] if json else (f"{line}\n" for line in report_lines(found)), output)


def watch(session: SessionId = "", port: int = option(0, "--port", "0: any that is free.", min=0, max=65535)) -> None:
    """Follow a session on a page of this machine while it runs; Ctrl+C ends it.

    Examples:
      cowork watch                       the session that runs in this folder, or ran last
      cowork watch k3v --port 8123       one by its id, on a port of your choice
      ssh -L 8123:127.0.0.1:8123 builder cowork watch --port 8123
                                         one on another machine"""
    import asyncio

    entry = exports.chosen_session(_folder(), session, paths.here())
    served = WatchServer(_folder() / entry.id, entry, port)
    title = format.one_line(entry.title, 60) or entry.id

    async def serve() -> None:
        await served.start()
        print(f"{title}\n{served.url}  (opens once, on this machine)", flush=True)
        await asyncio.get_running_loop().create_future()  # until Ctrl+C

    try:
        signals.run(serve())
    except OSError as error:
        problem = f"Port {port} cannot be used: {error.strerror}."
        raise UserError(problem, "Give another one, or leave --port out.") from error


def _folder() -> Path:
    return paths.sessions_dir(os.environ)


def _cost_lines(report: costs.CostReport, by: str, days: int | None) -> Iterator[str]:
    sums = (f"{name} {format.money_sum(spent.cost_usd, spent.known_usd)}" for name, spent in report.periods.items())
    yield " · ".join(sums)
    heading = f"by {by}, {'all' if days is None else 'today' if days == 1 else f'last {days} days'}"
    cells = {each.name: _cost_cells(each) for each in report.rows}
    yield from ("", _cost_line(heading, next(iter(cells.values()))) if cells else f"{heading}: nothing")
    for name, known in cells.items():
        yield _cost_line(format.one_line(name or "unknown", _NAME - 1), known.values())
    if any(each.spent.cost_usd is None for each in report.rows):
        yield "+ marks a sum that holds requests of unknown price: [pricing] in the settings can name one."


def _cost_line(name: str, cells: Iterable[str]) -> str:
    widths = (10, 7, 6, 8, 7, 7, 7, 7, 7, 7)
    return f"{name:<{_NAME}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _cost_cells(row: costs.CostRow) -> dict[str, str]:
    """The cells of a row by their headings; what is not known stays blank."""

    def show(value: float | None, how: Callable[[float], str]) -> str:
        return "" if value is None else how(value)

    tasks = row.tasks
    times = {"mean": tasks.mean_s, "p50": tasks.p50_s, "p95": tasks.p95_s, "max": tasks.max_s}
    return {
        "cost": format.money_sum(row.spent.cost_usd, row.spent.known_usd),
        "change": show(row.change, _arrow),
        "tasks": str(tasks.tasks or ""),
        "$/task": show(tasks.cost_per_task, format.money),
        **{name: show(took, _seconds) for name, took in times.items()},
        "prompt": show(tasks.prompt_tokens_per_task, lambda count: format.tokens(round(count))),
        "failed": show(tasks.failure_rate, lambda part: f"{part:.0%}"),
    }


def _seconds(value: float) -> str:
    return format.duration(value) if value < 120 else format.clock(value)


def _arrow(change: float) -> str:
    """`▲ 12%`, `▼ 5%`, `=`."""
    size = f"{abs(change):.0%}" if abs(change) < 10 else f"{1 + change:.0f}×"
    return "=" if abs(change) < 0.005 else f"{'▲' if change > 0 else '▼'} {size}"


def _task_line(task: TaskRow) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(task.started))
    used = f"{format.tokens(task.prompt_tokens + task.completion_tokens)} tok"
    cost = format.money(task.cost_usd, "price unknown")
    facts = [task.status, task.model, format.duration(task.duration_ms / 1000), used, cost]
    mark = _MARKS.get(task.status, "✗")
    what = format.one_line(task.description, 40)
    return f"{mark} {task.id:<28} {when}  {what:<40}  {' · '.join(fact for fact in facts if fact)}"


def _write(pieces: Iterable[str], output: Path | None) -> None:
    if output is None or output == Path("-"):
        sys.stdout.writelines(pieces)
        return
    hint = "Give another name: -o FILE"
    with os_error_as(f"{output} cannot be written", hint), output.open("w", encoding="utf-8") as file:
        file.writelines(pieces)
