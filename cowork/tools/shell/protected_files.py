"""Protected files that commands made: a sandbox keeps those that exist, it cannot keep new ones from coming."""

from __future__ import annotations

import os
from pathlib import Path

from cowork.core.events import Notice
from cowork.core.workspace import protected
from cowork.tools.base import ToolContext

_INSIDE = (".git/hooks", ".cowork", ".claude", ".vscode", ".idea", ".devcontainer", ".husky")
_SAID = 10


def watch(ctx: ToolContext) -> None:
    """Note which protected files are there before the first command."""
    if ctx.tree.guards is None:
        ctx.tree.guards = _present(ctx)


def new(ctx: ToolContext) -> list[str]:
    """A line for the model, and a warning for the person, about protected files that came since."""
    known, here = ctx.tree.guards, _present(ctx)
    ctx.tree.guards = here
    made = sorted(here - (here if known is None else known) - ctx.tree.written.keys())
    if not made:
        return []
    names = ", ".join(os.path.relpath(path, ctx.workspace.root) for path in made[:_SAID])
    names += f" and {len(made) - _SAID} more" if len(made) > _SAID else ""
    text = f"A command made {names}: other programs or agents run or obey such files."
    ctx.emit(Notice(f"{text} Look before you use them.", "warning", "protected.made", {"paths": made}))
    return [f"{text} The user was warned; say why, if you meant it."]


def _present(ctx: ToolContext) -> frozenset[str]:
    """The protected files of the writable folders and of the working directory, and what such folders hold."""
    found: set[str] = set()
    for root in {*ctx.workspace.writable, ctx.state.cwd}:
        for folder in (root, *(root / name for name in _INSIDE)):
            found |= {path for path in _entries(folder) if protected(Path(path))}
    return frozenset(found)


def _entries(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if not entry.name.endswith(".sample")]
    except OSError:
        return []
