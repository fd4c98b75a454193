"""What may run and how it is held: permissions, the sandbox and what commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from cowork import prompts
from cowork.app.project import Project, configured
from cowork.app.trust import is_trusted, steering
from cowork.config import paths
from cowork.config.options import RunOptions
from cowork.core.blocks import Json
from cowork.core.events import Notice
from cowork.core.hygiene import clean_environ
from cowork.core.later import later, made_later
from cowork.core.workspace import Workspace
from cowork.engine.emitter import Emitter
from cowork.permissions import Permissions
from cowork.permissions.rules import RuleBook, Rules, check_tools
from cowork.tools.base import TreeState, no_snapshot, no_watch
from cowork.tools.builtin import builtin_tools

with later(__name__):
    from cowork.app.kept_files import KeptFiles
    from cowork.permissions.commands import explain
    from cowork.permissions.sandbox.box import Sandbox
    from cowork.permissions.sandbox.temporary import Temporary
    from cowork.permissions.sandbox.watch import Watch

_ASKING = ("ask", "accept-edits")  # the modes that sandbox.auto_allow turns into auto


def safety(
    place: Project, workspace: Workspace, scratch: Path, emitter: Emitter, kept_files: KeptFiles | None
) -> tuple[Permissions, TreeState]:
    """The judge of a run's calls, and what its agents share."""
    config, environ = place.config, place.environ
    rules = Rules.of(config.permissions.allow, config.permissions.ask, config.permissions.deny)
    check_tools((*rules.allow, *rules.ask, *rules.deny), place.tools)
    kept = None if place.options.bare else paths.config_dir(environ) / "rules.json"
    book = RuleBook(workspace, rules, kept)
    boxes = _Boxes(place, workspace, scratch, book, emitter)
    permissions = Permissions(
        workspace=workspace,
        mode="auto" if config.sandbox.auto_allow and config.permissions.mode in _ASKING else config.permissions.mode,
        book=book,
        trusted=place.trusted or not steering(place.root),
        sandbox=made_later(lambda: boxes.sandbox),
    )
    tree = TreeState(
        scratch=scratch,
        environ=clean_environ(environ),
        wrap=lambda argv, cwd, box: boxes.sandbox.wrap(argv, cwd, box),
        wrap_server=lambda argv, cwd, **how: boxes.sandbox.wrap_server(argv, cwd, **how),
        hold=lambda cwd: boxes.watch.begin(cwd),
        explain=lambda output, command, cwd, box: boxes.sandbox.explain(output, command, cwd, box),
        closing=boxes.close,
        written=boxes.written,
        before_write=kept_files.before_write if kept_files else lambda path: None,
        before_command=kept_files.before_command if kept_files else no_snapshot,
        watch_files=kept_files.watch if kept_files else no_watch,
        may_read=permissions.may_read if any(rule.speaks_of("read") for rule in rules.deny) else None,
    )
    return permissions, tree


class _Boxes:
    """The sandbox of a run and the watch over what its commands make, both loaded for the first command."""

    def __init__(self, place: Project, workspace: Workspace, scratch: Path, book: RuleBook, emitter: Emitter) -> None:
        self._place, self._workspace, self._scratch = place, workspace, scratch
        self._book, self._emitter = book, emitter
        self.written: dict[str, str] = {}

    @cached_property
    def sandbox(self) -> Sandbox:
        settings = self._place.config.sandbox
        return Sandbox(
            mode=settings.mode,
            network=settings.network,
            workspace=self._workspace,
            scratch=self._scratch,
            environ=self._place.environ,
            temporary=Temporary(),
            rules=self._book.all,
        )

    @cached_property
    def watch(self) -> Watch:
        return Watch(self.sandbox, self.written, self._say)

    def _say(self, text: str, made: Sequence[str]) -> None:
        self._emitter.publish(Notice(text, "warning", "protected.made", {"paths": made}))

    def close(self) -> None:
        if "sandbox" in vars(self) and self.sandbox.temporary:
            self.sandbox.temporary.close()


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
