"""`cowork extensions` lists and checks every file that adds something; `cowork import` takes over those of others."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cowork.cli.agent_commands import Trust, project_options, report_problems
from cowork.cli.standard_streams import row
from cowork.cli.typer_help import AsJson, CommandGroup, Cwd, ask_line
from cowork.config import paths
from cowork.core import format
from cowork.core.errors import UserError
from cowork.core.hygiene import ascii_json, visible

if TYPE_CHECKING:
    from cowork.extensions.finder import Extensions, Listed

app = CommandGroup(
    "Agents, skills, commands, hooks and plugins: list, show, check.",
    """
Examples:
  cowork extensions                  all that would be used here, and what it adds to each request
  cowork extensions show review      one in full
  cowork extensions check            judge every file of yours and of this project; runs nothing

Files: agents/*.md, skills/*/SKILL.md, commands/**/*.md and hooks.json of ~/.config/cowork, ~/.agents and ~/.claude, of
plugins, and of .cowork, .agents and .claude in a trusted project. docs/extending.md shows how to write them.""",
)


@app.command("list")
def list_(ctx: typer.Context, cwd: Cwd = None, trust: Trust = False, as_json: AsJson = False) -> int:
    """List what was found: kind, name, from where, tokens in each request, what it is for."""
    found, shipped = load(ctx, cwd, trust=trust)
    rows = found.listed(shipped=shipped)
    if as_json:
        print(ascii_json({"extensions": [r.to_dict() for r in rows], "problems": list(map(str, _problems(found)))}))
        return 0
    wide = min(32, max((len(r.name) for r in rows), default=0))
    for r in rows:
        cost = f"{r.tokens:>4} tok" if r.tokens else " " * 8
        row(f"{r.kind:<8} {r.name:<{wide}} {r.origin:<8} {cost}  {format.one_line(r.adds, 70)}")
    total = sum(r.tokens for r in rows)
    print(f"{format.plural(len(rows), 'extension')}, {total} tokens in each request")
    for problem in _problems(found):
        row(f"! {problem}")
    return 0


@app.command("show")
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    cwd: Cwd = None,
    trust: Trust = False,
) -> int:
    """Show one in full: where it is, what it costs, and its text."""
    found, shipped = load(ctx, cwd, trust=trust)
    rows = [r for r in found.listed(shipped=shipped) if r.name == name.removeprefix("/")]
    if not rows:
        raise UserError(f"there is no extension {name}", "`cowork extensions` lists them.")
    for r in rows:
        print("\n".join(_shown(found, r)))
    return 0


@app.command("check")
def check(ctx: typer.Context, cwd: Cwd = None) -> int:
    """Judge every file of yours and of this project; exit code 2 when one is wrong."""
    found, _ = load(ctx, cwd, trust=True)  # judging a file runs nothing of it
    return report_problems(_problems(found), format.plural(len(found.listed()), "extension"))


def load(ctx: typer.Context, cwd: Path | None, *, trust: bool) -> tuple[Extensions, bool]:
    """What a run in the folder would find, and whether the model is told of shipped skills."""
    from cowork.app.extend.places import places
    from cowork.app.project import configured
    from cowork.prompts import text_of
    from cowork.tools.builtin import builtin_tools

    options, root, trusted = project_options(ctx, cwd, trust=trust)
    config = configured(options, os.environ, root, trusted=trusted)
    found = places(root, os.environ, trusted=trusted, bare=options.bare).find(builtin_tools(text_of))
    return found, config.skills.shipped


def _problems(found: Extensions) -> list[Any]:
    return [*found.agents.problems, *found.problems]


def _shown(found: Extensions, listed: Listed) -> list[str]:
    facts = [f"{listed.kind} {listed.name}", f"from: {listed.origin}, {paths.short(listed.path, os.environ)}"]
    text = ""
    if recipe := found.recipes.get(listed.name) if listed.kind in ("skill", "command") else None:
        who = [
            w for w, may in (("you (/" + recipe.name + ")", recipe.for_people), ("the model", recipe.for_model)) if may
        ]
        facts.append(f"called by: {' and '.join(who) or 'nobody'}")
        facts += [f"{name}: {value}" for name, value in (
            ("arguments", recipe.hint or " ".join(recipe.arguments)), ("model", recipe.model),
            ("runs in", f"a child ({recipe.agent or 'general-purpose'})" if recipe.fork else ""),
            ("asks for", ", ".join(recipe.allowed_tools)),
        ) if value]  # fmt: skip
        text = recipe.body
    elif listed.kind == "agent":
        text = found.agents[listed.name].role
    facts.append(f"adds: {listed.adds}")
    used = f", {-(-len(text) // 4)} when it is used" if text else ""
    facts.append(f"tokens: {listed.tokens} in each request{used}")
    return [visible(line) for line in (*facts, *(["", text] if text else []))]


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
    from cowork.app.mcp.sources import change_file, user_file, why_not
    from cowork.extensions.importing import PROGRAMS, apply, plan, refused
    from cowork.mcp.entries import read_file

    if program not in PROGRAMS:
        raise UserError(f"there is nothing to import from {program}", f"There are {', '.join(PROGRAMS)}.")
    steps = plan(program, paths.home(os.environ), paths.config_dir(os.environ))
    mine = {entry.name for entry in read_file(user_file(os.environ), "user")[0]}
    for at, step in enumerate(steps):
        if step.action == "server" and (why := why_not(step.name, json.loads(step.text), mine)):
            steps[at] = refused(step, why)
    for step in steps:
        target = f" → {paths.short(step.target, os.environ)}" if step.target else ""
        why = f": {step.why}" if step.why else ""
        action = "add to mcp.json" if step.action == "server" else step.action
        row(f"{step.kind:<12} {format.one_line(step.name, 40):<24} {action}{target}{why}")
    todo = [step for step in steps if step.action in ("copy", "write", "server")]
    if dry_run or not todo:
        print(f"{format.plural(len(todo), 'step')} to do." if todo else "There is nothing to do.")
        return 0
    if not (yes or confirmed(f"Do these {format.plural(len(todo), 'step')}?")):
        print("Nothing was changed.")
        return 1
    done = len(apply(steps))
    for step in todo:
        if step.action == "server":
            done += change_file(user_file(os.environ), step.name, json.loads(step.text))
    print(f"{format.plural(done, 'step')} done. `cowork extensions` and `cowork mcp list` show what is there now.")
    return 0


def confirmed(question: str) -> bool:
    """Whether the person says yes to what was just listed."""
    if not sys.stdin.isatty():
        raise UserError("nobody is here to say yes", "Look at the list above, then add --yes.")
    return ask_line(f"{question} [y/N] ").casefold() in ("y", "yes")
