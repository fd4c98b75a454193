"""`cowork config`: what is set, where it comes from, whether it is right, and a first file to start from."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cowork.cli.standard_streams import row
from cowork.cli.typer_help import CommandGroup, Cwd, ask_line
from cowork.config import load, paths
from cowork.config.load import check_file
from cowork.config.render import shown, starter
from cowork.core import signals
from cowork.core.errors import UserError
from cowork.core.hygiene import ascii_json, visible

if TYPE_CHECKING:
    from cowork.app.onboarding.setup import FoundService

app = CommandGroup(
    "Settings: show, check, find, begin.",
    """
Examples:
  cowork config show --set          what differs from the defaults, and why
  cowork config check               judge your file and this project's
  $EDITOR "$(cowork config path)"   edit your file
  cowork config init                find a key or a local server, try it, write the first file""",
)

Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings file instead of your own.")]
Bare = Annotated[bool, typer.Option("--bare", help="Ignore the files of user and project.")]
Trust = Annotated[bool, typer.Option("--trust", help="Use this project's file as if trusted.")]


@app.command("show")
def show(
    ctx: typer.Context,
    only_set: Annotated[bool, typer.Option("--set", help="Only what differs from the defaults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object: key -> value and origin.")] = False,
    config: Config = None,
    cwd: Cwd = None,
    bare: Bare = False,
    trust: Trust = False,
) -> int:
    """Print every setting with where it came from."""
    before = _before(ctx)
    from cowork.app.trust import is_trusted

    root = Path(os.path.realpath(cwd or before.get("cwd") or paths.here()))
    settings = load(
        cwd=root,
        environ=os.environ,
        config_file=config or before.get("config_file"),
        trusted=trust or bool(before.get("trust")) or is_trusted(root, os.environ),
        bare=bare or bool(before.get("bare")),
    )
    rows = list(shown(settings, only_set=only_set))
    if as_json:
        raw = {name: value if value == "(hidden)" else settings.value(name) for name, value, _ in rows}
        print(ascii_json({name: {"value": raw[name], "origin": origin} for name, _, origin in rows}))
        return 0
    wide = max((len(name) for name, _, _ in rows), default=0)
    middle = max((len(value) for _, value, _ in rows if len(value) <= 32), default=0)
    for name, value, origin in rows:
        row(f"{name:<{wide}}  {value:<{middle}}  {origin}")
    for note in settings.notes:
        row(f"note: {note}")
    return 0


@app.command("check")
def check(ctx: typer.Context, config: Config = None, cwd: Cwd = None) -> int:
    """Judge your settings file and this project's.

    What is wrong is said with file and line; exit code 2."""
    before = _before(ctx)
    own = config or before.get("config_file")
    root = Path(os.path.realpath(cwd or before.get("cwd") or paths.here()))
    wrong = 0
    projects = [file for file in paths.project_files(root) if file.exists()] or [paths.project_file(root)]
    for title, path in (("yours", own or paths.config_file(os.environ)), *(("project", file) for file in projects)):
        if not path.exists() and not (own and title == "yours"):
            print(f"- {title}: {paths.short(path, os.environ)} does not exist, defaults are used")
            continue
        try:
            notes = check_file(path, os.environ, project=title == "project")
        except UserError as error:
            wrong += 1
            print(f"✗ {title}: {error.message}" + (f"\n  {error.hint}" if error.hint else ""))
            continue
        for note in notes:
            row(f"! {title}: {note}")
        row(f"✓ {title}: {paths.short(path, os.environ)}")
    return 2 if wrong else 0


@app.command("path")
def path(
    everything: Annotated[bool, typer.Option("--all", help="Every place cowork uses, a line each.")] = False,
) -> int:
    """Print where your settings file is (or would be)."""
    if not everything:
        _print_path(paths.config_file(os.environ))
        return 0
    places = {
        "config": paths.config_file(os.environ),
        "project": paths.project_file(paths.here()),
        "agents": paths.agents_dir(os.environ),
        "commands": paths.commands_dir(os.environ),
        "sessions": paths.sessions_dir(os.environ),
        "trust": paths.trust_file(os.environ),
        "history": paths.history_file(os.environ),
    }
    for name, place in places.items():
        row(f"{name:<9} {place}" + ("" if place.exists() else "  (not there)"))
    return 0


@app.command("init")
def init(
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there; it is kept as .bak.")] = False,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="Use the server there instead of looking.")] = "",
    model: Annotated[str, typer.Option("--model", "-m", metavar="ID", help="Use this model of what is found.")] = "",
    test: Annotated[bool | None, typer.Option("--test/--no-test", help="Try the model with one request.")] = None,
) -> int:
    """Write a first settings file.

    It looks for keys in the environment and for servers on this machine (Ollama, LM Studio, llama.cpp, vLLM), tries
    the choice with one request and holds everything else as comments. A key itself is never written."""
    target = paths.config_file(os.environ)
    if target.exists() and not force:
        raise UserError(f"{target} is already there", "Edit it, or replace it with --force (the old one is kept).")
    chosen, words = _choose_model(os.environ, url=url, model=model, test=test)
    write(target, starter(chosen))
    print(f"wrote {target}")
    print(f"model: {words}")
    return 0


@app.command("key")
def key(
    name: Annotated[str, typer.Argument(help="Variable the key would be in, such as ANTHROPIC_API_KEY.")],
    forget: Annotated[bool, typer.Option("--forget", help="Remove it.")] = False,
) -> int:
    """Keep a key in the system's keyring.

    It is asked for without echo, or read from stdin; it is used where the variable is not set."""
    from cowork.config import keyring

    if forget:
        keyring.forget(name)
        print(f"{name} is no longer in the keyring")
        return 0
    value = typer.prompt(visible(name), hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not value.strip():
        raise UserError("No key was given.", f"Type it, or pipe it in: pass show {name} | cowork config key {name}")
    keyring.store(name, value.strip())
    print(f"{name} is in the keyring; cowork uses it where the variable is not set")
    return 0


def write(target: Path, text: str) -> None:
    """Put a settings file in place, for its owner alone; what was there is kept as .bak."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if target.exists():
        os.replace(target, target.with_name(target.name + ".bak"))
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(draft, target)


