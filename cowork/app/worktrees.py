"""Git worktrees for children that work apart: made with the first call, merged where nothing speaks against it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from cowork.app.project import Project
from cowork.app.safety import safety, tightened
from cowork.config import paths
from cowork.core import spawn
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.format import plural
from cowork.core.git import git_output, project_root, run_git
from cowork.core.workspace import Workspace
from cowork.engine.assembly import Services
from cowork.engine.emitter import Emitter
from cowork.permissions import Permissions
from cowork.private_files import private_folder
from cowork.tools.base import TreeState
from cowork.tools.shell import jobs

_CHECK_S = 900  # seconds a check may take


class Worktrees:
    """Makes and merges the worktrees of a run; `changing` lets one at a time at the repository, as git needs it."""

    def __init__(self, place: Project, emitter: Emitter, permissions: Permissions, tree: TreeState) -> None:
        self._place, self._emitter = place, emitter
        self._permissions, self._tree = permissions, tree
        self.changing = asyncio.Lock()

    def __call__(self, services: Services, name: str) -> Worktree:
        """A worktree for the child of that name, and the services it is built on."""
        top = project_root(self._place.root)
        if not (top / ".git").exists():
            raise UserError("isolation: worktree needs a git repository", "`git init` makes one.")
        folder = paths.state_dir(self._place.environ) / "worktrees" / f"{self._emitter.session_id}-{name}"
        root = folder / self._place.root.relative_to(top)
        workspace = Workspace(root, readable=[self._tree.scratch])
        permissions, tree = safety(replace(self._place, root=root), workspace, self._tree.scratch, self._emitter, None)
        permissions.trusted, permissions.mode = self._permissions.trusted, self._permissions.mode
        inside = replace(
            services, workspace=workspace, tree=tree, permit_for=lambda modes: tightened(permissions, modes)
        )
        return Worktree(self, inside, top, folder, root, self._place.environ, self._tree.before_write)


class Worktree:
    """One of them. `begin` before the first call, `finish` when the child has ended."""

    def __init__(
        self,
        owner: Worktrees,
        services: Services,
        top: Path,
        folder: Path,
        root: Path,
        environ: Mapping[str, str],
        before_write: Callable[[Path], None],
    ) -> None:
        self.services = services
        self.cwd = root
        self._owner, self._top, self._folder, self._environ = owner, top, folder, environ
        self._before_write = before_write
        self._base = ""

    async def begin(self) -> None:
        """Check out what the repository holds now, changes that are not committed counted in."""
        if self._base:
            return
        private_folder(self._folder.parent)
        async with self._owner.changing:
            head = (await self._git(self._top, "rev-parse", "HEAD")).strip()
            changed = (await self._git(self._top, "stash", "create")).strip()
            base = changed or head
            await self._git(self._top, "worktree", "add", "--detach", str(self._folder), base)
        self._base = base

    async def finish(self, description: str, *, merge: bool, check: str) -> Json:
        """Merge, keep or remove it; gives `{status, line, path?, branch?, files?}`, empty when it was never made."""
        if not self._base:
            return {}
        tree = self.services.tree
        await jobs.close(tree)
        await self._git(self._folder, "add", "-A")
        names = await self._git(self._folder, "diff", "--cached", "--name-only", "-z", self._base)
        files = [name for name in names.split("\0") if name]
        if not files:
            async with self._owner.changing:
                await self._remove()
            return {"status": "unchanged", "line": "it changed nothing"}
        if not merge:
            return await self._keep(description, files, "the task did not complete")
        if check and (said := await self._failing(check)):
            return await self._keep(description, files, f"`{check}` failed: {said}")
        patch = (await self._git(self._folder, "diff", "--cached", "--binary", self._base)).encode(
            "utf-8", "surrogateescape"
        )
        async with self._owner.changing:
            if await self._applies(patch, "--check"):
                for name in files:
                    self._before_write(self._top / name)
                await self._applies(patch)
                await self._remove()
                shown = ", ".join(files[:8]) + (f" and {len(files) - 8} more" if len(files) > 8 else "")
                return {"status": "merged", "line": f"merged {plural(len(files), 'file')}: {shown}", "files": files}
        return await self._keep(description, files, "the same lines changed meanwhile")

    async def _failing(self, check: str) -> str:
        """How a command fails in the worktree, in its box; empty when it does not."""
        tree = self.services.tree
        argv = list(tree.wrap(["/bin/sh", "-c", check], self.cwd, "write"))
        try:
            done = await asyncio.to_thread(
                spawn.run, argv, environ=tree.environ, seconds=_CHECK_S, cwd=self.cwd, given=b""
            )
        except OSError as error:
            return str(error)
        last = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()[-1:]
        return "" if done.returncode == 0 else f"exit code {done.returncode} {''.join(last)[:200]}".strip()

    async def _applies(self, patch: bytes, *words: str) -> bool:
        apply = ("apply", "--binary", "--whitespace=nowarn", *words)
        done = await asyncio.to_thread(run_git, self._top, *apply, environ=self._environ, given=patch)
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
        return await asyncio.to_thread(git_output, folder, *words, environ=self._environ)
