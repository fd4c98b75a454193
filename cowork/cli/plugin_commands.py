"""`cowork plugin`, `cowork hooks` and `cowork import`: what others wrote, installed, tried and taken over."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from cowork.cli.extension_commands import Name, Trust, find
from cowork.cli.standard_streams import row, show_rows
from cowork.cli.typer_help import CommandGroup, Cwd, argument, ask_line, folder
from cowork.config import paths
from cowork.core import format, signals
from cowork.core.errors import UserError
from cowork.core.hooks import HOOK_EVENTS
from cowork.core.hygiene import clean_environ, visible
from cowork.core.later import later
from cowork.core.workspace import parse_json

with later(__name__):  # each command loads what it uses
    from cowork.app.extend.hooks import run_trial
    from cowork.app.mcp.servers import change_file, user_file, why_not
    from cowork.extensions import importing
    from cowork.extensions.plugins import FetchedPlugin, PluginStore
    from cowork.mcp.entries import read_file
    from cowork.permissions.rules import check_tools, parse
    from cowork.prompts import text_of
    from cowork.tools.builtin import builtin_tools

plugin = CommandGroup(
    """Plugins: add, remove, list, update, check.

Examples:
  cowork plugin add ./my-plugin                              from a folder
  cowork plugin add https://example.com/acme.git@v1.2        from git, pinned to the commit of that tag
  cowork plugin list                                         what is installed, from where, at which commit
  cowork plugin update acme                                  show what a newer version holds, then take it
  cowork plugin check ./my-plugin                            judge a plugin without installing it

Nothing of a plugin runs when it is installed. Its hooks and servers run later, in every folder you work in."""
)
hooks = CommandGroup(
    """Hooks: list those that would run here; try one.

