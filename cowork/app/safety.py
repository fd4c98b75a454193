"""What may run and how it is held: permissions, the sandbox and what commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cowork.app.project import Project
from cowork.app.trust import steering
from cowork.config import paths
from cowork.core.events import Notice
from cowork.core.hygiene import clean_environ
from cowork.core.workspace import Workspace
from cowork.engine.emitter import Emitter
from cowork.permissions import Permissions
from cowork.permissions.rules import check_tools
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.placeholders import Holding
from cowork.permissions.sandbox.temporary import Temporary
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.tools.base import TreeState, no_snapshot, no_watch


def safety(
    place: Project, workspace: Workspace, scratch: Path, emitter: Emitter, checkpoints: Checkpoints | None
) -> tuple[Permissions, TreeState]:
    """The judge of a run's calls, and what its agents share."""
    config, environ = place.config, place.environ
    sandbox = Sandbox(
        mode=config.sandbox.mode,
        network=config.sandbox.network,
        workspace=workspace,
        scratch=scratch,
        environ=environ,
        temporary=(temporary := Temporary()),
    )
    permissions = Permissions(
        workspace=workspace,
        mode=config.permissions.mode,
        allow=config.permissions.allow,
        ask=config.permissions.ask,
        deny=config.permissions.deny,
        rules_file=None if place.options.bare else paths.config_dir(environ) / "rules.json",
        trusted=place.trusted or not steering(place.root),  # the judge looks at git's own files at every call
        sandbox=sandbox,
        auto_allow=config.sandbox.auto_allow,
    )
    check_tools((*permissions.rules.allow, *permissions.rules.ask, *permissions.rules.deny), place.tools)
    sandbox.online = permissions.online
    written: dict[str, str] = {}
    holding = Holding(
        sandbox, written, lambda text, made: emitter.publish(Notice(text, "warning", "protected.made", {"paths": made}))
    )
    tree = TreeState(
        scratch=scratch,
        environ=clean_environ(environ),
        wrap=sandbox.wrap,
        hold=holding.begin,
        explain=sandbox.explain,
        closing=temporary.close,
        written=written,
        before_write=checkpoints.before_write if checkpoints else lambda path: None,
        before_command=checkpoints.before_command if checkpoints else no_snapshot,
        watch_files=checkpoints.watch if checkpoints else no_watch,
        may_read=permissions.may_read if any(r.speaks_of("read") for r in permissions.rules.deny) else None,
    )
    return permissions, tree


def tightened(permissions: Permissions, modes: Sequence[str]) -> Permissions:
    """As every mode of the chain allows; the main agent's can change while it runs, and its children follow."""
    for mode in modes:
        permissions = permissions.child(mode)
    return permissions
