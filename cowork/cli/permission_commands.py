"""`cowork trust` and `cowork permissions`: which folders may steer a run, and what may happen in one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from cowork.cli.standard_streams import row
from cowork.cli.typer_help import HelpCommand, HelpGroup
from cowork.config import paths
from cowork.core.errors import UserError
from cowork.core.hygiene import ascii_json

TRUST_EXAMPLES = """
Examples:
  cowork trust                       trust this folder as it is now
  cowork trust --list                every trusted folder
  cowork trust --revoke ~/src/shop   trust it no more

A trusted folder's own settings, agents, notes and commands are used. When one of them changes, trust ends until it is
given again. Folders that are not trusted are worked in all the same, without those files."""

permissions = typer.Typer(
    cls=HelpGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="What may happen without a question.",
    epilog="""
Examples:
  cowork permissions explain "git log --oneline | head"     each part with its verdict and why""",
)


def trust(
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="The folder; this one without it.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the trusted folders.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Trust the folder no more.")] = False,
) -> int:
    """Trust a folder: let its own settings, agents and notes steer runs in it."""
    from cowork.app.trust import grant, steering
    from cowork.permissions.trust import Trust

    store = Trust(paths.trust_file(os.environ))
    if listed:
        for kept in store.list():
            state = "  (changed since: not trusted)" if store.changed(kept.folder) else ""
            row(f"{time.strftime('%Y-%m-%d', time.localtime(kept.at))}  {kept.folder}{state}")
        return 0
    root = Path(os.path.realpath((folder or paths.here()).expanduser()))
    if revoke:
        if not store.revoke(root):
            raise UserError(f"{root} is not trusted", "cowork trust --list shows those that are.")
        row(f"no longer trusted: {root}")
        return 0
    if not root.is_dir():
        raise UserError(f"{root} is not a folder")
    grant(root, os.environ)
    row(f"trusted: {root}")
    for file in steering(root):
        row(f"  uses {file}")
    return 0


@permissions.command("explain", cls=HelpCommand)
def explain(
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="A shell command, in quotes.")],
    cwd: Annotated[Path | None, typer.Option("--cwd", "-C", metavar="DIR", help="Folder it would run in.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> int:
    """Say how each part of a shell command is judged, and why. Nothing is run."""
    from cowork.app.trust import is_trusted
    from cowork.core.workspace import Workspace
    from cowork.permissions.shell.judge import explain as judge
    from cowork.permissions.shell.judge import explain_text

    root = Path(os.path.realpath((cwd or paths.here()).expanduser()))
    trusted = is_trusted(root, os.environ)
    if as_json:
        parts = judge(command, Workspace(root), root, trusted=trusted)
        print(ascii_json([{"text": part.text, "verdict": part.verdict, "why": part.why} for part in parts]))
        return 0
    print(explain_text(command, Workspace(root), root, trusted=trusted))
    return 0
