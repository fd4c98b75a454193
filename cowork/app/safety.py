"""What may run and how it is held: permissions, sandbox, checkpoints, and worktrees for children that work apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path

from cowork import prompts
from cowork.app.project import Project, load_config
from cowork.app.steering import is_trusted, steering
from cowork.config import paths
from cowork.config.load import Config
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.events import Event, Notice, PromptAdded
from cowork.core.format import plural
from cowork.core.git import git_output, project_root, run_git
from cowork.core.hygiene import clean_environ
from cowork.core.later import later, make_later
from cowork.core.workspace import Workspace
from cowork.engine.assembly import Services
from cowork.engine.emitter import Emitter
from cowork.permissions import Permissions
from cowork.permissions.rules import RuleBook, Rules, check_tools
from cowork.private_files import private_folder
from cowork.tools.base import AgentState, ToolContext, TreeState
from cowork.tools.builtin import builtin_tools

with later(__name__):
    from cowork.permissions.commands import explain
    from cowork.permissions.sandbox.box import Sandbox
    from cowork.permissions.sandbox.carriers import Temporary
    from cowork.permissions.sandbox.watch import Watch
    from cowork.sessions.checkpoints.recorder import Checkpoints
    from cowork.tools.shell import jobs, output

_ASKING = ("ask", "accept-edits")  # the modes that sandbox.auto_allow turns into auto
_CHECK_S = 900  # seconds that the check of a worktree may take


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
        return _sandbox(config, workspace, environ, book)

    def say(text: str, made: Sequence[str]) -> None:
        emitter.publish(Notice(text, "warning", "protected.made", {"paths": made}))

    def close() -> None:
        if sandbox.cache_info().currsize and (temporary := sandbox().temporary):
            temporary.close()

    box, watch = make_later(sandbox), cache(lambda: Watch(sandbox(), written, say))
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
    )
    if any(rule.speaks_of("read") for rule in book.rules.deny):
        tree.may_read = permissions.may_read
    return permissions, tree


class KeptFiles:
    """The checkpoints of a session, made when something is about to change: most answers change nothing."""

    def __init__(self, store: Path, root: Path, extra: Sequence[Path], report: Callable[[str], None]) -> None:
        self._make: Callable[[], Checkpoints] = lambda: Checkpoints(store, root, extra, report=report)
        self._prompt: PromptAdded | None = None
        if store.exists():  # of a session that goes on: a turn may have been cut off
            assert self.checkpoints is not None

    def __call__(self, event: Event) -> None:
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


def tighten(permissions: Permissions, modes: Sequence[str]) -> Permissions:
    """As every mode of the chain allows; the main agent's can change while it runs, and its children follow."""
    for mode in modes:
        permissions = permissions.child(mode)
    return permissions


class Worktrees:
    """Makes the worktrees of a run; `changing` lets one at a time at the repository, as git needs it."""

    def __init__(self, place: Project, emitter: Emitter, permissions: Permissions, tree: TreeState) -> None:
        self.place, self.before_write, self.changing = place, tree.before_write, asyncio.Lock()
        self._emitter, self._permissions, self._scratch = emitter, permissions, tree.scratch

    def __call__(self, services: Services, name: str) -> Worktree:
        """A worktree for the child of that name, and the services it is built on."""
        top = project_root(self.place.root)
        if not (top / ".git").exists():
            raise UserError("isolation: worktree needs a git repository", "`git init` makes one.")
        folder = paths.state_dir(self.place.environ) / "worktrees" / f"{self._emitter.session_id}-{name}"
        root = folder / self.place.root.relative_to(top)
        workspace = Workspace(root, readable=[self._scratch])
        permissions, tree = safety(replace(self.place, root=root), workspace, self._scratch, self._emitter, None)
        permissions.trusted, permissions.mode = self._permissions.trusted, self._permissions.mode
        inside = replace(services, workspace=workspace, tree=tree, permit_for=lambda modes: tighten(permissions, modes))
        return Worktree(self, inside, top, folder, root)


