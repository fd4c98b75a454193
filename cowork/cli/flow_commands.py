"""`cowork flow` and `cowork batch`: many agents, from a Python file or a list of tasks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cowork.cli.standard_streams import row, show_rows
from cowork.cli.typer_help import CommandGroup, Given, JsonArray, argument, option, run_options, with_options
from cowork.core import format, signals
from cowork.core.hygiene import ascii_json
from cowork.core.later import later

with later(__name__):  # each command loads what it uses
    from cowork.flows import journal
    from cowork.flows import run as flows
    from cowork.flows.batch import Batch

flow = CommandGroup(
    """Many agents in plain Python: run, resume, list, show.

Examples:
  cowork flow run review                     faults in what differs from HEAD, each checked by a second agent
  cowork flow run migrate 'src/*.py' prompt='use pathlib' check='pytest -q'
  cowork flow run answer 'why is it slow?'   three agents, one judge
  cowork flow run mine.py 5 name=x           your own: async def main(flow, count: int, name: str)
  cowork flow run mine.py --dry-run          what would run now, and its price
  cowork flow resume                         go on with the latest; nothing is paid for twice"""
)

_LEFT_OUT = ("agent", "continue_", "resume", "fork", "no_session", "output_schema", "record", "replay", "dump_requests")
On = Annotated[str, typer.Option("--on", metavar="WHERE", help="here, local[:N] processes, or dask:ADDRESS.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, max=50, help="Tasks at work at once.")]
SameJobs = Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=0, max=50, help="Tasks at work at once.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Run nothing: show what would run now, and its price.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="A Python file, or review, migrate, answer.")]
Args = Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...", help="For its main: VALUE or NAME=VALUE.")]
FlowId = Annotated[str, typer.Argument(metavar="[ID]", help="Its id, or the start of it; else the latest.")]


@flow.command("run")
@with_options(chat=False, left_out=_LEFT_OUT)
def run(
    file: File, args: Args = None, on: On = "here", jobs: Jobs = 8, dry_run: DryRun = False, *, given: Given
) -> int:
    """Run a flow; its result goes to stdout, what happens to stderr."""
    return flows.run(flows.FlowRequest(file, args or [], run_options(given), on, jobs, os.environ), dry=dry_run)


@flow.command("resume")
@with_options(chat=False, left_out=_LEFT_OUT)
def resume(flow_id: FlowId = "", on: On = "", jobs: SameJobs = 0, dry_run: DryRun = False, *, given: Given) -> int:
    """Go on with a flow: tasks that are done are taken from its journal, changed ones run again."""
    known = journal.find(os.environ, flow_id).name
    return flows.run(flows.load_request(os.environ, known, on, jobs, given), resume=known, dry=dry_run)


@flow.command("list")
def list_(as_json: JsonArray = False) -> None:
    """List the flows, last used first."""
    found = journal.list_flows(os.environ)
    show_rows(found, map(_flow_line, found), as_json=as_json, none="no flows")


@flow.command("show")
def show(flow_id: FlowId = "", as_json: bool = option(False, "--json", "One JSON object a task.")) -> None:
    """Show the tasks of a flow: key, state, cost and the start of the result."""
    for task in journal.tasks_of(os.environ, flow_id):
        if as_json:
            print(ascii_json(task))
            continue
        state, data = journal.state_of(task), task.get("data") or {}
        text = task.get("message") or data.get("short_result" if state == "partial" else "result", "")
        cost = format.money(task.get("cost_usd"), "unknown") if state != "open" else ""
        row(f"{state:<7} {cost:>9}  {format.one_line(task['key'], 40):<40}  {format.one_line(text, 60)}")


def _flow_line(flow: dict[str, Any]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(flow["at"]))
    words = " ".join([flow["file"], *flow["args"]])
    facts = f"{format.plural(flow['tasks'], 'task'):>10}  {format.money(flow['cost_usd'], 'unknown'):>9}"
    return f"{flow['id']}  {when}  {flow['state']:<11}  {facts}  {format.one_line(words, 60)}"


@with_options(chat=False, left_out=(*_LEFT_OUT[1:], "output"))
def batch(
    tasks: Path = argument(..., "TASKS", "A file with a JSON object a line."),
    out: Path = option(..., "--out DIR", "Folder for results.jsonl and predictions.jsonl."),
    on: str = option("local", "--on WHERE", "local[:N] processes, or dask:ADDRESS."),
    jobs: Jobs = 4,
    repo: str = option("", "--repo REPO", "Repository for tasks that name none."),
    shard: str = option("", "--shard I/N", "Only every N-th task, from the I-th."),
    model_name: str = option("", "--model-name", "What predictions.jsonl calls the model."),
    *,
    given: Given,
) -> int:
    """Run the same over many tasks, a process each; one JSON line a result.

    Examples:
      cowork batch tasks.jsonl --out runs                       each line: {"id": "a", "prompt": "…"}
      cowork batch tasks.jsonl --out runs --repo . --jobs 8     each task in a checkout of its own; its patch is kept
      cowork batch swe.jsonl --out runs --repo https://github.com/{repo}   lines of SWE-bench; writes predictions.jsonl
      cowork batch tasks.jsonl --out runs --shard 0/4           the first quarter, for one machine of four

    Run it again to go on: what succeeded is not run twice."""
    try:
        return signals.run(Batch(tasks, out, run_options(given), on, jobs, repo, shard, model_name).run())
    except signals.Stopped as stop:
        return stop.exit_code
