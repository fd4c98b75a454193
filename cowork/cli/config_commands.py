"""`cowork config`, `trust`, `permissions`, `doctor` and `demo`: how cowork is set up, and whether it works."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cowork.cli.standard_streams import row, show_rows
from cowork.cli.typer_help import CommandGroup, Cwd, JsonObject, argument, ask_line, folder, option, options_before
from cowork.config import load, paths
from cowork.config.load import Layers, check_file
from cowork.config.render import example, setting_rows, tables
from cowork.core import signals
from cowork.core.errors import UserError
from cowork.core.hygiene import ascii_json, visible
from cowork.core.later import later
from cowork.private_files import write_private

with later(__name__):  # each command loads what it uses
    from cowork.app.onboarding import demo as tour
    from cowork.app.onboarding import doctor as diagnosis
    from cowork.app.onboarding import setup
    from cowork.app.safety import explain_command
    from cowork.app.steering import grant, is_trusted, steering
    from cowork.config import files, keyring
    from cowork.permissions.commands import explain_text
    from cowork.permissions.rules import check_tools, parse
    from cowork.permissions.trust import Trust
    from cowork.prompts import text_of
    from cowork.tools.builtin import builtin_tools

config = CommandGroup(
    """Settings: show, check, find, begin.

Examples:
  cowork config show --set          what differs from the defaults, and why
  cowork config check               judge your file and this project's
  $EDITOR "$(cowork config path)"   edit your file
  cowork config init                find a key or a local server, try it, write the first file"""
)
permissions = CommandGroup(
    """What may happen without a question.