def _print_path(path: Path) -> None:
    """To the byte as it is where a program reads it; people see it with what hides in it."""
    if sys.stdout.isatty():
        print(path)
        return
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    sys.stdout.buffer.flush()


def _before(ctx: typer.Context) -> dict[str, Any]:
    return dict(ctx.obj or {})


_NO_MODEL = (
    "none found, so the built-in offline model; set ANTHROPIC_API_KEY or OPENAI_API_KEY, start a local server, "
    "or edit the file"
)


def _choose_model(environ: Mapping[str, str], *, url: str, model: str, test: bool | None) -> tuple[dict[str, str], str]:
    """(settings, words) of the model to write down; asks where a terminal is there and there is a choice."""
    from cowork.app.onboarding import setup

    found = signals.run(_find_services(environ, url))
    offered = [(service, name) for service, name in setup.choices(found) if not model or name == model]
    if not offered:
        if model and found:
            known = ", ".join(name for _, name in setup.choices(found)[:12])
            raise UserError(f"Nothing that was found has a model {model!r}.", f"Found: {known}.")
        return {}, _NO_MODEL
    service, name = offered[_ask_which(offered)]
    # A request to a vendor costs money: unasked only where a person looks on.
    wanted = test if test is not None else bool(service.base_url) or _at_terminal()
    said = ""
    if wanted:
        problem = signals.run(setup.trial(service.spec(environ, name)))
        said = f"; it did not answer: {problem}" if problem else "; it answers"
    default = not service.base_url and name == service.models[0]
    settings = service.settings("" if default else name)
    light = f" and {service.models[1]} for light work" if default and len(service.models) > 1 else ""
    how = f"{service.key_env} is set" if service.key_env else f"{service.name} at {service.base_url}"
    return settings, f"{name}{light} ({how}){said}"


async def _find_services(environ: Mapping[str, str], url: str) -> list[FoundService]:
    from cowork.app.onboarding import setup

    if not url:
        return await setup.find(environ)
    if found := await setup.server(url):
        return [found]
    raise UserError(f"No OpenAI-compatible server answers at {url}.", "It should list its models at /v1/models.")


def _ask_which(offered: Sequence[tuple[FoundService, str]]) -> int:
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
