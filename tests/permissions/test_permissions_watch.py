"""What other programs run or obey cannot be made by a command in the sandbox, and nothing is left of keeping it so."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cowork.core.ports import BoxName, ToolRecord
from cowork.core.workspace import Workspace
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.watch import Watch
from cowork.tools.shell import jobs
from cowork.tools.shell.bash import bash, bash_output, kill_bash
from tests.tools.shell.conftest import Desk, make_desk, soon

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed"
)
FOLDERS = (".cowork", ".claude", ".vscode", ".idea", ".devcontainer", ".husky")


@dataclass
class Bench:
    """A desk whose commands run in the sandbox, with the files of a small repository."""

    desk: Desk
    said: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.desk.root

    async def run(self, command: str, *, background: bool = False) -> ToolRecord:
        return await self.desk.call(bash, command=command, run_in_background=background)

    def names(self) -> set[str]:
        """Everything in the workspace but what git keeps."""
        found = [str(p.relative_to(self.root)) for p in self.root.rglob("*")]
        return {name for name in found if not name.startswith(".git/") or ".set-aside" in name}

    def put_in_git(self) -> None:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.root.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        words = ["git", "init", "-q", "-b", "main", "--template=", str(self.root)]
        subprocess.run(words, env=environ, check=True, timeout=30)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    desk = make_desk(tmp_path)
    made = Bench(desk)
    sandbox = Sandbox(workspace=desk.ctx.workspace, environ=desk.ctx.tree.environ)
    if not sandbox.active:
        pytest.skip(f"no sandbox here: {sandbox.status()}")
    desk.ctx.tree.wrap, desk.ctx.tree.explain = sandbox.wrap, sandbox.explain
    desk.ctx.tree.hold = Watch(sandbox, desk.ctx.tree.written, lambda text, paths: made.said.append(text)).begin
    desk.write("src/a.py", "a\n")
    desk.write("evil", "echo pwned\n")
    yield made
    await jobs.close(desk.ctx.tree)


# What a command tries, and what must not be there afterwards.
MAKING = [
    *((f"mkdir {name} && echo evil > {name}/x", name) for name in FOLDERS),
    *((f"mkdir -p {name}; cp evil {name}/tasks.json; touch {name}/config.toml", name) for name in FOLDERS),
    ("ln -s src .cowork", ".cowork"),
    ("mv src .vscode", ".vscode"),
    ("mkdir d && mv -T d .claude", ".claude"),
    ("rmdir .vscode; mv src .vscode", ".vscode"),
    ("python3 -c \"import os; os.rename('src', '.idea')\"", ".idea"),
    ("umount .vscode; mkdir .vscode/x", ".vscode"),
    ("unshare -Urm sh -c 'umount .vscode; mkdir .vscode/x'", ".vscode"),
    ("mount -t tmpfs x src; mkdir .husky/x", ".husky"),
    ("cd ..; mv work other && mkdir -p work/.cowork", ".cowork"),
    ("cp evil .envrc", ".envrc"),
    ("ln evil AGENTS.md", "AGENTS.md"),
    ("ln -s evil CLAUDE.md", "CLAUDE.md"),
    ("ln -s /nowhere .mcp.json", ".mcp.json"),
    ("mv evil .mcp.json", ".mcp.json"),
    ("mkfifo .envrc", ".envrc"),
    ("mkdir AGENTS.md", "AGENTS.md"),
    ("touch agents.MD", "agents.MD"),
    ("touch .GitModules", ".GitModules"),
    ("touch .gitattributes", ".gitattributes"),
    ("touch .bashrc .bash_login", ".bashrc"),
    ("touch .profile", ".profile"),
    ("mkdir .ssh && touch .ssh/authorized_keys", ".ssh"),
    ("for i in '' -{2..120}; do touch .envrc.set-aside$i; done; cp evil .envrc", ".envrc"),
    ("cp evil .envrc; chmod 555 .", ".envrc"),
    ("mkdir .VSCode && touch .VSCode/tasks.json", ".VSCode"),
]
GIT = [
    ("mkdir -p .git/hooks && cp evil .git/hooks/pre-commit", ".git/hooks"),
    ("ln -s ../src .git/hooks", ".git/hooks"),
    ("mv src .git/hooks", ".git/hooks"),
    ("mkdir .git/info && echo '* filter=x' > .git/info/attributes", ".git/info"),
    ("mv .git other; mkdir -p .git/hooks; cp evil .git/hooks/pre-commit", ".git/hooks"),
    ("echo ../src > .git/commondir", ".git/commondir"),
    ("touch .git/config.worktree", ".git/config.worktree"),
    ("echo '[core] fsmonitor=x' >> .git/config && touch done", "done"),
    ("rm -f .git/config && touch done", "done"),
    ("mv .git/config x && touch done", "done"),
    ("ln .git/config x && touch done", "done"),
    ("git config core.fsmonitor x && touch done", "done"),
]
NO_GIT = [
    ("git init -q && cp evil .git/hooks/pre-commit", ".git"),
    ("git init -q && git config core.fsmonitor evil", ".git"),
    ("git init -q && git config include.path ../evil", ".git"),
    ("git init -q && echo ../src > .git/commondir", ".git"),
    ("mkdir -p .git/hooks && cp evil .git/hooks/post-checkout", ".git"),
    ("mkdir other && ln -s other .git", ".git"),
    ("echo 'gitdir: other' > .git", ".git"),
]


@pytest.mark.parametrize(("command", "unwanted"), [*MAKING, *GIT])
async def test_what_is_protected_cannot_be_made(command: str, unwanted: str, bench: Bench) -> None:
    bench.put_in_git()
    before = bench.names()
    record = await bench.run(command)
    assert not os.path.lexists(bench.root / unwanted)
    aside = {name for name in bench.names() - before if ".set-aside" in name}
    assert bool(aside) == bool(bench.said) == ("Set aside" in record.text)
    assert not any((bench.root / name).is_dir() for name in FOLDERS), "a folder that held a place is left"


@pytest.mark.parametrize(("command", "unwanted"), NO_GIT)
async def test_a_repository_made_in_the_sandbox_runs_nothing(command: str, unwanted: str, bench: Bench) -> None:
    await bench.run(command)
    assert not os.path.lexists(bench.root / unwanted)
    assert len(bench.said) == 1


async def test_the_folder_a_command_starts_in_is_looked_at_too(bench: Bench) -> None:
    await bench.run("cd src")
    record = await bench.run("touch CLAUDE.md; mkdir .vscode; cp ../evil .vscode/tasks.json")
    assert "CLAUDE.md is now CLAUDE.md.set-aside" in record.text
    left = {"a.py", "CLAUDE.md.set-aside", ".vscode.set-aside"}
    assert {path.name for path in (bench.root / "src").iterdir()} == left


REASONS = [
    ("git config user.name x", "keeps .git/config as it is"),
    ("git config user.name x", "git -c name=value"),
    ("touch /usr/x", 'needs: "outside"'),
    ("getent hosts example.com || echo curl: Could not resolve host: example.com", 'needs: "network"'),
    ("touch /usr/x", "only the workspace and /tmp can be written"),
    ("echo x > ~/../../x/.bashrc", ""),
    ("getent hosts example.com || echo curl: Could not resolve host: example.com", "no network"),
    ("echo Cannot connect to the Docker daemon", "hides the sockets"),
    ("echo curl: Failed to connect to localhost port 80: Connection refused", "a loopback of its own"),
    ('echo "curl: (7) Failed to connect to 127.0.0.1 port 80: Couldn\'t connect to server"', "a loopback of its own"),
    ('echo "curl: (7) Failed to connect to 10.1.2.3 port 80: Couldn\'t connect to server"', "has no network"),
    ("touch src/new; cat src/none", ""),
    ("echo .git/config is fine", ""),
]


@pytest.mark.parametrize(("command", "reason"), REASONS)
async def test_the_model_is_told_what_the_sandbox_made_fail(command: str, reason: str, bench: Bench) -> None:
    bench.put_in_git()
    record = await bench.run(command)
    assert (reason in record.text) if reason else ("sandbox" not in record.text), record.text


async def test_a_link_in_place_of_the_folder_a_command_starts_in_moves_nothing_elsewhere(
    bench: Bench, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    (theirs / ".ssh").mkdir(parents=True)
    (theirs / "AGENTS.md").write_text("kept")
    bench.put_in_git()
    await bench.run("cd src")
    await bench.run(f"mv ../src ../other && ln -s {theirs} ../src; mkdir ../d && mv ../.git/refs ../d; touch ../x")
    assert sorted(path.name for path in theirs.iterdir()) == [".ssh", "AGENTS.md"]
    assert (bench.root / "src").is_symlink()


async def test_what_is_mounted_for_a_command_cannot_be_chosen_by_another(bench: Bench, tmp_path: Path) -> None:
    """A folder that is swapped for a link while it is being mounted leads to nothing the box does not have."""
    victim = tmp_path / "victim"
    shutil.copytree(bench.root / "src", victim)
    for folder in (bench.root / ".git/modules/a", victim):
        (folder / "hooks").mkdir(parents=True)
        (folder / "info").mkdir()
        (folder / "config").write_text("")
    bench.put_in_git()
    bench.desk.ctx.workspace = Workspace(bench.root, readable=[victim])
    sandbox = Sandbox(workspace=bench.desk.ctx.workspace, environ=bench.desk.ctx.tree.environ)
    holding = Watch(sandbox, (), lambda text, paths: None)
    first = holding.begin(bench.root)
    assert sandbox.alone
    second = Watch(sandbox, (), lambda text, paths: None).begin(bench.root)
    assert not sandbox.alone
    words = sandbox.wrap(
        ["/bin/sh", "-c", f"echo ran; echo evil > {victim}/a.py; echo evil > .git/modules/a/a.py"], bench.root
    )
    (bench.root / ".git/modules/a").rename(bench.root / "a")
    (bench.root / ".git/modules/a").symlink_to("../../../victim")
    await asyncio.to_thread(subprocess.run, words, cwd=bench.root, timeout=60, check=False)
    assert (victim / "a.py").read_text() == "a\n"
    first.release()
    second.release()


async def test_a_command_in_a_crowd_is_kept_in_as_one_alone(bench: Bench) -> None:
    bench.put_in_git()
    started = await bench.run("until [ -e go ]; do sleep 0.05; done", background=True)
    script = "grep -c '^Cap.*0000000000000000$' /proc/self/status; unshare -U true; touch ok"
    record = await bench.run(f"{script}; echo x > .git/config; mkdir -p .vscode/x; echo x > /proc/sys/kernel/x")
    assert record.text.startswith("5\n")
    bench.desk.write("go")
    assert "core" in (bench.root / ".git/config").read_text()
    assert record.text.count("Read-only file system") == 1
    assert "unshare failed" in record.text
    assert await soon(_over(bench, started))
    assert not (bench.root / ".vscode").exists()


async def test_an_honest_repository_can_be_made_and_used(bench: Bench) -> None:
    git = "git -c user.name=a -c user.email=a@b.c"
    record = await bench.run(f"git init -q && git add src && {git} commit -q -m one && git log --oneline")
    assert record.data["exit_code"] == 0, record.text
    assert bench.said == []
    record = await bench.run(f"touch src/b.py && git add src && {git} commit -q -m two && git status --short")
    assert record.data["exit_code"] == 0, record.text
    assert (bench.root / ".git/hooks").is_dir()
    for command in ("git worktree add -q tree", "git worktree remove tree", "git gc -q", "git stash list"):
        record = await bench.run(command)
        assert record.data["exit_code"] == 0, record.text
    assert not (bench.root / "tree").exists()
    assert not list((bench.root / ".git/worktrees").glob("*"))


async def test_a_link_that_is_protected_is_put_back_and_what_it_leads_to_cannot_change(bench: Bench) -> None:
    bench.desk.write("docs/agents.md", "be kind\n")
    (bench.root / "AGENTS.md").symlink_to("docs/agents.md")
    (bench.root / "CLAUDE.md").symlink_to("AGENTS.md")
    for command in (
        "rm CLAUDE.md; echo evil > CLAUDE.md",
        "ln -sfn ../evil AGENTS.md",
        "rm AGENTS.md CLAUDE.md",
        "echo evil > docs/agents.md",
        "rm -f docs/agents.md; mv docs other; mkdir -p docs; echo evil > docs/agents.md",
    ):
        await bench.run(command)
        assert (bench.root / "CLAUDE.md").read_text() == "be kind\n", command
        assert os.readlink(bench.root / "CLAUDE.md") == "AGENTS.md"


async def test_submodules_and_worktrees_keep_what_git_obeys(bench: Bench) -> None:
    bench.put_in_git()
    kept = {}
    for name in ("modules/a/b", "worktrees/w"):
        bench.desk.write(f".git/{name}/HEAD", "ref: refs/heads/main\n")
        for file in ("config", "commondir") if name.startswith("worktrees") else ("config",):
            kept[bench.desk.write(f".git/{name}/{file}", "kept\n")] = "kept\n"
    for command in (
        "echo evil | tee .git/modules/a/b/config .git/worktrees/w/commondir",
        "mv .git/modules m; mv .git/worktrees w; mkdir -p .git/modules/a/b/hooks .git/worktrees/w",
        "mv .git/modules/a a; mkdir -p .git/modules/a/b/hooks; cp evil .git/modules/a/b/hooks/pre-commit",
        "mkdir .git/modules/a/b/hooks; cp evil .git/modules/a/b/hooks/pre-commit",
    ):
        await bench.run(command)
        assert {path: path.read_text() for path in kept} == kept, command
        assert not list((bench.root / ".git").rglob("pre-commit"))


async def test_in_the_background_it_is_set_aside_while_the_command_runs(bench: Bench) -> None:
    command = "cp evil .envrc; mkdir .vscode; until [ -e go ]; do sleep 0.05; done; cp evil .mcp.json"
    started = await bench.run(command, background=True)
    assert await soon((bench.root / ".envrc.set-aside").exists)
    assert not (bench.root / ".envrc").exists()
    record = await bench.desk.call(bash_output, bash_id=started.data["bash_id"])
    assert ".envrc is now .envrc.set-aside" in record.text
    bench.desk.write("go")
    assert await soon((bench.root / ".mcp.json.set-aside").exists)
    assert await soon(lambda: not (bench.root / ".vscode").exists())
    assert len(bench.said) == 2


async def test_what_one_command_made_is_not_taken_for_old_when_another_starts(bench: Bench) -> None:
    started = await bench.run("cp evil .envrc; touch made; until [ -e go ]; do sleep 0.05; done", background=True)
    assert await soon((bench.root / "made").exists)
    await asyncio.gather(*(bench.run("true") for _ in range(3)))
    bench.desk.write("go")
    assert await soon(_over(bench, started))
    assert not (bench.root / ".envrc").exists()
    assert len(bench.said) == 1


async def test_what_wants_an_empty_folder_finds_one(bench: Bench) -> None:
    for name in ("src", "evil"):
        (bench.root / name).rename(bench.root.parent / name)
    record = await bench.run('test -z "$(ls -A)" && git init -q && ls -A')
    assert record.data["exit_code"] == 0, record.text
    assert record.text.splitlines()[0] == ".git"
    shutil.rmtree(bench.root / ".git")
    parallel = ["until [ -e x ]; do sleep 0.02; done", "touch x", "until [ -e x ]; do sleep 0.02; done; mkdir .idea"]
    await asyncio.gather(*map(bench.run, parallel))
    assert bench.names() <= {"x", ".idea.set-aside"}
    (bench.root / "x").unlink()
    shutil.rmtree(bench.root / ".idea.set-aside", ignore_errors=True)
    record = await bench.run("mkdir .vscode && touch .vscode/tasks.json")
    assert ".vscode is now .vscode.set-aside" in record.text
    assert not (bench.root / ".vscode").exists()


async def test_what_a_file_tool_wrote_meanwhile_stays(bench: Bench) -> None:
    (bench.root / ".idea").mkdir()
    started = await bench.run("until [ -e go ]; do sleep 0.05; done", background=True)
    bench.desk.ctx.tree.written[str(bench.desk.write("AGENTS.md", "by Write"))] = "hash"
    bench.desk.write("go")
    assert await soon(_over(bench, started))
    assert (bench.root / "AGENTS.md").read_text() == "by Write"
    assert (bench.root / ".idea").is_dir()
    assert bench.said == []


@pytest.mark.parametrize("how", ["cancel", "kill", "close"])
async def test_nothing_is_left_when_a_command_is_ended(how: str, bench: Bench) -> None:
    if how == "cancel":
        task = asyncio.create_task(bench.run("touch src/started; sleep 600"))
        assert await soon((bench.root / "src/started").exists)
        assert bench.names() == {"src", "src/a.py", "src/started", "evil"}  # nothing of ours stands there meanwhile
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        started = await bench.run("touch src/started; sleep 600", background=True)
    if how == "kill":
        await bench.desk.call(kill_bash, shell_id=started.data["bash_id"])
    else:
        await jobs.close(bench.desk.ctx.tree)
    assert bench.names() == {"src", "src/a.py", "src/started", "evil"}


def _over(bench: Bench, started: ToolRecord) -> Callable[[], bool]:
    return lambda: not bench.desk.ctx.tree.jobs[started.data["bash_id"]].running


@pytest.mark.parametrize("secret", [".env", ".ssh/id_rsa"])
async def test_a_secret_that_goes_while_its_box_is_made_leaves_nothing_behind(bench: Bench, secret: str) -> None:
    wrap, tree, boxes = bench.desk.ctx.tree.wrap, bench.desk.ctx.tree, list[int]()
    bench.desk.write(secret, "PLANTED-SECRET\n")
    bench.desk.ctx.box = "masked"

    def slow(argv: Sequence[str], cwd: Path, box: BoxName) -> Sequence[str]:
        words = wrap(argv, cwd, box)
        boxes.append(len(words))
        shutil.rmtree(bench.root / ".ssh", ignore_errors=True)
        (bench.root / ".env").unlink(missing_ok=True)
        return words

    tree.wrap = slow
    record = await bench.run("cat .env .ssh/id_rsa; echo ran")
    assert record.text.count("ran") == 1
    assert len(boxes) == 2  # made anew, without what went
    assert bench.names() == {"src", "src/a.py", "evil"}


async def test_where_there_is_no_box_what_came_stays_and_is_said_once(tmp_path: Path) -> None:
    desk, said = make_desk(tmp_path), list[str]()
    sandbox = Sandbox(workspace=desk.ctx.workspace, environ=desk.ctx.tree.environ, mode="off")
    desk.ctx.tree.hold = Watch(sandbox, desk.ctx.tree.written, lambda text, paths: said.append(text)).begin
    made = await desk.call(bash, command="mkdir .vscode && touch .vscode/tasks.json .envrc")
    again = await desk.call(bash, command="touch .envrc")
    await jobs.close(desk.ctx.tree)
    assert "A command made .envrc, .vscode, .vscode/tasks.json: other programs or agents" in made.text
    assert (desk.root / ".vscode/tasks.json").exists()
    assert (len(said), "A command made" in again.text) == (1, False)
