"""`cowork mcp`: the servers a run uses, and cowork as one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cowork.cli.extension_commands import tell_untrusted
from cowork.cli.standard_streams import row, show_rows
from cowork.cli.typer_help import AsJson, CommandGroup, Cwd, argument, folder, option
from cowork.config import paths
from cowork.config.run_options import RunOptions
from cowork.core import signals
from cowork.core.errors import UserError
from cowork.core.hygiene import ascii_json, visible_line
from cowork.core.later import later

with later(__name__):  # each command loads what it uses
    from cowork.app.mcp import commands, server, servers
    from cowork.app.project import load_project
    from cowork.core.git import project_root
    from cowork.extensions.importing import servers_elsewhere
    from cowork.mcp.entries import entry_of, fill

mcp = CommandGroup(
    """MCP servers: tools that other programs bring.

Examples:
  cowork mcp add git -- uvx mcp-server-git          a server on this machine, for this folder
  cowork mcp add docs --url https://mcp.example.com/mcp --scope user
  cowork mcp test git                               start it and list what it has
  cowork mcp login docs                             log in to a remote server
  cowork mcp import                                 take over servers of Claude Code, Codex, Cursor, VS Code
  cowork mcp serve                                  offer Task and reading tools to another agent

Files: .mcp.json of a trusted project, mcp.json beside your config.toml, [mcp.servers] in config.toml, --mcp-config."""
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The server.")]
Trust = Annotated[bool, typer.Option("--trust", help="Use this project's .mcp.json as if trusted.")]
Browser = Annotated[bool, typer.Option(help="Open the page in your browser.")]
WhichScope = Annotated[
    Literal["local", "project", "user"] | None,
    typer.Option("--scope", "-s", help="local: you, in this folder; project: .mcp.json; user: you, everywhere."),
]


@mcp.command("list")
def list_(cwd: Cwd = None, trust: Trust = False, as_json: AsJson = False) -> None:
    """List the configured servers. None is started."""
    found, problems = _find_servers(cwd, trust=trust)
    rows = [
        f"{entry.name:<16} {entry.scope:<8} {visible_line(entry.line)[:100]}{'  (off)' if entry.disabled else ''}"
        for entry in found.values()
    ]
    rows += [f"! {visible_line(problem)}" for problem in problems]
    none = "No servers. `cowork mcp add NAME -- COMMAND` adds one."
    show_rows([_facts(entry) for entry in found.values()], rows, as_json=as_json, none=none)


@mcp.command("get")
def get(name: Name, cwd: Cwd = None, trust: Trust = False) -> None:
    """Show one server's entry, as it is written."""
    found, _ = _find_servers(cwd, trust=trust)
    if name not in found:
        raise UserError(f"There is no MCP server {name!r}.", f"Configured here: {', '.join(found) or 'none'}.")
    print(ascii_json(_facts(found[name]), indent=2))


@mcp.command("add")
def add(
    name: Name,
    command: list[str] | None = argument(None, "-- COMMAND", "What to run."),
    url: str | None = option(None, "--url URL", "A remote server instead."),
    env: list[str] | None = option(None, "--env -e NAME=VALUE", "Repeatable."),
    header: list[str] | None = option(None, "--header 'N: V'", "Repeatable."),
    scope: WhichScope = None,
    box: bool = option(False, "--box", "Run it in the sandbox."),
    cwd: Cwd = None,
) -> None:
    """Add a server. Values may hold ${VAR}, which is filled in when it starts."""
    if bool(url) == bool(command):
        raise UserError("Give either a command after -- or --url.", "cowork mcp add git -- uvx mcp-server-git")
    if command and re.match("https?://", command[0]):
        raise UserError(f"{visible_line(command[0])} is an address, not a command.", "Give it with --url.")
    raw: dict[str, Any] = {"type": "http", "url": url} if url else {"command": command[0], "args": command[1:]}  # type: ignore[index]
    if env:
        raw["env"] = dict(_pair(text, "=", "--env") for text in env)
    if header:
        raw["headers"] = {n: v.strip() for n, v in (_pair(text, ":", "--header") for text in header)}
    raw |= {"box": True} if box else {}
    try:
        entry = entry_of(name, raw, "user")
    except ValueError as problem:
        raise UserError(f"The server {problem}.") from None
    if "${" not in (url or ""):  # else it is judged when it is filled in
        fill(entry, {})
    path, alone = _file(scope or "local", cwd)
    servers.change_file(path, name, raw, alone)
    row(f"added {name} to {paths.short(path, os.environ)}{' for this folder' if alone else ''}")


