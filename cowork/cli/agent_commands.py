"""`cowork agents`: who can be sent out, and whether their files are right."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cowork.cli.standard_streams import row, show_rows
from cowork.cli.typer_help import AsJson, CommandGroup, Cwd, made
from cowork.config import paths
from cowork.core import format
from cowork.core.errors import UserError
from cowork.core.hygiene import ascii_json

if TYPE_CHECKING:
    from cowork.agents import Agents
    from cowork.config.options import RunOptions
    from cowork.core.front_matter import Problem
    from cowork.core.ports import AgentDef

app = CommandGroup(
    "Agents that Task can send out: list, show, check.",
    """
Examples:
  cowork agents                      those that would be loaded here
  cowork agents show explore         one in full, with its role prompt
  cowork agents check                judge every agent file of yours and of this project
  cowork run --agent plan "..."      run as one

Files: agents/*.md of cowork, of ~/.config/cowork, ~/.agents and ~/.claude, of plugins, and of .cowork, .agents and
.claude in a trusted project.""",
)

Trust = Annotated[bool, typer.Option("--trust", help="Use this project's files as if trusted.")]


@app.command("list")
def list_(ctx: typer.Context, cwd: Cwd = None, trust: Trust = False, as_json: AsJson = False) -> int:
    """List the agents, with what each is for."""
    found = _load(ctx, cwd, trust=trust)
    wide = max((len(name) for name in found), default=0)
    rows = [
        f"{a.name:<{wide}}  {a.model.replace('inherit', 'main'):<6} {a.origin:<8} {format.one_line(a.description, 90)}"
        for a in found.values()
    ]
    rows += [f"! {problem}" for problem in found.problems]
    return show_rows([_facts(agent) for agent in found.values()], rows, as_json=as_json)


@app.command("show")
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    cwd: Cwd = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Show one agent in full."""
    found = _load(ctx, cwd, trust=trust)
    agent = found.find(name)
    if agent is None:
        raise UserError(f"there is no agent {name}", f"There are: {', '.join(found)}.")
    facts = _facts(agent)
    if as_json:
        print(ascii_json(facts))
        return 0
    role = facts.pop("role")
    for key, value in facts.items():
        if value not in (None, "", []):
            print(f"{key}: {', '.join(value) if isinstance(value, list) else value}")
    print(f"\n{role}")
    return 0


@app.command("check")
def check(ctx: typer.Context, cwd: Cwd = None) -> int:
    """Judge every agent file of yours and of this project; exit code 2 when one is wrong."""
    found = _load(ctx, cwd, trust=True)  # judging a file runs nothing of it
    return report_problems(found.problems, format.plural(len(found), "agent"))


def report_problems(problems: Sequence[Problem], loaded: str) -> int:
    """Print what is wrong with files, and how many; gives the exit code."""
    fatal = sum(problem.fatal for problem in problems)
    for problem in problems:
        row(f"{'✗' if problem.fatal else '!'} {problem}")
    print(f"{loaded} loaded, {format.plural(fatal, 'file')} refused")
    return 2 if fatal else 0


def project_options(ctx: typer.Context, cwd: Path | None, *, trust: bool) -> tuple[RunOptions, Path, bool]:
    """The options before the command, the folder, and whether its files are used."""
    from cowork.app.project import folder_of
    from cowork.app.trust import is_trusted

    options = made(dict(ctx.obj or {}) | ({"cwd": cwd} if cwd else {}))
    root = folder_of(options)
    return options, root, trust or options.trust or is_trusted(root, os.environ)


def _load(ctx: typer.Context, cwd: Path | None, *, trust: bool) -> Agents:
    from cowork.app.extend.places import places
    from cowork.prompts import text_of
    from cowork.tools.builtin import builtin_tools

    options, root, trusted = project_options(ctx, cwd, trust=trust)
    return places(root, os.environ, trusted=trusted, bare=options.bare).find(builtin_tools(text_of)).agents


def _facts(agent: AgentDef) -> dict[str, Any]:
    return {
        "name": agent.name,
        "description": agent.description,
        "model": agent.model,
        "tools": list(agent.tools) if agent.tools is not None else "those of the parent, but Task",
        "disallowed_tools": list(agent.disallowed_tools),
        "max_turns": agent.max_turns,
        "timeout": agent.timeout,
        "permission_mode": agent.permission_mode,
        "color": agent.color,
        "origin": agent.origin,
        "path": paths.short(agent.path, os.environ),
        "role": agent.role,
    }
