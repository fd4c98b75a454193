"""What may run and how it is held: permissions, the sandbox and what commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cowork import prompts
from cowork.app.project import Project, configured
from cowork.app.trust import is_trusted, steering
from cowork.config import paths
from cowork.config.options import RunOptions
from cowork.core.blocks import Json
from cowork.core.events import Notice
from cowork.core.hygiene import clean_environ
from cowork.core.workspace import Workspace
from cowork.engine.emitter import Emitter
from cowork.permissions import Permissions
from cowork.permissions.explain import explain
from cowork.permissions.rulebook import RuleBook
from cowork.permissions.rules import Rules, check_tools
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.temporary import Temporary
from cowork.permissions.sandbox.watch import Watch
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.tools.base import TreeState, no_snapshot, no_watch
from cowork.tools.builtin import builtin_tools

_ASKING = ("ask", "accept-edits")  # the modes that sandbox.auto_allow turns into auto


def safety(
    place: Project, workspace: Workspace, scratch: Path, emitter: Emitter, checkpoints: Checkpoints | None
) -> tuple[Permissions, TreeState]:
    """The judge of a run's calls, and what its agents share."""
    config, environ = place.config, place.environ
    rules = Rules.of(config.permissions.allow, config.permissions.ask, config.permissions.deny)
    check_tools((*rules.allow, *rules.ask, *rules.deny), place.tools)
    kept = None if place.options.bare else paths.config_dir(environ) / "rules.json"
    book = RuleBook(workspace, rules, kept)
    sandbox = Sandbox(
        mode=config.sandbox.mode,
        network=config.sandbox.network,
        workspace=workspace,
        scratch=scratch,
        environ=environ,
        temporary=(temporary := Temporary()),
        rules=book.all,
    )
    permissions = Permissions(
        workspace=workspace,
        mode="auto" if config.sandbox.auto_allow and config.permissions.mode in _ASKING else config.permissions.mode,
        book=book,
        trusted=place.trusted or not steering(place.root),
        sandbox=sandbox,
    )

    written: dict[str, str] = {}
    watch = Watch(
        sandbox,
        written,
        lambda text, made: emitter.publish(Notice(text, "warning", "protected.made", {"paths": made})),
    )
    tree = TreeState(
        scratch=scratch,
        environ=clean_environ(environ),
        wrap=sandbox.wrap,
        wrap_server=sandbox.wrap_server,
        hold=watch.begin,
        explain=sandbox.explain,
        closing=temporary.close,
        written=written,
        before_write=checkpoints.before_write if checkpoints else lambda path: None,
        before_command=checkpoints.before_command if checkpoints else no_snapshot,
        watch_files=checkpoints.watch if checkpoints else no_watch,
        may_read=permissions.may_read if any(rule.speaks_of("read") for rule in rules.deny) else None,
    )
    return permissions, tree


def tightened(permissions: Permissions, modes: Sequence[str]) -> Permissions:
    """As every mode of the chain allows; the main agent's can change while it runs, and its children follow."""
    for mode in modes:
        permissions = permissions.child(mode)
    return permissions


def explained(root: Path, command: str, mode: str, environ: Mapping[str, str]) -> Json:
    """What would become of a command in a folder, by the rules of the configuration and those kept for the folder."""
    trusted = is_trusted(root, environ)
    config = configured(RunOptions(), environ, root, trusted=trusted)
    workspace = Workspace(root)
    rules = Rules.of(config.permissions.allow, config.permissions.ask, config.permissions.deny)
    book = RuleBook(workspace, rules, paths.config_dir(environ) / "rules.json")
    settings = config.sandbox
    sandbox = Sandbox(
        mode=settings.mode, network=settings.network, workspace=workspace, environ=environ, rules=book.all
    )
    permissions = Permissions(
        workspace=workspace, mode=mode, book=book, trusted=trusted or not steering(root), sandbox=sandbox
    )
    return explain(permissions, builtin_tools(prompts.text_of)["Bash"], command, root)
