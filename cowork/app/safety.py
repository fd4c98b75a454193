"""What may run and how it is held: permissions, the sandbox, checkpoints and what commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from cowork import prompts
from cowork.app.project import Project, configured
from cowork.app.steering import is_trusted, steering
from cowork.config import paths
from cowork.config.load import Config
from cowork.config.options import RunOptions
from cowork.core.blocks import Json
from cowork.core.events import Event, Notice, PromptAdded
from cowork.core.hygiene import clean_environ
from cowork.core.later import later, made_later
from cowork.core.workspace import Workspace
from cowork.engine.emitter import Emitter
from cowork.permissions import Permissions
from cowork.permissions.rules import RuleBook, Rules, check_tools
from cowork.tools.base import TreeState
from cowork.tools.builtin import builtin_tools

with later(__name__):
    from cowork.permissions.commands import explain
    from cowork.permissions.sandbox.box import Sandbox
    from cowork.permissions.sandbox.carriers import Temporary
    from cowork.permissions.sandbox.watch import Watch
    from cowork.sessions.checkpoints.recorder import Checkpoints

_ASKING = ("ask", "accept-edits")  # the modes that sandbox.auto_allow turns into auto


def safety(
    place: Project, workspace: Workspace, scratch: Path, emitter: Emitter, kept: KeptFiles | None
) -> tuple[Permissions, TreeState]:
    """The judge of a run's calls, and what its agents share; the sandbox is loaded for the first command."""
    config, environ = place.config, place.environ
    book = _book(config, workspace, None if place.options.bare else environ)
    check_tools((*book.rules.allow, *book.rules.ask, *book.rules.deny), place.tools)
    written: dict[str, str] = {}

    @cache
    def sandbox() -> Sandbox:
        return _sandbox(config, workspace, environ, book, scratch)

    def say(text: str, made: Sequence[str]) -> None:
        emitter.publish(Notice(text, "warning", "protected.made", {"paths": made}))

    def close() -> None:
        if sandbox.cache_info().currsize and (temporary := sandbox().temporary):
            temporary.close()

    box, watch = made_later(sandbox), cache(lambda: Watch(sandbox(), written, say))
    mode = "auto" if config.sandbox.auto_allow and config.permissions.mode in _ASKING else config.permissions.mode
    trusted = place.trusted or not steering(place.root)
    permissions = Permissions(workspace=workspace, mode=mode, book=book, trusted=trusted, sandbox=box)
    tree = TreeState(
        scratch=scratch,
        environ=clean_environ(environ),
        wrap=lambda argv, cwd, kind: box.wrap(argv, cwd, kind),
        wrap_server=lambda argv, cwd, **how: box.wrap_server(argv, cwd, **how),
        hold=lambda cwd: watch().begin(cwd),
        explain=lambda output, command, cwd, kind: box.explain(output, command, cwd, kind),
        closing=close,
        written=written,
        before_write=lambda path: kept.checkpoints.before_write(path) if kept else None,
        before_command=(lambda tell: kept.checkpoints.before_command(tell)) if kept else None,
        watch_files=(lambda: kept.checkpoints.watch()) if kept else None,
        may_read=permissions.may_read if any(rule.speaks_of("read") for rule in book.rules.deny) else None,
    )
    return permissions, tree


class KeptFiles:
    """The checkpoints of a session, made when something is about to change: most answers change nothing."""

    def __init__(self, store: Path, root: Path, extra: Sequence[Path], report: Callable[[str], None]) -> None:
        self._make: Callable[[], Checkpoints] = lambda: Checkpoints(store, root, extra, report=report)
        self._prompt: PromptAdded | None = None
        if store.exists():  # of a session that goes on: a turn may have been cut off
            assert self.checkpoints is not None

    def __call__(self, event: Event) -> None:
        """As a sink of events."""
        match event:
            case _ if self.made:
                self.checkpoints(event)
            case PromptAdded(agent="main", source="user" | "queue" | "steer"):
                self._prompt = event

    @property
    def made(self) -> bool:
        return "checkpoints" in vars(self)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        checkpoints = self._make()
        if self._prompt:
            checkpoints(self._prompt)
        return checkpoints


def tightened(permissions: Permissions, modes: Sequence[str]) -> Permissions:
    """As every mode of the chain allows; the main agent's can change while it runs, and its children follow."""
    for mode in modes:
        permissions = permissions.child(mode)
    return permissions


def explained(root: Path, command: str, mode: str, environ: Mapping[str, str]) -> Json:
    """What would become of a command in a folder, by the rules of the configuration and those kept for the folder."""
    trusted = is_trusted(root, environ)
    config, workspace = configured(RunOptions(), environ, root, trusted=trusted), Workspace(root)
    book = _book(config, workspace, environ)
    permissions = Permissions(
        workspace=workspace,
        mode=mode,
        book=book,
        trusted=trusted or not steering(root),
        sandbox=_sandbox(config, workspace, environ, book),
    )
    return explain(permissions, builtin_tools(prompts.text_of)["Bash"], command, root)


def _book(config: Config, workspace: Workspace, environ: Mapping[str, str] | None) -> RuleBook:
    """The rules of the configuration, and with `environ` those that were kept for the folder."""
    rules = Rules.of(config.permissions.allow, config.permissions.ask, config.permissions.deny)
    return RuleBook(workspace, rules, None if environ is None else paths.config_dir(environ) / "rules.json")


def _sandbox(
    config: Config, workspace: Workspace, environ: Mapping[str, str], book: RuleBook, scratch: Path | None = None
) -> Sandbox:
    return Sandbox(
        mode=config.sandbox.mode,
        network=config.sandbox.network,
        workspace=workspace,
        scratch=scratch,
        environ=environ,
        temporary=Temporary() if scratch else None,
        rules=book.all,
    )
