"""`cowork import`: takes over what was written for another agent program, after showing what that would be."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from cowork.cli.standard_streams import row
from cowork.config import paths
from cowork.core import format
from cowork.core.errors import UserError

IMPORT_EXAMPLES = """
Examples:
  cowork import claude            show what would be taken over, then ask
  cowork import codex --yes       without a question
  cowork import gemini --dry-run  only show

Nothing that exists is changed, and nothing of the other program is removed."""


def import_(
    program: Annotated[str, typer.Argument(metavar="claude|codex|gemini|opencode")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
) -> int:
    """Take over agents, commands, skills, hooks, servers, permissions and notes of another agent program."""
    from cowork.app.mcp.sources import change_file, user_file
    from cowork.extensions.importing import PROGRAMS, apply, plan

    if program not in PROGRAMS:
        raise UserError(f"there is nothing to import from {program}", f"There are {', '.join(PROGRAMS)}.")
    steps = plan(program, paths.home(os.environ), paths.config_dir(os.environ))
    for step in steps:
        target = f" → {paths.short(step.target, os.environ)}" if step.target else ""
        why = f": {step.why}" if step.why else ""
        action = "add to mcp.json" if step.action == "server" else step.action
        row(f"{step.kind:<12} {format.one_line(step.name, 40):<24} {action}{target}{why}")
    todo = [step for step in steps if step.action in ("copy", "write", "server")]
    if dry_run or not todo:
        print(f"{format.plural(len(todo), 'step')} to do." if todo else "There is nothing to do.")
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("nobody is here to say yes", "Look at the list above, then add --yes.")
        if input(f"Do these {format.plural(len(todo), 'step')}? [y/N] ").strip().casefold() not in ("y", "yes"):
            print("Nothing was changed.")
            return 1
    done = len(apply(steps))
    for step in todo:
        if step.action == "server":
            done += change_file(user_file(os.environ), step.name, json.loads(step.text))
    print(f"{format.plural(done, 'step')} done. `cowork extensions` and `cowork mcp list` show what is there now.")
    return 0