class Worktree:
    """One of them. `begin` before the first call, `finish` when the child has ended."""

    def __init__(self, owner: Worktrees, services: Services, top: Path, folder: Path, root: Path) -> None:
        self.services, self.cwd = services, root
        self._owner, self._top, self._folder, self._base = owner, top, folder, ""

    async def begin(self) -> None:
        """Check out what the repository holds now, changes that are not committed counted in."""
        if self._base:
            return
        private_folder(self._folder.parent)
        async with self._owner.changing:
            head = (await self._git(self._top, "rev-parse", "HEAD")).strip()
            base = (await self._git(self._top, "stash", "create")).strip() or head
            await self._git(self._top, "worktree", "add", "--detach", str(self._folder), base)
        self._base = base

    async def finish(self, description: str, *, merge: bool, check: str) -> Json:
        """Merge, keep or remove it; gives `{status, line, path?, branch?, files?}`, empty when it was never made."""
        if not self._base:
            return {}
        await jobs.close(self.services.tree)
        await self._git(self._folder, "add", "-A")
        names = await self._git(self._folder, "diff", "--cached", "--name-only", "-z", self._base)
        files = [name for name in names.split("\0") if name]
        if not files:
            async with self._owner.changing:
                await self._remove()
            return {"status": "unchanged", "line": "it changed nothing"}
        if not merge:
            return await self._keep(description, files, "the task did not complete")
        if check and (said := await self._run_check(check)):
            return await self._keep(description, files, f"`{check}` failed: {said}")
        diff = await self._git(self._folder, "diff", "--cached", "--binary", self._base)
        patch = diff.encode("utf-8", "surrogateescape")
        async with self._owner.changing:
            if await self._applies(patch, "--check"):
                for name in files:
                    self._owner.before_write(self._top / name)
                await self._applies(patch)
                await self._remove()
                shown = ", ".join(files[:8]) + (f" and {len(files) - 8} more" if len(files) > 8 else "")
                return {"status": "merged", "line": f"merged {plural(len(files), 'file')}: {shown}", "files": files}
        return await self._keep(description, files, "the same lines changed meanwhile")

    async def _run_check(self, check: str) -> str:
        """How a command fails in the worktree, in its box; empty when it does not."""
        services, tree = self.services, self.services.tree
        ctx = ToolContext("main", "", services.workspace, AgentState(self.cwd), tree, services.emitter.bind("main"))
        capture = output.Capture(tree.scratch, "check")
        running = await jobs.start(ctx, check, capture, lambda text: None)
        try:
            ended = await asyncio.wait_for(running.wait(), _CHECK_S)
        except TimeoutError:
            return f"it took more than {_CHECK_S} s"
        except asyncio.CancelledError:  # the work is done, so it is kept
            return "it was stopped"
        finally:
            await running.end()
            await jobs.close(tree)
        last = "".join(capture.text().strip().splitlines()[-1:])[:200]
        return "" if ended.code == 0 else f"{ended.error or ended.signal or f'exit code {ended.code}'} {last}".strip()

    async def _applies(self, patch: bytes, *words: str) -> bool:
        apply = ("apply", "--binary", "--whitespace=nowarn", *words)
        done = await asyncio.to_thread(run_git, self._top, *apply, environ=self._owner.place.environ, given=patch)
        return done.returncode == 0

    async def _keep(self, description: str, files: list[str], why: str) -> Json:
        branch = f"cowork/{self._folder.name}"
        await self._git(self._folder, "checkout", "-q", "-b", branch)
        await self._git(self._folder, "commit", "-q", "--no-verify", "-m", description or "Work of a subagent")
        line = f"kept on the branch {branch} in {self._folder}: {why}"
        return {"status": "kept", "line": line, "path": str(self._folder), "branch": branch, "files": files}

    async def _remove(self) -> None:
        await self._git(self._top, "worktree", "remove", "--force", str(self._folder))

    async def _git(self, folder: Path, *words: str) -> str:
        return await asyncio.to_thread(git_output, folder, *words, environ=self._owner.place.environ)


def explain_command(root: Path, command: str, mode: str, environ: Mapping[str, str]) -> Json:
    """What would become of a command in a folder, by the rules of the configuration and those kept for the folder."""
    trusted = is_trusted(root, environ)
    config, workspace = load_config(RunOptions(), environ, root, trusted=trusted), Workspace(root)
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


def _sandbox(config: Config, workspace: Workspace, environ: Mapping[str, str], book: RuleBook) -> Sandbox:
    return Sandbox(
        mode=config.sandbox.mode,
        network=config.sandbox.network,
        workspace=workspace,
        environ=environ,
        temporary=Temporary(),
        rules=book.all,
    )
