"""`cowork trust` and `cowork permissions`: which folders may steer a run, and what may happen in one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from cowork.cli.standard_streams import row
from cowork.cli.typer_help import CommandGroup
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

permissions = CommandGroup(
    "What may happen without a question.",
    """
Examples:
  cowork permissions explain "git log --oneline | head"     where it would run, and why""",
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
        trusted = store.list()
        for kept in trusted:
            state = "  (changed since: not trusted)" if store.changed(kept.folder) else ""
            row(f"{time.strftime('%Y-%m-%d', time.localtime(kept.at))}  {kept.folder}{state}")
        if not trusted:
            print("No folder is trusted. `cowork trust DIR` trusts one.")
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


@permissions.command("explain")
def explain(
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="A shell command, in quotes.")],
    cwd: Annotated[Path | None, typer.Option("--cwd", "-C", metavar="DIR", help="Folder it would run in.")] = None,
    mode: Annotated[str | None, typer.Option("--mode", metavar="MODE", help="Permission mode; ask without it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Say in which box a command would run, whether it asks, and why. Nothing is run."""
    from cowork.app.safety import explained
    from cowork.permissions.explain import explain_text

    found = explained(Path(os.path.realpath((cwd or paths.here()).expanduser())), command, mode or "ask", os.environ)
    print(ascii_json(found) if as_json else explain_text(found))
    return 0