@mcp.command("remove")
def remove(name: Name, scope: WhichScope = None, cwd: Cwd = None) -> None:
    """Remove a server, from wherever it is found first."""
    for where in (scope,) if scope else ("local", "project", "user"):
        path, alone = _file(where, cwd)
        if path.exists() and servers.change_file(path, name, None, alone):
            row(f"removed {name} from {paths.short(path, os.environ)}")
            return
    raise UserError(f"There is no MCP server {name!r} to remove.", "cowork mcp list shows those there are.")


@mcp.command("approve")
def approve(name: Name, cwd: Cwd = None) -> None:
    """Approve a server of this project's .mcp.json, as it is written now."""
    found, _ = _find_servers(cwd, trust=True)
    entry = found.get(name)
    if entry is None or entry.scope != "project":
        raise UserError(f"This project names no MCP server {name!r}.", "Yours need no approval.")
    servers.Approvals(os.environ).add(_root(cwd), entry)
    row(f"approved {name}: {visible_line(entry.line)}")
    tell_untrusted(RunOptions(cwd=cwd))


@mcp.command("test")
def try_(name: Name, cwd: Cwd = None, trust: Trust = False, as_json: AsJson = False) -> None:
    """Start or reach a server and say what it has."""
    found = signals.run(commands.try_server(_options(cwd, trust=trust), os.environ, name))
    rows = (
        f"{found['server'] or name} {found['release']} speaks MCP {found['protocol']}".replace("  ", " "),
        f"{len(found['tools'])} tools, about {found['tokens']:,} tokens: {', '.join(found['tools'][:20])}",
        f"{len(found['prompts'])} prompts, {found['resources']} resources",
    )
    show_rows(found, rows, as_json=as_json)


@mcp.command("login")
def login(name: Name, cwd: Cwd = None, trust: Trust = False, browser: Browser = True) -> None:
    """Log in to a remote server; the token is kept in the keyring, else in a file only you can read."""
    signals.run(commands.log_in(_options(cwd, trust=trust), os.environ, name, browser=browser))
    row(f"logged in to {name}")


@mcp.command("logout")
def logout(name: Name, cwd: Cwd = None, trust: Trust = False) -> None:
    """Forget the token of a server."""
    found, _ = _find_servers(cwd, trust=trust)
    if name not in found:
        raise UserError(f"There is no MCP server {name!r}.", "cowork mcp list shows those there are.")
    kept = servers.KeptTokens(fill(found[name], os.environ), os.environ)
    row(f"logged out of {name}" if kept.get() else f"you were not logged in to {name}")
    kept.put({})


@mcp.command("import")
def import_(cwd: Cwd = None, dry_run: bool = option(False, "--dry-run", "Only show them.")) -> None:
    """Take over servers that Claude Code, Claude Desktop, Codex, Cursor and VS Code have."""
    have, _ = _find_servers(cwd, trust=True)
    path, _ = _file("user", cwd)
    taken: set[str] = set(have)
    for program, step in servers_elsewhere(_root(cwd), paths.home(os.environ)):
        name, raw = step.name, json.loads(step.text)
        if why := servers.why_not(name, raw, taken):
            row(f"- {visible_line(name)} of {program} {why}")
            continue
        taken.add(name)
        if not dry_run:
            servers.change_file(path, name, raw)
        said = f" ({visible_line(step.why)})" if step.why else ""
        row(f"+ {name} of {program}: {visible_line(entry_of(name, raw, 'user').line)[:100]}{said}")
    if not taken - set(have):
        row("Nothing new was found.")


@mcp.command("serve")
def serve(
    cwd: Cwd = None, trust: Trust = False, model: str = option("", "--model -m", "main, light, or a model's own name.")
) -> None:
    """Be a server: offer Task and the reading tools on standard streams."""
    signals.run(server.serve(RunOptions(cwd=cwd, trust=trust, model=model, non_interactive=True)))


def _find_servers(cwd: Path | None, *, trust: bool) -> Any:
    return servers.find_servers(load_project(_options(cwd, trust=trust), os.environ))


def _options(cwd: Path | None, *, trust: bool) -> RunOptions:
    return tell_untrusted(RunOptions(cwd=cwd, trust=trust, no_session=True, non_interactive=True))


def _root(cwd: Path | None) -> Path:
    return project_root(folder(cwd))


def _file(scope: str, cwd: Path | None) -> tuple[Path, Path | None]:
    """The file of a scope, and the folder an entry in it is for alone."""
    root = _root(cwd)
    if scope == "project":
        return root / servers.PROJECT_FILE, None
    return servers.user_file(os.environ), root if scope == "local" else None


def _pair(text: str, mark: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition(mark)
    if not found or not name.strip():
        raise UserError(f"{option} {visible_line(text)[:60]!r} has no {mark}", f"Write it as NAME{mark}VALUE.")
    return name.strip(), value


def _facts(entry: Any) -> dict[str, Any]:
    return {"name": entry.name, "scope": entry.scope, "from": entry.where, "entry": entry.raw}
