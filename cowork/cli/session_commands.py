"""`cowork sessions` and `cowork cost`: what was done, and what it cost."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cowork.cli.standard_streams import row
from cowork.cli.typer_help import HelpCommand, HelpGroup
from cowork.config import paths
from cowork.core import format
from cowork.core.hygiene import ascii_json

if TYPE_CHECKING:
    from cowork.sessions.cost import Spending

app = typer.Typer(
    cls=HelpGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Conversations that were kept: list, show, remove.",
    epilog="""
Examples:
  cowork sessions list               those of this folder, last used first
  cowork sessions list --all         of every folder
  cowork sessions show k3v           one as Markdown (the start of its id is enough)
  cowork sessions rm k3v             delete it for good
  cowork --resume k3v                go on with it""",
)

COST_EXAMPLES = """
Examples:
  cowork cost                        today, this week, in all, and by agent
  cowork cost --by model             or day, or session
  cowork cost --by agent --json      for programs"""

_BAR = 12


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
        Literal["agent", "model", "day", "session"], typer.Option("--by", help="What the sums are made by.")
    ] = "agent",
    here: Annotated[bool, typer.Option("--here", help="Only conversations of this folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Say what the kept conversations cost, children, retries and compaction counted in."""
    from cowork.sessions.index import cost as cost_of

    folder, cwd = _folder(), paths.here() if here else None
    sums = cost_of(folder, by, cwd)
    periods = _periods(cost_of(folder, "day", cwd))
    if as_json:
        named = {"periods": periods, f"by_{by}": sums}
        print(ascii_json({k: {name: spent.to_dict() for name, spent in part.items()} for k, part in named.items()}))
        return 0
    left = [f"{name:<10} {_usd(spent):>10}" for name, spent in periods.items()]
    right = _bars(sums)
    title = f"by {by}"
    for place in range(max(len(left), len(right))):
        start = left[place] if place < len(left) else " " * 21
        middle = title if place == 0 else " " * len(title)
        row(f"{start}   {middle}   {right[place] if place < len(right) else ''}")
    if any(spent.cost_usd is None for spent in sums.values()):
        print("+ marks a sum that holds requests of unknown price: [pricing] in the settings can name one.")
    return 0


def _periods(days: dict[str, Spending]) -> dict[str, Spending]:
    from cowork.sessions.cost import Spending

    now = time.time()
    today = time.strftime("%Y-%m-%d", time.localtime(now))
    week = time.strftime("%Y-%m-%d", time.localtime(now - 6 * 86400))
    sums = {"today": Spending(), "7 days": Spending(), "all": Spending()}
    for day, spent in days.items():
        for name, first in (("today", today), ("7 days", week), ("all", "")):
            if day >= first:
                sums[name] += spent
    return sums


def _bars(sums: dict[str, Spending]) -> list[str]:
    most = max((spent.known_usd for spent in sums.values()), default=0.0)
    rows = []
    for name, spent in sums.items():
        bar = "█" * (round(_BAR * spent.known_usd / most) or 1) if spent.known_usd else ""
        tokens = f"{format.tokens(spent.usage.total)} tok"
        rows.append(f"{format.one_line(name or 'unknown', 28):<28} {_usd(spent):>10} {tokens:>12}  {bar}".rstrip())
    return rows


def _usd(spent: Spending) -> str:
    if spent.cost_usd is None:
        return format.money(spent.known_usd) + "+"
    return format.money(spent.cost_usd, "unknown")


def _folder() -> Path:
    return paths.sessions_dir(os.environ)
