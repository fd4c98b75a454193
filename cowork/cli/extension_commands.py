"""`cowork agents`, `extensions` and `tools`: what a run here would find, and whether its files are right."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cowork.cli.standard_streams import row, show_rows
from cowork.cli.typer_help import AsJson, CommandGroup, Cwd, argument, option, options_before
from cowork.config import paths
from cowork.config.run_options import RunOptions
from cowork.core import format
from cowork.core.errors import UserError
from cowork.core.hygiene import ascii_json, visible
from cowork.core.later import later

with later(__name__):  # each command loads what it uses
    from cowork.app.project import folder_of, load_project, offered_specs
    from cowork.app.steering import is_trusted_now, left_out, places
    from cowork.core.front_matter import Problem
    from cowork.core.ports import AgentDef
    from cowork.extensions.finder import Extensions, Listed
    from cowork.prompts import text_of
    from cowork.tools.builtin import builtin_tools

agents = CommandGroup(
    """Agents that Task can send out: list, show, check.

Examples:
  cowork agents                      those that would be loaded here
  cowork agents show explore         one in full, with its role prompt
  cowork agents check                judge every agent file of yours and of this project
  cowork run --agent plan "..."      run as one

Files: agents/*.md of cowork, of ~/.config/cowork, ~/.agents and ~/.claude, of plugins, and of .cowork, .agents and
.claude in a trusted project."""
)
extensions = CommandGroup(
    """Agents, skills, commands, hooks and plugins: list, show, check.

Examples:
  cowork extensions                  all that would be used here, and what it adds to each request
  cowork extensions show review      one in full
  cowork extensions check            judge every file of yours and of this project; runs nothing

Files: agents/*.md, skills/*/SKILL.md, commands/**/*.md and hooks.json of ~/.config/cowork, ~/.agents and ~/.claude, of
plugins, and of .cowork, .agents and .claude in a trusted project. docs/extending.md shows how to write them."""
)

Name = Annotated[str, typer.Argument(metavar="NAME")]
Trust = Annotated[bool, typer.Option("--trust", help="Use this project's files as if trusted.")]


@agents.command("list")
def list_agents(ctx: typer.Context, cwd: Cwd = None, trust: Trust = False, as_json: AsJson = False) -> None:
    """List the agents, with what each is for."""
    found = find(ctx, cwd, trust=trust).agents
    wide = max((len(name) for name in found), default=0)
    rows = [
        f"{a.name:<{wide}}  {a.model.replace('inherit', 'main'):<6} {a.origin:<8} {format.one_line(a.description, 90)}"
        for a in found.values()
    ]
    rows += [f"! {problem}" for problem in found.problems]
    show_rows([_facts(agent) for agent in found.values()], rows, as_json=as_json)


@agents.command("show")
def show_agent(ctx: typer.Context, name: Name, cwd: Cwd = None, trust: Trust = False, as_json: AsJson = False) -> None:
    """Show one agent in full."""
    found = find(ctx, cwd, trust=trust).agents
    agent = found.find(name)
    if agent is None:
        raise UserError(f"there is no agent {name}", f"There are: {', '.join(found)}.")
    facts = _facts(agent)
    if as_json:
        print(ascii_json(facts))
        return
    role = facts.pop("role")
    for key, value in facts.items():
        if value not in (None, "", []):
            print(f"{key}: {', '.join(value) if isinstance(value, list) else value}")
    print(f"\n{role}")


@agents.command("check")
def check_agents(ctx: typer.Context, cwd: Cwd = None) -> int:
    """Judge every agent file of yours and of this project; exit code 2 when one is wrong."""
    found = find(ctx, cwd, trust=True).agents  # judging a file runs nothing of it
    return _report_problems(found.problems, format.plural(len(found), "agent"))


@extensions.command("list")
def list_extensions(ctx: typer.Context, cwd: Cwd = None, trust: Trust = False, as_json: AsJson = False) -> None:
    """List what was found: kind, name, from where, tokens in each request, what it is for."""
    found, listed = _find_listed(ctx, cwd, trust=trust)
    problems = [str(problem) for problem in _problems(found)]
    wide = min(32, max((len(r.name) for r in listed), default=0))
    costs = [f"{r.tokens:>4} tok" if r.tokens else " " * 8 for r in listed]
    rows = [
        f"{r.kind:<8} {r.name:<{wide}} {r.origin:<8} {cost}  {format.one_line(r.adds, 70)}"
        for r, cost in zip(listed, costs, strict=True)
    ]
    rows.append(f"{format.plural(len(listed), 'extension')}, {sum(r.tokens for r in listed)} tokens in each request")
    rows += [f"! {problem}" for problem in problems]
    show_rows({"extensions": [r.to_dict() for r in listed], "problems": problems}, rows, as_json=as_json)


@extensions.command("show")
def show_extension(ctx: typer.Context, name: Name, cwd: Cwd = None, trust: Trust = False) -> None:
    """Show one in full: where it is, what it costs, and its text."""
    found, listed = _find_listed(ctx, cwd, trust=trust)
    wanted = [r for r in listed if r.name == name.removeprefix("/")]
    if not wanted:
        raise UserError(f"there is no extension {name}", "`cowork extensions` lists them.")
    for r in wanted:
        print("\n".join(_details(found, r)))


@extensions.command("check")
def check_extensions(ctx: typer.Context, cwd: Cwd = None) -> int:
    """Judge every file of yours and of this project; exit code 2 when one is wrong."""
    found = find(ctx, cwd, trust=True)  # judging a file runs nothing of it
    return _report_problems(_problems(found), format.plural(len(found.rows()), "extension"))


def tools(
    name: str | None = argument(None, "", "One tool, in full.", show_default=False),
    as_json: bool = option(False, "--json", "Names, descriptions and schemas."),
) -> None:
    """List the tools the model can use.

    Examples:
      cowork tools                 names, parameters and what each is for
      cowork tools Bash            what the model reads about one tool
      cowork tools --json          names, descriptions and schemas"""
    known = list(offered_specs(load_project(tell_untrusted(RunOptions()), os.environ)))
    if name is not None:
        known, every = [spec for spec in known if spec.name.lower() == name.lower()], known
        if not known:
            raise UserError(f"there is no tool {name}", f"There are: {', '.join(spec.name for spec in every)}.")
    if as_json:
        print(ascii_json([{"name": s.name, "description": s.description, "input_schema": s.schema} for s in known]))
        return
    for spec in known:
        required = spec.schema.get("required", ())
        words = (word if word in required else f"{word}?" for word in spec.schema.get("properties", {}))
        first = re.split(r"(?<=[.;:]) ", spec.description.splitlines()[0], maxsplit=1)[0].rstrip(";:")
        print(f"{spec.name}({', '.join(words)})\n" + (f"\n{spec.description}" if name else f"    {first}"))


def tell_untrusted(options: RunOptions) -> RunOptions:
    """Say that what the folder holds is left out, where it is not trusted; gives the options again."""
    if said := left_out(folder_of(options), options, os.environ):
        print(f"cowork: {said}", file=sys.stderr)
    return options


def find(ctx: typer.Context, cwd: Path | None, *, trust: bool) -> Extensions:
    """What a run in the folder would find."""
    options = tell_untrusted(options_before(ctx, cwd=cwd, trust=trust))
    root = folder_of(options)
    trusted = is_trusted_now(root, options, os.environ)
    return places(root, os.environ, trusted=trusted, bare=options.bare).find(builtin_tools(text_of))


def _find_listed(ctx: typer.Context, cwd: Path | None, *, trust: bool) -> tuple[Extensions, Sequence[Listed]]:
    """The same, and its list by whether the settings tell the model of shipped skills."""
    project = load_project(tell_untrusted(options_before(ctx, cwd=cwd, trust=trust)), os.environ)
    found = project.invoker.extensions
    return found, found.rows(shipped=project.config.skills.shipped)


def _problems(found: Extensions) -> list[Problem]:
    return [*found.agents.problems, *found.problems]


def _report_problems(problems: Sequence[Problem], loaded: str) -> int:
    """Print what is wrong with files, and how many; gives the exit code."""
    fatal = sum(problem.fatal for problem in problems)
    for problem in problems:
        row(f"{'✗' if problem.fatal else '!'} {problem}")
    print(f"{loaded} loaded, {format.plural(fatal, 'file')} refused")
    return 2 if fatal else 0


def _facts(agent: AgentDef) -> dict[str, Any]:
    names = "name description model tools disallowed_tools max_turns timeout permission_mode color origin path role"
    tools = list(agent.tools) if agent.tools is not None else "those of the parent, but Task"
    path = paths.short(agent.path, os.environ)
    changed = {"tools": tools, "disallowed_tools": list(agent.disallowed_tools), "path": path}
    return {name: changed.get(name, getattr(agent, name)) for name in names.split()}


def _details(found: Extensions, listed: Listed) -> list[str]:
    facts = [f"{listed.kind} {listed.name}", f"from: {listed.origin}, {paths.short(listed.path, os.environ)}"]
    text = ""
    if skill := found.skills.get(listed.name) if listed.kind in ("skill", "command") else None:
        callers = ((f"you (/{skill.name})", skill.for_people), ("the model", skill.for_model))
        facts.append(f"called by: {' and '.join(who for who, may in callers if may) or 'nobody'}")
        more = {
            "arguments": skill.hint or " ".join(skill.arguments),
            "model": skill.model,
            "runs in": f"a child ({skill.agent or 'general-purpose'})" if skill.fork else "",
            "asks for": ", ".join(skill.allowed_tools),
        }
        facts += [f"{name}: {value}" for name, value in more.items() if value]
        text = skill.body
    elif listed.kind == "agent":
        text = found.agents[listed.name].role
    facts.append(f"adds: {listed.adds}")
    used = f", {-(-len(text) // 4)} when it is used" if text else ""
    facts.append(f"tokens: {listed.tokens} in each request{used}")
    return [visible(line) for line in (*facts, *(["", text] if text else []))]
