"""Disks fill up, devices fail and agents race: a file is always the old one or the new one, and nothing is lost."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cowork.core.errors import ToolError
from cowork.core.ports import ToolRecord
from cowork.core.workspace import Workspace
from cowork.tools.base import AgentState, TreeState
from cowork.tools.files import atomic_write as replacing
from cowork.tools.files.edit import edit, write
from cowork.tools.files.read import read
from tests.tools.conftest import Agent

SYSCALLS = ["open", "write", "fsync", "replace", "link", "fchmod", "fchown", "close", "mkdir"]
FAULTS = [errno.ENOSPC, errno.EIO, errno.EDQUOT]


class Faulty:
    """A system call that fails the nth time it would change something, and works otherwise."""

    def __init__(self, real: Callable[..., Any], nth: int, code: int) -> None:
        self.real, self.nth, self.code = real, nth, code
        self.calls = 0

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self.real is os_open and not args[1] & os.O_CREAT:
            return self.real(*args, **options)
        if self.real is os_close and not self._is_written(args[0]):
            return self.real(*args, **options)
        self.calls += 1
        if self.calls != self.nth:
            return self.real(*args, **options)
        if self.real is os_close:
            self.real(*args)  # a close that reports an error has closed all the same
        if self.real is os_write:
            self.real(args[0], bytes(args[1])[:2])  # a full disk takes a part first
        raise OSError(self.code, os.strerror(self.code))

    @staticmethod
    def _is_written(fd: int) -> bool:
        try:
            return ".cowork-" in os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            return False


os_open, os_close, os_write = os.open, os.close, os.write


@pytest.mark.parametrize("code", FAULTS)
@pytest.mark.parametrize("call", SYSCALLS)
@pytest.mark.parametrize("kind", ["edit", "overwrite", "create"])
async def test_a_failing_disk_leaves_the_old_file_or_the_new_one(
    agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, kind: str
) -> None:
    old, new = b"old line\n" * 500, b"new line\n" + b"old line\n" * 499
    path = folder / "deep" / "er" / "a.txt"
    for nth in (1, 2, 3):
        if kind == "create":
            shutil.rmtree(folder / "deep", ignore_errors=True)
            names: set[str] = set()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(old)
            os.chown(path, 7, 7) if os.geteuid() == 0 else None
            names = {"deep", "er", "a.txt"}
            await agent.call(read, file_path=str(path))
        before = dict(agent.state.seen)
        fault = Faulty(getattr(os, call), nth, code)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fault)
            record = await _change(agent, path, kind, new.decode())

        left = {p.name for p in folder.rglob("*")}
        if record.status == "error":
            assert left == names
            assert agent.state.seen == before
            assert kind == "create" or path.read_bytes() == old
            assert record.error is not None
            assert record.error["code"] == "EXECUTION_ERROR"
        else:
            assert left == {"deep", "er", "a.txt"}
            assert path.read_bytes() == new
        if fault.calls < nth:
            assert record.status == "success"
            return


async def _change(agent: Agent, path: Path, kind: str, new: str) -> ToolRecord:
    if kind != "edit":
        return await agent.call(write, file_path=str(path), content=new)
    rest = "old line\n" * 499
    return await agent.call(edit, file_path=str(path), old_string="old line\n" + rest, new_string="new line\n" + rest)


async def test_a_disk_that_is_full_is_said_in_words(
    agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", Faulty(os.fsync, 1, errno.ENOSPC))
    record = await agent.call(write, file_path="a.txt", content="x")
    assert record.text == "a.txt: the disk is full, so nothing was changed; free some space and try again."


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 KB."""
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("cannot mount a file system here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


async def test_a_really_full_disk_keeps_the_old_file(tiny: Path) -> None:
    agent = Agent("main", Workspace(tiny), TreeState(tiny), AgentState(tiny))
    assert (await agent.call(write, file_path="a.txt", content="old\n" * 2000)).status == "success"
    record = await agent.call(write, file_path="a.txt", content="new\n" * 30_000)
    assert "the disk is full" in record.text
    assert (tiny / "a.txt").read_text() == "old\n" * 2000
    assert [p.name for p in tiny.iterdir()] == ["a.txt"]
    record = await agent.call(write, file_path="b/c.txt", content="new\n" * 30_000)
    assert "the disk is full" in record.text
    assert [p.name for p in tiny.iterdir()] == ["a.txt"]


async def test_eight_agents_edit_one_file_and_nothing_is_lost(agents: Callable[[str], Agent], folder: Path) -> None:
    path = folder / "shared.txt"
    path.write_text("start\nend\n")
    tries = 40
    reported: list[str] = []
    conflicts = 0

    async def work(agent: Agent, number: int) -> None:
        nonlocal conflicts
        for turn in range(tries):
            await agent.call(read, file_path="shared.txt")
            if turn % 3 == number % 3:
                await asyncio.sleep(0)  # gives a sibling the chance to come between
            marker = f"agent {number} turn {turn}"
            record = await agent.call(edit, file_path="shared.txt", old_string="end\n", new_string=f"{marker}\nend\n")
            if record.status == "success":
                reported.append(marker)
                continue
            assert record.error is not None
            assert record.error["code"] == "CONFLICT"
            assert f"by {path and agent.tree.writers[str(path)]}" in record.text
            conflicts += 1

    await asyncio.gather(*(work(agents(f"main/worker-{n}"), n) for n in range(8)))

    lines = path.read_text().splitlines()
    assert lines[0] == "start"
    assert lines[-1] == "end"
    assert lines[1:-1] == reported
    assert len(reported) + conflicts == 8 * tries
    assert len(reported) >= tries
    assert conflicts


async def test_agents_that_repeat_after_a_conflict_all_land_their_edits(
    agents: Callable[[str], Agent], folder: Path
) -> None:
    (folder / "shared.txt").write_text("".join(f"slot {n}: free\n" for n in range(4)))
    conflicts: list[str] = []

    async def work(agent: Agent, number: int) -> None:
        await agent.call(read, file_path="shared.txt")
        for turn in range(25):
            old = f"slot {number}: {f'turn {turn - 1}' if turn else 'free'}\n"
            change = {"file_path": "shared.txt", "old_string": old, "new_string": f"slot {number}: turn {turn}\n"}
            await asyncio.sleep(0)
            while (record := await agent.call(edit, **change)).status != "success":
                assert record.data["reason"] == "changed"
                assert record.data["changed_by"] in {f"main/worker-{n}" for n in range(4)} - {agent.name}
                assert "\n+slot" in record.data["diff"]
                conflicts.append(record.text)
                await agent.call(read, file_path="shared.txt")

    await asyncio.gather(*(work(agents(f"main/worker-{n}"), n) for n in range(4)))
    assert (folder / "shared.txt").read_text() == "".join(f"slot {n}: turn 24\n" for n in range(4))
    assert conflicts


async def test_a_write_between_the_last_look_and_the_rename_is_noticed(
    agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "a.txt"
    path.write_text("one\n")
    await agent.call(read, file_path="a.txt")
    real = os.fsync

    def fsync(fd: int) -> None:  # the moment the temporary file is done, another program saves
        real(fd)
        if path.read_text() == "one\n":
            path.write_text("theirs\n")

    monkeypatch.setattr(os, "fsync", fsync)
    record = await agent.call(edit, file_path="a.txt", old_string="one", new_string="mine")
    assert record.error is not None
    assert record.error["code"] == "CONFLICT"
    assert path.read_text() == "theirs\n"
    assert [p.name for p in folder.iterdir()] == ["a.txt"]


async def test_a_file_that_appears_meanwhile_is_not_overwritten(
    agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "a.txt"
    real = os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        path.write_text("theirs\n")

    monkeypatch.setattr(os, "fsync", fsync)
    record = await agent.call(write, file_path="a.txt", content="mine\n")
    assert record.error is not None
    assert record.error["code"] == "CONFLICT"
    assert path.read_text() == "theirs\n"
    assert [p.name for p in folder.iterdir()] == ["a.txt"]


async def test_a_file_system_without_hard_links_still_gets_new_files(
    agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", Faulty(os.link, 1, errno.EOPNOTSUPP))
    assert (await agent.call(write, file_path="a.txt", content="x\n")).status == "success"
    assert (folder / "a.txt").read_text() == "x\n"
    assert [p.name for p in folder.iterdir()] == ["a.txt"]


async def test_what_is_remembered_of_files_is_bounded(agent: Agent, folder: Path) -> None:
    for number in range(12):
        (folder / f"{number}.txt").write_text(f"{number}\n" * 500_000)
        await agent.call(read, file_path=f"{number}.txt")
    assert len(agent.state.seen) == 12
    assert sum(map(len, agent.state.copies.values())) <= 8_000_000
    (folder / "0.txt").write_text("changed\n")
    record = await agent.call(edit, file_path="0.txt", old_string="0", new_string="1")
    assert record.error is not None
    assert record.error["code"] == "CONFLICT"


def test_a_crash_while_writing_leaves_no_temporary_file(
    agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(KeyboardInterrupt):
        replacing.replace(agent.context(), folder / "sub" / "a.txt", None, b"x")
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(agent: Agent, folder: Path) -> None:
    (folder / "a").write_text("x")
    with pytest.raises(ToolError) as caught:
        replacing.replace(agent.context(), folder / "a" / "b" / "c.txt", None, b"x")
    assert caught.value.code == "NOT_FOUND"