Examples:
  cowork hooks list
  cowork hooks test PreToolUse --input call.json    run what matches, with this input, and show what it says
  echo '{"tool_name": "Bash", "tool_input": {"command": "rm -rf x"}}' | cowork hooks test PreToolUse"""
)
HookEvent = Annotated[str, typer.Argument(metavar="EVENT")]
Input = Annotated[Path | None, typer.Option("--input", metavar="FILE", help="JSON; else from stdin.")]
Program = Annotated[str, typer.Argument(metavar="claude|codex|gemini|opencode")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@plugin.command("add")
def add(source: str = argument(..., "PATH|GIT_URL[@REF]"), yes: Yes = False) -> int:
    """Install a plugin after showing what it holds."""
    with closing(_store()) as store:
        return _take(store, store.fetch(source), yes=yes)


@plugin.command("remove")
def remove(name: Name) -> None:
    """Uninstall a plugin."""
    _store().remove(name)
    row(f"Removed {name}.")


@plugin.command("list")
def list_() -> None:
    """List what is installed."""
    store = _store()
    rows = [
        f"{name}  {facts['commit'][:12] or facts['digest'][:12]}  {facts['source']}"
        + ("  ! its files were changed since" if store.is_changed(name) else "")
        for name, facts in store.read_installed().items()
    ]
    show_rows(None, rows, none="No plugin is installed. `cowork plugin add PATH|GIT_URL@REF` installs one.")


@plugin.command("update")
def update(name: Name, yes: Yes = False) -> int:
    """Take the newest version from where it came; a tag or commit it is pinned to stays."""
    with closing(_store()) as store:
        facts = store.read_installed().get(name)
        if facts is None:
            raise UserError(f"there is no plugin {name}", "`cowork plugin list` has those that are installed.")
        fetched = store.fetch(f"{facts['source']}@{facts['ref']}" if facts["ref"] else facts["source"])
        if fetched.digest == facts["digest"] and not store.is_changed(name):
            row(f"{name} is the newest already.")
            return 0
        return _take(store, fetched, yes=yes)


@plugin.command("check")
def check(source: str = argument(..., "NAME|PATH|GIT_URL")) -> int:
    """Judge a plugin: what it would add and what is wrong; exit code 2 when a part is refused."""
    with closing(_store()) as store:
        known = source in store.read_installed()
        fetched = store.fetch(str(store.folder / source) if known else source)
        _show(fetched)
        if known and store.is_changed(source):
            row("✗ its files are not those that were installed")
            return 2
        return 2 if any(problem.fatal for problem in fetched.problems) else 0


def _take(store: PluginStore, fetched: FetchedPlugin, *, yes: bool) -> int:
    _show(fetched)
    if not (yes or _confirm("Install it?")):
        print("Nothing was installed.")
        return 1
    target = store.keep(fetched)
    row(f"Installed {fetched.plugin.name} in {paths.short(target, os.environ)}.")
    return 0


def _show(fetched: FetchedPlugin) -> None:
    one = fetched.plugin
    row(f"{one.name} {one.version} {format.one_line(one.description, 80)}".rstrip())
    row(f"from {fetched.source}" + (f" at {fetched.commit}" if fetched.commit else ""))
    row(f"content {fetched.digest}")
    for listed in fetched.adds.rows():
        if listed.kind != "plugin":
            row(f"  {listed.kind:<8} {listed.name}  {format.one_line(listed.adds, 80)}")
    for problem in fetched.problems:
        row(f"{'✗' if problem.fatal else '!'} {problem}".replace(f"{one.root}/", ""))


def _store() -> PluginStore:
    folder, data = paths.config_dir(os.environ) / "plugins", paths.state_dir(os.environ) / "plugins"
    return PluginStore(folder, data, clean_environ(os.environ))


@hooks.command("list")
def list_hooks(ctx: typer.Context, cwd: Cwd = None, trust: Trust = False) -> None:
    """List the hooks that would run here."""
    rows = [
        f"{hook.name:<28} {format.one_line(hook.command, 80)}  {paths.short(hook.path, os.environ)}:{hook.line}"
        for hook in find(ctx, cwd, trust=trust).hooks
    ]
    show_rows(None, rows, none="No hook would run here.")


@hooks.command("test")
def try_hooks(ctx: typer.Context, event: HookEvent, file: Input = None, cwd: Cwd = None, trust: Trust = False) -> int:
    """Run the hooks that match an event and show what they decide; exit code 1 when they refuse."""
    name = next((known for known in HOOK_EVENTS if known.casefold() == event.casefold()), None)
    if name is None:
        raise UserError(f"there is no event {event}", f"There are {', '.join(HOOK_EVENTS)}.")
    known = find(ctx, cwd, trust=trust).hooks
    trial = run_trial(name, _data(file), known, folder(cwd), os.environ)
    verdict, ran, said = signals.run(trial)
    for hook in ran:
        row(f"ran {hook.command}  ({paths.short(hook.path, os.environ)}:{hook.line})")
    for text in said:
        row(f"! {text}")
    print(visible(json.dumps(verdict, indent=1, ensure_ascii=False)))
    if not ran:
        row(f"No hook here listens to {name} with this input.")
    return 1 if verdict.get("decision") == "deny" else 0


def _data(file: Path | None) -> dict[str, Any]:
    try:
        text = file.read_text("utf-8") if file else ("" if sys.stdin.isatty() else sys.stdin.read())
        data = parse_json(text) if text.strip() else {}
    except (OSError, ValueError) as error:
        hint = 'Such as {"tool_name": "Bash", "tool_input": {}}.'
        raise UserError(f"the input is not JSON: {error}", hint) from error
    if not isinstance(data, dict):
        raise UserError("the input must be a JSON object")
    return data


def import_(ctx: typer.Context, program: Program, yes: Yes = False, dry_run: DryRun = False) -> int:
    """Take over agents, commands, skills, hooks, servers, permissions and notes of another agent program.

    Examples:
      cowork import claude            show what would be taken over, then ask
      cowork import codex --yes       without a question
      cowork import gemini --dry-run  only show

    Nothing that exists is changed, and nothing of the other program is removed."""
    if program not in importing.PROGRAMS:
        raise UserError(f"there is nothing to import from {program}", f"There are {', '.join(importing.PROGRAMS)}.")
    home, own, agents = paths.home(os.environ), paths.config_dir(os.environ), find(ctx, None, trust=True).agents
    steps = importing.plan(program, home, own, _why_no_rule, agents)
    mine = {entry.name for entry in read_file(user_file(os.environ), "user")[0]}
    for at, step in enumerate(steps):
        if step.action == "server" and (why := why_not(step.name, json.loads(step.text), mine)):
            steps[at] = importing.refuse(step, why)
    _show_plan(steps)
    todo = [step for step in steps if step.action in ("copy", "write", "server")]
    if dry_run or not todo:
        print(f"{format.plural(len(todo), 'step')} to do." if todo else "There is nothing to do.")
        return 0
    if not (yes or _confirm(f"Do these {format.plural(len(todo), 'step')}?")):
        print("Nothing was changed.")
        return 1
    done = len(importing.apply(steps))
    for step in todo:
        if step.action == "server":
            done += change_file(user_file(os.environ), step.name, json.loads(step.text))
    print(f"{format.plural(done, 'step')} done. `cowork extensions` and `cowork mcp list` show what is there now.")
    return 0


def _show_plan(steps: list[importing.ImportStep]) -> None:
    for step in steps:
        target = f" → {paths.short(step.target, os.environ)}" if step.target else ""
        why = f": {step.why}" if step.why else ""
        action = "add to mcp.json" if step.action == "server" else step.action
        row(f"{step.kind:<12} {format.one_line(step.name, 40):<24} {action}{target}{why}")
    for step in (step for step in steps if step.kind == "permissions" and step.text):
        written = step.action == "write"
        print("To write:" if written else "! Not in force until you add this to [permissions] of config.toml:")
        for line in step.text.splitlines():
            row(f"  {line}")
    if lost := sum(step.less_guarded for step in steps):
        print(f"! {format.plural(lost, 'deny or ask rule')} above not imported, or covering less than before.")
        print("  Add rules of your own for what they guarded, under [permissions] of config.toml.")


def _why_no_rule(text: str) -> str:
    """Why a text is no permission rule that a tool can meet; empty where it is one."""
    try:
        check_tools([parse(text)], builtin_tools(text_of))
    except UserError as error:
        return error.message
    return ""


def _confirm(question: str) -> bool:
    """Whether the person says yes to what was just listed."""
    if not sys.stdin.isatty():
        raise UserError("nobody is here to say yes", "Look at the list above, then add --yes.")
    return ask_line(f"{question} [y/N] ").casefold() in ("y", "yes")
