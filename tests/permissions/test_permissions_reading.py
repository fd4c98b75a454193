"""A command that runs unasked because it only reads is held to that: in the sandbox it can change nothing."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cowork.core.blocks import ToolUse
from cowork.core.ports import Answer, Question
from cowork.core.workspace import Workspace
from cowork.engine.runner import Runner
from cowork.permissions import Permissions
from cowork.permissions.sandbox import landlock
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.watch import Watch
from cowork.tools.shell import jobs
from cowork.tools.shell.bash import bash
from tests.fakes.calls import TOOLS
from tests.fakes.command import Command
from tests.fakes.stage import call, say, turn
from tests.permissions.conftest import make_shop
from tests.permissions.test_permissions_shell_table import ROWS
from tests.tools.shell.conftest import Desk, make_desk

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed"
)
# What a command that was wrongly taken for a reading one might do.
CHANGES = [
    "echo x > new",
    "echo x >> src/a.py",
    "rm -rf src",
    "mv src other",
    "ln -s / link",
    "mkdir .vscode",
    "touch .git/hooks/pre-commit",
    "sed -i s/a/b/ src/a.py",
    "touch {scratch}/x",
    "mount -o remount,rw,bind {root}; echo x > new",
    "umount {root}; echo x > new",
]
KINDS = ["sandbox", "landlock"] if landlock.version() else ["sandbox"]  # an old kernel cannot put up the other
MARK = "\x1e"
TELLS = re.compile(
    r"(?<!\w)(date|uptime|ps|free|df|who|w|pgrep|id|jobs|time|--json|--stats)\b"
)  # of the machine, which does not stand still


@pytest.fixture(params=KINDS)
async def held(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    desk = make_desk(tmp_path)
    desk.ctx.tree.scratch.mkdir()
    environ = {**desk.ctx.tree.environ} | ({"PATH": "/nowhere"} if request.param == "landlock" else {})
    sandbox = Sandbox(workspace=desk.ctx.workspace, environ=environ, network=True)
    if not (sandbox.fenced if request.param == "landlock" else sandbox.active):
        pytest.skip(f"no {request.param} here: {sandbox.status()}")
    desk.ctx.tree.wrap = sandbox.wrap
    desk.ctx.tree.hold = Watch(sandbox, desk.ctx.tree.written, lambda text, paths: None).begin
    desk.write("src/a.py", "a\n")
    desk.write(".git/hooks/post-commit", "b\n")
    yield desk
    await jobs.close(desk.ctx.tree)


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
        if "bash-" not in path.name
    }


@pytest.mark.parametrize("change", CHANGES)
async def test_a_command_that_was_taken_for_a_reading_one_changes_nothing(held: Desk, change: str) -> None:
    before = state(held.root.parent)
    held.ctx.reads, held.ctx.box = True, "read"
    command = change.format(root=held.root, scratch=held.ctx.tree.scratch)
    record = await held.call(bash, command=command)
    assert record.data["exit_code"] != 0
    assert state(held.root.parent) == before


async def test_modes_and_times_are_kept_and_times_too(held: Desk) -> None:
    held.ctx.reads, held.ctx.box = True, "read"
    for command in ("chmod 000 src/a.py", "touch -d 2001-01-01 src/a.py", "chown 1 src/a.py"):
        assert (await held.call(bash, command=command)).data["exit_code"] != 0


async def test_it_sees_no_secret(held: Desk) -> None:
    held.ctx.reads, held.ctx.box = True, "read"
    for name in (".env", "deep/er/.env", "id_rsa"):
        held.write(name, "PLANTED\n")
    held.write("deep/note", "plain\n")
    record = await held.call(bash, command="cat .env deep/er/.env; grep -rs PLANTED . /proc/*/environ; cat deep/note")
    assert ("PLANTED" in record.text, "plain" in record.text) == (False, True)


async def test_it_has_no_network_even_where_that_is_open(held: Desk) -> None:
    held.ctx.reads, held.ctx.box = True, "read"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        await held.call(bash, command=f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}")
        with pytest.raises(BlockingIOError):
            server.accept()


def test_without_a_sandbox_it_is_said_what_is_left(tmp_path: Path) -> None:
    sandbox = Sandbox(workspace=Workspace(tmp_path), environ={"PATH": "/nowhere"})
    assert not sandbox.active
    assert sandbox.fenced is ("Landlock" in sandbox.status()) is (landlock.version() > 0)
    off = Sandbox(workspace=Workspace(tmp_path), environ={"PATH": "/nowhere"}, mode="off")
    assert off.wrap(["true"], tmp_path, "read") == ["true"]


async def test_reading_commands_run_held_and_others_as_allowed(held: Desk) -> None:
    """The same call of Bash, as the loop makes it: what is judged decides what can be written."""
    sandbox = Sandbox(workspace=held.ctx.workspace, environ=held.ctx.tree.environ)
    permit = Permissions(workspace=held.ctx.workspace, trusted=True, sandbox=sandbox)

    async def yes(question: Question) -> Answer:
        return Answer("once")

    runner = Runner(held.ctx, TOOLS, yes, permit)
    steps: list[str] = []

    async def before_command(tell: object) -> None:
        steps.append("checkpoint")

    held.ctx.tree.before_command = before_command
    listed, made = await runner.run(
        [
            ToolUse("a", "Bash", {"command": "ls -A"}),
            ToolUse("b", "Bash", {"command": "touch made && ls -A"}),
        ]
    )
    assert listed.text.split() == [".git", "src"]
    assert "made" in made.text.split()
    assert (held.root / "made").exists()
    assert steps == ["checkpoint"]  # what only reads needs no checkpoint


def test_in_plan_mode_a_command_that_wants_to_write_runs_once(command: Command) -> None:
    sandbox = Sandbox(workspace=Workspace(command.folder), environ={"PATH": os.defpath})
    if not sandbox.active:
        pytest.skip(f"no sandbox here: {sandbox.status()}")
    done = command.play([turn(call("Bash", command="echo ran; touch made")), say("ok")], "--permission-mode", "plan")
    text = done.record("Bash")["text"]
    assert "may not run where it can write: the mode is read-only" in text
    assert "Run again" not in text


def test_no_ordinary_reading_command_notices(tmp_path: Path) -> None:
    """Every reading command of the table prints and exits the same as where it could write."""
    root = make_shop(tmp_path)
    # git would like to write down that it looked; that it was looked at later than all else keeps the time of that.
    os.utime(root / "src/a.py", (4_000_000_000, 1))
    (root / "README.md").write_text("changed\n")
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8", "GIT_PAGER": "cat", "TERM": "dumb"}
    ours = [Path(sys.prefix), Path(landlock.__file__).parent]  # they may lie under /tmp
    sandbox = Sandbox(workspace=Workspace(root, readable=ours), environ=environ)
    if not sandbox.active:
        pytest.skip(f"no sandbox here: {sandbox.status()}")
    commands = [command for verdict, command in ROWS if verdict == "read" and not TELLS.search(command)]
    script = "\n".join(f"({command}\n) </dev/null 2>&1; echo {MARK}$?" for command in commands)

    def said(*, held: bool) -> list[str]:
        argv = [*sandbox.wrap(["/bin/bash"], root, "read")]
        if not held:
            argv[argv.index(str(root)) - 1] = "--bind"
        done = subprocess.run(argv, env=environ, input=script.encode(), capture_output=True, timeout=300, check=True)
        return re.sub(r"\d\d:\d\d(:[\d.]+)?", "TIME", done.stdout.decode(errors="replace")).split(MARK)

    inside, free = said(held=True), said(held=False)  # the last may write, and what it writes would be seen
    assert len(inside) == len(free) == len(commands) + 1 > 300
    each = zip(commands, inside, free, strict=False)  # rg gives files as it finds them
    assert [found for found in each if sorted(found[1].split("\n")) != sorted(found[2].split("\n"))] == []