Examples:
  cowork permissions explain "git log --oneline | head"     where it would run, and why"""
)

SessionId = Annotated[str, typer.Option("--session", metavar="ID", help="Examine this stored session.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings file instead of your own.")]


@config.command("show")
def show(
    ctx: typer.Context,
    only_set: bool = option(False, "--set", "Only what differs from the defaults."),
    as_json: bool = option(False, "--json", "One JSON object: key -> value and origin."),
    config: ConfigFile = None,
    cwd: Cwd = None,
    bare: bool = option(False, "--bare", "Ignore the files of user and project."),
    trust: bool = option(False, "--trust", "Use this project's file as if trusted."),
) -> None:
    """Print every setting with where it came from."""
    given = options_before(ctx, cwd=cwd, config_file=config, trust=trust, bare=bare)
    root = folder(given.cwd)
    trusted = given.trust or is_trusted(root, os.environ)
    settings = load(cwd=root, environ=os.environ, config_file=given.config_file, trusted=trusted, bare=given.bare)
    found = list(setting_rows(settings, only_set=only_set))
    facts = {
        name: {"value": value if value == "(hidden)" else settings.values[name], "origin": origin}
        for name, value, origin in found
    }
    wide = max((len(name) for name, _, _ in found), default=0)
    middle = max((len(value) for _, value, _ in found if len(value) <= 32), default=0)
    rows = [f"{name:<{wide}}  {value:<{middle}}  {origin}" for name, value, origin in found]
    rows += [f"note: {note}" for note in settings.notes]
    show_rows(facts, rows, as_json=as_json)


@config.command("check")
def check(ctx: typer.Context, config: ConfigFile = None, cwd: Cwd = None) -> int:
    """Judge your settings file and this project's.

    What is wrong is said with file and line; exit code 2."""
    given = options_before(ctx, cwd=cwd, config_file=config)
    root, own = folder(given.cwd), given.config_file
    code = 0
    projects = [file for file in paths.project_files(root) if file.exists()] or [paths.project_file(root)]
    for title, path in (("yours", own or paths.config_file(os.environ)), *(("project", file) for file in projects)):
        if not path.exists() and not (own and title == "yours"):
            print(f"- {title}: {paths.short(path, os.environ)} does not exist, defaults are used")
            continue
        try:
            found = check_file(path, os.environ, project=title == "project")
            _check_rules(found)
            for note in found.notes:
                row(f"! {title}: {note}")
            row(f"✓ {title}: {paths.short(path, os.environ)}")
        except UserError as error:
            code = 2
            print(f"✗ {title}: {error.message}" + (f"\n  {error.hint}" if error.hint else ""))
    return code


def _check_rules(found: Layers) -> None:
    """Raise UserError, with file and line, for a rule that cannot be read or that no tool can meet."""
    tools = builtin_tools(text_of)
    for name in ("permissions.allow", "permissions.ask", "permissions.deny"):
        try:
            check_tools(map(parse, found.values[name]), tools)
        except UserError as error:
            raise UserError(f"config: {found.origins[name]} {name}: {error.message}", error.hint) from None


@config.command("path")
def path(everything: bool = option(False, "--all", "Every place cowork uses, a line each.")) -> None:
    """Print where your settings file is (or would be)."""
    file = paths.config_file(os.environ)
    if not everything:
        if sys.stdout.isatty() or (str(file).isascii() and str(file).isprintable()):
            print(file)
        else:  # to the byte as it is, for a program
            sys.stdout.buffer.write(os.fsencode(file) + b"\n")
        return
    places = {
        "config": file,
        "project": paths.project_file(paths.here()),
        "agents": file.with_name("agents"),
        "commands": file.with_name("commands"),
        "sessions": paths.sessions_dir(os.environ),
        "trust": paths.trust_file(os.environ),
        "history": paths.history_file(os.environ),
    }
    for name, place in places.items():
        row(f"{name:<9} {place}" + ("" if place.exists() else "  (not there)"))


@config.command("init")
def init(
    force: bool = option(False, "--force", "Replace a file that is there; it is kept as .bak."),
    url: str = option("", "--url URL", "Use the server there instead of looking."),
    model: str = option("", "--model -m ID", "Use this model of what is found."),
    test: bool | None = option(None, "--test/--no-test", "Try the model with one request."),
) -> None:
    """Write a first settings file.

    It looks for keys in the environment and for servers on this machine (Ollama, LM Studio, llama.cpp, vLLM), tries
    the choice with one request and holds everything else as comments. A file that names no model yet, such as one of
    `cowork import`, is kept, and the model added. A key itself is never written."""
    target = paths.config_file(os.environ)
    there = UserError(f"{target} is already there", "Edit it, or replace it with --force (the old one is kept).")
    kept = None if force else files.read(target, paths.short(target, os.environ))
    if kept and any(entry.name.startswith("models.") for entry in kept.entries):
        raise there
    chosen, words = _choose_model(os.environ, url=url, model=model, test=test)
    if kept and not chosen:
        raise there
    if target.exists() and not kept:
        os.replace(target, target.with_name(f"{target.name}.bak"))
    text = f"{target.read_text('utf-8').rstrip()}\n\n{tables(chosen)}" if kept else example(chosen)
    write_private(target, text.rstrip("\n"))
    print(f"{'added to' if kept else 'wrote'} {target}\nmodel: {words}")


@config.command("key")
def key(
    name: str = argument(..., "", "Variable the key would be in, such as ANTHROPIC_API_KEY."),
    forget: bool = option(False, "--forget", "Remove it."),
) -> None:
    """Keep a key in the system's keyring.

    It is asked for without echo, or read from stdin; it is used where the variable is not set."""
    if not name.strip():
        raise UserError("Which key?", "Name its variable: cowork config key ANTHROPIC_API_KEY")
    if forget:
        keyring.forget(name)
        print(f"{name} is no longer in the keyring")
        return
    value = typer.prompt(visible(name), hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not value.strip():
        raise UserError("No key was given.", f"Type it, or pipe it in: pass show {name} | cowork config key {name}")
    keyring.store(name, value.strip())
    print(f"{name} is in the keyring; cowork uses it where the variable is not set")


def trust(
    named: Path | None = argument(None, "DIR", "The folder; this one without it."),
    listed: bool = option(False, "--list", "List the trusted folders."),
    revoke: bool = option(False, "--revoke", "Trust the folder no more."),
) -> None:
    """Trust a folder: let its own settings, agents and notes steer runs in it.

    Examples:
      cowork trust                       trust this folder as it is now
      cowork trust --list                every trusted folder
      cowork trust --revoke ~/src/shop   trust it no more

    A trusted folder's own settings, agents, notes and commands are used. When one of them changes, trust ends until it
    is given again. Folders that are not trusted are worked in all the same, without those files."""
    store = Trust(paths.trust_file(os.environ))
    if listed:
        rows = [
            f"{time.strftime('%Y-%m-%d', time.localtime(since))}  {kept}"
            + ("  (changed since: not trusted)" if store.has_changed(kept) else "")
            for kept, since in store.list()
        ]
        show_rows(None, rows, none="No folder is trusted. `cowork trust DIR` trusts one.")
        return
    root = folder(named)
    if revoke:
        if not store.revoke(root):
            raise UserError(f"{root} is not trusted", "cowork trust --list shows those that are.")
        row(f"no longer trusted: {root}")
        return
    if not root.is_dir():
        raise UserError(f"{root} is not a folder")
    grant(root, os.environ)
    row(f"trusted: {root}")
    for file in steering(root):
        row(f"  uses {file}")


@permissions.command("explain")
def explain(
    command: str = argument(..., "COMMAND", "A shell command, in quotes."),
    cwd: Path | None = option(None, "--cwd -C DIR", "Folder it would run in."),
    mode: str | None = option(None, "--mode MODE", "Permission mode; ask without it."),
    as_json: JsonObject = False,
) -> None:
    """Say in which box a command would run, whether it asks, and why. Nothing is run."""
    found = explain_command(folder(cwd), command, mode or "ask", os.environ)
    print(ascii_json(found) if as_json else explain_text(found))


def doctor(as_json: JsonObject = False, session: SessionId = "", cwd: Cwd = None) -> int:
    """Check the installation, the settings, the model and this folder.

    Examples:
      cowork doctor                   what works, what does not, and how to mend it
      cowork doctor --json            the same for a script
      cowork doctor --session k3f7    what is wrong with a stored session

    Exit code 1 when something is marked ✗. It sends nothing but a connection to the services you configured."""
    if session:
        checks = diagnosis.session(os.environ, session)
    else:
        checks = signals.run(diagnosis.examine(os.environ, folder(cwd)))
    bad = any(check.state == "bad" for check in checks)
    facts = {"ok": not bad, "checks": [vars(check) for check in checks]}
    print(ascii_json(facts) if as_json else diagnosis.plain(checks))
    return 1 if bad else 0


def demo(pace: float = option(1.0, "--pace", "1 is a person's pace, 0.5 twice as fast.", min=0.1, max=3)) -> int:
    """Show what cowork is like: a short tour that plays by itself and leaves nothing behind.

    Examples:
      cowork demo           two minutes in a scratch repository, with a scripted model
      cowork demo | cat     the same as plain lines"""
    if math.isnan(pace):  # it is outside of no range
        raise UserError("--pace nan is no pace.", "Give a number from 0.1 to 3.")
    return tour.play(pace)


def _choose_model(environ: Mapping[str, str], *, url: str, model: str, test: bool | None) -> tuple[dict[str, str], str]:
    """(settings, words) of the model to write down; asks where a terminal is there and there is a choice."""
    one = signals.run(setup.server(url)) if url else None
    if url and not one:
        raise UserError(f"No OpenAI-compatible server answers at {url}.", "It should list its models at /v1/models.")
    found = [one] if one else signals.run(setup.find(environ))
    offered = [(service, name) for service, name in setup.choices(found) if not model or name == model]
    if not offered:
        if model and found:
            known = ", ".join(name for _, name in setup.choices(found)[:12])
            raise UserError(f"Nothing that was found has a model {model!r}.", f"Found: {known}.")
        hint = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, start a local server, or edit the file"
        return {}, f"none found, so the built-in offline model; {hint}"
    service, name = offered[_ask_which(offered)]
    # A request to a vendor costs money: unasked only where a person looks on.
    said = ""
    if test if test is not None else bool(service.base_url) or _at_terminal():
        problem = signals.run(setup.trial(service.spec(environ, name)))
        said = f"; it did not answer: {problem}" if problem else "; it answers"
    settings = service.settings("" if name == service.models[0] else name)
    light = f" and {settings['models.light.model']} for light work" if "models.light.model" in settings else ""
    how = f"{service.key_env} is set" if service.key_env else f"{service.name} at {service.base_url}"
    return settings, f"{name}{light} ({how}){said}"


def _ask_which(offered: Sequence[tuple[setup.FoundService, str]]) -> int:
    """The place of the choice in the list; the first one where nobody can be asked."""
    if len(offered) == 1 or not _at_terminal():
        return 0
    for number, (service, name) in enumerate(offered, 1):
        row(f"{number:>3}  {name}  ({service.name})")
    while True:
        answer = ask_line(f"Which one? [1-{len(offered)}, Enter for 1] ") or "1"
        if answer.isdigit() and 1 <= int(answer) <= len(offered):
            return int(answer) - 1


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
